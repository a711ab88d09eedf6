"""Tests of the demo's sentences about its figures."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from outrigger import demo, launch
from outrigger.artifacts import Artifacts
from outrigger.bench import jobs
from outrigger.bench.figures import Row
from outrigger.binding import BoundRank, BoundService, NodeBinding
from outrigger.demo import Comparison, headline, show, spins
from outrigger.mpis import Mpi


def row(size: int, pure: float, total: float, exposed: float) -> Row:
    return Row("ialltoall", size, pure, pure, total, exposed, 10.0, 1000)


def placement(*, shared: bool) -> NodeBinding:
    ranks = (BoundRank((0,), 1, shared, 0, 0),) * 2
    return NodeBinding((((0,), (1,), (2,)),), ranks, (BoundService(1, core_is_free=True),), (1,))


NATIVE = [row(1024, 100, 200, 100), row(4096, 400, 800, 360)]
OFFLOADED = [row(1024, 120, 150, 20), row(4096, 500, 480, 40)]
EXAMPLE = Comparison(
    Mpi("mpich", "4.0.2", Path("mpirun"), None), "mpirun x", NATIVE, OFFLOADED, NATIVE, placement(shared=False)
)


def test_the_first_line_says_what_a_user_wants_to_know() -> None:
    assert headline(EXAMPLE) == (
        "MPICH 4.0.2: 25 to 40 % of the time saved; 85 % of the transfer hidden behind the computation, natively 5 %; "
        "cost: CPU 1 for the service process."
    )
    slower = replace(EXAMPLE, offloaded=NATIVE, native=OFFLOADED)
    assert ": 33 to 67 % more time; " in headline(slower)
    mixed = replace(EXAMPLE, offloaded=[OFFLOADED[0], row(4096, 400, 880, 300)])
    assert ": from 10 % more to 25 % less time; " in headline(mixed)
    starved = replace(EXAMPLE, offloaded=[OFFLOADED[0], row(4096, 400, 8000, 300)])
    assert ": up to 10 times as long, at best 25 % of the time saved; " in headline(starved)


def test_it_comes_before_the_tables() -> None:
    console = Console(file=io.StringIO(), width=110)
    show(console, [EXAMPLE, replace(EXAMPLE, mpi=Mpi("openmpi", "4.1.4", Path("mpirun"), None))], 2)
    assert isinstance(console.file, io.StringIO)
    first, second, *rest = console.file.getvalue().splitlines()
    assert first.startswith("MPICH 4.0.2: 25 to 40 %") and second.startswith("Open MPI 4.1.4: 25 to 40 %")
    assert any("MPI_Ialltoall, 2 ranks" in line for line in rest)


def test_a_machine_without_a_spare_core_comes_first() -> None:
    console = Console(file=io.StringIO(), width=200)
    show(console, [EXAMPLE], 3)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().startswith("No spare core: 3 ranks, 3 cores.")


def test_time_is_saved_of_the_better_native() -> None:
    """Native on all cores takes half: 100 and 400, offloaded 150 and 480."""
    everywhere = [row(1024, 100, 100, 0), row(4096, 400, 400, 0)]
    found = replace(EXAMPLE, native_all_cores=everywhere)
    assert ": 20 to 50 % more time; " in headline(found)
    console = Console(file=io.StringIO(), width=110)
    console.print(demo.table(found, 2, console.width))
    assert isinstance(console.file, io.StringIO)
    assert "-50 %" in console.file.getvalue() and "-20 %" in console.file.getvalue()


@pytest.mark.parametrize(("width", "has_latency"), [(80, False), (110, True)])
def test_a_table_has_whole_headings(width: int, has_latency: bool) -> None:
    console = Console(file=io.StringIO(), width=width)
    console.print(demo.table(EXAMPLE, 2, console.width))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert ("latency" in shown) == has_latency
    assert "…" not in shown and "offloaded" in shown and "all cores" in shown


@pytest.mark.parametrize(
    ("family", "version", "vendor", "shared", "said"),
    [
        ("mpich", "4.0.2", "", True, True),
        ("mpich", "4.0.2", "", False, False),
        ("mpich", "5.0.2", "", True, False),
        ("mpich", "2021.18", "intel", True, False),
        ("openmpi", "4.1.4", "", True, False),
    ],
)
def test_a_native_that_cannot_give_way_is_named(
    family: str, version: str, vendor: str, shared: bool, said: bool
) -> None:
    mpi = Mpi(family, version, Path("mpirun"), None, vendor)
    warning = spins(replace(EXAMPLE, mpi=mpi, placement=placement(shared=shared)))
    assert warning.startswith(f"{mpi.title} spins while it waits") == said


def test_a_ctrl_c_after_both_sides_keeps_the_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bench" / "mpich").mkdir(parents=True)
    (tmp_path / "bench" / "mpich" / "alltoall_bench").touch()
    runs = iter([NATIVE, OFFLOADED])

    def run(_job: launch.Job, _what: str) -> tuple[list[Row], launch.Plan]:
        try:
            return next(runs), launch.Plan(Path(), ("mpirun",), {}, placement(shared=False))
        except StopIteration:
            raise KeyboardInterrupt from None

    measuring = demo.Demo(Artifacts(tmp_path), EXAMPLE.mpi, 2, jobs.Site(), print)
    monkeypatch.setattr(measuring, "_run", run)
    found = measuring.compare()
    assert measuring.interrupted and (found.offloaded, found.native_all_cores) == (OFFLOADED, None)
    console = Console(file=io.StringIO(), width=110)
    show(console, [found], 2)
    assert isinstance(console.file, io.StringIO) and "25 to 40 % of the time saved" in console.file.getvalue()
    assert demo.as_measurement(found, 2).configurations[0].native_all_cores is None
