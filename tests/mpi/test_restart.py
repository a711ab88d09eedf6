"""Service processes are killed at any moment and replaced, unnoticed by the program."""

import os
import random
import re
import signal
import time

import pytest
from conftest import Stopwatch, wait_until, with_copiers

pytestmark = [pytest.mark.one_machine, pytest.mark.any_mpi]

GONE_WITHIN_S = 10.0
LASTS_S = 60
"""Duration of a job that is not told to end before."""
RESTARTS_WITHIN_S = 5.0

HANGS = {"loop": signal.SIGUSR1, "block": signal.SIGUSR2}
"""Signals at which OUTRIGGER_FAULTS=hang makes a service process hang for ever."""

REACHES = {
    "copiers": {**with_copiers()},
    "no-copiers": {"OUTRIGGER_REACH": "mapped,cma", **with_copiers()},
    "heap": {"OUTRIGGER_SHARED_HEAP": "on", "OUTRIGGER_REACH": "mapped,cma,copier", **with_copiers()},
    "shared-cores": {},
}


def start(mpi, mode: str, seconds: int, seed: int, *, ranks: int = 3, services: int = 1, env=None):
    job = mpi.start(ranks, ["restarted", mode, str(seconds), str(seed)], services=services, env=env or with_copiers())
    job.wait_for("restarted: ready")
    return job


def services_of(mpi) -> list[int]:
    return [one.pid for one in mpi.serving()]


def kill(mpi, victims: list[int], *, of: int | None = None) -> None:
    """Waits until there are as many as before, or as many as `of` if some are missing now."""
    before = of or len(services_of(mpi))
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    since = Stopwatch()
    back = since.sees(
        lambda: len(services_of(mpi)) == before and not set(victims) & set(services_of(mpi)), RESTARTS_WITHIN_S
    )
    assert back, f"service processes: {mpi.daemons()}\n{mpi.jobs[-1].text()}"


def must_be_right(mpi, job, deaths: int, *, others=lambda: 0):
    """`others`: returns the number of further deaths, called when the job is over."""
    job.end_soon()
    result = job.wait(60).ok()
    assert "WRONG" not in result.out and "outrigger:" not in result.out, result.out
    mpi.nothing_left(GONE_WITHIN_S)
    restarts = sum(service["restarts"] for service in result.report["services"])
    assert restarts == deaths + others(), result.report["services"]
    return result


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("services", (1, 2))
def test_killed_at_random_moments(offload, services, reach):
    moments = random.Random(f"{services} {reach}")
    job = start(offload, "calls", LASTS_S, services, services=services, env=REACHES[reach])
    for _ in range(2):
        job.goes_on(moments.randrange(60))
        kill(offload, [moments.choice(services_of(offload))])
    must_be_right(offload, job, 2)


@pytest.mark.parametrize("services", (1, 2))
@pytest.mark.parametrize("mode", ("compute", "native"))
def test_killed_while_ranks_do_something_else(offload, mode, services):
    """They compute, or block in their MPI: only service processes make progress."""
    moments = random.Random(f"{mode} {services}")
    job = start(offload, mode, LASTS_S, 5, services=services)
    for _ in range(2):
        job.goes_on(moments.randrange(60))
        kill(offload, [moments.choice(services_of(offload))])
    must_be_right(offload, job, 2)


@pytest.mark.parametrize("services", (1, 2))
def test_killed_with_operations_outstanding(offload, services):
    """A part of each is placed, the rest comes after the death."""
    job = start(offload, "holding", LASTS_S, 0, services=services)
    time.sleep(0.5)
    kill(offload, services_of(offload)[:1])
    must_be_right(offload, job, 1)


def test_all_killed_at_once(offload):
    for seed in range(3):
        job = start(offload, "calls", LASTS_S, seed, ranks=4, services=2)
        job.goes_on(10 + 20 * seed)
        victims = services_of(offload)
        kill(offload, victims)
        must_be_right(offload, job, len(victims))


def test_killed_while_it_starts(offload):
    """Before any rank has had its welcome, and just after."""
    for delay_s in (0.0, 0.002, 0.005, 0.02, 0.05):
        job = offload.start(3, ["restarted", "calls", "1", "1"], services=2, env=with_copiers())
        assert wait_until(lambda: bool(services_of(offload)), 30)
        time.sleep(delay_s)
        os.kill(services_of(offload)[0], signal.SIGKILL)
        must_be_right(offload, job, 1)


def said_in(result) -> list[str]:
    return [line for line in result.out.splitlines() if line.startswith("outrigger: service process")]


def must_have_become_native(result) -> None:
    """After too many deaths: the reason is printed once, and is in the report."""
    result.ok()
    assert "WRONG" not in result.out, result.out
    said = said_in(result)
    assert len(said) == 1 and "have died within 60 s" in said[0] and "collectives run natively" in said[0], result.out
    warnings = [service["warning"] for service in result.report["services"] if service["warning"]]
    assert warnings and "signal" in warnings[0] and "after it had taken" in warnings[0], result.report["services"]
    native = [row["native"].get("services died", 0) for row in result.report["collectives"]]
    assert sum(native) > 0 and sum(row["offloaded"] for row in result.report["collectives"]) > 0, native


@pytest.mark.parametrize(
    "collective",
    ("ialltoallv", "ibcast", "iallreduce", "igather", "ibarrier", "ireduce_scatter", "iscan", "ineighbor_alltoallv"),
)
def test_one_that_dies_three_times_at_an_operation_is_followed_by_a_careful_one(offload, collective):
    if offload.pretend_nodes > 1:
        pytest.skip("each node counts its own, and says so")
    env = with_copiers() | {"OUTRIGGER_FAULTS": f"crash:{collective}:3"}
    # With two communicators different operations would be first, so deaths would be at different ones.
    result = start(offload, "ordered", 3, 3, env=env).wait(60)
    must_have_become_native(result)
    assert "signal 11" in said_in(result)[0] and f"had taken {collective}, number" in said_in(result)[0]
    assert [service["restarts"] for service in result.report["services"]] == [3]
    offload.nothing_left(GONE_WITHIN_S)


def test_one_that_always_dies_at_an_operation_ends_the_job(offload):
    env = with_copiers() | {"OUTRIGGER_FAULTS": "crash:ialltoallv:1000"}
    result = offload.start(3, ["restarted", "calls", "20", "3"], env=env).wait(60)
    assert result.returncode != 0 and "WRONG" not in result.out, result.out
    last = said_in(result)[-1]
    assert "signal 11" in last and "had taken ialltoallv, number" in last and "7 have died within 60 s" in last
    assert "the job cannot go on" in last
    offload.nothing_left(GONE_WITHIN_S)


def test_all_that_die_at_once_are_replaced_as_often_as_one(offload):
    """Neither the operation nor the place is at fault."""
    job = start(offload, "kept", LASTS_S, 1, services=3)
    for _ in range(2):
        job.goes_on(20)
        kill(offload, services_of(offload))
    must_be_right(offload, job, 6)


def test_too_many_deaths_make_collectives_native(offload):
    """Six of a place, at any operations; later kills find no process."""
    if offload.pretend_nodes > 1:
        pytest.skip("each node counts its own, and says so")
    job = start(offload, "kept", LASTS_S, 1)
    job.goes_on(20)
    for _ in range(8):
        kill(offload, services_of(offload))
        job.goes_on(10)
    job.end_soon()
    must_have_become_native(job.wait(60))
    offload.nothing_left(GONE_WITHIN_S)


def test_far_too_many_deaths_end_the_job(offload):
    job = start(offload, "kept", 60, 1)
    victim = offload.kill_services_for_good()
    since = Stopwatch()
    result = job.wait(40)
    assert since.seconds() < RESTARTS_WITHIN_S and result.returncode != 0, result.out
    last = said_in(result)[-1]
    assert re.search(r"\b(7|8|9|10) have died within 60 s", last), result.out
    assert str(victim) in last and "signal 9" in last, result.out
    offload.nothing_left(GONE_WITHIN_S)


@pytest.mark.parametrize("services", (1, 2))
@pytest.mark.parametrize("how", HANGS)
def test_one_that_does_not_get_on_is_replaced(offload, how, services):
    """It is alive, and neither stopped nor starved."""
    moments = random.Random(f"{how} {services}")
    job = start(offload, "calls", LASTS_S, 7, services=services, env=with_copiers() | {"OUTRIGGER_FAULTS": "hang"})
    job.goes_on(moments.randrange(60))
    victim = moments.choice(services_of(offload))
    os.kill(victim, HANGS[how])
    since = Stopwatch()
    result = must_be_right(offload, job, 1)
    assert since.seconds() > 10, "it was taken for hung too early"
    assert result.returncode == 0


def test_one_that_hangs_while_ranks_compute_is_replaced_when_there_is_work(offload):
    """No doorbell rings: a loop is detected by its CPU time."""
    job = start(offload, "holding", LASTS_S, 7, env=with_copiers() | {"OUTRIGGER_FAULTS": "hang"})
    time.sleep(0.5)
    (victim,) = services_of(offload)
    os.kill(victim, HANGS["loop"])
    since = Stopwatch()
    assert since.sees(lambda: victim not in services_of(offload), 25)
    must_be_right(offload, job, 1)
