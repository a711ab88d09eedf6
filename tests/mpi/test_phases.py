"""Phases that programs name by MPI_Pcontrol, and their efficiencies."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import Mpi, Result

from outrigger import report, report_efficiency

RANKS = 2
STEPS = 40
MOST_RUNS = 30

pytestmark = pytest.mark.any_mpi


def phases_of(result: Result) -> dict[str, Any]:
    return {phase["phase"]: phase for phase in result.report["phases"]}


def calls_by_phase(result: Result) -> dict[str, tuple[int, int]]:
    """Entries and calls of a rank."""
    found = phases_of(result)
    return {name: (phase["entered"] // RANKS, phase["calls"] // RANKS) for name, phase in found.items()}


@pytest.mark.parametrize("services", (0, 1))
def test_names_and_numbers(offload: Mpi, services: int) -> None:
    assert calls_by_phase(offload.run(RANKS, ["regions", "names"], services=services).ok()) == {
        "outer": (1, 1),
        "inner": (1, 2),
        "phase 7": (1, 1),
        "deep": (32, 1),
        "l" * 63: (1, 0),
        "edge": (1, 0),
        "open": (1, 1),
    }


def test_orders_to_other_tools_name_nothing(offload: Mpi) -> None:
    """A phase that was begun before the first order ends by its name."""
    assert calls_by_phase(offload.run(RANKS, ["regions", "orders"]).ok()) == {"before": (1, 2)}


def test_threads_have_their_own_phases(offload: Mpi) -> None:
    found = calls_by_phase(offload.run(RANKS, ["regions", "threads"]).ok())
    assert found in ({}, {"first": (STEPS, STEPS), "second": (STEPS, STEPS)})  # without MPI_THREAD_MULTIPLE: none


def test_fortran_has_numbers(offload: Mpi) -> None:
    if not offload.installed.has_fortran() or not (offload.programs / "regions_fortran").exists():
        pytest.skip(f"{offload.installed} has no Fortran libraries, or no Fortran program was built")
    assert calls_by_phase(offload.run(RANKS, ["regions_fortran"]).ok()) == {"phase 7": (3, 3)}


def test_without_a_report_nothing_is_noted(offload: Mpi) -> None:
    offload.run(RANKS, ["regions", "names"], env={"OUTRIGGER_REPORT": ""}).ok()


def check(result: Result) -> None:
    """Each figure is that of the program's own clock."""
    lines = sorted(line.split()[1:] for line in result.out.splitlines() if line.startswith("spent "))
    assert len(lines) == RANKS
    clocks = [[float(word) for word in line[1:]] for line in lines]
    read = report.parse(json.dumps(result.report))
    phases = {phase.phase: phase for phase in read.phases}
    for name, at, meetings in (("solve", 0, STEPS), ("exchange", 2, STEPS)):
        inside = [clock[at] for clock in clocks]
        spent = [clock[at + 1] for clock in clocks]
        outside = [whole - part for whole, part in zip(inside, spent, strict=True)]
        phase = phases[name]
        assert phase.meetings is not None and (phase.meetings.min, phase.meetings.max) == (meetings, meetings)
        assert phase.seconds.sum == pytest.approx(sum(inside), rel=0.02)
        assert phase.collective_seconds.sum == pytest.approx(sum(spent), rel=0.02, abs=0.002)
        found = report_efficiency.of_phase(phase, read)
        assert found is not None
        assert found.load_balance == pytest.approx(sum(outside) / RANKS / max(outside), abs=0.02)
        assert found.communication == pytest.approx(max(outside) / max(inside), abs=0.02)
        assert found.computation.max_rank == outside.index(max(outside)) == (1 if name == "solve" else 0)


def test_efficiencies_are_those_of_the_programs_clock(offload: Mpi) -> None:
    """One of some runs must agree: a rank that loses its core between the readings of two clocks is slower by one."""
    for left in reversed(range(MOST_RUNS)):
        result = offload.run(RANKS, ["regions", "clock"], services=0, env={"OUTRIGGER_INTRANODE": "on"}).ok()
        try:
            return check(result)
        except AssertionError:
            if left == 0:
                raise
    return None
