"""Service processes are killed at any moment, and the program notices nothing: others take their places."""

import os
import random
import signal
import time

import pytest
from conftest import Stopwatch, wait_until, with_copiers

pytestmark = pytest.mark.one_machine

GONE_WITHIN_S = 10.0
RESTARTS_WITHIN_S = 5.0

HANGS = {"loop": signal.SIGUSR1, "block": signal.SIGUSR2}
"""What OUTRIGGER_FAULTS=hang has a service process do at a signal, for ever."""

REACHES = {
    "copiers": {**with_copiers()},
    "no-copiers": {"OUTRIGGER_REACH": "mapped,cma", **with_copiers()},
    "heap": {"OUTRIGGER_REACH": "heap,mapped,cma,copier", **with_copiers()},
    "shared-cores": {},
}


def start(mpi, mode: str, seconds: int, seed: int, *, ranks: int = 3, services: int = 1, env=None):
    if mpi.pretend_nodes > 1:
        pytest.skip("between nodes a death ends the job")
    job = mpi.start(ranks, ["restarted", mode, str(seconds), str(seed)], services=services, env=env or with_copiers())
    job.wait_for("restarted: ready")
    return job


def services_of(mpi) -> list[int]:
    return [process.pid for process in mpi.daemons("serve") if process.alive()]


def kill(mpi, victims: list[int]) -> None:
    """And waits until there are as many as before."""
    before = len(services_of(mpi))
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    since = Stopwatch()
    back = since.sees(
        lambda: len(services_of(mpi)) == before and not set(victims) & set(services_of(mpi)), RESTARTS_WITHIN_S
    )
    assert back, f"service processes: {mpi.daemons()}"


def must_be_right(mpi, job, deaths: int):
    result = job.wait(60).ok()
    assert "WRONG" not in result.out and "outrigger:" not in result.out, result.out
    mpi.nothing_left(GONE_WITHIN_S)
    restarts = sum(service["restarts"] for service in result.report["services"])
    assert restarts == deaths, result.report["services"]
    return result


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("services", (1, 2))
def test_killed_at_random_moments(offload, services, reach):
    moments = random.Random(f"{services} {reach}")
    for seed in range(2):
        job = start(offload, "calls", 3, seed, services=services, env=REACHES[reach])
        for _ in range(2):
            time.sleep(moments.uniform(0, 0.7))
            kill(offload, [moments.choice(services_of(offload))])
        must_be_right(offload, job, 2)


@pytest.mark.parametrize("services", (1, 2))
@pytest.mark.parametrize("mode", ("compute", "native"))
def test_killed_while_ranks_do_something_else(offload, mode, services):
    """They compute, or sit in a call of their MPI: nobody but service processes gets on."""
    moments = random.Random(f"{mode} {services}")
    job = start(offload, mode, 3, 5, services=services)
    for _ in range(2):
        time.sleep(moments.uniform(0, 0.7))
        kill(offload, [moments.choice(services_of(offload))])
    must_be_right(offload, job, 2)


@pytest.mark.parametrize("services", (1, 2))
def test_killed_with_operations_outstanding(offload, services):
    """A part of each is there, the rest comes after the death."""
    job = start(offload, "holding", 2, 0, services=services)
    time.sleep(0.5)
    kill(offload, services_of(offload)[:1])
    must_be_right(offload, job, 1)


def test_all_killed_at_once(offload):
    for seed in range(3):
        job = start(offload, "calls", 2, seed, ranks=4, services=2)
        time.sleep(0.1 + 0.2 * seed)
        kill(offload, services_of(offload))
        must_be_right(offload, job, 2)


def test_killed_while_it_starts(offload):
    """Before any rank has had its welcome, and just after."""
    if offload.pretend_nodes > 1:
        pytest.skip("between nodes a death ends the job")
    for delay_s in (0.0, 0.002, 0.005, 0.02, 0.05):
        job = offload.start(3, ["restarted", "calls", "1", "1"], services=2, env=with_copiers())
        assert wait_until(lambda: bool(services_of(offload)), 30)
        time.sleep(delay_s)
        os.kill(services_of(offload)[0], signal.SIGKILL)
        must_be_right(offload, job, 1)


@pytest.mark.parametrize("how", ("at once", "one after the other"))
def test_too_many_deaths_end_the_job(offload, how):
    job = start(offload, "calls", 60, 1, ranks=3, services=1 if how != "at once" else 3)
    for _ in range(2 if how != "at once" else 0):
        kill(offload, services_of(offload))
        time.sleep(0.2)
    victims = services_of(offload)
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    since = Stopwatch()
    result = job.wait(40)
    assert since.seconds() < RESTARTS_WITHIN_S and result.returncode != 0, result.out
    said = [line for line in result.out.splitlines() if "outrigger" in line and "have died within 60 s" in line]
    assert said and any(str(pid) in said[0] for pid in victims) and "signal 9" in said[0], result.out
    offload.nothing_left(GONE_WITHIN_S)


@pytest.mark.parametrize("services", (1, 2))
@pytest.mark.parametrize("how", HANGS)
def test_one_that_does_not_get_on_is_replaced(offload, how, services):
    """It is alive, and neither stopped nor starved."""
    moments = random.Random(f"{how} {services}")
    job = start(offload, "calls", 3, 7, services=services, env=with_copiers() | {"OUTRIGGER_FAULTS": "hang"})
    time.sleep(moments.uniform(0, 1.5))
    victim = moments.choice(services_of(offload))
    os.kill(victim, HANGS[how])
    since = Stopwatch()
    result = must_be_right(offload, job, 1)
    assert since.seconds() > 10, "it was taken for hung too early"
    assert result.returncode == 0


def test_one_that_hangs_while_ranks_compute_is_replaced_when_there_is_work(offload):
    """Nobody rings: a loop is seen by the time that it takes."""
    job = start(offload, "holding", 18, 7, env=with_copiers() | {"OUTRIGGER_FAULTS": "hang"})
    time.sleep(0.5)
    os.kill(services_of(offload)[0], HANGS["loop"])
    must_be_right(offload, job, 1)
