"""Strikes on a run's service processes and their times: drawn from a seed, so that they can be repeated."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T", int, str)

MOST_KILLS = 6
"""Per run: a node whose service processes die seven times within a minute ends its job."""
USUAL_KILLS = 2
"""Per run: after three within a minute nothing is offloaded any more."""
_SHORTEST_STOP_S, _LONGEST_STOP_S = 0.05, 2.0
"""One that is stopped for twelve seconds counts as lost."""
_SHORTEST_CUT_S, _LONGEST_CUT_S = 0.05, 2.0
"""A host that is away for longer may count as lost."""
_AT_ONCE = 0.15
"""Fraction of the kills that come together with the previous one."""
_AT_START = 0.15
"""Fraction of the runs' first strikes that hit a service process as soon as there is one."""


@dataclass(frozen=True)
class Strike:
    """A strike on one service process, at a time after the run's start."""

    at_s: float
    stop_s: float | None = None
    """Duration of a stop instead of a kill."""
    cut_s: float | None = None
    """Duration of a host's cut instead of a kill."""

    @property
    def kills(self) -> bool:
        """Otherwise a stop, or a cut."""
        return self.stop_s is None and self.cut_s is None


def draw(seed: str, lasts_s: float, kills: int, stops: bool, cuts: bool = False) -> list[Strike]:
    """A number of kills, with `stops` perhaps a stop, and with `cuts` perhaps a cut, ordered by time.

    `lasts_s`: duration of a run without strikes.
    """
    numbers = random.Random(seed)
    moments: list[float] = []
    for _ in range(kills):
        if moments and numbers.random() < _AT_ONCE:
            moments.append(moments[-1])
        elif not moments and numbers.random() < _AT_START:
            moments.append(0.0)
        else:
            moments.append(numbers.uniform(0, lasts_s))
    strikes = [Strike(moment) for moment in moments]
    if stops and numbers.random() < 0.5:
        strikes.append(Strike(numbers.uniform(0, lasts_s), numbers.uniform(_SHORTEST_STOP_S, _LONGEST_STOP_S)))
    if cuts and numbers.random() < 0.5:
        cut_s = numbers.uniform(_SHORTEST_CUT_S, _LONGEST_CUT_S)
        strikes.append(Strike(numbers.uniform(0, lasts_s), cut_s=cut_s))
    return sorted(strikes, key=lambda strike: strike.at_s)


def pick(seed: str, number: int, victims: Sequence[T]) -> T:
    """The target of a strike."""
    return random.Random(f"{seed}/{number}").choice(sorted(victims))
