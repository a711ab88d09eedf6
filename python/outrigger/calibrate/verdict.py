"""How far predictions are from measurements: errors, orders of algorithms, crossovers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby, pairwise

from outrigger.calibrate.readings import Cell, Times

NATIVE = "native"


@dataclass(frozen=True)
class Compared:
    """A cell, and the same by the model."""

    cell: Cell
    measured: Times
    predicted: Times
    calibrates: bool
    """It was used to fit the model's numbers."""

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
    """From which size on the one is better than the other; None: it is nowhere."""

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
    crossovers: tuple[Crossover, ...]


def quantiles(errors: Iterable[float]) -> Quantiles:
    """Of at least one."""
    sizes = sorted(map(abs, errors))

    def at(part: float) -> float:
        return sizes[min(len(sizes) - 1, math.ceil(part * len(sizes)) - 1)]

    return Quantiles(len(sizes), statistics.median(sizes), at(0.75), at(0.9))


def _job(one: Compared) -> tuple[str, int, int, int]:
    cell = one.cell
    return (cell.collective, cell.nodes, cell.ranks_per_node, cell.services)


def _pairs(compared: Sequence[Compared], noise: float) -> tuple[int, int]:
    """Each pair of algorithms of one cell, and each algorithm with native."""
    count = right = 0

    def look(measured: tuple[float, float], predicted: tuple[float, float]) -> None:
        nonlocal count, right
        if abs(math.log(measured[0] / measured[1])) <= noise:
            return
        count += 1
        right += (measured[0] < measured[1]) == (predicted[0] < predicted[1])

    for one in compared:
        look(
            (one.measured.native_total_us, one.measured.offloaded_total_us),
            (one.predicted.native_total_us, one.predicted.offloaded_total_us),
        )
    key: Callable[[Compared], tuple[object, ...]] = lambda one: (*_job(one), one.cell.bytes)  # noqa: E731
    for _, group in groupby(sorted(compared, key=key), key=key):
        # By the pure latency: the work is not the same in two runs.
        for first, second in combinations(list(group), 2):
            look(
                (first.measured.offloaded_pure_us, second.measured.offloaded_pure_us),
                (first.predicted.offloaded_pure_us, second.predicted.offloaded_pure_us),
            )
    return count, right


def crossing(points: Sequence[tuple[int, float]]) -> float | None:
    """Of (bytes, logarithm of a ratio) by bytes: where it comes through 0 the last time; None: it does not."""
    found = None
    for (first, before), (second, after) in pairwise(sorted(points)):
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
    return Verdict(errors, *_pairs(compared, noise), tuple(_crossovers(compared)))
