"""What was measured of each collective, size and algorithm."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

from outrigger.noise import Band, band_of

BUILT_IN = "built-in"
"""What is there without rules; beside the names of algorithms."""
NATIVE = "native"
LEAST_GAIN = 0.02
"""Of the time. Less is no difference, however sure."""


NATIVELY = Band(1.0, 1.0, 1.0, 1 << 30)
"""By itself."""


def _below(one: Band, other: Band) -> bool:
    """Beyond noise."""
    return one.known and other.known and one.high < other.low and one.value < (1 - LEAST_GAIN) * other.value


@dataclass
class Figures:
    """Ratios of each round, by collective, size and what served it; in the order in which they were asked for."""

    ratios: dict[str, dict[int, dict[str, list[float]]]] = field(default_factory=dict)
    native_us: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    """Totals."""

    def add(self, collective: str, size: int, served_by: str, ratio: float, native_us: float) -> None:
        """Of one round."""
        of_size = self.ratios.setdefault(collective, {}).setdefault(size, {})
        of_size.setdefault(served_by, []).append(ratio)
        self.native_us.setdefault((collective, size), []).append(native_us)

    def bands(self, collective: str, size: int) -> dict[str, Band]:
        """Totals by native's, by what served it."""
        return {name: band_of(found) for name, found in self.ratios[collective][size].items()}

    def over_sizes(self, collective: str) -> dict[str, Band]:
        """The geometric mean over the sizes, round by round: for collectives of which no bytes may decide."""
        by_size = list(self.ratios[collective].values())
        names = [name for name in by_size[0] if all(name in found for found in by_size)]
        return {
            name: band_of([statistics.geometric_mean(same) for same in zip(*(s[name] for s in by_size), strict=False)])
            for name in names
        }

    @property
    def rounds(self) -> int:
        """The most of any."""
        every = [found for sizes in self.ratios.values() for by in sizes.values() for found in by.values()]
        return max(map(len, every), default=0)

    def as_data(self) -> list[dict[str, object]]:
        """For --json."""
        return [
            {
                "collective": collective,
                "bytes": size,
                "native_total_us": statistics.median(self.native_us[collective, size]),
                "ratios": {name: list(found) for name, found in by.items()},
            }
            for collective, sizes in self.ratios.items()
            for size, by in sizes.items()
        ]


def best_of(bands: Mapping[str, Band]) -> str | None:
    """What is better than the built-in table beyond noise; None: nothing is, and the table stays.

    An algorithm has to be better than native as well. A rule for what the table does anyway would only take from it the
    freedom to go native for a while.
    """
    built_in = bands.get(BUILT_IN)
    if built_in is None:
        return None
    better = [
        name for name, band in bands.items() if name != BUILT_IN and _below(band, built_in) and _below(band, NATIVELY)
    ]
    if better:
        return min(better, key=lambda name: bands[name].value)
    return NATIVE if _below(NATIVELY, built_in) else None
