"""A whole DPU is lost: `outriggerd dpu` ends with all its service processes, or is silent. Processes on its host's
cores replace them, unnoticed by the program.
"""

import os
import random
import re
import signal
import time
from contextlib import suppress

import pytest
from conftest import Result, Stopwatch
from local_dpus import ONE_MPI, SECOND, dpus, reached
from test_dpu_restart import OnDpu, job_on_dpus
from test_restart import LASTS_S

pytestmark = [pytest.mark.one_machine, pytest.mark.any_mpi]

TAKEN_WITHIN_S = 12.0
SILENT_FOR_S = 5.0  # until it counts as lost
TAKE = "service processes on this node replace it"


def lose(job: OnDpu, *dpus: int) -> None:
    for dpu in dpus:
        job.started.running[dpu].send_signal(signal.SIGKILL)


def children_of(job: OnDpu, daemon: int) -> list[int]:
    return [one.pid for one in job.mpi.serving() if one.keeper == daemon]


def must_go_on(job: OnDpu, *, lost: int = 1) -> None:
    since = Stopwatch()
    said = lambda: job.job.text().count(TAKE) == lost  # noqa: E731
    assert since.sees(said, TAKEN_WITHIN_S), job.job.text()


def must_be_right(job: OnDpu, *, lost: int = 1) -> Result:
    """With one line for each lost DPU, and the same in the report."""
    job.job.end_soon()
    result = job.job.wait(90).ok()
    lines = [line for line in result.out.splitlines() if "outrigger:" in line]
    assert "WRONG" not in result.out and len(lines) == lost, result.out
    for line in lines:
        assert re.search(r"DPU \S+ \(127.0.0.1:\d+\) is lost: the connection was closed: " + TAKE, line), line
    services = result.report["services"]
    replaced = [service for service in services if service["restarts"] > 0]
    assert len(replaced) == lost * job.services, services
    assert all(TAKE in service["warning"] for service in replaced), services
    return result


@pytest.mark.parametrize("algorithms", ("", SECOND), ids=("first", "second"))
@pytest.mark.parametrize("services", (1, 2))
def test_lost_at_a_random_moment(offload, services, algorithms):
    moments = random.Random(f"{services} {algorithms}")
    environment = {"OUTRIGGER_ALGORITHM": algorithms}
    with job_on_dpus(offload, "calls", LASTS_S, services, services=services, environment=environment) as job:
        job.job.goes_on(moments.randrange(60))
        lose(job, 0)
        must_go_on(job)
        result = must_be_right(job)
    by_reach = reached(result)
    assert by_reach["rdma"] > 0 and by_reach["mapped"] + by_reach["cma"] + by_reach["relay"] > 0, by_reach


@pytest.mark.parametrize("services", (1, 2))
@pytest.mark.parametrize("mode", ("compute", "native"))
def test_lost_while_ranks_do_something_else(offload, mode, services):
    """They compute, or block in their MPI, and leave the DPU nevertheless."""
    with job_on_dpus(offload, mode, LASTS_S, 5, services=services) as job:
        job.job.goes_on(20)
        lose(job, 0)
        must_go_on(job)
        must_be_right(job)


@pytest.mark.parametrize("services", (1, 2))
def test_lost_with_operations_of_every_kind_outstanding(offload, services):
    """A part of each is placed, the rest comes after the loss."""
    with job_on_dpus(offload, "holding", LASTS_S, 0, services=services) as job:
        time.sleep(0.5)
        lose(job, 0)
        must_go_on(job)
        must_be_right(job)


def test_all_of_it_is_killed_at_once(offload):
    with job_on_dpus(offload, "calls", LASTS_S, 4, ranks=4, services=2) as job:
        job.job.goes_on(20)
        victims = [pid for dpu in job.by_dpu() for pid in dpu]
        lose(job, 0)
        for pid in victims:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        must_go_on(job)
        must_be_right(job)


def test_lost_while_places_are_taken(offload):
    """One has died, and its replacement, or the next standby process, is just starting."""
    for pause_s in (0.0, 0.03, 0.06):
        with job_on_dpus(offload, "calls", LASTS_S, 6) as job:
            job.job.goes_on(20)
            os.kill(job.serving()[0], signal.SIGKILL)
            time.sleep(pause_s)
            lose(job, 0)
            must_go_on(job)
            must_be_right(job)


@ONE_MPI
@pytest.mark.parametrize("nodes", (1, 2))
@pytest.mark.parametrize("all_of_it", (False, True), ids=("its daemon", "all of it"))
def test_one_that_is_silent_is_left(offload, all_of_it, nodes):
    """When it continues it has nothing to do: all its work has been replaced."""
    with job_on_dpus(offload, "calls", LASTS_S, 8, ranks=3 * nodes, nodes=nodes) as job:
        job.job.goes_on(20)
        stopped = [job.started.running[0].pid]
        if all_of_it:
            stopped += children_of(job, stopped[0])
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        since = Stopwatch()
        said = "it does not answer: " + TAKE
        assert since.sees(lambda: said in job.job.text(), SILENT_FOR_S + TAKEN_WITHIN_S), job.job.text()
        assert since.seconds() > SILENT_FOR_S
        for pid in reversed(stopped):
            os.kill(pid, signal.SIGCONT)
        job.job.end_soon()
        result = job.job.wait(90).ok()
    assert "WRONG" not in result.out, result.out
    restarts = [service["restarts"] for service in result.report["services"]]
    # the other one may have been restarted as a precaution
    assert restarts[0] == 1 and len(restarts) == nodes, restarts


@ONE_MPI
def test_one_that_is_silent_for_a_moment_goes_on(offload):
    with job_on_dpus(offload, "calls", LASTS_S, 8) as job:
        job.job.goes_on(20)
        stopped = [job.started.running[0].pid] + [pid for dpu in job.by_dpu() for pid in dpu]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(SILENT_FOR_S - 2)
        for pid in reversed(stopped):
            os.kill(pid, signal.SIGCONT)
        job.must_be_right(0)


def test_those_on_the_host_are_replaced_as_any(offload):
    """They die, too; also while they replace others."""
    for pause_s in (0.0, 0.5):
        with job_on_dpus(offload, "calls", LASTS_S, 9, services=2) as job:
            job.job.goes_on(20)
            lose(job, 0)
            must_go_on(job)
            time.sleep(pause_s)
            since = Stopwatch()
            assert since.sees(lambda: len(job.serving()) == 2, 10), job.job.text()
            for pid in job.serving():
                os.kill(pid, signal.SIGKILL)
            must_be_right(job)


@ONE_MPI
def test_lost_while_the_job_starts(offload):
    """Before ranks are served all go on natively, or others serve them."""
    for pause_s in (0.02, 0.1, 0.2):
        with dpus(offload) as started:
            job = offload.start(3, ["restarted", "calls", "2", "1", "moves"], env=started.told())
            time.sleep(pause_s)
            started.running[0].send_signal(signal.SIGKILL)
            result = job.wait(90).ok()
        assert "WRONG" not in result.out, result.out
        offload.nothing_left()


@pytest.mark.parametrize("algorithms", ("", SECOND), ids=("first", "second"))
@pytest.mark.parametrize("services", (1, 2))
def test_one_of_several_is_lost(offload, services, algorithms):
    """The other node's service processes on its DPU continue with those on the host."""
    moments = random.Random(f"nodes {services} {algorithms}")
    environment = {"OUTRIGGER_ALGORITHM": algorithms}
    with job_on_dpus(offload, "calls", LASTS_S, 2, ranks=4, nodes=2, services=services, environment=environment) as job:
        job.job.goes_on(moments.randrange(60))
        lose(job, moments.randrange(2))
        must_go_on(job)
        must_be_right(job)


@pytest.mark.parametrize("mode", ("compute", "native", "holding"))
def test_one_of_several_is_lost_while_ranks_do_something_else(offload, mode):
    with job_on_dpus(offload, mode, LASTS_S, 3, ranks=4, nodes=2) as job:
        job.job.wait_for("restarted: under way")
        lose(job, 1)
        must_go_on(job)
        must_be_right(job)


@pytest.mark.parametrize("pause_s", (0.0, 0.3, 2.2))
def test_all_are_lost(offload, pause_s):
    """At once, or one while the other's place is being taken."""
    with job_on_dpus(offload, "calls", LASTS_S, 4, ranks=4, nodes=2) as job:
        job.job.goes_on(20)
        lose(job, 0)
        time.sleep(pause_s)
        lose(job, 1)
        must_go_on(job, lost=2)
        must_be_right(job, lost=2)


@ONE_MPI
def test_the_launcher_of_one_of_several_has_gone(offload):
    """It ends in order, with ranks that have not left."""
    with job_on_dpus(offload, "calls", LASTS_S, 5, ranks=4, nodes=2) as job:
        job.job.goes_on(20)
        job.started.running[0].stdin.close()
        must_go_on(job)
        must_be_right(job)
