"""The range of a figure, from a few runs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from outrigger.bench.pairs import median_interval

FEWEST = 3
"""With fewer values, the spread is unknown."""
# Extension of a few values' band, relative to their range. The band then contains the mean with a probability of 95 %
# by Student's t. From five values on the range is enough, and later median_interval.
_WIDER = {3: 0.95, 4: 0.3}


@dataclass(frozen=True)
class Band:
    """The median and its range, as far as this many values allow."""

    value: float
    low: float
    high: float
    count: int

    @property
    def known(self) -> bool:
        """True if there are enough values."""
        return self.count >= FEWEST

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f}-{self.high:.2f})"


def band_of(values: Sequence[float]) -> Band:
    """Band of at least one value; no value is negative."""
    low, high = median_interval(values)
    wider = _WIDER.get(len(values), 0.0) * (high - low)
    return Band(statistics.median(values), max(low - wider, 0.0), high + wider, len(values))
