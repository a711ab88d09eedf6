"""Jobs that share a node: a core that one has for its service process is not given to another."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import Job, Mpi, wait_until
from test_run import start

pytestmark = [
    pytest.mark.any_mpi,
    pytest.mark.one_machine,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a service process has no core of its own here"),
]

FIRST = str(min(os.sched_getaffinity(0)))
SCOPE = f"jobs-{os.getpid()}"
"""Excludes other tests' jobs."""
HEEDING = {"OUTRIGGER_CORE_CLAIMS": SCOPE}


def claimants(by: str) -> dict[int, set[int]]:
    """The processes that claim each CPU."""
    found: dict[int, set[int]] = {}
    for line in Path("/proc/net/unix").read_text(errors="replace").splitlines():
        if claim := re.search(rf"@outrigger-claim:{SCOPE}:{by}:(\d+):[^:]+:(\d+)$", line):
            found.setdefault(int(claim[1]), set()).add(int(claim[2]))
    return found


def begin(mpi: Mpi, **env: str) -> Job:
    """A job whose ranks are on the first core, when it runs."""
    job = mpi.start(2, ["steady", "idle", "120"], cpus=FIRST, env={**HEEDING, **env})
    job.wait_for("steady: ready")
    return job


def end(*jobs: Job) -> None:
    for job in jobs:
        os.kill(job.process.pid, signal.SIGTERM)
        job.wait(60)
    assert wait_until(lambda: not claimants("service"), 30)


def finish(mpi: Mpi, **env: str) -> dict:
    """The service process of a short job beside it, which must be correct."""
    program = ["differential", "--seed", "5", "--operations", "20"]
    result = mpi.start(2, program, cpus=FIRST, env={**HEEDING, **env}).wait(120).ok()  # the other job stays
    assert "no difference" in result.out and result.offloaded() > 0
    (service,) = result.report["services"]
    return {**service, "out": result.out}


def test_a_core_has_one_job_until_its_keeper_is_killed(offload):
    first = begin(offload)
    (keeper,) = offload.daemons("keep")
    (core,) = claimants("service")
    assert claimants("service") == {core: {keeper.pid}}
    assert claimants("ranks") == {int(FIRST): {keeper.pid}}
    second = finish(offload)
    if len(os.sched_getaffinity(0)) == 2:
        assert second["other_job"] == keeper.pid, second
        assert second["core"] == core and not second["core_is_free"]
    else:
        assert second["core"] not in (core, int(FIRST)) and second["other_job"] is None
    assert first.process.poll() is None
    os.kill(keeper.pid, signal.SIGKILL)
    assert wait_until(lambda: not claimants("service") and not claimants("ranks"), 30)
    end(first)
    third = finish(offload)
    assert third["other_job"] is None and third["core_is_free"]


TOLD, ALONE = "shared with another job (pid ", "no other job uses it any more"


def begin_with_log(mpi: Mpi, directory: Path, *program: str) -> tuple[Job, Path]:
    """Its keeper logs events of other jobs there."""
    log = directory / "log"
    job = mpi.start(2, ["steady", *program], cpus=FIRST, env={**HEEDING, "OUTRIGGER_LOG": f"info:{log}"})
    job.wait_for("steady: ready")
    assert TOLD not in log.read_text() and ALONE not in log.read_text()
    return job, log


@pytest.mark.skipif(len(os.sched_getaffinity(0)) != 2, reason="a second job finds a core of its own")
def test_the_first_job_is_told_of_the_second_and_of_its_end(offload, tmp_path):
    first, log = begin_with_log(offload, tmp_path, "operations", "20")
    second = begin(offload)
    assert wait_until(lambda: TOLD in log.read_text(), 30), log.read_text()
    os.kill(second.process.pid, signal.SIGTERM)
    second.wait(60)
    assert wait_until(lambda: ALONE in log.read_text(), 30), log.read_text()
    result = first.wait(60).ok()
    (service,) = result.report["services"]
    assert service["core_is_free"], "when it began"
    assert service["other_job"] == int(log.read_text().split(TOLD)[1].split(")")[0])


@pytest.mark.skipif(len(os.sched_getaffinity(0)) != 2, reason="a second job finds a core of its own")
def test_a_second_job_is_told_of_the_end_of_the_first_and_a_killed_one_is_heard_of(offload, tmp_path):
    first = begin(offload)
    (keeper,) = offload.daemons("keep")
    second = offload.start(
        2, ["steady", "idle", "120"], cpus=FIRST, env={**HEEDING, "OUTRIGGER_LOG": f"info:{tmp_path / 'log'}"}
    )
    second.wait_for("steady: ready")
    log = (tmp_path / "log").read_text
    assert f"{TOLD}{keeper.pid})" in log() and ALONE not in log()
    os.kill(keeper.pid, signal.SIGKILL)
    assert wait_until(lambda: ALONE in log(), 30), log()
    third = finish(offload)
    assert third["other_job"] is not None, "the second one still has it"
    end(first, second)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) != 2, reason="a second job finds cores of its own")
def test_it_is_told_of_a_native_one_that_the_command_has_placed(offload, tmp_path):
    (tmp_path / "temporary").mkdir()
    first, log = begin_with_log(offload, tmp_path, "idle", "120")
    native = start(offload, tmp_path, [str(offload.programs / "steady"), "idle", "3"], "--native", "--bind",
                   str(max(os.sched_getaffinity(0))), ranks=1, **HEEDING)  # fmt: skip
    native.wait_for("steady: ready")
    assert wait_until(lambda: TOLD in log.read_text(), 30), log.read_text()
    native.wait(60).ok()
    assert wait_until(lambda: ALONE in log.read_text(), 30), log.read_text()
    end(first)


def test_a_job_that_is_alone_is_not_woken(offload):
    """Watching for other jobs costs nothing while there are none."""
    first = begin(offload)
    (keeper,) = offload.daemons("keep")
    assert wait_until(lambda: not turns(keeper.pid, 1.0), 30), "it goes on doing something"
    end(first)


def turns(pid: int, seconds: float) -> int:
    """Wake-ups of a process in `seconds`."""

    def count() -> int:
        return int(re.findall(r"^voluntary_ctxt_switches:\s*(\d+)", Path(f"/proc/{pid}/status").read_text(), re.M)[0])

    before = count()
    time.sleep(seconds)
    return count() - before


def test_a_core_that_is_named_is_had_and_a_line_says_whose_it_is(offload):
    first = begin(offload)
    (keeper,) = offload.daemons("keep")
    (core,) = claimants("service")
    second = finish(offload, OUTRIGGER_SERVICE_CPUS=str(core))
    assert second["core"] == core and second["other_job"] == keeper.pid and not second["core_is_free"]
    assert f"another job (process {keeper.pid}) also uses core {core} of OUTRIGGER_SERVICE_CPUS" in second["out"]
    end(first)


def test_jobs_that_do_not_heed_others_are_as_if_alone(offload):
    first = begin(offload)
    service = finish(offload, OUTRIGGER_CORE_CLAIMS="off")
    assert service["other_job"] is None and service["core_is_free"]
    end(first)


def test_pretended_nodes_are_one_job(offload):
    """Each has a keeper: they do not count each other as other jobs."""
    job = offload.start(2, ["steady", "idle", "120"], env={**HEEDING, "OUTRIGGER_PRETEND_NODES": "2"}, cpus=FIRST)
    job.wait_for("steady: ready")
    keepers = {process.pid for process in offload.daemons("keep")}
    assert len(keepers) == 2
    assert set().union(*claimants("service").values()) == keepers
    end(job)
    result = offload.run(2, ["differential", "--seed", "5", "--operations", "20"],
                         env={"OUTRIGGER_PRETEND_NODES": "2", **HEEDING}, cpus=FIRST,
                         timeout_s=120).ok()  # fmt: skip
    assert all(service["other_job"] is None for service in result.report["services"])


def test_the_command_plans_around_other_jobs_and_says_what_is_shared(offload, tmp_path):
    (tmp_path / "temporary").mkdir()
    steady = str(offload.programs / "steady")
    first = start(offload, tmp_path, [steady, "idle", "120"], ranks=1, **HEEDING)
    first.wait_for("steady: ready")
    holders = claimants("service")
    assert holders and all(first.process.pid in pids for pids in holders.values())
    second = start(offload, tmp_path, [steady, "operations", "0"], "--report", ranks=1, **HEEDING).wait(60).ok()
    planned = subprocess.run(
        [sys.executable, "-m", "outrigger", "info", "--build", str(offload.build)],
        env={**os.environ, **HEEDING, "COLUMNS": "300"}, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert re.search(rf"service processes on CPUs? .*\b{first.process.pid}\b", planned.stdout), planned.stdout
    if len(os.sched_getaffinity(0)) == 2:
        assert re.search(
            r"another job of \S+ \(process \d+: .+\) also has CPUs? [\d,-]+, where service processes", second.out
        )
        assert "which another job has too" in " ".join(second.out.split()), second.out  # in lines of any width
    end(first)
