"""The demo: an unmodified all-to-all benchmark, native and offloaded side by side."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from outrigger import binding, launch
from outrigger.artifacts import Artifacts
from outrigger.bench import plot
from outrigger.bench.figures import Configuration, Measurement, Row, Side, read_rows
from outrigger.bench.table import microseconds
from outrigger.errors import UserError
from outrigger.mpis import Mpi
from outrigger.settings import FIXED, Settings
from outrigger.sizes import format_size

SIZES = (16384, 65536, 262144, 1048576)
_SETTINGS = Settings(choice=FIXED)
"""What it takes to try both ways would be most of so short a run."""
_SECONDS = 2
_TIME_LIMIT_S = 120.0


@dataclass(frozen=True)
class Comparison:
    """The same program three times: native, native on all cores, offloaded."""

    mpi: Mpi
    command: str
    native: list[Row]
    native_all_cores: list[Row]
    offloaded: list[Row]


class Demo:
    """Runs the benchmark under one MPI after the other."""

    def __init__(self, console: Console, artifacts: Artifacts, ranks: int) -> None:
        self.console = console
        self.artifacts = artifacts
        self.ranks = ranks

    def _run(self, job: launch.Job, what: str) -> tuple[list[Row], str]:
        plan = launch.make_plan(job, self.artifacts)
        with self.console.status(f"{job.mpi.title}: {what}"):
            code, output = launch.run(plan, capture=True, timeout_s=_TIME_LIMIT_S)
        rows = read_rows(output) if code == 0 else []
        if len(rows) != len(SIZES):
            raise UserError(f"{what} under {job.mpi.title} ended with exit code {code}: {shlex.join(plan.command)}")
        return rows, shlex.join(plan.command)

    def compare(self, mpi: Mpi) -> Comparison:
        """Three runs; the second and third do the work that the first one chose."""
        program = (
            str(self.artifacts.benchmark(mpi.family, "alltoall_bench")),
            *("--sizes", ",".join(map(str, SIZES)), "--seconds", str(_SECONDS)),
        )
        job = launch.Job(program=program, ranks=self.ranks, mpi=mpi, settings=_SETTINGS, native=True)
        native, _ = self._run(job, "native")
        work = ",".join(str(row.work_iterations) for row in native)
        job = replace(job, program=(*program, "--work", work))
        all_cores, _ = self._run(replace(job, bind=binding.NONE), "native on all cores")
        offloaded, command = self._run(replace(job, native=False), "offloaded")
        return Comparison(mpi, command, native, all_cores, offloaded)


def _saved(native: float, offloaded: float) -> Text:
    percent = 100 * (1 - offloaded / native)
    return Text(f"{percent:.0f} %", style="bold green" if percent >= 5 else "bold red" if percent <= -5 else "bold")


def table(comparison: Comparison, ranks: int) -> Table:
    """Side by side, a row per size."""
    result = Table(
        box=box.SIMPLE_HEAD,
        title_justify="left",
        title=f"{comparison.mpi.title}: MPI_Ialltoall, {ranks} ranks",
        title_style="bold",
        header_style="dim",
    )
    for name in ("bytes per\npair", "latency\nnative", "latency\noffloaded", "total\nnative", "total\noffloaded"):
        result.add_column(name, justify="right")
    for name in ("time\nsaved", "CPU in MPI\nnative", "CPU in MPI\noffloaded", "total native\nall cores"):
        result.add_column(name, justify="right")
    for native, everywhere, offloaded in zip(
        comparison.native, comparison.native_all_cores, comparison.offloaded, strict=True
    ):
        result.add_row(
            format_size(native.bytes),
            microseconds(native.pure_us),
            microseconds(offloaded.pure_us),
            microseconds(native.total_us),
            Text(microseconds(offloaded.total_us), style="bold"),
            _saved(native.total_us, offloaded.total_us),
            microseconds(native.cpu_us),
            Text(microseconds(offloaded.cpu_us), style="bold"),
            Text(microseconds(everywhere.total_us), style="dim"),
        )
    return result


def _side(row: Row) -> Side:
    overlap = 100 * (1 - row.exposed_us / row.pure_us)
    return Side(row.pure_us, row.total_us, row.exposed_us, min(max(overlap, 0), 100), row.cpu_us)


def as_measurement(comparison: Comparison, ranks: int) -> Measurement:
    """For the plot."""
    configurations = tuple(
        Configuration(
            native.collective, "alloc_mem", native.bytes, ranks, 0, native.work_iterations, native.work_us,
            _side(native), _side(offloaded), native_all_cores=all_cores.other_native,
        )
        for native, all_cores, offloaded in zip(
            comparison.native, comparison.native_all_cores, comparison.offloaded, strict=True
        )
    )  # fmt: skip
    return Measurement(comparison.mpi.family, comparison.mpi.title, comparison.command, True, "", configurations)


def explanation(plan: launch.Plan) -> str:
    """What the columns mean."""
    where = f"Ranks on CPUs {','.join(map(str, plan.placement.rank_cpus))}"
    if plan.placement.service_cpus:
        where += f", service process on CPU {','.join(map(str, plan.placement.service_cpus))}"
    return (
        f"{where}. Microseconds, medians. total: post, compute, wait, with the same computation on both sides (as "
        "long as native's latency). CPU in MPI: what a rank spends inside MPI calls. The last column is native with "
        "the ranks spread over all cores, the service process's too."
    )


def run(console: Console, artifacts: Artifacts, mpis: Sequence[Mpi], ranks: int, out: Path) -> None:
    """The whole demo: runs, tables, plot."""
    if not mpis:
        raise UserError("no MPI was found: neither mpirun of Open MPI nor of MPICH is on PATH; run ./dev setup")
    console.print(
        f"An ordinary MPI program, [bold]bench/mpi/alltoall_bench.c[/], on {ranks} ranks: native, then offloaded.\n"
    )
    demo = Demo(console, artifacts, ranks)
    comparisons = []
    for mpi in mpis:
        comparisons.append(demo.compare(mpi))
        console.print(table(comparisons[-1], ranks))
        console.print()
    sample = launch.make_plan(launch.Job(program=("x",), ranks=ranks, mpi=mpis[0], settings=_SETTINGS), artifacts)
    console.print(explanation(sample), style="dim")
    path = out / "alltoall.png"
    plot.save(
        [as_measurement(c, ranks) for c in comparisons], path, f"All-to-all on {ranks} ranks, native and offloaded"
    )
    console.print(f"\nPlot: [bold]{path}[/]", soft_wrap=True)
    console.print(f"Offloaded run by hand: {comparisons[-1].command}", style="dim", soft_wrap=True, highlight=False)
