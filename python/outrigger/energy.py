"""Energy of this machine's processors while a job runs, where the system shows its counters (RAPL)."""

from __future__ import annotations

import contextlib
import threading
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

    def __init__(self, root: Path = POWERCAP) -> None:
        self._packages = _packages(root)
        self._failed = False

    def look(self) -> None:
        """To be called more often than counters wrap around."""
        try:
            for package in self._packages:
                package.look()
        except (OSError, ValueError):
            self._failed = True

    @property
    def joules(self) -> float | None:
        """Until the last look; None: the counters cannot be read."""
        if self._failed or not self._packages:
            return None
        return sum(package.sum for package in self._packages) * 1e-6


@contextlib.contextmanager
def metering(root: Path = POWERCAP) -> Iterator[Meter]:
    """Measures during the context. Without counters nothing is started."""
    meter = Meter(root)
    if meter.joules is None:
        yield meter
        return
    end = threading.Event()

    def watch() -> None:
        while not end.wait(_LOOK_SECONDS):
            meter.look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield meter
    finally:
        end.set()
        thread.join()
        meter.look()
