"""Measurements of each collective, size and algorithm."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

from outrigger.noise import Band, band_of

BUILT_IN = "built-in"
"""The default without rules; used like an algorithm's name."""
NATIVE = "native"
LEAST_GAIN = 0.02
"""Fraction of the time. A smaller difference does not count, however certain."""


NATIVELY = Band(1.0, 1.0, 1.0, 1 << 30)
"""Relative to itself."""


def _below(one: Band, other: Band) -> bool:
    """Lower beyond noise."""
    return one.known and other.known and one.high < other.low and one.value < (1 - LEAST_GAIN) * other.value


@dataclass
class Figures:
    """Ratios of each round, by collective, size and server; in the requested order."""

    ratios: dict[str, dict[int, dict[str, list[float]]]] = field(default_factory=dict)
    native_us: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    """Totals."""

    def add(self, collective: str, size: int, served_by: str, ratio: float, native_us: float) -> None:
        """Adds the result of one round."""
        of_size = self.ratios.setdefault(collective, {}).setdefault(size, {})
        of_size.setdefault(served_by, []).append(ratio)
        self.native_us.setdefault((collective, size), []).append(native_us)

    def bands(self, collective: str, size: int) -> dict[str, Band]:
        """Totals relative to native's, by server."""
        return {name: band_of(found) for name, found in self.ratios[collective][size].items()}

    def over_sizes(self, collective: str) -> dict[str, Band]:
        """Geometric mean over the sizes, by round: for collectives whose rules may not depend on bytes."""
        by_size = list(self.ratios[collective].values())
        names = [name for name in by_size[0] if all(name in found for found in by_size)]
        return {
            name: band_of([statistics.geometric_mean(same) for same in zip(*(s[name] for s in by_size), strict=False)])
            for name in names
        }

    @property
    def rounds(self) -> int:
        """Maximum over all."""
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
    """The best beyond noise compared with the built-in table; None: nothing is better.

    An algorithm must be better than native as well. A rule equal to the table would only prevent the temporary use of
    native.
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
