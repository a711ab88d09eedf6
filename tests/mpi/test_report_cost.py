"""Cost of a report for native calls, all of which it counts."""

from __future__ import annotations

import json

import pytest
from conftest import Mpi

from outrigger import report

RANKS = 2
CALLS = 2 * 1000 + 1
"""Number of calls of each collective by each rank, on both communicators."""

pytestmark = [pytest.mark.one_machine, pytest.mark.any_mpi]


@pytest.mark.parametrize("nodes", ["1", "2"])
@pytest.mark.parametrize("choice", ["fixed", "measured"])
@pytest.mark.parametrize(("rules", "blocking"), [("all=auto", ""), ("all=auto", "auto"), ("all=native", "off")])
def test_native_calls_read_no_cpu_clock(offload: Mpi, rules: str, blocking: str, choice: str, nodes: str) -> None:
    """Floating-point sums stay native, also where blocking forms may be offloaded."""
    env = {"OUTRIGGER_ALGORITHM": rules, "OUTRIGGER_BLOCKING": blocking, "OUTRIGGER_CHOICE": choice}
    env |= {"OUTRIGGER_PRETEND_NODES": nodes}
    written = offload.run(RANKS, ["clocks"], env=env).ok().report
    found = report.parse(json.dumps(written))
    for call in ("MPI_Allreduce", "MPI_Iallreduce", "MPI_Ireduce"):
        rows = [row for row in found.calls if row.call == call]
        assert sum(row.calls for row in rows) == RANKS * CALLS, rows
        assert sum(row.offloaded for row in rows) == 0, rows


def test_native_job_reads_no_cpu_clock(offload: Mpi) -> None:
    """Without a keeper nothing is offloaded."""
    written = offload.run(RANKS, ["clocks"], env={"OUTRIGGER_DAEMON": "/bin/false"}).ok().report
    rows = [row for row in report.parse(json.dumps(written)).calls if row.call == "MPI_Iallreduce"]
    assert sum(row.calls for row in rows) == RANKS * CALLS, rows
