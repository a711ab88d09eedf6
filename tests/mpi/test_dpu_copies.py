"""With service processes on a DPU, ranks that wait copy what stays on their host, and so do copiers on spare cores.
The DPU is `outriggerd dpu` on this machine, as in test_dpu.py. The report says which reach moved the bytes.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from pathlib import Path

import pytest
from local_dpus import ONE_MPI, SECOND, dpus, reached
from test_dpu_restart import OnDpu

pytestmark = pytest.mark.one_machine

GONE_WITHIN_S = 10.0
STOPS_FOR_S = 10.0
MOST_RUNS = 6
STOPPED_S = 0.02
SPARE_CPU = max(os.sched_getaffinity(0))
COPIERS = {"OUTRIGGER_COPY_CPUS": str(SPARE_CPU)}


def moved_by_host(result) -> int:
    """Bytes copied by waiting ranks. A block counts for the reach that moved most of it."""
    by_reach = reached(result)
    assert by_reach["mapped"] == by_reach["cma"] == by_reach["relay"] == 0, by_reach
    copied = result.report["copied_while_waiting"]
    assert by_reach["copier"] <= 2 * copied, by_reach
    return copied


def copiers_of(job) -> list[set[int]]:
    """The CPUs of each copier's thread."""
    threads = [task for pid in job.rank_pids() for task in Path(f"/proc/{pid}/task").iterdir()]
    named = [task for task in threads if (task / "comm").read_text().strip() == "outrigger-copy"]
    return [os.sched_getaffinity(int(task.name)) for task in named]


@pytest.mark.parametrize(("ranks", "services", "algorithms"), [(2, 1, ""), (4, 1, ""), (4, 2, SECOND)])
def test_waiting_ranks_copy(offload, ranks, services, algorithms):
    for _ in range(MOST_RUNS):  # beside other programs ranks may seldom get to wait
        with dpus(offload, services=services) as started:
            env = started.told() | {"OUTRIGGER_ALGORITHM": algorithms}
            result = offload.start(ranks, ["steady", "large", "2"], services=services, env=env).wait(90).ok()
        assert "WRONG DATA" not in result.out
        if moved_by_host(result) > 0:
            break
    assert moved_by_host(result) > 0, reached(result)
    offload.nothing_left()


@ONE_MPI
def test_between_nodes_only_what_stays_on_a_host(offload):
    offload.pretend_nodes = 2
    with dpus(offload, 2) as started:
        result = offload.start(4, ["steady", "large", "2"], env=started.told()).wait(90).ok()
    assert "WRONG DATA" not in result.out
    assert moved_by_host(result) >= 0 and reached(result)["wire"] > 0, reached(result)
    offload.nothing_left()


@ONE_MPI
@pytest.mark.parametrize("switch", [{"OUTRIGGER_REACH": "mapped,cma,rdma"}, {"OUTRIGGER_WAIT_COPIES": "off"}])
def test_switched_off_they_do_not(offload, switch):
    with dpus(offload) as started:
        job = offload.start(2, ["steady", "large", "1"], env=started.told() | switch | COPIERS)
        job.wait_for("steady: under way")
        assert not copiers_of(job)
        result = job.wait(90).ok()
    assert "WRONG DATA" not in result.out
    assert moved_by_host(result) == 0
    assert reached(result)["rdma"] > 0, reached(result)


@ONE_MPI
def test_the_dpu_moves_what_belongs_to_computing_ranks(offload):
    """The DPU does not wait for ranks that compute."""
    with dpus(offload) as started:
        result = offload.start(2, ["steady", "late", "1"], env=started.told()).wait(90).ok()
    assert "WRONG DATA" not in result.out
    assert reached(result)["rdma"] > 0, reached(result)


def test_ranks_have_copiers_on_the_spare_core(offload):
    """Their copies: tests/client/spare_copier_test.cpp. Beside other programs they seldom get the core."""
    with dpus(offload) as started:
        job = offload.start(2, ["steady", "overlap", "2"], env=started.told() | COPIERS)
        job.wait_for("steady: under way")
        assert copiers_of(job) == [{SPARE_CPU}] * 2
        result = job.wait(90).ok()
    assert "WRONG DATA" not in result.out
    offload.nothing_left()


@ONE_MPI
def test_copiers_are_killed_and_stopped_with_their_processes(offload):
    """Service processes die, and ranks stop, while copiers have jobs."""
    chance = random.Random(11)
    with dpus(offload) as started:
        job = offload.start(3, ["steady", "overlap", "6"], env=started.told() | COPIERS)
        job.wait_for("steady: ready")
        on_dpu = OnDpu(offload, started, job, nodes=1, services=1)
        job.goes_on(chance.randrange(4, 30))
        on_dpu.kill(on_dpu.serving())
        pid = chance.choice(job.rank_pids())
        for _ in range(20):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(STOPPED_S)
            os.kill(pid, signal.SIGCONT)
        result = job.wait(60).ok()
    assert "WRONG DATA" not in result.out
    assert sum(service["restarts"] for service in result.report["services"]) == 1, result.report["services"]
    offload.nothing_left(GONE_WITHIN_S)


@pytest.mark.parametrize("copiers", [{}, COPIERS], ids=["", "copiers"])
@pytest.mark.parametrize(("ranks", "services", "algorithms"), [(3, 1, ""), (4, 2, SECOND)])
def test_random_operations(offload, ranks, services, algorithms, copiers):
    with dpus(offload, services=services) as started:
        program = ["differential", "--seed", "91", "--operations", "60"]
        env = started.told() | {"OUTRIGGER_ALGORITHM": algorithms} | copiers
        result = offload.start(ranks, program, services=services, env=env).wait(150).ok()
    assert "no difference" in result.out
    assert copiers or moved_by_host(result) >= 0  # few blocks are large enough
    offload.nothing_left()


@ONE_MPI
def test_service_processes_are_killed_while_ranks_copy(offload):
    moments = random.Random(5)
    with dpus(offload) as started:
        job = offload.start(3, ["steady", "large", "8"], env=started.told())
        job.wait_for("steady: ready")
        on_dpu = OnDpu(offload, started, job, nodes=1, services=1)
        for _ in range(2):
            job.goes_on(moments.randrange(4, 30))
            on_dpu.kill(on_dpu.serving())
        result = job.wait(60).ok()
    assert "WRONG DATA" not in result.out
    assert sum(service["restarts"] for service in result.report["services"]) == 2, result.report["services"]
    offload.nothing_left(GONE_WITHIN_S)


@ONE_MPI
@pytest.mark.parametrize("victim", (0, 1))
def test_rank_is_killed_while_it_copies(offload, victim):
    moments = random.Random(victim)
    for _ in range(2):
        with dpus(offload) as started:
            job = offload.start(2, ["steady", "large", "60"], env=started.told())
            job.wait_for("steady: ready")
            job.goes_on(moments.randrange(20))
            os.kill(job.rank_pids()[victim], signal.SIGKILL)
            result = job.wait(40)
        assert result.returncode != 0, result.out
        assert "WRONG DATA" not in result.out
        offload.nothing_left(GONE_WITHIN_S)


@ONE_MPI
def test_ranks_are_stopped_while_they_copy(offload):
    """Jobs that a stopped rank has not taken go to the DPU; one in its hand waits for it."""
    with dpus(offload) as started:
        job = offload.start(3, ["steady", "large", "4"], env=started.told())
        job.wait_for("steady: ready")
        chance = random.Random(3)
        with contextlib.suppress(ProcessLookupError):
            until = time.monotonic() + STOPS_FOR_S
            while job.process.poll() is None and time.monotonic() < until:
                pid = chance.choice(job.rank_pids())
                os.kill(pid, signal.SIGSTOP)
                time.sleep(STOPPED_S)
                os.kill(pid, signal.SIGCONT)
                time.sleep(STOPPED_S)
        result = job.wait(60).ok()
    assert "WRONG DATA" not in result.out
