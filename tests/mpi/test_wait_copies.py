"""Copies by waiting ranks: the conditions, and kills during copies."""

import contextlib
import os
import random
import signal
import time

import pytest
from conftest import with_copiers

GONE_WITHIN_S = 10.0
STOPPED_S = 0.05
BETWEEN_STOPS_S = 0.02
OFF = {"OUTRIGGER_WAIT_COPIES": "off"}

pytestmark = [pytest.mark.one_machine, pytest.mark.any_mpi]


def received(result, reach: str) -> int:
    return sum(entry["bytes"][reach] for entry in result.report["collectives"])


@pytest.mark.parametrize(("ranks", "pattern"), ((2, "larger"), (4, "larger"), (2, "late")))
def test_waiting_ranks_copy(offload, ranks, pattern):
    """The service process is stopped repeatedly: all ranks wait when it continues and gives out copies."""
    job = offload.start(ranks, ["steady", pattern, "5"], env=with_copiers())
    job.wait_for("steady: ready")
    (service,) = offload.daemons("serve")
    with contextlib.suppress(ProcessLookupError):
        while job.process.poll() is None:
            os.kill(service.pid, signal.SIGSTOP)
            time.sleep(STOPPED_S)
            os.kill(service.pid, signal.SIGCONT)
            time.sleep(BETWEEN_STOPS_S)
    result = job.wait(60).ok()
    assert "WRONG DATA" not in result.out
    copied = result.report["copied_while_waiting"]
    assert 0 < copied <= received(result, "copier") + received(result, "relay")


def test_ranks_that_have_computed_leave_a_short_rest_to_the_service_process(offload):
    result = offload.run(2, ["steady", "overlap", "1"], env=with_copiers()).ok()
    assert "WRONG DATA" not in result.out
    assert result.report["copied_while_waiting"] == 0
    assert received(result, "copier") > 0


def test_switched_off_they_do_not(offload):
    result = offload.run(2, ["steady", "large", "1"], env=with_copiers() | OFF).ok()
    assert "WRONG DATA" not in result.out
    assert result.report["copied_while_waiting"] == 0
    assert received(result, "copier") > 0


def test_without_copiers_they_do_not(offload):
    result = offload.run(2, ["steady", "large", "1"], env=with_copiers() | {"OUTRIGGER_REACH": "mapped,cma"}).ok()
    assert "WRONG DATA" not in result.out
    assert result.report["copied_while_waiting"] == received(result, "copier") == 0


@pytest.mark.parametrize("mpi", ("mpich",), indirect=True)  # the library is the same
def test_a_bad_value_is_named(offload):
    result = offload.run(2, ["steady", "large", "0"], env={"OUTRIGGER_REACH": "perhaps"}).ok()
    assert "OUTRIGGER_REACH=perhaps is not valid: use mapped, " in result.out
    assert result.report is not None and result.report["native_because"] and not result.report["collectives"]


@pytest.mark.parametrize("victim", (0, 1))
def test_rank_is_killed_while_it_copies(offload, victim):
    moments = random.Random(victim)
    for _ in range(3):
        job = offload.start(2, ["steady", "large", "60"], env=with_copiers())
        job.wait_for("steady: ready")
        job.goes_on(moments.randrange(20))
        os.kill(job.rank_pids()[victim], signal.SIGKILL)
        result = job.wait(40)
        assert result.returncode != 0, result.out
        assert "WRONG DATA" not in result.out
        offload.nothing_left(GONE_WITHIN_S)


def test_service_process_is_killed_while_ranks_copy(offload):
    job = offload.start(2, ["steady", "large", "60"], env=with_copiers())
    job.wait_for("steady: ready")
    job.goes_on(10)
    victim = offload.kill_services_for_good()
    result = job.wait(40)
    assert result.returncode != 0 and "WRONG DATA" not in result.out, result.out
    assert any("outrigger" in line and str(victim) in line for line in result.out.splitlines()), result.out
    offload.nothing_left(GONE_WITHIN_S)


def ranks_on_all_cores() -> int:
    """So many that the service process has no core: then there are no copiers, and ranks copy whenever they wait."""
    cores = len(os.sched_getaffinity(0))
    if cores > 8:
        pytest.skip("too many cores to have a rank on each")
    return max(cores, 2)


@pytest.mark.parametrize("pattern", ("large", "late", "operations", "fork"))
def test_ranks_copy_alone_where_no_core_is_spare(offload, pattern):
    result = offload.run(ranks_on_all_cores(), ["steady", pattern, "2"]).ok()
    assert "WRONG DATA" not in result.out
    copied = received(result, "copier")
    assert result.report["copied_while_waiting"] <= copied + received(result, "relay")
    if pattern == "large":
        assert copied > 0
        assert result.report["copied_while_waiting"] >= copied


def test_switched_off_the_service_process_copies_alone(offload):
    result = offload.run(ranks_on_all_cores(), ["steady", "large", "1"], env=OFF).ok()
    assert "WRONG DATA" not in result.out
    assert result.report["copied_while_waiting"] == received(result, "copier") == 0
    assert received(result, "relay") > 0


@pytest.mark.parametrize("victim", ("rank", "service process"))
def test_killed_where_ranks_copy_alone(offload, victim):
    moments = random.Random(victim)
    for _ in range(3):
        job = offload.start(ranks_on_all_cores(), ["steady", "large", "60"])
        job.wait_for("steady: ready")
        job.goes_on(moments.randrange(20))
        if victim == "rank":
            os.kill(job.rank_pids()[1], signal.SIGKILL)
        else:
            offload.kill_services_for_good()
        result = job.wait(40)
        assert result.returncode != 0, result.out
        assert "WRONG DATA" not in result.out
        offload.nothing_left(GONE_WITHIN_S)


def test_stopped_and_continued_where_ranks_copy_alone(offload):
    job = offload.start(ranks_on_all_cores(), ["steady", "large", "3"])
    job.wait_for("steady: ready")
    job.disturb(random.Random(7), 2)
    result = job.wait(60).ok()
    assert "WRONG DATA" not in result.out
    offload.nothing_left(GONE_WITHIN_S)


def test_stopped_and_continued_while_they_copy(offload):
    """A stopped rank's current piece is waited for; its other pieces are copied without it."""
    job = offload.start(2, ["steady", "large", "3"], env=with_copiers())
    job.wait_for("steady: ready")
    job.disturb(random.Random(6), 2)
    result = job.wait(60).ok()
    assert "WRONG DATA" not in result.out
    offload.nothing_left(GONE_WITHIN_S)
