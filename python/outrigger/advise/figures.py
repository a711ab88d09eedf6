"""Times of the runs, compared."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from outrigger.advise.variants import ALL_CORES, COUNTED, NATIVE, PLAIN, Variant
from outrigger.noise import Band, band_of
from outrigger.report_data import Report

_FLOOR = 0.01
"""Smallest relative difference of times that counts."""


@dataclass(frozen=True)
class Trial:
    """One run."""

    number: int
    """Number of its round: runs of one round are consecutive."""
    seconds: float
    """Time of the launcher, from start to end."""
    report: Report | None = None


@dataclass(frozen=True)
class Ratio:
    """Ratio of the times of two variants in the same rounds."""

    band: Band
    seconds: float
    """Median time of those rounds."""
    base_seconds: float

    @property
    def verdict(self) -> int:
        """-1: less, 1: more, 0: no difference beyond noise, or too few runs."""
        if not self.band.known:
            return 0
        return (self.band.low > 1.0) - (self.band.high < 1.0)

    def __str__(self) -> str:
        return str(self.band)


def ratio_of(trials: Sequence[Trial], base: Sequence[Trial]) -> Ratio | None:
    """None if they have no round in common."""
    of_base = {trial.number: trial.seconds for trial in base}
    pairs = [(trial.seconds, of_base[trial.number]) for trial in trials if of_base.get(trial.number)]
    if not pairs:
        return None
    band = band_of([one / other for one, other in pairs])
    floor = band.value * _FLOOR
    least = replace(band, low=min(band.low, band.value - floor), high=max(band.high, band.value + floor))
    return Ratio(least, *(statistics.median(times) for times in zip(*pairs, strict=True)))


def seconds_in_collectives(report: Report) -> float:
    """Mean time of a rank in collectives and their waits."""
    return sum(entry.seconds.sum for entry in report.calls if entry.size != 1) / max(report.counted, 1)


@dataclass(frozen=True)
class Row:
    """A variant and its runs."""

    variant: Variant
    trials: tuple[Trial, ...]

    @property
    def seconds(self) -> float:
        """The median."""
        return statistics.median(trial.seconds for trial in self.trials)

    @property
    def report(self) -> Report | None:
        """Report of a run with the median time, or nearly."""
        with_reports = [trial for trial in self.trials if trial.report is not None]
        return min(with_reports, key=lambda trial: abs(trial.seconds - self.seconds)).report if with_reports else None

    @property
    def in_collectives(self) -> float | None:
        """Median time of a rank in collectives; None without a report."""
        found = [seconds_in_collectives(trial.report) for trial in self.trials if trial.report is not None]
        return statistics.median(found) if found else None


@dataclass(frozen=True)
class Results:
    """All variants that have run."""

    rows: Mapping[str, Row]

    def get(self, key: str) -> Row | None:
        """By the variant's key."""
        return self.rows.get(key)

    def report(self, key: str) -> Report | None:
        """The report of a variant that has run."""
        row = self.rows.get(key)
        return row.report if row is not None else None

    def in_collectives(self, key: str) -> float | None:
        """For native, the time from a run with counters."""
        row = self.rows.get(COUNTED if key == NATIVE else key)
        return row.in_collectives if row is not None else None

    @property
    def judged(self) -> list[Row]:
        """The compared variants."""
        return [row for row in self.rows.values() if row.variant.judged]

    @property
    def offloaded(self) -> list[Row]:
        """The offloaded ones."""
        return [row for row in self.judged if not row.variant.given.native]

    @property
    def best_native(self) -> Row:
        """The reference of all ratios."""
        natives = [row for key in (NATIVE, ALL_CORES) if (row := self.rows.get(key)) is not None]
        return min(natives, key=lambda row: row.seconds)

    def ratio(self, row: Row) -> Ratio | None:
        """Ratio to the best native."""
        return ratio_of(row.trials, self.best_native.trials)

    def between(self, key: str, base: str) -> Ratio | None:
        """Ratio of two variants with enough runs."""
        one, other = self.rows.get(key), self.rows.get(base)
        ratio = ratio_of(one.trials, other.trials) if one is not None and other is not None else None
        return ratio if ratio is not None and ratio.band.known else None

    @property
    def best(self) -> Row:
        """The recommendation: the fastest variant among those faster than native beyond noise, or plain `outrigger run`
        if it is as fast. If there is none, native.
        """
        faster = [
            (ratio.band.value, row)
            for row in self.offloaded
            if (ratio := self.ratio(row)) is not None and ratio.verdict < 0
        ]
        if not faster:
            return self.best_native
        fastest = min(faster, key=lambda pair: pair[0])[1]
        plain = next((row for _, row in faster if row.variant.key == PLAIN), None)
        against = self.between(fastest.variant.key, PLAIN)
        return plain if plain is not None and against is not None and against.verdict == 0 else fastest

    @property
    def concluded(self) -> bool:
        """True if an offloaded variant had enough runs."""
        return any(ratio.band.known for row in self.offloaded if (ratio := self.ratio(row)) is not None)
