"""Between what a figure lies, from a few runs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from outrigger.bench.pairs import median_interval

FEWEST = 3
"""Values, below which no spread is known."""
# By how much of their range a few values' band is wider than they are, so that it has the mean of all such values with
# a probability of 95 % as Student's t says it; from five on the range, and then what median_interval says, is enough.
_WIDER = {3: 0.95, 4: 0.3}


@dataclass(frozen=True)
class Band:
    """The median, and between what it lies, as far as can be known of so many values."""

    value: float
    low: float
    high: float
    count: int

    @property
    def known(self) -> bool:
        """There are enough values."""
        return self.count >= FEWEST

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f}-{self.high:.2f})"


def band_of(values: Sequence[float]) -> Band:
    """Of at least one value, none below 0."""
    low, high = median_interval(values)
    wider = _WIDER.get(len(values), 0.0) * (high - low)
    return Band(statistics.median(values), max(low - wider, 0.0), high + wider, len(values))
