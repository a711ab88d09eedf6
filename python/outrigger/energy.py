"""Energy of this machine's processors while a job runs, where the system shows its counters (RAPL)."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

POWERCAP = Path("/sys/class/powercap")
_LOOK_SECONDS = 20.0
"""Counters wrap around after minutes."""


@dataclass
class _Package:
    """The counter of a processor package, in microjoules."""

    counter: Path
    most: int
    """It wraps around behind this value."""
    last: int
    sum: int = 0

    def look(self) -> None:
        now = int(self.counter.read_text())
        self.sum += now - self.last if now >= self.last else now + self.most + 1 - self.last
        self.last = now


def _packages(root: Path) -> list[_Package]:
    """Those that can be read: usually only by root. Their parts, such as cores, have longer names."""
    found = []
    for directory in sorted(root.glob("intel-rapl:*")):
        if directory.name.count(":") != 1:
            continue
        with contextlib.suppress(OSError, ValueError):
            if not (directory / "name").read_text().startswith("package"):
                continue
            counter = directory / "energy_uj"
            most = int((directory / "max_energy_range_uj").read_text())
            found.append(_Package(counter, most, int(counter.read_text())))
    return found


class Meter:
    """Sums up the energy of all packages from its start."""

    def __init__(self, root: Path) -> None:
        self._packages = _packages(root)
        self._failed = False
        self._looked = time.monotonic()

    def look(self) -> None:
        """To be called more often than counters wrap around."""
        self._looked = time.monotonic()
        try:
            for package in self._packages:
                package.look()
        except (OSError, ValueError):
            self._failed = True

    def look_in_time(self) -> None:
        """Looks if the last look was long ago: costs nothing in most calls."""
        if time.monotonic() - self._looked >= _LOOK_SECONDS:
            self.look()

    @property
    def joules(self) -> float | None:
        """Until the last look; None: the counters cannot be read."""
        if self._failed or not self._packages:
            return None
        return sum(package.sum for package in self._packages) * 1e-6


@contextlib.contextmanager
def metering(root: Path | None = None) -> Iterator[Meter]:
    """Measures during the context, in which `look_in_time` must be called regularly."""
    meter = Meter(POWERCAP if root is None else root)
    try:
        yield meter
    finally:
        meter.look()
