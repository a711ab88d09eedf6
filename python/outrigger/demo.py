"""The demo: an unmodified all-to-all benchmark, native and offloaded side by side."""

from __future__ import annotations

import itertools
import shlex
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from outrigger import binding, launch, pictures
from outrigger.artifacts import Artifacts
from outrigger.bar import Bar
from outrigger.bench import interrupts, jobs, natives, plot
from outrigger.bench.figures import Configuration, Measurement, Row, Side, as_json, read_rows
from outrigger.bench.table import microseconds
from outrigger.binding import NodeBinding
from outrigger.cores import without_spare
from outrigger.errors import UserError
from outrigger.mpis import Mpi
from outrigger.settings import FIXED, Settings
from outrigger.sizes import format_size

SIZES = (16384, 65536, 262144, 1048576)
_SETTINGS = Settings(choice=FIXED)
"""Trying both ways would take most of so short a run."""
_SECONDS = 1
_TIME_LIMIT_S = 120.0
_RUNS = ("native", "offloaded", "native on all cores")


@dataclass(frozen=True)
class Comparison:
    """Three runs of one program: native, offloaded, native on all cores."""

    mpi: Mpi
    command: str
    native: list[Row]
    offloaded: list[Row]
    native_all_cores: list[Row] | None
    """None: interrupted earlier."""
    placement: NodeBinding
    """Placement of the offloaded run."""


class Demo:
    """Runs the benchmark under one MPI."""

    def __init__(
        self, artifacts: Artifacts, mpi: Mpi, ranks: int, site: jobs.Site, shows: Callable[[str], None]
    ) -> None:
        self.artifacts = artifacts
        self.mpi = mpi
        self.ranks = ranks
        self.site = site
        self._shows = shows
        self.interrupted = False

    def _run(self, job: launch.Job, what: str) -> tuple[list[Row], launch.Plan]:
        plan = launch.make_plan(job, self.artifacts)
        self._shows(f"{job.mpi.title}: {what}")
        ended = jobs.run(plan, lambda text: text.endswith("\n") and len(read_rows(text)) == len(SIZES), _TIME_LIMIT_S)
        rows = read_rows(ended.output) if ended.code == 0 else []
        if len(rows) != len(SIZES):
            raise UserError(
                f"{what} under {job.mpi.title} ended with exit code {ended.code}: {shlex.join(plan.command)}"
            )
        return rows, plan

    def compare(self) -> Comparison:
        """Three runs; the second and third do the amount of work that the first one chose. After a Ctrl-C, the first
        two.
        """
        mpi = self.mpi
        program = (
            str(self.artifacts.benchmark(mpi.family, "alltoall_bench")),
            *("--sizes", ",".join(map(str, SIZES)), "--seconds", str(_SECONDS)),
        )
        job = replace(self.site.job(program, self.ranks, mpi, _SETTINGS), native=True)
        native, _ = self._run(job, _RUNS[0])
        work = ",".join(str(row.work_iterations) for row in native)
        job = replace(job, program=(*program, "--work", work))
        offloaded, plan = self._run(replace(job, native=False), _RUNS[1])
        all_cores = None
        try:
            all_cores, _ = self._run(replace(job, bind=binding.NONE), _RUNS[2])
        except KeyboardInterrupt:
            self.interrupted = True
        return Comparison(mpi, shlex.join(plan.command), native, offloaded, all_cores, plan.placement)


def _hidden(native: Row, side: Row) -> float:
    """Hidden part of native's transfer time."""
    return min(max(1 - side.exposed_us / native.pure_us, 0.0), 1.0)


def _range(low: int, high: int) -> str:
    return f"{low} %" if low == high else f"{low} to {high} %"


def _saved_in_words(parts: Sequence[float]) -> str:
    """Saved part of native's time, over the sizes."""
    low, high = round(100 * min(parts)), round(100 * max(parts))
    if low >= 0:
        return f"{_range(low, high)} of the time saved"
    if low < -100:  # usually a busy machine
        return f"up to {1 - min(parts):.0f} times as long" + (
            f", at best {high} % of the time saved" if high > 0 else ""
        )
    if high <= 0:
        return f"{_range(-high, -low)} more time"
    return f"from {-low} % more to {high} % less time"


def _best_native(native: Row, everywhere: Row | None) -> float:
    """Lower total time of a free core or all cores; an interrupted demo may lack the second."""
    return native.total_us if everywhere is None else min(native.total_us, everywhere.total_us)


def headline(comparison: Comparison) -> str:
    """Speed relative to the better native, hidden part and cost, over all sizes."""
    pairs = list(zip(comparison.native, comparison.offloaded, strict=True))
    saved = [1 - ours.total_us / _best_native(native, everywhere) for native, ours, everywhere in _sides(comparison)]
    hidden = statistics.median(_hidden(native, ours) for native, ours in pairs)
    natively = statistics.median(_hidden(native, native) for native, _ in pairs)
    cpus = ",".join(map(str, comparison.placement.service_cpus))
    cost = f"CPU {cpus} for the service process" if cpus else "the service process shares the ranks' cores"
    return (
        f"{comparison.mpi.title}: {_saved_in_words(saved)}; {100 * hidden:.0f} % of the transfer hidden "
        f"behind the computation, natively {100 * natively:.0f} %; cost: {cost}."
    )


def spins(comparison: Comparison) -> str:
    """Note about native ranks that share cores and cannot yield; else empty."""
    mpi = comparison.mpi
    shared = any(rank.shared for rank in comparison.placement.ranks)
    if not shared or natives.can_yield(mpi):
        return ""
    return (
        f"{mpi.title} spins while it waits, and ranks share a core here: natively one waits until another's time slice "
        "is over, which is most of the latency. With a core for each rank it would be faster; see the last column."
    )


def _saved(native: float, offloaded: float) -> Text:
    percent = 100 * (1 - offloaded / native)
    return Text(f"{percent:.0f} %", style="bold green" if percent >= 5 else "bold red" if percent <= -5 else "bold")


_WIDE = 104
"""Minimum terminal width for the latencies."""


def _columns(native: Row, ours: Row, everywhere: Row | None) -> dict[str, str | Text]:
    """A row's cells by their headings."""

    def bold(value: float) -> Text:
        return Text(microseconds(value), style="bold")

    return {
        "bytes per\npair": format_size(native.bytes),
        "latency\nnative": microseconds(native.pure_us),
        "latency\noffloaded": microseconds(ours.pure_us),
        "total\nnative": microseconds(native.total_us),
        "total\noffloaded": bold(ours.total_us),
        "time\nsaved": _saved(_best_native(native, everywhere), ours.total_us),
        "CPU in MPI\nnative": microseconds(native.cpu_us),
        "CPU in MPI\noffloaded": bold(ours.cpu_us),
        "native on\nall cores": Text("-" if everywhere is None else microseconds(everywhere.total_us), style="dim"),
    }


def _sides(comparison: Comparison) -> list[tuple[Row, Row, Row | None]]:
    """Native, offloaded, native on all cores: by size."""
    everywhere: Sequence[Row | None] = comparison.native_all_cores or [None] * len(comparison.native)
    return list(zip(comparison.native, comparison.offloaded, everywhere, strict=True))


def table(comparison: Comparison, ranks: int, width: int) -> Table:
    """Side by side, one row per size."""
    result = Table(
        box=box.SIMPLE_HEAD,
        title_justify="left",
        title=f"{comparison.mpi.title}: MPI_Ialltoall, {ranks} ranks",
        title_style="bold",
        header_style="dim",
        pad_edge=False,
    )
    rows = [_columns(*row) for row in _sides(comparison)]
    names = [name for name in rows[0] if width >= _WIDE or not name.startswith("latency")]
    for name in names:
        result.add_column(name, justify="right", no_wrap=True)
    for cells in rows:
        result.add_row(*(cells[name] for name in names))
    return result


def _side(row: Row) -> Side:
    overlap = 100 * (1 - row.exposed_us / row.pure_us)
    return Side(row.pure_us, row.total_us, row.exposed_us, min(max(overlap, 0), 100), row.cpu_us)


def as_measurement(comparison: Comparison, ranks: int) -> Measurement:
    """For the plot."""
    configurations = tuple(
        Configuration(
            native.collective, "alloc_mem", native.bytes, ranks, 0, native.work_iterations, native.work_us,
            _side(native), _side(offloaded), native_all_cores=None if all_cores is None else all_cores.other_native,
        )
        for native, offloaded, all_cores in _sides(comparison)
    )  # fmt: skip
    return Measurement(comparison.mpi.family, comparison.mpi.title, comparison.command, True, "", configurations)


def explanation(placement: NodeBinding) -> str:
    """Meaning of the columns."""
    several = "s" if len(placement.rank_cpus) > 1 else ""
    where = f"Ranks on CPU{several} {','.join(map(str, placement.rank_cpus))}"
    if placement.service_cpus:
        where += f", service process on CPU {','.join(map(str, placement.service_cpus))}"
    return (
        f"{where}. Microseconds, medians. total: post, compute, wait, with the same computation on both sides (as "
        "long as native's latency). CPU in MPI: what a rank spends inside MPI calls. The last column is native with "
        "the ranks spread over all cores, the service process's too. time saved: of the better native."
    )


def _compare_all(console: Console, artifacts: Artifacts, mpis: Sequence[Mpi], ranks: int) -> list[Comparison]:
    """All comparisons; after a Ctrl-C, those finished."""
    with Bar(console, draws_itself=True) as bar:
        started = itertools.count()

        def shows(what: str) -> None:
            bar.counts(what, next(started), len(_RUNS) * len(mpis))

        demos = [Demo(artifacts, mpi, ranks, jobs.Site(), shows) for mpi in mpis]
        return [found for _, found in interrupts.each(console, demos, Demo.compare)]


def show(console: Console, comparisons: Sequence[Comparison], ranks: int) -> None:
    """Prints the results, one summary line per MPI first."""
    if why := without_spare(ranks, comparisons[0].placement.cores):
        console.print(why, style="yellow", soft_wrap=True)
    for comparison in comparisons:
        console.print(headline(comparison), style="bold", soft_wrap=True)
    console.print(
        f"\nThat is an ordinary MPI program, [bold]bench/mpi/alltoall_bench.c[/], on {ranks} ranks: native, then "
        "offloaded.\n",
        soft_wrap=True,
    )
    for comparison in comparisons:
        console.print(table(comparison, ranks, console.width))
        if warning := spins(comparison):
            console.print(warning, style="yellow")
        console.print()
    console.print(explanation(comparisons[0].placement), style="dim")


def _draw(console: Console, measured: Sequence[Measurement], ranks: int, path: Path) -> None:
    """Plots the figures. They are on the terminal already, so a missing drawing library only gives a note."""
    if why := pictures.why_none():
        console.print(f"\nNo plot: {why}.", style="yellow", soft_wrap=True)
        return
    plot.save(measured, path, f"All-to-all on {ranks} ranks, native and offloaded")
    console.print(f"\nPlot: [bold]{escape(str(path))}[/]", soft_wrap=True)


def run(
    console: Console, artifacts: Artifacts, mpis: Sequence[Mpi], ranks: int, out: Path, json_to: Path | None = None
) -> None:
    """The whole demo: runs, summary lines, tables, plot."""
    if not mpis:
        raise UserError("no MPI was found: neither mpirun of Open MPI nor of MPICH is on PATH")
    comparisons = _compare_all(console, artifacts, mpis, ranks)
    show(console, comparisons, ranks)
    measured = [as_measurement(comparison, ranks) for comparison in comparisons]
    jobs.save_json(console, json_to, as_json(measured))
    _draw(console, measured, ranks, out / "alltoall.png")
    console.print(f"Offloaded run by hand: {comparisons[-1].command}", style="dim", soft_wrap=True, highlight=False)
    interrupts.leave()
