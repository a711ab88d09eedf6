"""After kills at any moment nothing hangs and nothing stays behind; idle processes use no CPU time."""

import contextlib
import os
import random
import signal
import time

import pytest
from conftest import Stopwatch, with_copiers

ENDS_WITHIN_S = 5.0
GONE_WITHIN_S = 10.0
STOPPED_FOR_LONG_S = 12.0

MODES = ("operations", "compute", "wait")

pytestmark = [pytest.mark.one_machine, pytest.mark.any_mpi]  # on several: test_cluster_failures.py


def start(mpi, mode: str, *, ranks: int = 3, seconds: int = 60, services: int = 1, cpus: str | None = None):
    env = with_copiers() if cpus is None and mode in ("operations", "fork") else {}
    job = mpi.start(ranks, ["steady", mode, str(seconds)], services=services, cpus=cpus, env=env)
    job.wait_for("steady: ready")
    nodes = min(mpi.pretend_nodes, ranks)
    sizes = [sum(rank * nodes // ranks == node for rank in range(ranks)) for node in range(nodes)]
    expected = sum(min(services, size) for size in sizes)
    assert len(mpi.daemons("serve")) == expected, f"service processes: {mpi.daemons()}\n{job.text()}"
    assert len(mpi.daemons("keep")) == nodes, f"keepers: {mpi.daemons()}\n{job.text()}"
    return job


def must_end(mpi, job, within_s: float = ENDS_WITHIN_S):
    """The job fails in time, and all its processes go away."""
    since = Stopwatch()
    result = job.wait(within_s + 30)
    took = since.seconds()
    assert took < within_s, f"the job took {took:.1f} s to end\n{result.out}"
    assert result.returncode != 0, result.out
    mpi.nothing_left(GONE_WITHIN_S)
    return result


@pytest.mark.parametrize(("mode", "services"), [("operations", 2), ("compute", 1), ("wait", 1)])
def test_service_process_is_killed(offload, mode, services):
    job = start(offload, mode, services=services)
    job.wait_for("steady: under way")
    victim = offload.kill_services_for_good()
    result = must_end(offload, job)
    said = [line for line in result.out.splitlines() if "outrigger" in line]
    assert any(str(victim) in line for line in said), f"no line names the service process\n{result.out}"
    assert any("SIGKILL" in line or "signal 9" in line for line in said), f"no line names the signal\n{result.out}"


def test_service_process_is_killed_at_random_moments(offload):
    moments = random.Random(20)
    for _ in range(5):
        job = start(offload, "operations", ranks=2)
        offload.kill_services_for_good(pause_s=moments.uniform(0, 0.4))
        result = must_end(offload, job)
        assert "WRONG DATA" not in result.out


def test_service_process_crashes(offload):
    job = start(offload, "operations", ranks=2)
    offload.kill_services_for_good(how=signal.SIGSEGV)
    result = must_end(offload, job)
    assert "SIGSEGV" in result.out or "signal 11" in result.out


def test_service_process_is_stopped(offload):
    """Nothing progresses without it, so it is replaced after a while."""
    job = start(offload, "operations", seconds=15)
    victim = offload.daemons("serve")[0]
    os.kill(victim.pid, signal.SIGSTOP)
    result = job.wait(60).ok()
    assert "WRONG DATA" not in result.out
    assert sum(service["restarts"] for service in result.report["services"]) == 1, result.report["services"]
    offload.nothing_left(GONE_WITHIN_S)


def test_stopped_processes_that_go_on(offload):
    """A service process for a while; the whole job, as batch systems suspend one, for longer than the timeout."""
    job = start(offload, "operations", seconds=28)
    services = [process.pid for process in offload.daemons("serve")]
    everybody = services + job.rank_pids() + [process.pid for process in offload.daemons("keep")]
    for pids, seconds in ((services, 10.0), (everybody, STOPPED_FOR_LONG_S + 3)):
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        for pid in reversed(pids):
            os.kill(pid, signal.SIGCONT)
        job.goes_on(20)
    result = job.wait(80).ok()
    assert "WRONG DATA" not in result.out and "stopped" not in result.out, result.out
    offload.nothing_left(GONE_WITHIN_S)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("victim", (0, 1))
def test_rank_is_killed(offload, mode, victim):
    job = start(offload, mode)
    job.wait_for("steady: under way")
    os.kill(job.rank_pids()[victim], signal.SIGKILL)
    must_end(offload, job, GONE_WITHIN_S)


@pytest.mark.parametrize("mode", MODES)
def test_all_ranks_are_killed(offload, mode):
    job = start(offload, mode)
    for pid in job.rank_pids():
        with contextlib.suppress(ProcessLookupError):  # the launcher ends the others as soon as it sees one end
            os.kill(pid, signal.SIGKILL)
    must_end(offload, job, GONE_WITHIN_S)


@pytest.mark.parametrize("mode", ("operations", "wait"))
def test_launcher_is_killed(offload, mode):
    """Ranks whose launcher is gone may continue under some MPIs, but our processes must not outlive the ranks."""
    job = start(offload, mode, seconds=15)
    os.kill(job.process.pid, signal.SIGKILL)
    job.process.wait()
    time.sleep(0.5)
    for pid in job.rank_pids():  # as a user or a batch system would do
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    job.kill()
    offload.nothing_left(GONE_WITHIN_S)


def test_stopped_and_continued_ranks_get_the_right_bytes(offload):
    """A rank and its copier are stopped in the middle of copies: nothing comes late, nothing is lost."""
    job = start(offload, "operations", seconds=4)
    job.disturb(random.Random(4), 3)
    result = job.wait(40).ok()
    assert "WRONG DATA" not in result.out
    offload.nothing_left(GONE_WITHIN_S)


def test_children_see_and_spoil_nothing(offload):
    job = start(offload, "fork", seconds=3)
    result = job.wait(40).ok()
    assert "WRONG DATA" not in result.out
    reaches = [entry["bytes"] for entry in result.report["collectives"]]
    assert any(entry["copier"] for entry in reaches), reaches
    offload.nothing_left(GONE_WITHIN_S)


@pytest.mark.parametrize("mpi", ("mpich",), indirect=True)  # service processes are the same
def test_idle_service_process_burns_nothing(offload):
    """Below 1% of a core over 10 s, also while ranks compute with an outstanding operation."""
    modes = ("idle", "compute", "wait")
    served: dict[int, str] = {}
    for mode in modes:
        job = offload.start(2, ["steady", mode, "600"])
        job.wait_for("steady: ready")
        served |= {process.pid: f"{process.role}, {mode}" for process in offload.daemons() if process.pid not in served}
    used: dict[str, float] = {}
    for _ in range(3):  # on a busy machine they may still be active
        time.sleep(2)
        processes = offload.daemons()
        assert {process.pid for process in processes} == set(served) and len(served) == 2 * len(modes), served
        before = {process.pid: process.cpu_seconds() for process in processes}
        time.sleep(10)
        used = {served[process.pid]: process.cpu_seconds() - before[process.pid] for process in processes}
        if max(used.values()) < 0.1:
            break
    for job in offload.jobs:
        for pid in job.rank_pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert max(used.values()) < 0.1, f"CPU seconds in 10 s: {used}"
