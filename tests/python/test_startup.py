"""Tests of the benchmark of MPI_Init: reading, alternating runs, the table."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from rich.console import Console

from outrigger.artifacts import Artifacts
from outrigger.bench import startup
from outrigger.bench.jobs import Site
from outrigger.errors import UserError
from outrigger.mpis import Mpi
from outrigger.settings import Settings

LINE = '{"ranks": 2, "init_ms": {"min": 10.0, "mean": 12.5, "max": 15.0}}'


def test_the_last_line_is_read() -> None:
    assert startup.read_output(f"a message of the MPI\n{LINE}\n", 2) == (15.0, 12.5)


@pytest.mark.parametrize(
    ("output", "message"),
    [("", "cannot be read"), ("hello", "cannot be read"), ('{"ranks": 2}', "cannot be read"), (LINE, "not 3")],
)
def test_other_output_is_refused(output: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        startup.read_output(output, 3 if output == LINE else 2)


def test_both_sides_are_measured_in_turn(tmp_path: Path, write_programs: Callable[[Mapping[str, str]], None]) -> None:
    """With an mpirun that takes 15 ms for a native job and 40 ms for one with the library."""
    placement = '{"version":1,"cores":[],"ranks":[],"services":[],"service_cpus":[]}'
    slower = LINE.replace("15.0", "40.0")
    mpirun = f"""echo "$*" >>"$0.called"; case "$*" in *--preload*) echo '{slower}';; *) echo '{LINE}';; esac"""
    programs = {
        "bin/outriggerd": f"echo '{placement}'",
        "lib/liboutrigger-mpich.so": "",
        "bench/mpich/startup": "",
        "mpirun": mpirun,
    }
    write_programs(programs)
    text = io.StringIO()
    figures = tmp_path / "figures.json"
    mpis = [Mpi("mpich", "4.0.2", tmp_path / "mpirun", None)]
    startup.run(Console(file=text, width=100), 2, Settings(), mpis, Artifacts(tmp_path), Site(), figures)
    (found,) = json.loads(figures.read_text())
    assert found["native"]["init_max_ms"] == 15.0
    assert found["offloaded"]["init_max_ms"] == 40.0
    assert "+25" in text.getvalue()
    called = (tmp_path / "mpirun.called").read_text().splitlines()
    assert ["--preload" in line for line in called] == [False, True] * 6
