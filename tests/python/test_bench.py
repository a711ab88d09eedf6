"""Figures of the benchmark: reading, tables, plots, the command's checks."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from rich.console import Console

from outrigger.artifacts import Artifacts
from outrigger.bench import command, plot, runner, table
from outrigger.bench.figures import (
    Configuration,
    Measurement,
    OtherNative,
    Row,
    as_json,
    nonblocking,
    read_line,
    read_rows,
)
from outrigger.bench.jobs import Site
from outrigger.errors import UserError
from outrigger.mpis import Mpi

NATIVE = {
    "pure_us": 300.0,
    "total_us": 600.0,
    "exposed_us": 300.0,
    "overlap_percent": 1.0,
    "cpu_us": 80.0,
    "largest_cpu_us": 90.0,
}
OFFLOADED = {
    "pure_us": 320.0,
    "total_us": 330.0,
    "exposed_us": 30.0,
    "overlap_percent": 97.0,
    "cpu_us": 2.0,
    "largest_cpu_us": 3.0,
}

SERVICE = {
    "processes": 2, "cpus": 2, "cpu_us": 40.0, "floor_us": 20.0, "wire_bytes": 20000.0, "node_wire_bytes": 9000.0,
}  # fmt: skip


def line(size: int = 1 << 20, **fields: Any) -> str:
    data = {
        "collective": "ialltoall", "memory": "alloc_mem", "bytes": size, "ranks": 2, "rounds": 100,
        "work_iterations": 1000, "work_us": 300.0, "native": NATIVE, "offloaded": OFFLOADED, "service": SERVICE,
    }  # fmt: skip
    return json.dumps(data | fields)


def configuration(size: int = 1 << 20, **fields: Any) -> Configuration:
    found = read_line(line(size, **fields))
    assert found is not None
    return found


def with_all_cores(size: int = 1 << 20, total_us: float = 440.0) -> Configuration:
    return replace(configuration(size), native_all_cores=OtherNative(222.0, total_us, 140.0, 77.0))


def measurement(*configurations: Configuration, why_native: str = "") -> Measurement:
    return Measurement("openmpi", "Open MPI 4.1.4", "mpirun ...", not why_native, why_native, configurations)


def printed(measured: Measurement) -> str:
    console = Console(file=io.StringIO(), width=120)
    table.print_measurement(console, measured)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_lines_are_read() -> None:
    found = configuration()
    assert found.total_ratio == pytest.approx(0.55)
    assert found.cpu_ratio == pytest.approx(40)
    assert read_line("a warning of the MPI") is None


@pytest.mark.parametrize("text", ["{", '{"collective": "ialltoall"}', line(surprise=1), line(native={})])
def test_a_broken_line_is_named(text: str) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        read_line(text)


def test_the_table_shows_both_sides_and_their_ratios() -> None:
    text = printed(measurement(configuration(65536), configuration()))
    for word in ("Open MPI 4.1.4", "MPI_Ialltoall", "MPI_Alloc_mem", "64K", "1M", "600", "330", "0.55", "40x", "97"):
        assert word in text
    assert "Not offloaded" not in text


def test_native_on_all_cores_has_a_row_with_its_own_ratio() -> None:
    assert configuration().other_natives == {}
    assert "all cores" not in printed(measurement(configuration()))
    row = next(line for line in printed(measurement(with_all_cores())).splitlines() if "all cores" in line)
    assert row.split() == ["all", "cores", "222", "440", "140", "77.0", "0.75"]


def test_wide_figures_fit_into_120_columns() -> None:
    native = NATIVE | {"pure_us": 12345.0, "total_us": 24600.0, "exposed_us": 12300.0, "overlap_percent": 100.0}
    text = printed(measurement(replace(with_all_cores(total_us=24600.0), native=configuration(native=native).native)))
    assert text.count("24 600") == 2
    assert "…" not in text


def test_a_run_that_was_not_offloaded_says_so() -> None:
    text = printed(measurement(configuration(), why_native="the daemon is missing"))
    assert "Not offloaded: the daemon is missing" in text


def test_json_has_everything() -> None:
    data = json.loads(as_json([measurement(configuration())]))
    assert data[0]["configurations"][0]["offloaded"] == OFFLOADED
    assert data[0]["command"] == "mpirun ..."
    assert data[0]["configurations"][0]["native_all_cores"] is None
    data = json.loads(as_json([measurement(with_all_cores())]))
    assert data[0]["configurations"][0]["native_all_cores"] == {
        "pure_us": 222.0, "total_us": 440.0, "exposed_us": 140.0, "cpu_us": 77.0,
    }  # fmt: skip


def test_the_plot_is_a_picture_of_the_figures(tmp_path: Path, drawn: list[Figure]) -> None:
    path = tmp_path / "new" / "figure.png"
    configurations = (configuration(65536), with_all_cores(), configuration(memory="malloc"))
    plot.save([measurement(*configurations)], path, "Heading")
    assert path.read_bytes().startswith(b"\x89PNG")
    (figure,) = drawn
    totals, cpu, other_totals, _ = figure.axes
    assert [text.get_text() for text in totals.texts] == ["0.55", "0.73", "0.55"]
    assert [text.get_text() for text in other_totals.texts] == ["0.55"]
    assert max(bar.get_y() + bar.get_height() for bar in totals.patches) == pytest.approx(1.0)
    assert [list(line.get_ydata()) for line in cpu.lines] == [[80, 80], [2, 2]]


def test_a_plot_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot write the plot"):
        plot.save([measurement(configuration())], tmp_path / "file" / "figure.png", "Heading")


def test_the_command_line_of_the_program() -> None:
    request = runner.Request(("ialltoall", "ialltoallv"), ("malloc",), (1024, 2048), 4, 50, 2)
    assert request.configurations == 4
    assert request.arguments()[:6] == [
        "--collectives", "ialltoall,ialltoallv", "--memory", "malloc", "--sizes", "1024,2048",
    ]  # fmt: skip
    assert "--order" not in request.arguments()
    strided = runner.Request(("iallgatherv",), ("malloc",), (1024,), 4, 50, 2, order=command.parse_order("strided"))
    assert strided.arguments([7])[-4:] == ["--order", "strided", "--work", "7"]
    with pytest.raises(UserError, match="--order 'random': unknown; there are contiguous, strided"):
        command.parse_order("random")


def test_an_unusual_order_is_said() -> None:
    found = read_line(line(order="strided"))
    assert found is not None
    assert "2 strided ranks" in printed(measurement(found))
    assert "strided" not in printed(measurement(configuration()))


PLACEMENT = json.dumps({"version": 1, "cores": [], "ranks": [], "services": [], "service_cpus": []})


@pytest.fixture
def fake_build(tmp_path: Path, write_programs: Callable[[Mapping[str, str]], None]) -> Artifacts:
    """Programs that print figures at once; each writes its command line beside itself."""
    programs = {
        "bin/outriggerd": f"echo '{PLACEMENT}'",
        "lib/liboutrigger-openmpi.so": "true",
        "bench/openmpi/orbench": f"echo '{line(65536)}'",
        "bench/openmpi/alltoall_bench": "echo ialltoall 65536 222.0 300.0 440.0 140.0 77.0 1000",
        "mpirun": 'while [ "${1#*/bench/}" = "$1" ]; do shift; done; exec "$@"',
    }
    record = 'printf "%s\\n" "$*" >> "$0.called"\n'
    write_programs({name: record + body for name, body in programs.items()})
    return Artifacts(tmp_path)


def test_native_on_all_cores_gets_the_same_work_and_no_library(fake_build: Artifacts) -> None:
    request = runner.Request(("ialltoall",), ("malloc",), (65536,), 2, 50, 1)
    mpi = Mpi("openmpi", "4.1.4", fake_build.root / "mpirun", None)
    measured = runner.Runner(request, mpi, fake_build, Site()).measure()
    assert measured.configurations[0].native_all_cores == OtherNative(222.0, 440.0, 140.0, 77.0)
    on_all_cores = measured.configurations[0].other_natives["all cores"]
    assert measured.configurations[0].ratio_to(on_all_cores) == pytest.approx(0.75)
    called = (fake_build.root / "bench/openmpi/alltoall_bench.called").read_text(encoding="utf-8")
    assert called == "--collectives ialltoall --memory malloc --sizes 65536 --iterations 50 --seconds 1 --work 1000\n"
    launched = (fake_build.root / "mpirun.called").read_text(encoding="utf-8").splitlines()[-1]
    assert "-x OUTRIGGER_ENABLE " in launched
    assert "--bind bunch" not in launched
    assert "--preload" not in launched


def test_other_lines_than_asked_for_are_named(fake_build: Artifacts) -> None:
    (fake_build.root / "bench/openmpi/alltoall_bench").write_text("#!/bin/sh\n", encoding="utf-8")
    request = runner.Request(("ialltoall",), ("malloc",), (65536,), 2, 50, 1)
    mpi = Mpi("openmpi", "4.1.4", fake_build.root / "mpirun", None)
    with pytest.raises(UserError, match=r"gave other lines than asked for: .*alltoall_bench"):
        runner.Runner(request, mpi, fake_build, Site()).measure()


def test_names_are_checked() -> None:
    assert command.parse_collectives([]) == ("ialltoall", "ialltoallv")
    assert command.parse_memories("malloc, alloc_mem,malloc") == ("malloc", "alloc_mem")
    assert command.parse_collectives(["all"])[3:6] == ("iallgather", "iallgatherv", "ibcast")
    every = (*command.COLLECTIVES, *command.PERSISTENT)
    assert command.parse_collectives(["bcast_init", "ibcast"], every) == ("bcast_init", "ibcast")
    assert [nonblocking(name) for name in (*command.PERSISTENT, "bcast")] == [*command.COLLECTIVES, "ibcast"]
    with pytest.raises(UserError, match="collective 'bcast_init'"):
        command.parse_collectives(["bcast_init"])
    with pytest.raises(UserError, match="collective 'ialltoallx': unknown; did you mean ialltoall"):
        command.parse_collectives(["ialltoallx"])
    with pytest.raises(UserError, match="--memory 'stack'"):
        command.parse_memories("stack")


def test_rows_of_the_demo_program_are_read() -> None:
    output = "# 4 ranks\n# collective ...\nialltoall 65536 45.7 44.0 90.1 46.1 23.37 8784\n\n"
    assert read_rows(output) == [Row("ialltoall", 65536, 45.7, 44.0, 90.1, 46.1, 23.37, 8784)]
    with pytest.raises(UserError, match="cannot be read: ialltoall 65536"):
        read_rows("ialltoall 65536\n")
