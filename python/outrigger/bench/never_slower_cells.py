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
"""A cell is slower if its whole band is above."""
VERSION = 1
_RESAMPLES = 300
_OUTSIDE = 0.01
"""Fraction of resampled ratios outside the band: small, because a grid has hundreds of cells."""


@dataclass(frozen=True)
class Elapsed:
    """Microseconds of each round; the three sides of a round are consecutive."""

    native: tuple[float, ...]
    offloaded: tuple[float, ...]
    again: tuple[float, ...]
    """Native once more."""


@dataclass(frozen=True)
class Line:
    """orbench's output for a configuration with `--figures samples`."""

    collective: str
    bytes: int
    ranks: int
    work_iterations: int
    pure: Elapsed
    total: Elapsed | None = None
    """Post, work, wait. None: a blocking form."""

    @property
    def key(self) -> tuple[str, int]:
        """Identifies the configuration."""
        return self.collective, self.bytes

    @property
    def judged(self) -> Elapsed:
        """The deciding times."""
        return self.total or self.pure


def read_lines(output: str) -> list[Line]:
    """The complete lines of JSON among other output."""
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
    """Offloaded by native, with a band as wide as the noise."""

    native_us: float
    """Median of all rounds, like `offloaded_us`."""
    offloaded_us: float
    ratio: float
    """Ratio of medians of one launch; median over several launches."""
    low: float
    """`low` to `high` contain 99 % of the ratios of resampled rounds, and the ratio of each launch."""
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
    """With the same work: post, work, wait. None: a blocking form, which is judged by its latency."""
    floor: Ratio
    """Native against native: the ratio's noise around 1."""

    @property
    def judged(self) -> Ratio:
        """The deciding ratio."""
        return self.total or self.pure

    @property
    def is_slower(self) -> bool:
        """Beyond the limit and beyond noise."""
        return self.judged.low > LIMIT

    @property
    def name(self) -> str:
        """As text."""
        return f"{self.mpi}, {self.placement}: MPI_{self.collective.capitalize()} {format_size(self.bytes)}"


@dataclass(frozen=True)
class Grid:
    """All cells, and the data needed to repeat them."""

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
    """With their meaning here."""
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
    import numpy  # comes with matplotlib; loaded late, because other commands do not need it

    return numpy.median(values[picks], axis=1)


def _picks(generator: Any, count: int) -> Any:
    """Resamples rounds in runs of neighbors: disturbances last longer than a round."""
    import numpy

    block = max(1, round(count ** (1 / 3)))
    starts = generator.integers(count, size=(_RESAMPLES, math.ceil(count / block)))
    return ((starts[:, :, None] + numpy.arange(block)) % count).reshape(_RESAMPLES, -1)[:, :count]


def _one_launch(native: Any, other: Any, generator: Any, *, paired: bool) -> tuple[float, Any]:
    """Its ratio, and the ratios of resampled rounds."""
    import numpy

    picks = _picks(generator, len(native))
    others = picks if paired else _picks(generator, len(other))
    return float(numpy.median(other) / numpy.median(native)), _resampled(other, others) / _resampled(native, picks)


def ratio_of(launches: Sequence[tuple[Sequence[float], Sequence[float]]], *, paired: bool = True) -> Ratio:
    """From native's and the other side's rounds, launch by launch. `paired`: rounds of both were consecutive."""
    import numpy

    generator = numpy.random.default_rng(1)  # the same data give the same band
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
    """Widens the band by the difference of native from native in the same rounds, which is noise, too."""
    floor = median([median(elapsed.again) / median(elapsed.native) for elapsed in launches])
    noise = max(floor, 1 / floor)
    return replace(found, low=round(found.low / noise, 4), high=round(found.high * noise, 4))


def make_cell(mpi: str, placement: str, launches: Sequence[tuple[Line, Line]]) -> Cell:
    """From the lines of native's and the offloaded job, pair by pair; the same line if one job has both."""
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
    """Reads a saved grid."""
    return formats.parse_version(text, Grid, VERSION, source)
