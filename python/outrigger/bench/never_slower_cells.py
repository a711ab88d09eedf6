"""The cells of `outrigger bench never-slower`: a program with Outrigger against native, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from outrigger import formats
from outrigger.errors import UserError
from outrigger.sizes import format_size

LIMIT = 1.02
"""A cell is slower where all of its band is above."""
VERSION = 1
_RESAMPLES = 300
_OUTSIDE = 0.01
"""Of resampled ratios, how many lie outside the band: few, because a grid has hundreds of cells."""


@dataclass(frozen=True)
class Elapsed:
    """Microseconds of each round, the three sides of a round next to each other."""

    native: tuple[float, ...]
    offloaded: tuple[float, ...]
    again: tuple[float, ...]
    """Native once more."""


@dataclass(frozen=True)
class Line:
    """What orbench prints of a configuration with `--figures samples`."""

    collective: str
    bytes: int
    ranks: int
    work_iterations: int
    pure: Elapsed
    total: Elapsed | None = None
    """Post, work, wait. None: a form that blocks."""

    @property
    def key(self) -> tuple[str, int]:
        """Which configuration."""
        return self.collective, self.bytes

    @property
    def judged(self) -> Elapsed:
        """What decides."""
        return self.total or self.pure


def read_lines(output: str) -> list[Line]:
    """The whole lines of JSON among whatever else was printed."""
    found = [line for line in output.splitlines(keepends=True) if line.startswith("{") and line.endswith("}\n")]
    lines = [formats.parse(line, Line, "a line of the benchmark", exact=True) for line in found]
    for line in lines:
        for elapsed in filter(None, (line.pure, line.total)):
            sides = (elapsed.native, elapsed.offloaded, elapsed.again)
            if any(not side or min(side) <= 0 or len(side) != len(sides[0]) for side in sides):
                raise UserError(f"the benchmark printed times that cannot be, of {line.collective} {line.bytes}")
    return lines


@dataclass(frozen=True)
class Ratio:
    """Offloaded by native. A band as wide as the noise goes with it."""

    native_us: float
    """Median of all rounds, as is `offloaded_us`."""
    offloaded_us: float
    ratio: float
    """Of medians of one launch; of several launches the median."""
    low: float
    """From here to `high` lie 99 % of the ratios that come of drawing rounds anew, and the ratio of each launch."""
    high: float
    rounds: int


@dataclass(frozen=True)
class Cell:
    """One collective of one size in one placement under one MPI."""

    mpi: str
    placement: str
    collective: str
    bytes: int
    ranks: int
    launches: int
    work_iterations: int
    pure: Ratio
    total: Ratio | None
    """By equal work: post, work, wait. None: a form that blocks, which is judged by its latency."""
    floor: Ratio
    """Native against native: how far a ratio is from 1 for no reason."""

    @property
    def judged(self) -> Ratio:
        """What decides."""
        return self.total or self.pure

    @property
    def is_slower(self) -> bool:
        """Beyond the limit and beyond noise."""
        return self.judged.low > LIMIT

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.mpi}, {self.placement}: MPI_{self.collective.capitalize()} {format_size(self.bytes)}"


@dataclass(frozen=True)
class Grid:
    """All cells, and what is needed to have them again."""

    version: int
    command: str
    host: str
    cores: int
    date: str
    budget_s: float
    took_s: float
    complete: bool
    """False: interrupted, or the budget was over before each cell had its rounds."""
    collectives: tuple[str, ...]
    sizes: tuple[int, ...]
    placements: dict[str, str]
    """With what each means here."""
    cells: tuple[Cell, ...]
    notes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    launchers: dict[str, str] = field(default_factory=dict)
    """The command of a launch, by MPI and placement."""

    @property
    def mpis(self) -> list[str]:
        """In the order measured."""
        return list(dict.fromkeys(cell.mpi for cell in self.cells))

    @property
    def slower(self) -> list[Cell]:
        """The worst first."""
        return sorted((cell for cell in self.cells if cell.is_slower), key=lambda cell: -cell.judged.ratio)

    def of(self, mpi: str, placement: str) -> dict[tuple[str, int], Cell]:
        """By collective and size."""
        chosen = [cell for cell in self.cells if (cell.mpi, cell.placement) == (mpi, placement)]
        return {(cell.collective, cell.bytes): cell for cell in chosen}


def _resampled(values: Any, picks: Any) -> Any:
    import numpy  # comes with matplotlib; loaded late, because other commands have no use for it

    return numpy.median(values[picks], axis=1)


def _picks(generator: Any, count: int) -> Any:
    """Rounds drawn anew, neighbours together: what disturbs a machine lasts longer than a round."""
    import numpy

    block = max(1, round(count ** (1 / 3)))
    starts = generator.integers(count, size=(_RESAMPLES, math.ceil(count / block)))
    return ((starts[:, :, None] + numpy.arange(block)) % count).reshape(_RESAMPLES, -1)[:, :count]


def _one_launch(native: Any, other: Any, generator: Any, *, paired: bool) -> tuple[float, Any]:
    """Its ratio, and the ratios by rounds drawn anew."""
    import numpy

    picks = _picks(generator, len(native))
    others = picks if paired else _picks(generator, len(other))
    return float(numpy.median(other) / numpy.median(native)), _resampled(other, others) / _resampled(native, picks)


def ratio_of(launches: Sequence[tuple[Sequence[float], Sequence[float]]], *, paired: bool = True) -> Ratio:
    """Of native's and the other side's rounds, launch by launch. `paired`: rounds of both were next to each other."""
    import numpy

    generator = numpy.random.default_rng(1)  # the same figures give the same band
    sides = [(numpy.asarray(native), numpy.asarray(other)) for native, other in launches]
    found = [_one_launch(native, other, generator, paired=paired) for native, other in sides]
    own = [ratio for ratio, _ in found]
    drawn = numpy.median(numpy.stack([ratios for _, ratios in found]), axis=0)
    low, high = numpy.quantile(drawn, (_OUTSIDE / 2, 1 - _OUTSIDE / 2))
    native_us, other_us = (float(numpy.median(numpy.concatenate([pair[i] for pair in sides]))) for i in (0, 1))
    return Ratio(
        round(native_us, 2), round(other_us, 2), round(float(numpy.median(own)), 4), round(min(float(low), *own), 4),
        round(max(float(high), *own), 4), sum(len(native) for native, _ in sides),
    )  # fmt: skip


def _widened(found: Ratio, launches: Sequence[Elapsed]) -> Ratio:
    """By how far native is from native in the same rounds: that is noise, too."""
    floor = median([median(elapsed.again) / median(elapsed.native) for elapsed in launches])
    noise = max(floor, 1 / floor)
    return replace(found, low=round(found.low / noise, 4), high=round(found.high * noise, 4))


def make_cell(mpi: str, placement: str, launches: Sequence[tuple[Line, Line]]) -> Cell:
    """Of the lines of native's and the offloaded job, pair by pair; they are the same line where one job has both."""
    first = launches[0][0]
    paired = all(native is offloaded for native, offloaded in launches)

    def against(kind: str) -> Ratio | None:
        sides = [(getattr(native, kind), getattr(offloaded, kind)) for native, offloaded in launches]
        if any(side is None for pair in sides for side in pair):
            return None
        found = ratio_of([(native.native, offloaded.offloaded) for native, offloaded in sides], paired=paired)
        return _widened(found, [native for native, _ in sides])

    pure = against("pure")
    assert pure is not None
    floor = ratio_of([(native.judged.native, native.judged.again) for native, _ in launches])
    return Cell(
        mpi, placement, first.collective, first.bytes, first.ranks, len(launches), first.work_iterations, pure,
        against("total"), floor,
    )  # fmt: skip


def read(text: str, source: str) -> Grid:
    """A grid that was written before."""
    return formats.parse_version(text, Grid, VERSION, source)
