"""Each remedy that a report names for native calls works: with its option these calls are no longer native for that
reason.
"""

from __future__ import annotations

import os
import sys

import pytest
from test_languages import python_environment

from outrigger import report_reasons
from outrigger.mpis import MPIABI

pytestmark = [pytest.mark.one_machine, pytest.mark.any_mpi]

PROGRAM = """
import sys
import time
import numpy
from mpi4py import MPI
call, calls, elements, kind = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
work_s = float(sys.argv[5]) if len(sys.argv) > 5 else 0
world = MPI.COMM_WORLD
give = numpy.ones(elements * (world.size if "lltoall" in call else 1), kind)
take = numpy.zeros(elements * (1 if "reduce" in call else world.size), kind)
for _ in range(calls):
    request = getattr(world, call)(give, take)
    if request is not None:
        request.Wait()
    time.sleep(work_s)
"""
LONG = 16384


@pytest.fixture
def remedied(offload, mpi):
    """Jobs without rules of the tests."""
    pytest.importorskip("mpi4py", reason="mpi4py is not installed beside pytest")
    pytest.importorskip("numpy")
    if mpi.name == MPIABI:
        pytest.skip("mpi4py's wheel knows no standard ABI")
    offload.measured_choice = True
    (offload.directory / "program.py").write_text(PROGRAM)
    return offload


def native(offload, reason: str, program: list[object], services: int, env: dict[str, str]) -> int:
    """Number of calls that were native for this reason."""
    words = [sys.executable, str(offload.directory / "program.py"), *map(str, program)]
    env = {"OUTRIGGER_INTRANODE": "on", **python_environment(offload), **env}
    result = offload.run(2, words, services=services, env=env, timeout_s=100).ok()
    return sum(call["native"].get(reason, 0) for call in result.report["calls"])


@pytest.mark.parametrize(
    ("reason", "program", "services", "before", "remedy"),
    [
        ("too few calls", ["Alltoall", 10, 8, "b"], 0, {}, {"OUTRIGGER_INTRANODE": "always"}),
        ("in trials", ["Alltoall", 25, 8, "b"], 0, {}, {"OUTRIGGER_INTRANODE": "always"}),
        ("order not learned", ["Allreduce", 40, 8, "d"], 0, {}, {"OUTRIGGER_SUMS": "any"}),
        ("native job", ["Ialltoall", 4, LONG, "b"], 0, {}, {"services": "1"}),
        ("blocking form", ["Alltoall", 8, LONG, "b"], 1, {"OUTRIGGER_INTRANODE": "off"}, {"OUTRIGGER_BLOCKING": "on"}),
        ("rounding", ["Iallreduce", 4, LONG, "d"], 1, {}, {"OUTRIGGER_ALGORITHM": "iallreduce=on"}),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_remedies_work(remedied, reason, program, services, before, remedy):
    assert report_reasons.REASONS[reason].remedy
    env = {"OUTRIGGER_CHOICE": "fixed", **before}
    assert native(remedied, reason, program, services, env) > 0
    with_remedy = int(remedy.get("services", services))
    variables = {name: value for name, value in remedy.items() if name != "services"}
    assert native(remedied, reason, program, with_remedy, env | variables) == 0


def test_an_early_trial_is_tried(remedied):
    """Service processes share the ranks' cores, so offloading has to prove itself. Calls a millisecond apart need no
    window of several.
    """
    env = {"OUTRIGGER_SERVICE_CPUS": str(min(os.sched_getaffinity(0))), "OUTRIGGER_CHOICE": "early"}
    few, many = report_reasons.BEFORE_A_TRIAL - 1, 2000
    assert native(remedied, "not tried", ["Ialltoall", few, LONG, "b", 0.001], 1, env) == 2 * few
    assert native(remedied, "not tried", ["Ialltoall", many, LONG, "b", 0.001], 1, env) < 2 * many
