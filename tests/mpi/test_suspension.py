"""The library's choice of native or offloaded: small blocks stay native, and so does everything while other processes
take the service process's core. All ranks must change at the same call, with any outstanding operations.
"""

import os
import signal
import subprocess
import threading

import pytest
from conftest import Process, wait_until

pytestmark = [pytest.mark.one_machine, pytest.mark.any_mpi]

LAST = str(max(os.sched_getaffinity(0)))
FIRST = str(min(os.sched_getaffinity(0)))
OWN_CORE = {"OUTRIGGER_SERVICE_CPUS": LAST}


class Loop:
    """A process that takes the service process's core."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(["taskset", "-c", LAST, "sh", "-c", "while :; do :; done"])

    def come_and_go(self, end: threading.Event) -> None:
        while not end.is_set():
            os.kill(self.process.pid, signal.SIGSTOP)
            end.wait(2.0)
            os.kill(self.process.pid, signal.SIGCONT)
            end.wait(0.3)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def loop():
    started = Loop()
    try:
        assert wait_until(lambda: Process(started.process.pid, ()).cpu_seconds() > 0.05, 60)
        yield started
    finally:
        started.end()


@pytest.fixture
def measured(offload):
    offload.measured_choice = True
    return offload


def native(result) -> dict[str, int]:
    counts: dict[str, int] = {}
    for entry in result.report["collectives"]:
        for reason, calls in entry["native"].items():
            counts[reason] = counts.get(reason, 0) + calls
    return counts


def test_small_blocks_are_native(measured):
    """Only common forms: MPIs have errors in rare forms, which would be found here."""
    fixed = {"OUTRIGGER_CHOICE": "fixed"}
    result = measured.run(2, ["differential", "--seed", "3", "--operations", "60"], env=fixed, timeout_s=150).ok()
    assert "no difference" in result.out
    assert native(result)["small blocks"] > 0


@pytest.mark.parametrize(("nodes", "services"), [(1, 1), (1, 2), (2, 1)])
def test_v_forms_change_with_their_sizes(measured, nodes, services):
    """8 calls with small blocks make the next ones native, a large one ends that, later each time. Service processes
    agree on it.
    """
    measured.pretend_nodes = nodes
    fixed = {"OUTRIGGER_CHOICE": "fixed"}  # else all is native where ranks need every core, until that is tried
    result = measured.run(4, ["plans", "2", "v"], services=services, env=fixed).ok()
    assert "right" in result.out
    assert native(result)["small blocks"] > 0
    assert result.offloaded() > 0


@pytest.mark.skipif(FIRST == LAST, reason="needs two cores")
def test_a_taken_core_makes_calls_native_and_a_free_one_brings_them_back(measured, loop):
    """Several times in a run, with operations outstanding on two communicators."""
    job = measured.start(3, ["plans", "9"], env=OWN_CORE, cpus=FIRST)
    end = threading.Event()
    coming_and_going = threading.Thread(target=loop.come_and_go, args=(end,))
    job.wait_for("plans: ready")
    coming_and_going.start()
    result = job.wait(60).ok()
    end.set()
    coming_and_going.join()
    assert "right" in result.out
    counts = native(result)
    assert counts.get("service core taken", 0) > 0, result.report
    assert result.offloaded() > 0, result.report
    assert "other processes take the core of a service process" in result.out
    assert result.report["services"][0]["core_taken"] > 0.01
    measured.nothing_left()


@pytest.mark.skipif(FIRST == LAST, reason="needs two cores")
def test_a_job_that_is_killed_says_it_too(measured, loop):
    job = measured.start(3, ["plans", "60"], env=OWN_CORE, cpus=FIRST)
    job.wait_for("other processes take the core of a service process")
    os.kill(job.rank_pids()[0], signal.SIGKILL)
    result = job.wait(60)
    assert result.report["services"][0]["core_taken"] > 0.1, result.report
    measured.nothing_left(10)


@pytest.mark.skipif(FIRST == LAST, reason="needs two cores")
def test_what_a_rule_names_stays_offloaded(offload, loop):
    result = offload.run(3, ["plans", "1"], env=OWN_CORE, cpus=FIRST).ok()
    assert "right" in result.out
    assert native(result) == {}
