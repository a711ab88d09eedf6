"""`outrigger lab skew`: its reading of runs, its sums, its table."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from rich.console import Console
from typed import typed

from outrigger.artifacts import Artifacts
from outrigger.bench import skew
from outrigger.bench.jobs import Site
from outrigger.errors import UserError
from outrigger.mpis import Mpi
from outrigger.settings import Settings

NAMES = ("allgatherv", "ibcast")


def line(scale: float = 1.0, ranks: int = 2, names: tuple[str, ...] = NAMES) -> str:
    """As the program prints it; of a broadcast the ranks leave before the last one comes."""
    figures = {
        name: {
            "left_mean_ms": -4.0 if name == "ibcast" else 10 * scale,
            "left_last_ms": 20 * scale,
            "on_time_mpi_ms": 40 * scale,
        }
        for name in names
    }
    return json.dumps({"ranks": ranks, "collectives": figures})


def test_what_the_program_prints_is_read() -> None:
    run = skew.read_run("a warning\n" + line() + "\n", 2, NAMES)
    assert run["allgatherv"] == skew.Figures(10, 20, 40)


@pytest.mark.parametrize(
    ("output", "complaint"),
    [
        ("", "no figures"),
        (line(ranks=3), "3 ranks, not 2"),
        (line(names=("ibcast",)), "other collectives"),
        ("{", "cannot be read"),
        ('{"ranks": 2, "collectives": {"allgatherv": {"left": 1}}}', "cannot be read"),
        ('{"ranks": 2, "collectives": 7}', "cannot be read"),
    ],
)
def test_other_output_is_refused(output: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        skew.read_run(output, 2, NAMES)


def test_ratios_are_those_of_neighbours() -> None:
    def run(scale: float) -> skew.Run:
        return skew.read_run(line(scale), 2, NAMES)

    gather, broadcast = skew.compare([(run(1), run(0.5)), (run(3), run(3)), (run(2), run(4))])
    assert (gather.native.left_mean_ms, gather.offloaded.left_mean_ms) == (20, 30)
    assert gather.ratio == skew.Figures(1, 1, 1)
    assert broadcast.ratio.left_mean_ms == float("inf")  # who leaves earlier is not told by a quotient


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--collectives", "ialltoallx"], "ialltoallx"),
        (["--size", "4K,8K"], "one size"),
        (["--size", "many"], "not a size"),
        (["-n", "1"], "-n"),
        (["--skew", "0"], "--skew"),
    ],
)
def test_bad_options_are_named(words: list[str], complaint: str) -> None:
    result = typed(["lab", "skew", *words])
    assert result.exit_code != 0
    assert complaint in (result.output if result.exit_code == 2 else str(result.exception))


def test_both_sides_are_measured_in_turn(tmp_path: Path, write_programs: Callable[[Mapping[str, str]], None]) -> None:
    """With an mpirun whose offloaded jobs take half the time, and a library that writes no report."""
    mpirun = f"""echo "$*" >>"$0.called"
case "$*" in *--preload*) echo '{line(0.5)}';; *) echo '{line()}';; esac"""
    programs = {
        "bin/outriggerd": """echo '{"version":1,"cores":[],"ranks":[],"services":[],"service_cpus":[]}'""",
        "lib/liboutrigger-mpich.so": "",
        "bench/mpich/skew": "",
        "mpirun": mpirun,
    }
    write_programs(programs)
    text = io.StringIO()
    request = skew.Request(NAMES, 2, 4096, 100, 50, 7, 1, 3, Settings(blocking="on"), Site())
    mpis = [Mpi("mpich", "4.0.2", tmp_path / "mpirun", None)]
    (found,) = skew.run(Console(file=text, width=130), request, mpis, Artifacts(tmp_path))
    assert [one.collective for one in found.collectives] == list(NAMES)
    assert found.collectives[0].ratio == skew.Figures(0.5, 0.5, 0.5)
    for word in ("allgatherv", "-4.00", "0.50", "Not offloaded", "seed 1", "50 ms of work"):
        assert word in text.getvalue()
    called = (tmp_path / "mpirun.called").read_text().splitlines()
    assert ["--preload" in words for words in called] == [True, False, True, True, False, False, True]
    assert all("--collectives allgatherv,ibcast --bytes 4096" in words for words in called)
    assert [words.split()[-1] for words in called] == ["1", *["7"] * 6]
