"""Service processes on a DPU are killed at any moment, unnoticed by the program: a standby process replaces each. The
DPU is `outriggerd dpu` on this machine, as in test_dpu.py.
"""

import os
import random
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from conftest import Job, Mpi, Result, Stopwatch
from local_dpus import ONE_MPI, SECOND, Dpus, dpus, reached
from test_restart import HANGS, LASTS_S

pytestmark = [pytest.mark.one_machine, pytest.mark.any_mpi]

STARTS_WITHIN_S = 10.0
STOPPED_FOR_S = 12.0  # until a stopped one is replaced


class OnDpu:
    """A job whose service processes are on DPUs, and those processes."""

    def __init__(self, mpi: Mpi, started: Dpus, job: Job, nodes: int, services: int) -> None:
        self.mpi = mpi
        self.started = started
        self.job = job
        self.nodes = nodes
        self.services = services

    def by_dpu(self) -> list[list[int]]:
        """The oldest first; the last one of each DPU is its standby process."""
        return self.mpi.serving_by_keeper()

    def serving(self) -> list[int]:
        return [pid for dpu in self.by_dpu() for pid in dpu[: self.services]]

    def standing_by(self) -> list[int]:
        return [pid for dpu in self.by_dpu() for pid in dpu[self.services :]]

    def kill(self, victims: list[int], how: int = signal.SIGKILL) -> None:
        """Waits until there are as many as before."""
        for pid in victims:
            os.kill(pid, how)
        since = Stopwatch()
        everybody = self.nodes * (self.services + 1)

        def complete() -> bool:
            alive = {pid for dpu in self.by_dpu() for pid in dpu}
            return len(alive) == everybody and not alive & set(victims)

        assert since.sees(complete, STARTS_WITHIN_S), f"{self.by_dpu()}\n{self.job.text()}"

    def must_be_right(self, *deaths: int) -> Result:
        """With one of these numbers of replacements."""
        self.job.end_soon()
        result = self.job.wait(90).ok()
        said = re.sub("outrigger: (offloading|waits are polite):", "", result.out)  # the log, if requested
        assert "WRONG" not in said and "outrigger:" not in said, result.out
        by_reach = reached(result)
        assert by_reach["wire" if self.nodes > 1 else "rdma"] > 0, by_reach
        assert by_reach["mapped"] == by_reach["cma"] == by_reach["relay"] == 0, by_reach
        assert sum(service["restarts"] for service in result.report["services"]) in deaths, result.report["services"]
        return result


@contextmanager
def job_on_dpus(mpi, mode, seconds, seed, *, ranks=3, nodes=1, services=1, environment=None) -> Iterator[OnDpu]:
    mpi.pretend_nodes = nodes
    with dpus(mpi, nodes, services, environment=environment) as started:
        program = ["restarted", mode, str(seconds), str(seed)]
        job = mpi.start(ranks, program, services=services, env=started.told())
        job.wait_for("restarted: ready")
        yield OnDpu(mpi, started, job, nodes, services)
    mpi.nothing_left()


@pytest.mark.parametrize("algorithms", ("", SECOND), ids=("first", "second"))
@pytest.mark.parametrize("services", (1, 2))
def test_killed_at_random_moments(offload, services, algorithms):
    moments = random.Random(f"{services} {algorithms}")
    environment = {"OUTRIGGER_ALGORITHM": algorithms}
    with job_on_dpus(offload, "calls", LASTS_S, services, services=services, environment=environment) as job:
        for _ in range(4):
            job.job.goes_on(moments.randrange(60))
            job.kill([moments.choice(job.serving())])
        job.must_be_right(4)


@pytest.mark.parametrize("services", (1, 2))
@pytest.mark.parametrize("mode", ("compute", "native"))
def test_killed_while_ranks_do_something_else(offload, mode, services):
    """They compute, or block in their MPI: only service processes make progress."""
    moments = random.Random(f"{mode} {services}")
    with job_on_dpus(offload, mode, LASTS_S, 5, services=services) as job:
        for _ in range(2):
            job.job.goes_on(moments.randrange(60))
            job.kill([moments.choice(job.serving())])
        job.must_be_right(2)


@pytest.mark.parametrize("services", (1, 2))
def test_killed_with_operations_of_every_kind_outstanding(offload, services):
    """A part of each is placed, the rest comes after the death."""
    with job_on_dpus(offload, "holding", LASTS_S, 0, services=services) as job:
        time.sleep(0.5)
        job.kill(job.serving()[:1])
        job.must_be_right(1)


def test_killed_again_while_no_rank_makes_a_call(offload):
    """Their replacements had to connect while ranks did something else."""
    log = offload.directory / "services.log"
    with job_on_dpus(offload, "holding", LASTS_S, 0, environment={"OUTRIGGER_LOG": f"info:{log}"}) as job:

        def taken() -> int:
            return log.read_text().count("replaced another service process")

        since = Stopwatch()
        for death in range(1, 4):
            job.kill(job.serving())
            assert since.sees(lambda death=death: taken() == death, 8), log.read_text()
        job.must_be_right(3)


def test_several_at_once(offload):
    """One stands by; the others' replacements still have to connect."""
    for seed in range(2):
        with job_on_dpus(offload, "calls", LASTS_S, seed, ranks=4, services=3) as job:
            job.job.goes_on(10 + 20 * seed)
            job.kill(job.serving())
            job.must_be_right(3)


@pytest.mark.parametrize("pause_s", (0.01, 0.025, 0.05))
def test_one_that_takes_a_place_is_killed_at_once(offload, pause_s):
    """Before it has the place, or while it reads its state."""
    with job_on_dpus(offload, "calls", LASTS_S, 3) as job:
        job.job.goes_on(20)
        (first,), (second,) = job.serving(), job.standing_by()
        os.kill(first, signal.SIGKILL)
        time.sleep(pause_s)
        job.kill([second])
        job.must_be_right(1, 2)


def test_one_that_stands_by_is_killed(offload):
    """Unnoticed; another one stands by."""
    with job_on_dpus(offload, "calls", LASTS_S, 3) as job:
        job.kill(job.standing_by())
        job.job.goes_on(20)
        job.kill(job.serving())
        job.must_be_right(1)


@ONE_MPI
def test_one_that_is_stopped_is_replaced(offload):
    with job_on_dpus(offload, "calls", LASTS_S, 2) as job:
        (victim,) = job.serving()
        os.kill(victim, signal.SIGSTOP)
        since = Stopwatch()
        assert since.sees(lambda: victim not in job.serving(), STOPPED_FOR_S + 8)
        assert since.seconds() > STOPPED_FOR_S - 2
        job.must_be_right(1)


@ONE_MPI
@pytest.mark.parametrize("how", HANGS)
def test_one_that_does_not_get_on_is_replaced(offload, how):
    """It is alive, and neither stopped nor starved."""
    with job_on_dpus(offload, "calls", LASTS_S, 7, environment={"OUTRIGGER_FAULTS": "hang"}) as job:
        job.job.goes_on(20)
        os.kill(job.serving()[0], HANGS[how])
        job.must_be_right(1)


@ONE_MPI
def test_too_many_deaths_leave_the_dpu(offload):
    """Processes on cores of the host continue."""
    with job_on_dpus(offload, "calls", 60, 2) as job:
        for _ in range(6):
            job.kill(job.serving())
        since = Stopwatch()
        while "have died" not in job.job.text():
            assert since.seconds() < 40, job.job.text()
            for pid in job.serving():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.2)
        job.job.end_soon()
        result = job.job.wait(90).ok()
    said = [line for line in result.out.splitlines() if "outrigger:" in line]
    assert len(said) == 1 and "signal 9" in said[0], result.out
    assert re.search(r"\b(7|8|9|10) have died within 60 s in its place: service processes on this node", said[0]), said
    assert "WRONG" not in result.out, result.out


@ONE_MPI
def test_one_that_always_dies_at_an_operation_ends_the_job(offload):
    """On the host as on the DPU."""
    environment = {"OUTRIGGER_FAULTS": "crash:ialltoallv:1000"}
    with job_on_dpus(offload, "calls", 60, 3, environment=environment) as job:
        result = job.job.wait(60)
    assert result.returncode != 0 and "WRONG" not in result.out, result.out
    assert "7 have died within 60 s in its place: service processes on this node" in result.out, result.out
    assert "signal 11" in result.out and "had taken ialltoallv, number" in result.out, result.out
    assert "the job cannot go on" in result.out, result.out


@pytest.mark.parametrize("services", (1, 2))
def test_killed_on_several_nodes(offload, services):
    """On alternating nodes; the other nodes are told."""
    moments = random.Random(services)
    with job_on_dpus(offload, "calls", LASTS_S, services, ranks=4, nodes=2, services=services) as job:
        for turn in range(4):
            job.job.goes_on(moments.randrange(60))
            job.kill([moments.choice(job.by_dpu()[turn % 2][:services])])
        job.must_be_right(4)


def test_all_of_both_nodes_are_killed_at_once(offload):
    with job_on_dpus(offload, "calls", LASTS_S, 1, ranks=4, nodes=2) as job:
        job.job.goes_on(20)
        job.kill(job.serving())
        job.must_be_right(2)
