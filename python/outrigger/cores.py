"""Which cores are kept for service processes, and where each rank runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from outrigger.errors import UserError

Core = tuple[int, ...]
"""The hardware threads of one core that may be used, lowest first."""


def parse_cpu_list(text: str) -> list[int]:
    """The CPUs that a list like 0-3,8 means, in its order."""
    cpus: list[int] = []
    for item in text.split(","):
        first, dash, last = item.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise UserError(f"'{text}' is not a list of CPUs; write numbers and ranges like 0-3,8")
        cpus.extend(range(int(first), int(last or first) + 1))
    return cpus


def format_cpu_list(cpus: Sequence[int]) -> str:
    """The shortest list that parse_cpu_list reads back as the same set, ascending: 0-3,8."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][-1] + 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _siblings(cpu: int) -> list[int]:
    path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    try:
        return parse_cpu_list(path.read_text(encoding="ascii"))
    except (OSError, UserError):
        return [cpu]


def allowed_cores() -> list[Core]:
    """The cores that this process may use, with their hardware threads, in ascending order."""
    allowed = os.sched_getaffinity(0)
    return sorted({tuple(sorted(allowed.intersection(_siblings(cpu)))) for cpu in allowed})


@dataclass(frozen=True)
class Placement:
    """What runs where on a node."""

    rank_cpus: tuple[int, ...]
    """CPUs for the ranks, all of them together."""
    service_cpus: tuple[int, ...]
    """One CPU for each core kept for service processes; empty: none is kept."""
    core_of_rank: tuple[Core, ...]
    """The core of each local rank; empty: the ranks share rank_cpus."""
    ranks: int

    @property
    def oversubscribed(self) -> bool:
        """Some ranks share a CPU with another."""
        return self.ranks > len(self.rank_cpus)


def place(cores: Sequence[Core], ranks: int, services: int | None, *, bind: bool = True) -> Placement:
    """Keeps the last cores for service processes and spreads the ranks over the others.

    As many cores are kept as there are service processes (one, unless said), but one core at least is left for the
    ranks; on a machine of one core none is kept. Each rank has a core of its own where there are enough.
    """
    kept_count = min(services or 1, len(cores) - 1) if bind else 0
    rank_cores = list(cores[: len(cores) - kept_count])
    rank_cpus = tuple(cpu for core in rank_cores for cpu in core)
    own_core = bind and ranks <= len(rank_cores)
    return Placement(
        rank_cpus=rank_cpus,
        service_cpus=tuple(core[0] for core in cores[len(cores) - kept_count :]),
        core_of_rank=tuple(rank_cores[:ranks]) if own_core else (),
        ranks=ranks,
    )
