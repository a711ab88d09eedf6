"""Runs a program in several ways, in turn, within a time limit."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from outrigger import cores, launch, report, tables
from outrigger import run as running
from outrigger.advise import overlap, variants
from outrigger.advise.figures import Results, Row, Trial
from outrigger.advise.variants import Variant
from outrigger.artifacts import Artifacts
from outrigger.errors import UserError

FILES = re.compile(rf"({'|'.join(map(re.escape, variants.KEYS))})-\d+\.(out|json)")
"""Names of outputs and reports."""
_TAIL_LINES = 20
_FEWEST = 3
"""Rounds for which time is reserved before more variants are tried."""
_MORE = 1.15
"""A run may take this many times as long as earlier ones."""
_WINDOWS_TAKE = 2.0
"""Rounds leave this many times the counted run's time for the run that measures when data are used."""
_LONGEST_WINDOWS = 10.0
"""... which is ended after this many times the counted run's time,"""
_LEAST_WINDOWS_S = 10.0
"""... or after this time, whichever is longer."""


class Progress(Protocol):
    """Shows progress."""

    def shows(self, what: str, spent_s: float, expected_s: float) -> None:
        """`what` runs; `spent_s` of the total time have passed."""


class ProgramFailed(Exception):  # noqa: N818 - it is the program's fault
    """The program ended with an exit code other than 0."""

    def __init__(self, variant: Variant, code: int, output: Path) -> None:
        self.variant, self.code, self.output = variant, code, output
        tail = output.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL_LINES:]
        said = "\n".join(["the end of its output:", *(f"  {line}" for line in tail)]) if tail else "it printed nothing."
        super().__init__(
            f"the program ended with exit code {code} ({variant.title}: {variant.given.command()}); "
            f"all of its output is in {output}; {said}"
        )


class _NoTimeLeft(Exception):  # noqa: N818
    """A run was ended, or would have to be."""


@dataclass
class Limits:
    """Limits of all runs together."""

    budget_s: float
    runs: int


@dataclass
class Trials:
    """Runs variants, and keeps their results."""

    found: Artifacts
    place: Path
    """Directory of outputs and reports."""
    limits: Limits
    progress: Progress
    notes: dict[str, None] = field(default_factory=dict)
    interrupted: bool = False
    out_of_time: bool = False

    def __post_init__(self) -> None:
        self._began = time.monotonic()
        self._trials: dict[str, list[Trial]] = {}
        self._variants: dict[str, Variant] = {}

    @property
    def results(self) -> Results:
        """Results so far."""
        rows = {key: Row(self._variants[key], tuple(trials)) for key, trials in self._trials.items() if trials}
        return Results(rows)

    def _left(self) -> float:
        return self.limits.budget_s - (time.monotonic() - self._began)

    def _reserved(self, number: int) -> float:
        """Time that a round leaves for the last run, once a few rounds allow conclusions."""
        counted = self._trials.get(variants.COUNTED)
        return _WINDOWS_TAKE * counted[0].seconds if counted and number >= _FEWEST else 0.0

    def _expected(self, variant: Variant) -> float:
        """Expected time of a run; for a new variant, the longest of all."""
        times = [trial.seconds for trial in self._trials.get(variant.key, [])]
        every = [trial.seconds for trials in self._trials.values() for trial in trials]
        return max(times or every, default=0.0)

    def _shows(self, variant: Variant, number: int, planned_s: float) -> Callable[[], None]:
        def shows() -> None:
            spent = time.monotonic() - self._began
            self.progress.shows(f"run {number + 1}: {variant.title}", spent, max(planned_s, spent))

        return shows

    def _start(self, variant: Variant, output: IO[bytes], looks: Callable[[], None]) -> tuple[int, float]:
        """Exit code and time of the launcher."""
        took = 0.0

        def start(planned: launch.Plan, looks_at_dpus: Callable[[], None]) -> int:
            nonlocal took

            def look() -> None:
                looks()
                looks_at_dpus()

            began = time.monotonic()
            limit_s = min(self._left(), variant.limit_s or self._left())
            try:
                return launch.run_into(planned, output, timeout_s=max(limit_s, 0.1), looks=look)
            finally:
                took = time.monotonic() - began

        def say(text: str) -> None:
            self.notes[text] = None

        request = variant.given.request(self.found, Path(output.name).with_suffix(".json"))
        return running.run(request, self.found, start=start, say=say), took

    def run(self, variant: Variant, number: int, planned_s: float) -> None:
        """Runs once. Raises _NoTimeLeft at the time limit, ProgramFailed, and UserErrors."""
        looks = self._shows(variant, number, planned_s)
        looks()
        path = self.place / f"{variant.key}-{number + 1}.out"
        with path.open("wb") as output:
            try:
                code, seconds = self._start(variant, output, looks)
            except UserError as error:
                if self._left() <= 0:
                    raise _NoTimeLeft from error
                raise
        if code != 0:
            raise ProgramFailed(variant, code, path)
        written = path.with_suffix(".json")
        read = report.read(written) if not variant.given.native and written.exists() else None
        self._variants[variant.key] = variant
        self._trials.setdefault(variant.key, []).append(Trial(number, seconds, read))

    def _fits(self, variant: Variant, number: int) -> bool:
        return self._expected(variant) * _MORE <= self._left() - self._reserved(number)

    def _round(self, number: int, chosen: Sequence[Variant]) -> None:
        """Every second round is in reverse order, so that slow changes affect all variants equally."""
        in_order = chosen if number % 2 == 0 else list(reversed(chosen))
        for position, variant in enumerate(in_order):
            if not self._fits(variant, number):
                raise _NoTimeLeft
            rest = sum(map(self._expected, in_order[position:]))
            later = (self.limits.runs - number - 1) * sum(map(self._expected, chosen))
            spent = time.monotonic() - self._began
            self.run(variant, number, min(spent + rest + later, self.limits.budget_s))

    def _affordable(self, wanted: Sequence[Variant], more: Sequence[Variant]) -> list[Variant]:
        """As many of `more`, in order, as a few rounds of all leave time for."""
        rounds = min(self.limits.runs, _FEWEST)
        kept: list[Variant] = []
        for variant in more:
            planned = (rounds - 1) * sum(map(self._expected, [*wanted, *kept])) + rounds * self._expected(variant)
            if planned <= self._left():
                kept.append(variant)
        return kept

    def _first_round(self, chosen: Sequence[Variant]) -> list[Variant]:
        """Compared variants. The first two are needed; of the others as many as there is time for."""
        for position, variant in enumerate(chosen):
            if position < 2 or self._affordable(chosen[:position], [variant]):
                self.run(variant, 0, self.limits.budget_s)
        return [variant for variant in chosen if variant.judged and variant.key in self._trials]

    def measure(self, chosen: Sequence[Variant]) -> None:
        """All rounds. Ends early, with the results so far, at the time limit or when interrupted."""
        try:
            try:
                self._measure(chosen)
            except _NoTimeLeft:
                self.out_of_time = True
            self._measure_windows()
        except KeyboardInterrupt:
            self.interrupted = True

    def _measure_windows(self) -> None:
        """Last, since no time of it counts. All else stands if the program does not bear guarded memory."""
        counted = self._trials.get(variants.COUNTED)
        if not counted or counted[0].report is None or not overlap.is_worth_measuring(counted[0].report):
            return
        least_s = counted[0].seconds * _MORE
        if least_s > self._left():
            return
        limit_s = max(_LONGEST_WINDOWS * counted[0].seconds, _LEAST_WINDOWS_S)
        variant = variants.measuring_windows(self._variants[variants.COUNTED], limit_s)
        try:
            self.run(variant, 0, self.limits.budget_s)
        except (ProgramFailed, UserError, _NoTimeLeft) as failed:
            why = f"exit code {failed.code}" if isinstance(failed, ProgramFailed) else str(failed) or "no time left"
            output = self.place / f"{variant.key}-1.out"
            self.notes[f"when the program uses its data could not be measured: {why}; output: {output}"] = None

    def _measure(self, chosen: Sequence[Variant]) -> None:
        kept = self._first_round(chosen)
        offloaded = self.results.report(variants.DEFAULT)
        if offloaded is not None:
            given = self._variants[variants.DEFAULT].given
            more = variants.more_services(given, offloaded, self._most_services())
            more += variants.further(given, offloaded, self.results.report(variants.COUNTED))
            kept += self._and_run(kept, more)
        for number in range(1, self.limits.runs):
            self._round(number, kept)
        self._try_together(kept)

    def _most_services(self) -> int:
        """On a node, if all are like this machine; ranks need a core, too."""
        return min(tables.read(self.found).limits.services, len(cores.allowed_cores()) - 1)

    def _and_run(self, kept: Sequence[Variant], more: Sequence[Variant]) -> list[Variant]:
        chosen = self._affordable(kept, more)
        for variant in chosen:
            self.run(variant, 0, self.limits.budget_s)
        return chosen

    def _try_together(self, kept: Sequence[Variant]) -> None:
        """If several options help alone, tries them together, beside the best so far and native."""
        results = self.results
        default = self._variants[variants.DEFAULT]
        winners = [
            variant
            for variant in kept
            if variant.key not in (variants.DEFAULT, variants.PLAIN, variants.NATIVE, variants.ALL_CORES)
            and (ratio := results.between(variant.key, variants.DEFAULT)) is not None
            and ratio.verdict < 0
        ]
        if len(winners) < 2:
            return
        beside = {variants.NATIVE: self._variants[variants.NATIVE]}
        for row in (results.best_native, results.best):
            beside[row.variant.key] = row.variant
        for number in range(self.limits.runs, 2 * self.limits.runs):
            self._round(number, [*beside.values(), variants.together(default.given, winners)])
