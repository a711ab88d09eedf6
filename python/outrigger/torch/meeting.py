"""How the ranks of a group find each other in a store that has keys of earlier groups.

torchrun keeps its store when it restarts the ranks, and torch gives the new groups the old names. So a key may be from
a process that has ended. Rank 0 therefore invents a name for the group, which is the prefix of the group's keys:

    rank r     hello/r = its token, which is new in each process and for each group
    rank 0     welcome/token = the group's name, for each token that it finds
    rank r     clock/name/r = its clock, if it is to be compared for a trace
    rank r     ready/name/r: this rank's token was no old one
    rank 0     go/name = ranks whose clocks are compared with its own: all ranks are ready
"""

from __future__ import annotations

import json
import time
import uuid
from datetime import timedelta
from typing import Any

from torch.distributed import PrefixStore

_LONGEST_PAUSE_S = 0.05


def meet(store: Any, rank: int, size: int, timeout: timedelta, clock: str = "") -> tuple[str, Any, list[int]]:
    """Returns when all ranks have come.

    The result is the group's name, a store for keys of this group alone, and the ranks whose clocks are compared with
    rank 0's. `clock`: the name of this rank's clock; empty: the rank takes no part in that, and gets no ranks.
    """
    name, compared = _lead(store, size, timeout, clock) if rank == 0 else _follow(store, rank, size, timeout, clock)
    return name, PrefixStore(f"group/{name}", store), compared


def _lead(store: Any, size: int, timeout: timedelta, clock: str) -> tuple[str, list[int]]:
    name = uuid.uuid4().hex
    end = time.monotonic() + timeout.total_seconds()
    missing = list(range(1, size))
    welcomed: dict[int, bytes] = {}
    pause_s = 0.001
    while missing:
        for rank in missing:
            _welcome(store, rank, name, welcomed)
        missing = [rank for rank in missing if not store.check([f"ready/{name}/{rank}"])]
        if missing and time.monotonic() > end:
            raise RuntimeError(_sentence(missing, timeout))
        time.sleep(pause_s if missing else 0)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    compared = _compared(store, name, size, clock) if clock else []
    store.set(f"go/{name}", json.dumps(compared))
    return name, compared


def _compared(store: Any, name: str, size: int, clock: str) -> list[int]:
    """The first rank of each clock other than this one."""
    first = {clock: 0}
    for rank in range(1, size):
        if store.check([f"clock/{name}/{rank}"]):
            first.setdefault(store.get(f"clock/{name}/{rank}").decode(), rank)
    return [rank for rank in first.values() if rank]


def _welcome(store: Any, rank: int, name: str, welcomed: dict[int, bytes]) -> None:
    """Answers a rank's token, also one that follows an old one."""
    if not store.check([f"hello/{rank}"]):
        return
    token = store.get(f"hello/{rank}")
    if welcomed.get(rank) != token:
        store.set(f"welcome/{token.decode()}", name)
        welcomed[rank] = token


def _follow(store: Any, rank: int, size: int, timeout: timedelta, clock: str) -> tuple[str, list[int]]:
    token = uuid.uuid4().hex
    end = time.monotonic() + timeout.total_seconds()
    store.set(f"hello/{rank}", token)
    if not _came(store, f"welcome/{token}", end):
        raise RuntimeError(_sentence([0], timeout))
    name: str = store.get(f"welcome/{token}").decode()
    if clock:
        store.set(f"clock/{name}/{rank}", clock)
    store.set(f"ready/{name}/{rank}", b"1")
    if not _came(store, f"go/{name}", end):
        missing = [one for one in range(1, size) if not store.check([f"ready/{name}/{one}"])]
        raise RuntimeError(_sentence(missing or [0], timeout))
    return name, json.loads(store.get(f"go/{name}")) if clock else []


def _came(store: Any, key: str, end: float) -> bool:
    """False: not by then. Stores have different errors for that, and the same ones for other failures."""
    try:
        store.wait([key], timedelta(seconds=max(0.001, end - time.monotonic())))
    except RuntimeError:
        if time.monotonic() < end:
            raise
        return False
    return True


def _sentence(missing: list[int], timeout: timedelta) -> str:
    names = ", ".join(map(str, missing))
    what = f"rank {names} has" if len(missing) == 1 else f"ranks {names} have"
    return (
        f"Outrigger: {what} not come to create the group within {timeout.total_seconds():g} s. All its ranks must "
        "create it, and groups in the same order; `timeout=` gives them longer."
    )
