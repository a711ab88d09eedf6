"""Reads /proc of processes that may end at any moment."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Stat(NamedTuple):
    """A part of /proc/PID/stat."""

    state: str
    parent: int
    cpu_ticks: int
    """With those of the kernel for it."""
    started_ticks: int
    """Since the machine's boot."""

    @property
    def alive(self) -> bool:
        """Not waiting for its parent to see that it has ended."""
        return self.state not in ("Z", "X")


def stat_of(pid: int) -> Stat | None:
    """None: there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return Stat(fields[0], int(fields[1]), int(fields[11]) + int(fields[12]), int(fields[19]))


def alive(pid: int) -> bool:
    found = stat_of(pid)
    return found is not None and found.alive
