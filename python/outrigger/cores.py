"""Cores allowed for this process, and parsing of CPU lists."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from outrigger.errors import UserError

Core = tuple[int, ...]
"""Allowed hardware threads of one core, in ascending order."""


_MOST_CPUS = 1 << 16
"""More than any machine has."""


class ImpossibleCpuError(UserError):
    """A list of CPUs that is written well."""


def parse_cpu_list(text: str) -> list[int]:
    """CPUs of a list like 0-3,8, in its order."""
    cpus: list[int] = []
    for item in text.split(","):
        first, dash, last = item.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise UserError(f"'{text}' is not a list of CPUs; write numbers and ranges like 0-3,8")
        if int(last or first) < int(first):
            raise ImpossibleCpuError(f"the range '{item.strip()}' ends before it begins")
        if int(last or first) >= _MOST_CPUS:
            raise ImpossibleCpuError(f"no machine has a CPU {last or first}")
        cpus.extend(range(int(first), int(last or first) + 1))
    return cpus


def format_cpu_list(cpus: Sequence[int]) -> str:
    """Shortest list that parse_cpu_list reads back as the same set, ascending: 0-3,8."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][-1] + 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


_MOST_RANKS = 4


def measured_ranks(given: int | None, fewest: int = 2) -> int:
    """-n of a measurement. Unless given: all cores but one, which is left for the service process."""
    if given is None:
        return max(2, min(_MOST_RANKS, len(allowed_cores()) - 1))
    if given < fewest:
        raise UserError(f"-n {given}: at least {'one rank is' if fewest == 1 else f'{fewest} ranks are'} needed")
    return given


def without_spare(ranks: int, cores: int) -> str:
    """A note if the ranks need all cores of a machine; empty if they leave one."""
    if ranks < cores:
        return ""
    have = f"{cores} core{'' if cores == 1 else 's'}"
    return (
        f"No spare core: {ranks} rank{'' if ranks == 1 else 's'}, {have}. A service process takes CPU time from "
        f"ranks here, which seldom pays; a spare core needs {ranks + 1} cores."
    )


def _siblings(cpu: int) -> list[int]:
    path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    try:
        return parse_cpu_list(path.read_text(encoding="ascii"))
    except (OSError, UserError):
        return [cpu]


def allowed_cores() -> list[Core]:
    """Cores allowed for this process, with their hardware threads, in ascending order."""
    allowed = os.sched_getaffinity(0)
    return sorted({tuple(sorted(allowed.intersection(_siblings(cpu)))) for cpu in allowed})
