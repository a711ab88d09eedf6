"""Rules from what was measured: neighbouring sizes with the same choice are one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from outrigger.noise import Band
from outrigger.sizes import format_size
from outrigger.tables import Collective
from outrigger.tune.figures import BUILT_IN, NATIVE, Figures, best_of

_ROUND_TO = 256
"""Bytes of a bound between two sizes that were measured."""
_HALF = 0.5


@dataclass(frozen=True)
class Rule:
    """Of a collective."""

    collective: str
    algorithm: str
    measured: tuple[tuple[int, dict[str, Band]], ...]
    """The sizes for which it was chosen, with what decided; one without a size: all sizes together."""
    low: int | None = None
    """Bytes of a block, both included; None: open."""
    high: int | None = None

    @property
    def bytes_text(self) -> str:
        """As a rule has it; empty: any."""
        if self.low is None and self.high is None:
            return ""
        if self.low == self.high:
            return format_size(self.low or 0)
        low, high = ("" if bound is None else format_size(bound) for bound in (self.low, self.high))
        return f"{low}-{high}"


def between(size: int, neighbour: int, way: float = 0.5) -> int:
    """A bound from a size towards a neighbour, half of the way by ratios unless another part of it is named."""
    bound: float = size * (neighbour / size) ** way
    low, high = sorted((size, neighbour))
    if low >= _ROUND_TO:
        bound = round(bound / _ROUND_TO) * _ROUND_TO
    return min(max(round(bound), low), high)


def _way(here: Mapping[str, Band], there: Mapping[str, Band], algorithm: str) -> float:
    """How far a choice reaches towards a size for which it was not made: to where it would be as good as the built-in
    table if its gain fell evenly, half of the way at most."""

    def gain(bands: Mapping[str, Band]) -> float:
        return math.log(bands[BUILT_IN].value / (1.0 if algorithm == NATIVE else bands[algorithm].value))

    if BUILT_IN not in there or algorithm not in (NATIVE, *there):
        return 0.0
    gains = gain(here), gain(there)
    return _HALF if gains[1] >= 0 else min(_HALF, gains[0] / (gains[0] - gains[1]))


def _bounds(
    sizes: Sequence[int], bands: Sequence[Mapping[str, Band]], first: int, last: int, algorithm: str
) -> tuple[int | None, int | None]:
    """Of sizes[first..last]. Blocks larger than any measured go the same way, smaller ones only if that is native."""

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
    """All that is better than the built-in table beyond noise."""
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
