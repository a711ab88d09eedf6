"""`outrigger bench harm`: a program's work beside its collectives, with and without Outrigger, in turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import median
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from outrigger import artifacts, binding, cores, formats, options, settings
from outrigger.bench import harm_calls, interrupts, jobs, pairs
from outrigger.bench.command import choose_mpis
from outrigger.errors import UserError
from outrigger.mpis import Mpi
from outrigger.terminal import console

TARGET = 0.97
_LEAST_MEGABYTES = 33
_CALL_SAMPLES = 31
_TITLES = {
    "copy": "STREAM copy",
    "triad": "STREAM triad",
    "random": "random access",
    "touch_mmap": "first touch, mmap",
    "munmap": "munmap",
    "touch_malloc": "first touch, malloc",
    "free": "free, large",
    "small": "malloc and free, small",
    "fork": "fork, exit, wait",
    "spawn": "posix_spawn /bin/true",
}


@dataclass(frozen=True)
class Rate:
    """A test's result in one run: the median of its samples."""

    unit: str
    median: float


@dataclass(frozen=True)
class Run:
    """Output of the program."""

    ranks: int
    threads: int
    """Threads of the measuring rank."""
    rates: Mapping[str, Rate]


@dataclass(frozen=True)
class Compared:
    """One test over all pairs of runs."""

    test: str
    unit: str
    native: float
    """Median of the runs, like `offloaded`."""
    offloaded: float
    ratio: float
    """Offloaded by native: the median of the pairs' ratios."""
    low: float
    """The true median of such pairs is between `low` and `high` in 95 of 100 cases; in fewer with few pairs."""
    high: float


@dataclass(frozen=True)
class Harm:
    """All tests under one MPI."""

    mpi: str
    ranks: int
    pairs: int
    command: str
    not_offloaded: str
    """Empty: the collectives between the tests were offloaded."""
    native_threads: int
    offloaded_threads: int
    tests: tuple[Compared, ...]
    all_ended: bool
    """True if all jobs ended by themselves."""
    calls: harm_calls.Calls | None = None
    """None: interrupted before."""


def read_run(output: str, ranks: int) -> Run:
    """Output of the program, checked."""
    found = formats.parse_figures(output, Run, ranks)
    if not found.rates or any(rate.median <= 0 for rate in found.rates.values()):
        raise UserError(f"the benchmark printed rates that cannot be: {output}")
    return found


def compare(runs: Sequence[tuple[Run, Run]]) -> tuple[Compared, ...]:
    """Each test, from native and offloaded runs made in pairs."""
    names = list(runs[0][0].rates)
    if any(list(run.rates) != names for pair in runs for run in pair):
        raise UserError("the benchmark's runs have different tests")
    result = []
    for name in names:
        native = [pair[0].rates[name].median for pair in runs]
        offloaded = [pair[1].rates[name].median for pair in runs]
        ratios = [ours / theirs for ours, theirs in zip(offloaded, native, strict=True)]
        unit = runs[0][0].rates[name].unit
        result.append(
            Compared(name, unit, median(native), median(offloaded), median(ratios), *pairs.median_interval(ratios))
        )
    return tuple(result)


@dataclass(frozen=True)
class Request:
    """The measurement's options."""

    ranks: int
    pairs: int
    samples: int
    megabytes: int
    settings: settings.Settings
    site: jobs.Site

    @property
    def time_limit_s(self) -> float:
        """Time limit of one run: a sample of all tests takes some seconds on a slow machine."""
        return 60.0 + 0.2 * self.samples * self.megabytes


class Bench:
    """Runs the program under one MPI."""

    def __init__(self, request: Request, mpi: Mpi, found: artifacts.Artifacts) -> None:
        words = ("--megabytes", str(request.megabytes), "--samples", str(request.samples))
        program = (str(found.benchmark(mpi.family, "harm")), *words)
        self.request = request
        calls = (str(found.benchmark(mpi.family, "calls")), "--samples", str(_CALL_SAMPLES))
        job = request.site.job(program, request.ranks, mpi, request.settings)
        self.pairs = pairs.Pairs(job, found, request.time_limit_s, lambda output: read_run(output, request.ranks))
        self._calls = harm_calls.pairs_of(replace(job, program=calls), found)

    @property
    def interrupted(self) -> bool:
        """Not all pairs were made."""
        return self.pairs.interrupted or self._calls.interrupted

    def measure(self, console: Console) -> Harm:
        """All pairs."""
        request = self.request
        verdict = self.pairs.why_native((*self.pairs.job.program[:-1], "1"), ("ialltoall",))
        runs = self.pairs.measure(console, request.pairs)
        native_threads, offloaded_threads = (max(pair[side].threads for pair in runs) for side in (0, 1))
        calls = None
        if not self.pairs.interrupted:
            with suppress(KeyboardInterrupt):  # the pairs above are kept
                calls = harm_calls.measure(console, self._calls, request.pairs)
        return Harm(
            self.pairs.job.mpi.title, request.ranks, len(runs), self.pairs.command(), verdict, native_threads,
            offloaded_threads, compare(runs), self.pairs.all_ended, calls,
        )  # fmt: skip


def _rate(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _ratio(found: Compared) -> Text:
    style = "bold green" if found.ratio >= TARGET else "bold red" if found.high < TARGET else "bold yellow"
    return Text(f"{found.ratio:.3f}", style=style)


def table(harm: Harm) -> Table:
    """A row for each test."""
    result = Table(
        box=box.SIMPLE_HEAD,
        title=f"{harm.mpi}, {harm.ranks} ranks: the program beside its collectives",
        title_justify="left",
        title_style="bold",
        header_style="dim",
        pad_edge=False,
    )
    result.add_column("test", no_wrap=True)
    result.add_column("rate in", no_wrap=True)
    for name in ("native", "offloaded", "ratio", pairs.interval_title(harm.pairs)):
        result.add_column(name, justify="right", no_wrap=True)
    for found in harm.tests:
        result.add_row(
            _TITLES.get(found.test, found.test),
            found.unit,
            _rate(found.native),
            _rate(found.offloaded),
            _ratio(found),
            f"{found.low:.3f} to {found.high:.3f}",
        )
    return result


def legend(harm: Harm, request: Request) -> str:
    """Meaning of the columns."""
    return (
        f"Rates of one rank between collectives of 256 KiB blocks in its arrays of {request.megabytes} MiB, the others "
        f"asleep.\n{harm.pairs} pairs of jobs in turn; a job's rate is the median of {request.samples} "
        f"samples. ratio: offloaded by native, the median of the pairs; {TARGET} and more is the aim.\n"
        f"The rank has {harm.native_threads} threads natively, {harm.offloaded_threads} when offloaded."
    )


def run(console: Console, request: Request, mpis: Sequence[Mpi], found: artifacts.Artifacts) -> list[Harm]:
    """Measures under each MPI and shows the results."""
    benches = [Bench(request, mpi, found) for mpi in mpis]  # missing files are reported before the measurement
    results = []
    for bench, harm in interrupts.each(console, benches, lambda bench: bench.measure(console)):
        console.print(table(harm))
        if harm.not_offloaded:
            console.print(
                f"[bold red]Not offloaded:[/] {harm.not_offloaded}. Both columns are native; "
                "--algorithm all=on offloads what may be offloaded."
            )
        console.print(legend(harm, request), style="dim")
        if not harm.all_ended:
            console.print(jobs.unended(bench.pairs.job.mpi), style="yellow")
        if harm.calls is not None:
            console.print(harm_calls.table(harm.calls))
            console.print(harm_calls.legend(harm.calls), style="dim")
        results.append(harm)
    return results


def measure_harm(
    ranks: options.MeasuredRanks = None,
    mpi: options.EachMpi = "auto",
    count: options.Pairs = 15,
    samples: Annotated[
        int, typer.Option("--samples", metavar="N", min=1, help="Samples of each test in each job.")
    ] = 7,
    megabytes: Annotated[
        int, typer.Option("--megabytes", metavar="N", min=_LEAST_MEGABYTES, help="Size of each of the three arrays.")
    ] = 64,
    services: options.Services = None,
    algorithm: options.Algorithm = None,
    reach: options.Reach = None,
    shared_heap: options.SharedHeap = None,
    bind: options.Bind = binding.BUNCH,
    json: options.Figures = None,
    build: options.Build = None,
) -> None:
    """Measure what Outrigger costs a program beside its collectives: memory, child processes, calls of MPI."""
    site = jobs.Site(bind=binding.parse_bind(bind))
    found = artifacts.find(build)
    chosen = settings.make(found, services=services, algorithms=algorithm, reach=reach, shared_heap=shared_heap)
    request = Request(cores.measured_ranks(ranks), count, samples, megabytes, chosen, site)
    screen = console()
    results = run(screen, request, choose_mpis(mpi), found)
    jobs.save_json(screen, json, formats.as_json(results))
    interrupts.leave()
