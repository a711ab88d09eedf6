"""Several MPIs side by side: against the best native, table, legend, picture; and the options for it."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from rich.console import Console

from outrigger.artifacts import Artifacts
from outrigger.bench import command, lanes, lanes_plot
from outrigger.bench.figures import Configuration, Measurement, OtherNative, Row, Service, Side
from outrigger.bench.jobs import Site
from outrigger.bench.lanes import Group, groups, legend
from outrigger.bench.runner import Request, least_work
from outrigger.errors import UserError
from outrigger.hosts import Hosts
from outrigger.mpis import Mpi

GIGABIT = 10**9


def side(pure_us: float, exposed_us: float) -> Side:
    return Side(pure_us, 9000.0 + exposed_us, exposed_us, 1.0, 100.0)


def configuration(size: int, native: Side, offloaded: Side, wire_bytes: float = 12e6) -> Configuration:
    service = Service(8, 2, 0.003 * wire_bytes, 4000.0, wire_bytes, wire_bytes / 4)
    return Configuration("ialltoall", "alloc_mem", size, 4, 20, 1000, 9000.0, native, offloaded, service)


def measurement(family: str, title: str, native: Side, offloaded: Side, wire_bytes: float = 12e6) -> Measurement:
    found = tuple(configuration(size, native, offloaded, wire_bytes) for size in (65536, 1 << 20))
    return Measurement(family, title, "mpirun ...", True, "", found)


def both(wire_bytes: float = 12e6) -> list[Measurement]:
    return [
        measurement("openmpi", "Open MPI 4.1.4", side(40_000, 36_000), side(30_000, 8_000), wire_bytes),
        measurement("mpich", "MPICH 4.0.2", side(80_000, 90_000), side(32_000, 10_000), wire_bytes),
    ]


def printed(measurements: list[Measurement], link_bits: int | None) -> str:
    console = Console(file=io.StringIO(), width=140)
    lanes.show(console, measurements, link_bits)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def row(text: str, label: str) -> list[str]:
    return next(line for line in text.splitlines() if label in line).partition(label)[2].split()


def test_the_best_native_is_the_base() -> None:
    group: Group = groups(both())[0]
    assert group.best_pure_us == 40_000
    assert group.best_total_us == 45_000
    assert [lane.label for lane in group.lanes] == [
        "native, Open MPI 4.1.4", "native, MPICH 4.0.2", "offloaded, Open MPI 4.1.4", "offloaded, MPICH 4.0.2",
    ]  # fmt: skip


def test_the_table_compares_all_lanes() -> None:
    text = printed(both(), GIGABIT)
    # pure, of best, MB/s, of link, total, of best, exposed, of best pure, floor, CPU in MPI, SP CPU a byte
    expected = "30.0 0.75 100.0 80% 17.0 0.38 8.00 20% 10% 0.100 3.0"
    assert row(text, "offloaded, Open MPI 4.1.4") == expected.split()
    assert row(text, "native, MPICH 4.0.2")[:2] == ["80.0", "2.00"]
    assert "…" not in text
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 120
    assert "2 CPUs" in text


def test_one_node_has_no_wire_and_no_link() -> None:
    text = printed(both(wire_bytes=0), None)
    assert "MB/s" not in text
    assert "ns/byte" not in text
    expected = "32.0 0.80 19.0 0.42 10.0 25% 10% 0.100"
    assert row(text, "offloaded, MPICH 4.0.2") == expected.split()


def test_a_lane_that_was_not_offloaded_is_left_out_and_said() -> None:
    measurements = both()
    measurements[1] = replace(measurements[1], offloaded=False, why_native="the daemon is missing")
    text = printed(measurements, None)
    assert "MPICH 4.0.2, not offloaded: the daemon is missing" in text
    assert "offloaded, MPICH 4.0.2" not in text


def test_cpu_time_is_for_each_byte_that_crosses_the_wire() -> None:
    found = configuration(65536, side(1, 1), side(1, 1))
    assert found.service is not None
    assert found.service.ns_per_byte == pytest.approx(3.0)
    assert found.goodput(side(30_000, 0)) == pytest.approx(100.0)
    assert replace(found.service, wire_bytes=0).ns_per_byte is None


def with_threads(measured: Measurement) -> Measurement:
    helped = OtherNative(35_000, 50_000, 5_000, 90.0)
    return replace(measured, configurations=tuple(replace(c, native_threads=helped) for c in measured.configurations))


def test_other_natives_have_lanes_but_are_not_the_base() -> None:
    first, second = both(0)
    measured = [first, with_threads(second)]
    assert groups(measured)[0].best_pure_us == 40_000
    text = printed(measured, None)
    assert row(text, "native threads, MPICH 4.0.2")[:2] == ["35.0", "0.88"]
    assert "threads: a progress thread" in text
    assert "all cores:" not in text


def test_the_legend_says_what_is_there() -> None:
    assert "frames' own bytes" in legend(both(), GIGABIT)
    assert "frames' own bytes" not in legend(both(), None)


@pytest.mark.parametrize("wire_bytes", [12e6, 0])
def test_the_picture_has_every_lane(tmp_path: Path, wire_bytes: float, drawn: list[Figure]) -> None:
    path = tmp_path / "lanes.png"
    measured = both(wire_bytes) if wire_bytes else list(map(with_threads, both(0)))
    lanes_plot.save(groups(measured), path, "Heading", GIGABIT)
    assert path.read_bytes().startswith(b"\x89PNG")
    exposed, pure, cpu = drawn[0].axes
    lanes_there = 4 if wire_bytes else 5  # of those with threads the best one
    assert [text.get_text() for text in exposed.texts[:2]] == ["90", "225"]
    assert len(exposed.texts) == 2 * lanes_there and len(cpu.lines) == lanes_there
    goodput = [list(line.get_ydata()) for line in pure.lines]
    assert ([100.0, 100.0] in goodput) == bool(wire_bytes)


def test_the_work_is_that_of_the_fastest_native() -> None:
    slow = [Row("ialltoall", size, 50.0, 0, 0, 0, 0, 500) for size in (1, 2)]
    mixed = [Row("ialltoall", 1, 40.0, 0, 0, 0, 0, 410), Row("ialltoall", 2, 60.0, 0, 0, 0, 0, 610)]
    assert least_work([slow, mixed]) == [410, 500]
    request = Request(("ialltoall",), ("malloc",), (1, 2), 4, 50, 2)
    assert request.arguments([410, 500])[-2:] == ["--work", "410,500"]


def test_several_mpis_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [Mpi(family, "1", Path("mpirun"), None) for family in ("openmpi", "mpich")]
    monkeypatch.setattr(command, "find_mpis", lambda: found)
    assert command.choose_mpis("auto") == found
    assert command.choose_mpis("mpich, openmpi") == found[::-1]
    with pytest.raises(UserError, match="--mpi 'lam': there are"):
        command.choose_mpis("openmpi,lam")
    with pytest.raises(UserError, match="auto stands alone"):
        command.choose_mpis("auto,mpich")
    monkeypatch.setattr(command, "find_mpis", lambda: found[:1])
    monkeypatch.setattr(command, "find_all_mpis", lambda: found[:1])
    with pytest.raises(UserError, match="--mpi mpich: its mpirun is not on PATH"):
        command.choose_mpis("openmpi,mpich")


def test_the_link_rate_is_read() -> None:
    assert command.parse_link_rate(None) is None
    assert command.parse_link_rate("1gbit") == GIGABIT
    with pytest.raises(UserError, match="--link-rate fast: a number and a unit"):
        command.parse_link_rate("fast")


class FakeRunner:
    """Measures at once, or fails."""

    def __init__(self, title: str, fails_at: str = "") -> None:
        self.mpi = Mpi("mpich", title, Path("mpirun"), None)
        self.request = Request(("ialltoall",), ("alloc_mem",), (65536, 1 << 20), 4, 20, 1)
        self.fails_at = fails_at
        self.work: list[int] = []
        self.interrupted = False

    def native_latency(self) -> list[Row]:
        if self.fails_at == "latency":
            raise UserError("still running [after] 70 s")
        return [Row("ialltoall", 65536, 10.0, 0, 0, 0, 0, 100), Row("ialltoall", 1 << 20, 90.0, 0, 0, 0, 0, 900)]

    def measure(self, work: list[int]) -> Measurement:
        if self.fails_at == "measure":
            raise UserError("ended with exit code 1")
        self.work = work
        return both()[0]


@pytest.mark.parametrize("stage", ["latency", "measure"])
def test_an_mpi_that_cannot_be_measured_does_not_stop_the_others(
    stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runners = {"good": FakeRunner("good"), "bad": FakeRunner("bad", stage)}
    monkeypatch.setattr(command, "Runner", lambda _request, mpi, *_: runners[mpi.version])
    console = Console(file=io.StringIO(), width=140)
    site = Site(Hosts(hostfile=tmp_path), "none")
    mpis = [runner.mpi for runner in runners.values()]
    command.run(console, runners["good"].request, mpis, Artifacts(tmp_path), site, command.Output(compares=True))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "MPICH bad is left out" in text
    assert "offloaded, Open MPI 4.1.4" in text
    assert runners["good"].work == [100, 900]


def test_the_last_mpi_that_fails_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runners = {"a": FakeRunner("a", "latency"), "b": FakeRunner("b", "measure")}
    monkeypatch.setattr(command, "Runner", lambda _request, mpi, *_: runners[mpi.version])
    site = Site(Hosts(hostfile=tmp_path), "none")
    mpis = [runner.mpi for runner in runners.values()]
    console = Console(file=io.StringIO(), width=140)
    with pytest.raises(UserError, match="exit code 1"):
        command.run(console, runners["a"].request, mpis, Artifacts(tmp_path), site, command.Output(compares=True))
