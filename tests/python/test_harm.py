"""Tests of `outrigger bench harm`: reading, comparing pairs, alternating runs, the table."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from rich.console import Console
from typed import typed

from outrigger.artifacts import Artifacts
from outrigger.bench import harm, pairs
from outrigger.bench.jobs import Site
from outrigger.errors import UserError
from outrigger.mpis import Mpi
from outrigger.settings import Settings


def line(copy: float = 10.0, fork: float = 1000.0, threads: int = 1) -> str:
    rates = {"copy": {"unit": "GB/s", "median": copy}, "fork": {"unit": "/s", "median": fork}}
    return json.dumps({"ranks": 2, "threads": threads, "rates": rates})


def run(copy: float = 10.0, fork: float = 1000.0) -> harm.Run:
    return harm.read_run(line(copy, fork), 2)


def test_a_run_is_read_among_other_lines() -> None:
    found = harm.read_run(f"a message of the MPI\n{line(threads=3)}\n", 2)
    assert (found.ranks, found.threads, found.rates["copy"]) == (2, 3, harm.Rate("GB/s", 10.0))


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("", "no figures"),
        ("hello", "no figures"),
        ('{"ranks": 2}', "cannot be read"),
        ('{"ranks": 2, "threads": 1, "rates": {}}', "cannot be"),
        (line(copy=0), "cannot be"),
        (line().replace('"ranks": 2', '"ranks": 1'), "job of 1 ranks, not 2"),
    ],
)
def test_other_output_is_refused(output: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        harm.read_run(output, 2)


def test_pairs_are_compared_by_their_own_ratios() -> None:
    """The machine is twice as fast in the last pair, which shows in the medians but not in the ratio."""
    copy, fork = harm.compare([(run(10), run(9)), (run(10), run(9)), (run(20), run(18, 500))])
    assert (copy.native, copy.offloaded, copy.ratio) == (10, 9, 0.9)
    assert (fork.ratio, fork.low, fork.high) == (1.0, 0.5, 1.0)


def test_runs_of_other_tests_are_refused() -> None:
    other = harm.read_run(line().replace("copy", "triad"), 2)
    with pytest.raises(UserError, match="different tests"):
        harm.compare([(run(), other)])


@pytest.mark.parametrize(("count", "place"), [(1, 0), (5, 0), (6, 0), (9, 1), (15, 3), (25, 7)])
def test_the_interval_of_a_median(count: int, place: int) -> None:
    """Places as in tables of the sign test at 95 %."""
    values = [float(value) for value in range(count)]
    assert pairs.median_interval(list(reversed(values))) == (values[place], values[count - 1 - place])


def test_few_values_have_no_interval_of_95_percent() -> None:
    assert [pairs.interval_title(count) for count in (5, 6)] == ["lowest to highest", "95 % interval"]


def test_both_sides_are_measured_in_turn(tmp_path: Path, write_programs: Callable[[Mapping[str, str]], None]) -> None:
    """With an mpirun whose offloaded jobs fork at half the rate, and a library that says that nothing was offloaded."""
    placement = '{"version":1,"cores":[],"ranks":[],"services":[],"service_cpus":[]}'
    costs = {"barrier": 100, "bcast": 90}
    calls = json.dumps({"ranks": 2, "init_ms": 60, "descriptors": 20, "resident_kib": 20480, "costs_ns": costs})
    mpirun = f"""echo "$*" >>"$0.called"
case "$*" in
*mpich/calls*) echo '{calls}';; *--preload*) echo '{line(fork=500, threads=2)}';; *) echo '{line()}';; esac"""
    programs = {
        "bin/outriggerd": f"echo '{placement}'",
        "lib/liboutrigger-mpich.so": "",
        "bench/mpich/harm": "",
        "bench/mpich/calls": "",
        "mpirun": mpirun,
    }
    write_programs(programs)
    text = io.StringIO()
    request = harm.Request(2, 3, 5, 64, Settings(), Site())
    mpis = [Mpi("mpich", "4.0.2", tmp_path / "mpirun", None)]
    (found,) = harm.run(Console(file=text, width=130), request, mpis, Artifacts(tmp_path))
    assert {test.test: test.ratio for test in found.tests} == {"copy": 1.0, "fork": 0.5}
    assert (found.native_threads, found.offloaded_threads) == (1, 2)
    assert found.calls is not None and [call.call for call in found.calls.calls] == ["barrier", "bcast"]
    for word in ("STREAM copy", "fork, exit, wait", "0.500", "1.000", "Not offloaded", "wrote no report"):
        assert word in text.getvalue()
    called = (tmp_path / "mpirun.called").read_text().splitlines()
    assert ["--preload" in words for words in called[:7]] == [True, False, True, True, False, False, True]
    assert all("--megabytes 64 --samples" in words for words in called[:7])
    assert ["--preload" in words for words in called[7:]] == [False, True, True, False, False, True]
    assert all("bench/mpich/calls --samples" in words for words in called[7:])


def test_arrays_that_fit_into_caches_are_refused() -> None:
    result = typed(["bench", "harm", "--megabytes", "8"])
    assert result.exit_code == 2
    assert "--megabytes" in result.output and "33" in result.output
