"""How far predictions are from measurements: errors, orders of algorithms, crossovers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, groupby, pairwise

from outrigger.calibrate.readings import Cell, Measured, Times

NATIVE = "native"


@dataclass(frozen=True)
class Compared:
    """A cell, and the same by the model."""

    cell: Cell
    measured: Times
    predicted: Times
    calibrates: bool
    """It was used to fit the model's numbers."""
    rounds: tuple[Times, ...] = ()
    """What `measured` is the median of."""

    @property
    def errors(self) -> dict[str, float]:
        """Of the four times, in parts of what was measured."""
        names = ("native pure", "native total", "offloaded pure", "offloaded total")
        pairs = zip(names, self.predicted.four, self.measured.four, strict=True)
        return {name: predicted / measured - 1 for name, predicted, measured in pairs}


@dataclass(frozen=True)
class Quantiles:
    """Of the sizes of errors."""

    count: int
    median: float
    quarter: float
    """Three of four are smaller."""
    tenth: float
    """Nine of ten are smaller."""


@dataclass(frozen=True)
class Crossover:
    """From which size on offloading is better; the smallest of all where it always is; None: it never is."""

    what: str
    measured_bytes: float | None
    predicted_bytes: float | None

    @property
    def octaves(self) -> float | None:
        """Between the two; None: one of them is nowhere."""
        if self.measured_bytes is None or self.predicted_bytes is None:
            return None
        return abs(math.log2(self.predicted_bytes / self.measured_bytes))


@dataclass(frozen=True)
class Verdict:
    """Of all cells of a set."""

    errors: dict[str, Quantiles]
    pairs: int
    """Of ways to do the same collective, whose measured totals differ by more than noise."""
    pairs_right: int
    sure_pairs: int
    """Of these, those whose order was the same in each round of the measurement."""
    sure_pairs_right: int
    crossovers: tuple[Crossover, ...]

    @property
    def crossovers_near(self) -> int:
        """Within an octave."""
        return sum(one.octaves is not None and one.octaves <= 1 for one in self.crossovers)


def quantiles(errors: Iterable[float]) -> Quantiles:
    """Of at least one."""
    sizes = sorted(map(abs, errors))

    def at(part: float) -> float:
        return sizes[min(len(sizes) - 1, math.ceil(part * len(sizes)) - 1)]

    return Quantiles(len(sizes), statistics.median(sizes), at(0.75), at(0.9))


@dataclass(frozen=True)
class Half:
    """Every other round of a measurement."""

    by_rest: list[Compared]
    """As if the other rounds had predicted it: how well the measurement says itself."""
    by_model: list[Compared]


def halves_of(compared: Iterable[Compared]) -> tuple[Half, Half]:
    """Cells of one round are in none."""
    halves = (Half([], []), Half([], []))
    for one in compared:
        parts = [Measured(one.cell, one.rounds[start::2]) for start in (0, 1)]
        if not parts[1].rounds:
            continue
        for half, part, rest in zip(halves, parts, reversed(parts), strict=True):
            of_part = replace(one, measured=part.median, rounds=part.rounds)
            half.by_rest.append(replace(of_part, predicted=rest.median))
            half.by_model.append(of_part)
    return halves


def _job(one: Compared) -> tuple[str, int, int, int]:
    cell = one.cell
    return (cell.collective, cell.nodes, cell.ranks_per_node, cell.services)


_Two = tuple[float, float]


@dataclass(frozen=True)
class _Pair:
    right: bool
    sure: bool


def _pair(measured: _Two, predicted: _Two, rounds: Iterable[_Two]) -> _Pair:
    first_is_less = measured[0] < measured[1]
    return _Pair(
        (predicted[0] < predicted[1]) == first_is_less, all((one[0] < one[1]) == first_is_less for one in rounds)
    )


def _pairs(compared: Sequence[Compared], noise: float) -> Iterator[_Pair]:
    """Each pair of algorithms of one cell, and each algorithm with native."""

    def differ(measured: _Two) -> bool:
        return abs(math.log(measured[0] / measured[1])) > noise

    def totals(times: Times) -> _Two:
        return (times.native_total_us, times.offloaded_total_us)

    for one in compared:
        if differ(totals(one.measured)):
            yield _pair(totals(one.measured), totals(one.predicted), map(totals, one.rounds))
    key: Callable[[Compared], tuple[object, ...]] = lambda one: (*_job(one), one.cell.bytes)  # noqa: E731
    for _, group in groupby(sorted(compared, key=key), key=key):
        # By the pure latency: the work is not the same in two runs.
        for first, second in combinations(list(group), 2):
            measured = (first.measured.offloaded_pure_us, second.measured.offloaded_pure_us)
            predicted = (first.predicted.offloaded_pure_us, second.predicted.offloaded_pure_us)
            rounds = [
                (times.offloaded_pure_us, other.offloaded_pure_us)
                for times, other in zip(first.rounds, second.rounds, strict=False)
            ]
            if differ(measured):
                yield _pair(measured, predicted, rounds)


def crossing(points: Sequence[tuple[int, float]]) -> float | None:
    """Of (bytes, logarithm of a ratio) by bytes: where it comes below 0 the last time; the first size if it always is.

    None: the last is not below it.
    """
    ordered = sorted(points)
    if not ordered or ordered[-1][1] >= 0:
        return None
    found = float(ordered[0][0])
    for (first, before), (second, after) in pairwise(ordered):
        if (before > 0) == (after > 0):
            continue
        part = before / (before - after)
        found = math.exp(math.log(first) + part * math.log(second / first))
    return found


def _crossovers(compared: Sequence[Compared]) -> Iterator[Crossover]:
    key: Callable[[Compared], tuple[object, ...]] = lambda one: (*_job(one), one.cell.algorithm)  # noqa: E731
    for _, group in groupby(sorted(compared, key=key), key=key):
        same = list(group)
        cell = same[0].cell
        measured, predicted = (
            crossing(
                [(one.cell.bytes, math.log(times.offloaded_total_us / times.native_total_us)) for one, times in both]
            )
            for both in ([(one, one.measured) for one in same], [(one, one.predicted) for one in same])
        )
        if measured is not None or predicted is not None:
            name = f"{cell.collective} by {cell.algorithm}, {cell.nodes} x {cell.ranks_per_node} ranks"
            yield Crossover(name, measured, predicted)


def judge(compared: Sequence[Compared], noise: float) -> Verdict:
    """`noise`: totals that differ by less, as a logarithm, have no order."""
    names = compared[0].errors if compared else {}
    errors = {name: quantiles(one.errors[name] for one in compared) for name in names}
    pairs = list(_pairs(compared, noise))
    sure = [pair for pair in pairs if pair.sure]
    right = [sum(pair.right for pair in some) for some in (pairs, sure)]
    return Verdict(errors, len(pairs), right[0], len(sure), right[1], tuple(_crossovers(compared)))
