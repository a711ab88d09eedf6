"""The keeper is killed, and the job continues without it, without protection, to its correct end."""

import contextlib
import os
import random
import signal
import time

import pytest
from conftest import Stopwatch, wait_until, with_copiers
from test_restart import GONE_WITHIN_S, HANGS, LASTS_S, REACHES, start

pytestmark = [pytest.mark.one_machine, pytest.mark.any_mpi]

ENDS_WITHIN_S = 5.0
SAID = "the keeper of this node is gone (killed?): the job goes on"


def kill_keepers(mpi, most: int = 64) -> list[int]:
    victims = [process.pid for process in mpi.daemons("keep") if process.alive()][:most]
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    return victims


def must_be_right(mpi, job, killed: list[int]):
    job.end_soon()
    result = job.wait(60).ok()
    assert "WRONG" not in result.out, result.out
    said = [line for line in result.out.splitlines() if SAID in line]
    assert len(said) == len(killed), result.out
    assert result.offloaded() > 0
    mpi.nothing_left(GONE_WITHIN_S)
    return result


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("services", (1, 2))
def test_killed_at_random_moments(offload, services, reach):
    moments = random.Random(f"{services} {reach}")
    job = start(offload, "calls", LASTS_S, services, services=services, env=REACHES[reach])
    job.goes_on(moments.randrange(60))
    must_be_right(offload, job, kill_keepers(offload))


@pytest.mark.parametrize("mode", ("compute", "native", "holding"))
def test_killed_while_ranks_do_something_else(offload, mode):
    job = start(offload, mode, LASTS_S, 5, services=2)
    job.wait_for("restarted: under way")
    must_be_right(offload, job, kill_keepers(offload))


def test_the_keeper_of_one_of_two_nodes(offload):
    if offload.pretend_nodes > 1:
        pytest.skip("has its own nodes")
    offload.pretend_nodes = 2
    for seed in range(2):
        job = start(offload, "calls", LASTS_S, seed, ranks=4, services=1)
        job.goes_on(20 + 20 * seed)
        must_be_right(offload, job, kill_keepers(offload, 1 + seed))


@pytest.mark.parametrize("mode", ("calls", "native"))
@pytest.mark.parametrize("services", (1, 2))
def test_a_service_process_that_dies_after_it_ends_the_job(offload, mode, services):
    """It is not replaced; ranks detect it themselves."""
    job = start(offload, mode, 60, 1, services=services)
    kill_keepers(offload)
    job.goes_on(10)
    os.kill(offload.serving()[0].pid, signal.SIGKILL)
    since = Stopwatch()
    result = job.wait(60)
    assert result.returncode != 0 and "WRONG" not in result.out, result.out
    assert since.seconds() < ENDS_WITHIN_S
    assert "the keeper of this node is gone (killed?), and so is the service process of this rank" in result.out
    offload.nothing_left(GONE_WITHIN_S)


@pytest.mark.parametrize("how", HANGS)
def test_a_service_process_that_hangs_after_it_ends_the_job(offload, how):
    """It detects itself that it makes no progress."""
    job = start(offload, "calls", 90, 1, env={"OUTRIGGER_FAULTS": "hang"})
    kill_keepers(offload)
    job.goes_on(10)
    (service,) = offload.daemons("serve")
    os.kill(service.pid, HANGS[how])
    since = Stopwatch()
    result = job.wait(60)
    assert result.returncode != 0 and "WRONG" not in result.out, result.out
    assert since.seconds() > 10, "it was taken for hung too early"
    assert "the keeper of this node is gone (killed?), and so is the service process of this rank" in result.out
    offload.nothing_left(GONE_WITHIN_S)


def test_a_service_process_that_is_stopped_after_it_goes_on_at_the_end(offload):
    """No other process would continue it."""
    job = offload.start(2, ["steady", "idle", "3"])
    job.wait_for("steady: ready")
    kill_keepers(offload)
    time.sleep(0.5)
    (service,) = offload.daemons("serve")
    os.kill(service.pid, signal.SIGSTOP)
    job.wait(30).ok()
    offload.nothing_left(GONE_WITHIN_S)


def test_one_killed_with_all_its_service_processes_ends_the_job(offload):
    job = start(offload, "calls", 60, 1, services=2)
    job.goes_on(20)
    services = [process.pid for process in offload.daemons("serve")]
    for pid in kill_keepers(offload) and services:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    result = job.wait(60)
    assert result.returncode != 0 and "is gone" in result.out, result.out
    offload.nothing_left(GONE_WITHIN_S)


@pytest.mark.parametrize("victim", ("rank", "launcher", "all ranks"))
def test_nothing_stays_behind_when_the_job_ends_without_it(offload, victim):
    job = offload.start(3, ["steady", "operations", "60"], services=2, env=with_copiers())
    job.wait_for("steady: ready")
    kill_keepers(offload)
    job.goes_on(10)
    ranks = job.rank_pids()
    if victim == "launcher":
        os.kill(job.process.pid, signal.SIGKILL)
        job.process.wait()
        time.sleep(0.5)
    for pid in ranks[:1] if victim == "rank" else ranks:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if victim != "launcher":
        assert job.wait(30).returncode != 0
    job.kill()
    offload.nothing_left(GONE_WITHIN_S)


def test_killed_while_the_job_starts(offload):
    """Before ranks have had their welcome they go on natively; afterwards without it. Never half of them."""
    for delay_s in (0.0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1):
        job = offload.start(3, ["restarted", "kept", "1", "1"], services=2, env=with_copiers())
        assert wait_until(lambda: bool(offload.daemons("keep")), 30)
        time.sleep(delay_s)
        kill_keepers(offload)
        result = job.wait(60).ok()
        assert "WRONG" not in result.out, result.out
        offload.nothing_left(GONE_WITHIN_S)


def test_an_idle_service_process_without_one_burns_nothing(offload):
    job = offload.start(2, ["steady", "idle", "600"])
    job.wait_for("steady: ready")
    kill_keepers(offload)
    [service] = offload.daemons("serve")

    def used(seconds: float) -> float:
        before = service.cpu_seconds()
        time.sleep(seconds)
        return service.cpu_seconds() - before

    assert wait_until(lambda: used(5) < 0.1, 60), "it goes on doing something"
    for pid in job.rank_pids():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    job.wait(30)
    offload.nothing_left(GONE_WITHIN_S)
