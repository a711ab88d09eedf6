"""`outrigger lab skew`: collectives that some ranks enter late, native and offloaded, in turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from outrigger import artifacts, binding, cores, formats, launchers, options, settings, sizes
from outrigger.bench import command, interrupts, jobs, pairs
from outrigger.bench.figures import nonblocking
from outrigger.errors import UserError
from outrigger.hosts import Hosts
from outrigger.mpis import Mpi
from outrigger.terminal import console

_UNLESS_NAMED = "allgatherv,ialltoallv,ibcast"


@dataclass(frozen=True)
class Figures:
    """Results of one collective: medians of a run's rounds, or medians of the runs."""

    left_mean_ms: float
    """Time from the last rank's arrival, and after its own work, until a rank leaves: mean of the ranks."""
    left_last_ms: float
    """The same for the last rank to leave."""
    on_time_mpi_ms: float
    """Time in MPI of the punctual ranks: their mean."""


Run = Mapping[str, Figures]


@dataclass(frozen=True)
class Compared:
    """One collective, both sides."""

    collective: str
    native: Figures
    """Medians of the runs, like `offloaded`."""
    offloaded: Figures
    ratio: Figures
    """Offloaded by native: the medians of the pairs' ratios."""


@dataclass(frozen=True)
class Skew:
    """All collectives under one MPI."""

    mpi: str
    ranks: int
    command: str
    not_offloaded: str
    """Empty: all were offloaded."""
    collectives: tuple[Compared, ...]
    all_ended: bool
    """True if all jobs ended by themselves."""
    pairs: int = 0
    """Number of pairs of jobs."""


def parse_collectives(text: str) -> tuple[str, ...]:
    """Checked names, of both forms."""
    names = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
    for name in names:
        if name in command.PERSISTENT or nonblocking(name) not in command.COLLECTIVES:
            known = ", ".join(command.COLLECTIVES)
            raise UserError(f"--collectives {name}: there are {known}, and each without its i, the form that blocks")
    return names


@dataclass(frozen=True)
class _Printed:
    ranks: int
    collectives: Run


def read_run(output: str, ranks: int, collectives: Sequence[str]) -> Run:
    """Output of the program, checked."""
    found = formats.parse_figures(output, _Printed, ranks).collectives
    if tuple(found) != tuple(collectives):
        raise UserError(f"the benchmark printed figures of other collectives than {', '.join(collectives)}: {output}")
    return found


def _medians(figures: Sequence[Figures]) -> Figures:
    return Figures(
        median(run.left_mean_ms for run in figures),
        median(run.left_last_ms for run in figures),
        median(run.on_time_mpi_ms for run in figures),
    )


def _quotient(ours: float, theirs: float) -> float:
    """Infinite if native takes no time, or leaves before the last rank has arrived."""
    return ours / theirs if theirs > 0 else float("inf")


def _quotients(native: Figures, offloaded: Figures) -> Figures:
    return Figures(
        _quotient(offloaded.left_mean_ms, native.left_mean_ms),
        _quotient(offloaded.left_last_ms, native.left_last_ms),
        _quotient(offloaded.on_time_mpi_ms, native.on_time_mpi_ms),
    )


def compare(runs: Sequence[tuple[Run, Run]]) -> tuple[Compared, ...]:
    """Each collective, from native and offloaded runs made in pairs."""
    return tuple(
        Compared(
            name,
            _medians([native[name] for native, _ in runs]),
            _medians([offloaded[name] for _, offloaded in runs]),
            _medians([_quotients(native[name], offloaded[name]) for native, offloaded in runs]),
        )
        for name in runs[0][0]
    )


@dataclass(frozen=True)
class Request:
    """The measurement's options."""

    collectives: tuple[str, ...]
    ranks: int
    block_bytes: int
    skew_ms: int
    work_ms: int
    rounds: int
    seed: int
    pairs: int
    settings: settings.Settings
    site: jobs.Site

    def words(self, rounds: int) -> tuple[str, ...]:
        """The program's options."""
        return (
            "--collectives", ",".join(self.collectives), "--bytes", str(self.block_bytes), "--skew-ms",
            str(self.skew_ms), "--work-ms", str(self.work_ms), "--seed", str(self.seed), "--rounds", str(rounds),
        )  # fmt: skip

    @property
    def time_limit_s(self) -> float:
        """Time limit of one run."""
        return 120.0 + 20e-3 * (self.skew_ms + self.work_ms) * self.rounds * len(self.collectives)


class Bench:
    """Runs the program under one MPI."""

    def __init__(self, request: Request, mpi: Mpi, found: artifacts.Artifacts) -> None:
        self.request = request
        self._program = str(found.benchmark(mpi.family, "skew"))
        job = request.site.job((self._program, *request.words(request.rounds)), request.ranks, mpi, request.settings)
        self.pairs = pairs.Pairs(
            job, found, request.time_limit_s, lambda output: read_run(output, request.ranks, request.collectives)
        )

    @property
    def interrupted(self) -> bool:
        """Not all pairs were made."""
        return self.pairs.interrupted

    def measure(self, console: Console) -> Skew:
        """All pairs."""
        request = self.request
        names = [nonblocking(name) for name in request.collectives]
        verdict = self.pairs.why_native((self._program, *request.words(1)), names)
        runs = self.pairs.measure(console, request.pairs)
        return Skew(
            self.pairs.job.mpi.title, request.ranks, self.pairs.command(), verdict, compare(runs),
            self.pairs.all_ended, len(runs),
        )  # fmt: skip


def _milliseconds(value: float) -> str:
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _ratio(value: float) -> Text:
    if value == float("inf"):
        return Text("-")
    return Text(f"{value:.2f}", style="bold green" if 0 <= value <= 1 else "bold yellow")


def table(skew: Skew) -> Table:
    """A row for each collective."""
    result = Table(
        box=box.SIMPLE_HEAD,
        title=f"{skew.mpi}, {skew.ranks} ranks: leaving after the last arrival, and time in MPI; milliseconds",
        title_justify="left",
        title_style="bold",
        header_style="dim",
        pad_edge=False,
    )
    result.add_column("collective", no_wrap=True)
    for what in ("leave, mean", "leave, last", "on time, in MPI"):
        for side in (f"{what}\nnative", "\noffloaded", "\nratio"):
            result.add_column(side, justify="right", no_wrap=True)
    for found in skew.collectives:
        cells: list[str | Text] = [found.collective]
        for name in ("left_mean_ms", "left_last_ms", "on_time_mpi_ms"):
            native, offloaded, ratio = (getattr(side, name) for side in (found.native, found.offloaded, found.ratio))
            cells += [_milliseconds(native), Text(_milliseconds(offloaded), style="bold"), _ratio(ratio)]
        result.add_row(*cells)
    return result


def legend(request: Request, made: Sequence[int]) -> str:
    """Meaning of the columns; `made`: pairs under each MPI."""
    counts = " and ".join(map(str, sorted(set(made))))
    lines = (
        f"Blocks of {request.block_bytes} bytes. With an i: post, {request.work_ms} ms of work, wait; else blocking.",
        f"A quarter of the ranks, at least one, enters up to {request.skew_ms} ms late, by seed {request.seed}.",
        "leave: after the last rank's arrival and the rank's own work; mean of the ranks, and the last one.",
        "       Below 0: before the last rank has come, as a broadcast allows.",
        "on time, in MPI: mean of the ranks that were not late.",
        f"Medians of {request.rounds} rounds in each of {counts} pairs of jobs, in turn.",
    )
    return "\n".join(lines)


def run(console: Console, request: Request, mpis: Sequence[Mpi], found: artifacts.Artifacts) -> list[Skew]:
    """Measures under each MPI and shows the results."""
    benches = [Bench(request, mpi, found) for mpi in mpis]  # missing files are reported before the measurement
    results = []
    for bench, skew in interrupts.each(console, benches, lambda bench: bench.measure(console)):
        console.print(table(skew))
        if skew.not_offloaded:
            console.print(f"[bold red]Not offloaded:[/] {skew.not_offloaded}. Both sides are native there.")
        if not skew.all_ended:
            console.print(jobs.unended(bench.pairs.job.mpi), style="yellow")
        results.append(skew)
    console.print(legend(request, [skew.pairs for skew in results]), style="dim")
    return results


def measure_skew(
    ranks: options.MeasuredRanks = None,
    mpi: options.EachMpi = "auto",
    collectives: Annotated[
        str, typer.Option("--collectives", metavar="NAMES", help="Like ibcast or bcast.")
    ] = _UNLESS_NAMED,
    size: Annotated[str, typer.Option("--size", metavar="BYTES", help="Bytes of a block, like 256K.")] = "256K",
    skew_ms: Annotated[
        int, typer.Option("--skew", metavar="MS", min=1, max=10000, help="Milliseconds that a rank is late at most.")
    ] = 100,
    work_ms: Annotated[
        int,
        typer.Option("--work", metavar="MS", min=0, max=10000, help="Milliseconds of work after a nonblocking call."),
    ] = 50,
    rounds: Annotated[int, typer.Option("--rounds", metavar="N", min=1, max=100000, help="Rounds in each job.")] = 40,
    count: options.Pairs = 5,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, max=2**31, help="Seed for the pattern of late ranks.")
    ] = 1,
    services: options.Services = None,
    algorithm: options.Algorithm = None,
    reach: options.Reach = None,
    hostfile: options.Hostfile = None,
    agent: options.Agent = launchers.SSH,
    bind: options.Bind = binding.BUNCH,
    json: options.Figures = None,
    build: options.Build = None,
) -> None:
    """Measure collectives that some ranks enter late: when the others leave, and what they spend in MPI."""
    names = parse_collectives(collectives)
    blocking = "on" if any(nonblocking(name) != name for name in names) else None
    blocks = sizes.parse_sizes(size)
    if len(blocks) != 1:
        raise UserError(f"--size {size}: one size is needed")
    found = artifacts.find(build)
    site = jobs.Site(Hosts(hostfile=hostfile, agent=agent), binding.parse_bind(bind))
    request = Request(
        names, cores.measured_ranks(ranks), blocks[0], skew_ms, work_ms, rounds, seed, count,
        settings.make(
            found, services=services, algorithms=algorithm, choice=settings.FIXED, reach=reach, blocking=blocking,
        ),
        site,
    )  # fmt: skip
    screen = console()
    results = run(screen, request, command.choose_mpis(mpi), found)
    jobs.save_json(screen, json, formats.as_json(results))
    interrupts.leave()
