"""Rules from measurements: neighbouring sizes with the same choice become one rule."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from outrigger.noise import Band
from outrigger.sizes import format_size
from outrigger.tables import Collective
from outrigger.tune.figures import BUILT_IN, NATIVE, Figures, best_of

_ROUND_TO = 256
"""In bytes, for a bound between two measured sizes."""
_HALF = 0.5


@dataclass(frozen=True)
class Rule:
    """For a collective."""

    collective: str
    algorithm: str
    measured: tuple[tuple[int, dict[str, Band]], ...]
    """Sizes with this choice, with the deciding bands; one entry without size: all sizes together."""
    low: int | None = None
    """Bytes of a block, inclusive; None: open."""
    high: int | None = None

    @property
    def bytes_text(self) -> str:
        """As in a rule; empty: any."""
        if self.low is None and self.high is None:
            return ""
        if self.low == self.high:
            return format_size(self.low or 0)
        low, high = ("" if bound is None else format_size(bound) for bound in (self.low, self.high))
        return f"{low}-{high}"


def between(size: int, neighbour: int, way: float = 0.5) -> int:
    """Bound between a size and a neighbour, in the geometric middle unless another fraction is given."""
    bound: float = size * (neighbour / size) ** way
    low, high = sorted((size, neighbour))
    if low >= _ROUND_TO:
        bound = round(bound / _ROUND_TO) * _ROUND_TO
    return min(max(round(bound), low), high)


def _way(here: Mapping[str, Band], there: Mapping[str, Band], algorithm: str) -> float:
    """Reach of a choice towards a size with another choice: to the point where its gain, falling linearly, is zero; at
    most half of the way.
    """

    def gain(bands: Mapping[str, Band]) -> float:
        return math.log(bands[BUILT_IN].value / (1.0 if algorithm == NATIVE else bands[algorithm].value))

    if BUILT_IN not in there or algorithm not in (NATIVE, *there):
        return 0.0
    gains = gain(here), gain(there)
    return _HALF if gains[1] >= 0 else min(_HALF, gains[0] / (gains[0] - gains[1]))


def _bounds(
    sizes: Sequence[int], bands: Sequence[Mapping[str, Band]], first: int, last: int, algorithm: str
) -> tuple[int | None, int | None]:
    """Bounds for sizes[first..last]. Larger blocks use the same choice, smaller ones only if it is native."""

    def bound(edge: int, neighbour: int) -> int:
        return between(sizes[edge], sizes[neighbour], _way(bands[edge], bands[neighbour], algorithm))

    high = None if last + 1 == len(sizes) else bound(last, last + 1)
    if first == 0:
        return (None if algorithm == NATIVE else sizes[0]), high
    return bound(first, first - 1), high


def _by_bytes(figures: Figures, name: str) -> list[Rule]:
    sizes = sorted(figures.ratios[name])
    bands = [figures.bands(name, size) for size in sizes]
    choices = [best_of(band) for band in bands]
    rules = []
    first = 0
    while first < len(sizes):
        last = first
        while last + 1 < len(sizes) and choices[last + 1] == choices[first]:
            last += 1
        choice = choices[first]
        if choice is not None:
            low, high = _bounds(sizes, bands, first, last, choice)
            decided = tuple(zip(sizes[first : last + 1], bands[first : last + 1], strict=True))
            rules.append(Rule(name, choice, decided, low, high))
        first = last + 1
    return rules


def make(figures: Figures, collectives: Sequence[Collective]) -> list[Rule]:
    """All choices that are better than the built-in table beyond noise."""
    alike = {row.name: row.alike for row in collectives}
    rules: list[Rule] = []
    for name in figures.ratios:
        if alike[name]:
            rules += _by_bytes(figures, name)
            continue
        bands = figures.over_sizes(name)
        choice = best_of(bands)
        if choice is not None:
            rules.append(Rule(name, choice, ((0, bands),)))
    return rules
