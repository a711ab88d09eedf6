"""Load of CPUs by the present processes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from outrigger.cores import allowed_cores
from outrigger.terminal import note

STAT = Path("/proc/stat")
_IDLE_FIELDS = slice(3, 5)  # idle and iowait, of user nice system idle iowait irq softirq steal
_FIELDS = 8
BUSY_SHARE = 0.3
"""A higher load slows down a service process."""


def _ticks(stat: Path) -> dict[int, tuple[int, int]]:
    """Idle ticks and all ticks, by CPU; empty if the kernel does not report them."""
    try:
        lines = stat.read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    ticks = {}
    for line in lines:
        name, *fields = line.split()
        if name.startswith("cpu") and name[3:].isdecimal():
            counts = [int(field) for field in fields[:_FIELDS]]
            ticks[int(name[3:])] = (sum(counts[_IDLE_FIELDS]), sum(counts))
    return ticks


@dataclass(frozen=True)
class Sample:
    """The kernel's counters at one time."""

    ticks: Mapping[int, tuple[int, int]]
    at: float

    @staticmethod
    def take(stat: Path = STAT) -> Sample:
        """The present counters."""
        return Sample(_ticks(stat), time.monotonic())

    def wait_for(self, seconds: float) -> None:
        """Waits until the sample has this age."""
        time.sleep(max(0.0, self.at + seconds - time.monotonic()))

    def busy_since(self, stat: Path = STAT) -> dict[int, float]:
        """The share of the time since then that each CPU was not idle; without unknown ones."""
        shares = {}
        for cpu, (idle, every) in _ticks(stat).items():
            idle_before, every_before = self.ticks.get(cpu, (idle, every))
            if every > every_before:
                shares[cpu] = 1 - (idle - idle_before) / (every - every_before)
        return shares


def taken(shares: Mapping[int, float], cpus: Sequence[int]) -> dict[int, float]:
    """Those of the CPUs that other processes use."""
    return {cpu: shares[cpu] for cpu in cpus if shares.get(cpu, 0.0) >= BUSY_SHARE}


def warn_of_others(wait_s: float = 0.5) -> None:
    """Warns if other processes use CPUs of a measurement; takes a moment."""
    sample = Sample.take()
    sample.wait_for(wait_s)
    found = taken(sample.busy_since(), [cpu for core in allowed_cores() for cpu in core])
    if found:
        note(f"other processes use CPUs {in_words(found)}: figures will be unreliable")


def in_words(shares: Mapping[int, float]) -> str:
    """1 (98%), 3 (40%)."""
    return ", ".join(f"{cpu} ({share:.0%})" for cpu, share in sorted(shares.items()))
