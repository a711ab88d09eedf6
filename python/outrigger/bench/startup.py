"""`outrigger bench startup`: the time of MPI_Init, native and offloaded, in turn."""

from __future__ import annotations

import shlex
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from outrigger import formats, launch
from outrigger.artifacts import Artifacts
from outrigger.bar import Bar
from outrigger.bench import interrupts, jobs
from outrigger.errors import UserError
from outrigger.mpis import Mpi
from outrigger.settings import Settings

_RUNS = 5
_TIME_LIMIT_S = 120.0


@dataclass(frozen=True)
class Side:
    """One run, or the medians of several. Milliseconds."""

    init_max_ms: float
    """MPI_Init of the slowest rank."""
    init_mean_ms: float
    job_ms: float | None
    """From the launcher's start to its end. None: it had to be ended."""


@dataclass(frozen=True)
class Startup:
    """Both sides under one MPI."""

    mpi: str
    ranks: int
    command: str
    native: Side
    offloaded: Side
    all_ended: bool = True
    """True if all jobs ended by themselves."""
    runs: int = _RUNS
    """Counted runs of each side."""


@dataclass(frozen=True)
class _Times:
    max: float
    mean: float


@dataclass(frozen=True)
class _Printed:
    ranks: int
    init_ms: _Times


def read_output(output: str, ranks: int) -> tuple[float, float]:
    """The largest and the mean time of MPI_Init in the program's output."""
    data = formats.parse_figures(output, _Printed, ranks)
    return data.init_ms.max, data.init_ms.mean


def _run(plan: launch.Plan, ranks: int) -> Side:
    before = time.monotonic()
    ended = jobs.run(plan, jobs.has_json_line, _TIME_LIMIT_S)
    elapsed_ms = (time.monotonic() - before) * 1e3
    if ended.code != 0:
        raise UserError(f"the benchmark ended with exit code {ended.code}: {shlex.join(plan.command)}")
    return Side(*read_output(ended.output, ranks), elapsed_ms if ended.by_itself else None)


def _side(runs: Sequence[Side]) -> Side:
    times = [run.job_ms for run in runs if run.job_ms is not None]
    return Side(
        statistics.median(run.init_max_ms for run in runs),
        statistics.median(run.init_mean_ms for run in runs),
        statistics.median(times) if times else None,
    )


class Bench:
    """Some runs of each side under one MPI, in turn; the first pair is not counted."""

    def __init__(
        self, mpi: Mpi, ranks: int, settings: Settings, artifacts: Artifacts, site: jobs.Site, runs: int = _RUNS
    ) -> None:
        self.mpi = mpi
        self.interrupted = False
        self._ranks = ranks
        self._runs = runs
        job = site.job((str(artifacts.benchmark(mpi.family, "startup")),), ranks, mpi, settings)
        self._offloaded = launch.make_plan(job, artifacts)
        self._native = launch.make_plan(replace(job, native=True), artifacts)

    def _pairs(self, console: Console) -> list[tuple[Side, Side]]:
        made: list[tuple[Side, Side]] = []
        with Bar(console, draws_itself=True) as bar:
            for number in range(self._runs + 1):
                bar.counts(f"{self.mpi.title}: MPI_Init on {self._ranks} ranks", number, self._runs + 1)
                try:
                    made.append((_run(self._native, self._ranks), _run(self._offloaded, self._ranks)))
                except KeyboardInterrupt:
                    if len(made) < 2:
                        raise
                    self.interrupted = True
                    break
        return made[1:]

    def measure(self, console: Console) -> Startup:
        """After a Ctrl-C the runs so far; re-raises it if there are none."""
        pairs = self._pairs(console)
        return Startup(
            self.mpi.title,
            self._ranks,
            shlex.join(self._offloaded.command),
            _side([pair[0] for pair in pairs]),
            _side([pair[1] for pair in pairs]),
            all(side.job_ms is not None for pair in pairs for side in pair),
            len(pairs),
        )


def _milliseconds(time_ms: float | None) -> str:
    return "-" if time_ms is None else f"{time_ms:.0f}"


def table(results: Sequence[Startup]) -> Table:
    """A row for each MPI."""
    result = Table(box=box.SIMPLE_HEAD, header_style="dim", title="MPI_Init, milliseconds", title_justify="left")
    result.add_column("MPI", no_wrap=True)
    for name in ("ranks", "slowest\nnative", "\noffloaded", "mean\nnative", "\noffloaded", "added"):
        result.add_column(name, justify="right")
    for name in ("job\nnative", "\noffloaded"):
        result.add_column(name, justify="right")
    for startup in results:
        native, offloaded = startup.native, startup.offloaded
        result.add_row(
            startup.mpi,
            str(startup.ranks),
            f"{native.init_max_ms:.0f}",
            Text(f"{offloaded.init_max_ms:.0f}", style="bold"),
            f"{native.init_mean_ms:.0f}",
            Text(f"{offloaded.init_mean_ms:.0f}", style="bold"),
            f"{offloaded.init_max_ms - native.init_max_ms:+.0f}",
            _milliseconds(native.job_ms),
            Text(_milliseconds(offloaded.job_ms), style="bold"),
        )
    return result


def run(
    console: Console,
    ranks: int,
    settings: Settings,
    mpis: Sequence[Mpi],
    artifacts: Artifacts,
    site: jobs.Site,
    json_to: Path | None,
) -> None:
    """Measures under each MPI and shows the results."""
    benches = [Bench(mpi, ranks, settings, artifacts, site) for mpi in mpis]
    measured = list(interrupts.each(console, benches, lambda bench: bench.measure(console)))
    results = [result for _, result in measured]
    console.print(table(results))
    counts = " and ".join(map(str, sorted({result.runs for result in results})))
    console.print(
        f"Medians of {counts} jobs of each side, in turn. slowest: of the ranks; added: to it; job: from start to end.",
        style="dim",
    )
    for bench, result in measured:
        if not result.all_ended:
            console.print(jobs.unended(bench.mpi), style="yellow")
    jobs.save_json(console, json_to, formats.as_json(results))
    interrupts.leave()
