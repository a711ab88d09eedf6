"""One clock for the events of a PyTorch job, whose machines have clocks of their own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from outrigger.trace.events import Clock, converted
from outrigger.trace.torch_ranks import Recorded

Clocks = list[Clock]

_DRIFT = 50e-6
"""Clocks of computers drift by less."""


class JobClock:
    """Converts times of all ranks to the clock of the first one."""

    def __init__(self, ranks: Sequence[Recorded]) -> None:
        wall_offsets: dict[str, int] = {}
        for one in ranks:
            wall_offsets.setdefault(one.head.clock, one.head.wall_offset)
        first = ranks[0].head.clock
        self._ways = _ways(first, _comparisons(ranks))
        self._guesses = {name: offset - wall_offsets[first] for name, offset in wall_offsets.items()}
        self.zero = min(self.at(one, one.began) for one in ranks)

    def at(self, of: Recorded, time: int) -> int:
        """Nanoseconds on that clock. Without a comparison by the times of day."""
        way = self._ways.get(of.head.clock)
        if way is None:
            return time + self._guesses[of.head.clock]
        for clocks in way:
            time = converted(clocks, time)
        return time

    @property
    def error_us(self) -> float | None:
        """The largest possible one. None: the clocks of some machines were not compared."""
        if not self._guesses.keys() <= self._ways.keys():
            return None
        return max(_error(self._ways[name]) for name in self._guesses) / 1000


def _comparisons(ranks: Sequence[Recorded]) -> dict[str, dict[str, Clocks]]:
    """From each clock to those with which it was compared, in both directions."""
    names = {one.process.rank: one.head.clock for one in ranks}
    found: dict[str, dict[str, Clocks]] = defaultdict(lambda: defaultdict(list))
    for one in ranks:
        for compared in one.compared:
            own, other, clock = one.head.clock, names.get(compared.rank, f"rank {compared.rank}"), compared.clock
            found[own][other].append(clock)
            found[other][own].append(Clock(clock.at + clock.offset, -clock.offset, clock.error))
    return {own: {other: _good(clocks) for other, clocks in others.items()} for own, others in found.items()}


def _error(way: Sequence[Clocks]) -> int:
    return sum(max(clock.error for clock in clocks) for clocks in way)


def _good(clocks: Clocks) -> Clocks:
    """In their order, without those whose messages were slow: another one is better in spite of the drift."""

    def is_good(one: Clock) -> bool:
        return all(one.error <= clock.error + _DRIFT * abs(clock.at - one.at) for clock in clocks)

    return sorted(filter(is_good, clocks), key=lambda clock: clock.at)


def _ways(first: str, comparisons: dict[str, dict[str, Clocks]]) -> dict[str, tuple[Clocks, ...]]:
    """The comparisons that lead from each clock to the first one, by the fewest."""
    ways: dict[str, tuple[Clocks, ...]] = {first: ()}
    reached = [first]
    for name in reached:
        for other in comparisons.get(name, {}):
            if other not in ways:
                ways[other] = (comparisons[other][name], *ways[name])
                reached.append(other)
    return ways
