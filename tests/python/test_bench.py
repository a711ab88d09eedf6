"""Figures of the benchmark: reading, tables, plots, the command's checks."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from outrigger import demo
from outrigger.bench import command, plot, runner, table
from outrigger.bench.figures import Configuration, Measurement, as_json, read_line
from outrigger.errors import UserError

NATIVE = {"pure_us": 300.0, "total_us": 600.0, "exposed_us": 300.0, "overlap_percent": 1.0, "cpu_us": 80.0}
OFFLOADED = {"pure_us": 320.0, "total_us": 330.0, "exposed_us": 30.0, "overlap_percent": 97.0, "cpu_us": 2.0}


def line(size: int = 1 << 20, **fields: Any) -> str:
    data = {
        "collective": "ialltoall", "memory": "alloc_mem", "bytes": size, "ranks": 2, "rounds": 100,
        "work_iterations": 1000, "work_us": 300.0, "native": NATIVE, "offloaded": OFFLOADED,
    }  # fmt: skip
    return json.dumps(data | fields)


def configuration(size: int = 1 << 20, **fields: Any) -> Configuration:
    found = read_line(line(size, **fields))
    assert found is not None
    return found


def measurement(*configurations: Configuration, why_native: str = "") -> Measurement:
    return Measurement("openmpi", "Open MPI 4.1.4", "mpirun ...", not why_native, why_native, configurations)


def printed(measured: Measurement) -> str:
    console = Console(file=io.StringIO(), width=140)
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


def test_a_run_that_was_not_offloaded_says_so() -> None:
    text = printed(measurement(configuration(), why_native="the daemon is missing"))
    assert "Not offloaded: the daemon is missing" in text


def test_json_has_everything() -> None:
    data = json.loads(as_json([measurement(configuration())]))
    assert data[0]["configurations"][0]["offloaded"] == OFFLOADED
    assert data[0]["command"] == "mpirun ..."


def test_the_plot_is_a_picture(tmp_path: Path) -> None:
    path = tmp_path / "new" / "figure.png"
    plot.save([measurement(configuration(65536), configuration(memory="malloc"))], path, "Heading")
    assert path.read_bytes().startswith(b"\x89PNG")


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


def test_names_are_checked() -> None:
    assert command.parse_collectives([]) == ("ialltoall", "ialltoallv")
    assert command.parse_memories("malloc, alloc_mem,malloc") == ("malloc", "alloc_mem")
    with pytest.raises(UserError, match="collective 'ibcast': there are ialltoall, ialltoallv"):
        command.parse_collectives(["ibcast"])
    with pytest.raises(UserError, match="--memory 'stack'"):
        command.parse_memories("stack")


def test_rows_of_the_demo_program_are_read() -> None:
    output = "# 4 ranks\n# collective ...\nialltoall 65536 45.7 44.0 90.1 46.1 23.37 8784\n\n"
    assert demo.read_rows(output) == [demo.Row("ialltoall", 65536, 45.7, 44.0, 90.1, 46.1, 23.37, 8784)]
    with pytest.raises(UserError, match="cannot be read: ialltoall 65536"):
        demo.read_rows("ialltoall 65536\n")
