"""Efficiencies of a report against a trace of the same run, and against the program's own clock."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import pytest
from conftest import Mpi
from test_languages import python_environment

from outrigger import report, report_efficiency
from outrigger.mpis import MPIABI
from outrigger.trace import collect
from outrigger.trace.events import Kind, Part

RANKS = 2
STEPS = 40
AROUND_A_CALL_S = 1e-4
MOST_RUNS = 30
# Rank 1 computes for longer before the first call, and for less long before the second.
PROGRAM = """
import sys, time
import numpy
from mpi4py import MPI
world = MPI.COMM_WORLD
me = world.rank
sums, result = numpy.ones(4096), numpy.zeros(4096)
blocks, received = numpy.ones(32768 * world.size), numpy.zeros(32768 * world.size)
spent = 0.0
def compute(ms):
    until = time.perf_counter() + ms / 1000
    while time.perf_counter() < until:
        pass
def timed(call, *arguments):
    global spent
    began = time.perf_counter()
    call(*arguments)
    spent += time.perf_counter() - began
for step in range(int(sys.argv[1])):
    compute(5 if me == 1 else 2)
    timed(world.Allreduce, sums, result)
    compute(1 if me == 1 else 2)
    timed(world.Alltoall, blocks, received)
print("spent", me, spent, flush=True)
"""

pytestmark = [pytest.mark.one_machine]


def in_collectives(part: Part) -> float:
    """Seconds."""
    return sum(event.ended - event.began for event in part.events if event.kind in (Kind.CALL, Kind.COMPLETION)) / 1e9


def transfers(parts: list[Part]) -> float:
    """Seconds from the last arrival at each call to the first return: the last may be late."""
    calls = zip(*([e for e in part.events if e.kind is Kind.CALL] for part in parts), strict=True)
    return sum(min(e.ended for e in same) - max(e.began for e in same) for same in calls) / 1e9


def check_a_run(offload: Mpi, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    trace = tmp_path / "t.json"
    env = {"OUTRIGGER_TRACE": str(collect.events_path(trace)), "OUTRIGGER_INTRANODE": "on"}
    program = [sys.executable, str(tmp_path / "program.py"), str(STEPS)]
    result = offload.run(RANKS, program, services=0, env=env | python_environment(offload), timeout_s=100).ok()
    parts = sorted(collect.read_written(trace), key=lambda part: part.rank)
    collect.forget(trace)
    read = report.parse(json.dumps(result.report))
    found = report_efficiency.of_report(read)
    assert found is not None and [part.rank for part in parts] == [0, 1]

    assert read.run_seconds is not None
    run = read.run_seconds.max  # the trace's own end is earlier in MPI_Finalize
    inside = [in_collectives(part) for part in parts]
    outside = [run - spent for spent in inside]
    assert found.load_balance == pytest.approx(sum(outside) / RANKS / max(outside), abs=0.02)
    assert found.communication == pytest.approx(max(outside) / run, abs=0.02)
    assert found.parallel == pytest.approx(sum(outside) / RANKS / run, abs=0.02)
    assert found.computation.max_rank == outside.index(max(outside))
    assert found.least_transfer is None or found.least_transfer <= (run - transfers(parts)) / run + 0.02

    lines = [line.split() for line in result.out.splitlines() if line.startswith("spent ")]
    assert len(lines) == RANKS
    counted = read.run_seconds.sum - found.computation.sum
    # mpi4py's own work and the search for a call's place in Python's deep stack are outside what is counted.
    around = 2 * RANKS * STEPS * AROUND_A_CALL_S
    assert counted == pytest.approx(sum(float(seconds) for _, _, seconds in lines), rel=0.02, abs=around)
    assert counted == pytest.approx(sum(inside), rel=0.02)


def test_efficiencies_agree_with_a_trace_of_the_run(offload: Mpi, tmp_path: Path) -> None:
    """One of some runs must agree: a rank that loses its core between the readings of two clocks is slower by one of
    them.
    """
    pytest.importorskip("mpi4py", reason="mpi4py is not installed beside pytest")
    pytest.importorskip("numpy")
    if offload.name == MPIABI:
        pytest.skip("mpi4py's wheel knows no standard ABI")
    for _ in range(MOST_RUNS - 1):
        with contextlib.suppress(AssertionError):
            return check_a_run(offload, tmp_path)
    return check_a_run(offload, tmp_path)
