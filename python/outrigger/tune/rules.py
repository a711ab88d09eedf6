"""Rules from what was measured: neighbouring sizes with the same choice are one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from outrigger.noise import Band
from outrigger.sizes import format_size
from outrigger.tables import Collective
from outrigger.tune.figures import NATIVE, Figures, best_of

_ROUND_TO = 256
"""Bytes of a bound between two sizes that were measured."""


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
        low, high = ("" if bound is None else format_size(bound) for bound in (self.low, self.high))
        return f"{low}-{high}"


def between(smaller: int, larger: int) -> int:
    """A bound between two sizes: as many times the one as the other is it."""
    middle = math.sqrt(smaller * larger)
    if smaller >= _ROUND_TO:
        return round(middle / _ROUND_TO) * _ROUND_TO
    return max(smaller, min(larger - 1, round(middle)))


def _bounds(sizes: Sequence[int], first: int, last: int, algorithm: str) -> tuple[int | None, int | None]:
    """Of sizes[first..last]: half way to the neighbours. Larger blocks than any measured go the same way; smaller ones
    only where that is native."""
    high = None if last + 1 == len(sizes) else between(sizes[last], sizes[last + 1])
    if first == 0:
        return (None if algorithm == NATIVE else sizes[0]), high
    return between(sizes[first - 1], sizes[first]), high


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
            low, high = _bounds(sizes, first, last, choice)
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
