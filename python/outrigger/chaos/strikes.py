"""What is done to a run's service processes, and when: drawn from a seed, so that it can be had again."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T", int, str)

MOST_KILLS = 6
"""Of a run: a node whose service processes die seven times within a minute ends its job."""
USUAL_KILLS = 2
"""Of a run: after three within a minute nothing is offloaded any more, and there is little left to disturb."""
_SHORTEST_STOP_S, _LONGEST_STOP_S = 0.05, 2.0
"""One that is stopped for twelve seconds counts as lost."""
_SHORTEST_CUT_S, _LONGEST_CUT_S = 0.05, 2.0
"""A host that is away for longer may count as lost."""
_AT_ONCE = 0.15
"""Of the kills, as many come with the one before."""
_AT_START = 0.15
"""Of the runs' first strikes, as many meet a service process as soon as there is one."""


@dataclass(frozen=True)
class Strike:
    """One service process, at a moment after the run began."""

    at_s: float
    stop_s: float | None = None
    """For so long it is stopped, instead."""
    cut_s: float | None = None
    """For so long a host is cut off, instead."""

    @property
    def kills(self) -> bool:
        """Else one is stopped, or a host cut off."""
        return self.stop_s is None and self.cut_s is None


def draw(seed: str, lasts_s: float, kills: int, stops: bool, cuts: bool = False) -> list[Strike]:
    """So many kills, with `stops` perhaps a stop, and with `cuts` perhaps a cut, in the order of time.

    `lasts_s`: how long a run takes that nothing is done to.
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
    """Which of these a strike meets."""
    return random.Random(f"{seed}/{number}").choice(sorted(victims))
