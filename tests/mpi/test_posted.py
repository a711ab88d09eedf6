"""Small nonblocking collectives that the ranks of a node do by themselves."""

import os
import re

import pytest

ALWAYS = {"OUTRIGGER_INTRANODE": "always"}


@pytest.fixture(name="offload")
def without_rules(offload):
    """Small blocks are not for service processes."""
    offload.measured_choice = True
    return offload


def nonblocking_by_ranks(result) -> int:
    assert result.report is not None, result.out
    return sum(call["by_ranks"] for call in result.report["calls"] if call["call"].startswith("MPI_I"))


@pytest.mark.parametrize("ranks", (2, 3, 4))
def test_no_difference(offload, ranks):
    program = ["posted", "random", "--seed", str(ranks), "--windows", "150"]
    result = offload.run(ranks, program, services=1, env=ALWAYS, timeout_s=150).ok()
    assert "no difference" in result.out
    assert nonblocking_by_ranks(result) > 300 * ranks


def test_threads(offload):
    program = ["posted", "random", "--seed", "9", "--windows", "60", "--threads", "3"]
    result = offload.run(2, program, services=1, env=ALWAYS, timeout_s=150).ok()
    assert "no difference" in result.out
    assert nonblocking_by_ranks(result) > 300


@pytest.mark.parametrize("way", ("on", "off"))
def test_setting(offload, way):
    program = ["posted", "random", "--seed", "4", "--windows", "60"]
    result = offload.run(2, program, services=1, env={"OUTRIGGER_INTRANODE": way}, timeout_s=150).ok()
    assert (nonblocking_by_ranks(result) > 0) == (way == "on")


def test_users_rules(offload):
    """A rule of the user's for service processes has precedence."""
    program = ["posted", "random", "--seed", "4", "--windows", "40"]
    env = ALWAYS | {"OUTRIGGER_ALGORITHM": "ialltoall=ring_pull"}
    result = offload.run(2, program, services=1, env=env, timeout_s=150).ok()
    calls = {call["call"]: call["by_ranks"] for call in result.report["calls"] if call["by_ranks"] > 0}
    assert "MPI_Ialltoall" not in calls, calls
    assert "MPI_Iallgather" in calls, calls


@pytest.mark.parametrize("ranks", (2, 3))
@pytest.mark.parametrize("what", ("ahead", "root", "open", "freed"))
def test_nobody_waits_for_who_has_posted(offload, what, ranks):
    result = offload.run(ranks, ["posted", what], services=1, env=ALWAYS, timeout_s=150).ok()
    assert "done" in result.out
    assert nonblocking_by_ranks(result) > 1000


def test_more_than_there_is_room_for(offload):
    """All ranks leave the same calls to their MPI."""
    result = offload.run(2, ["posted", "ahead", "25000"], services=1, env=ALWAYS, timeout_s=150).ok()
    assert "done" in result.out
    assert nonblocking_by_ranks(result) == 2 * 16384


@pytest.mark.parametrize("alike", (0, 3))
@pytest.mark.parametrize("call", ("Allreduce", "Allgather", "Alltoall", "Bcast"))
def test_calls_on_both_sides_of_the_limit(offload, call, alike):
    result = offload.run(3, ["posted", "large", f"i{call.lower()}", str(alike)], services=1, env=ALWAYS)
    assert result.returncode != 0
    root = " with root 2" if call == "Bcast" else ""
    said = f"rank [01] calls MPI_{call} of 16 bytes{root}, and rank 2 calls MPI_{call} of 12000 bytes{root}"
    failed = f"MPI_I{call.lower()} on a communicator of 3 ranks failed: the ranks' calls differ: {said}"
    assert re.search(failed, result.out), result.out


@pytest.mark.parametrize(
    ("what", "code"), (("other_size", "truncate"), ("long_send", "truncate"), ("other_call", "other"))
)
def test_differing_calls(offload, what, code):
    result = offload.run(2, ["posted", what, "returns"], services=1, env=ALWAYS).ok()
    assert result.out.count(f"which is {code}") == 2, result.out
    assert "the ranks' calls differ" in result.out


def test_ranks_on_the_same_core_are_let_post(offload):
    """All but the last one to post: a turn of others moves nothing for it."""
    ranks_cpu = min(os.sched_getaffinity(0))
    result = offload.run(3, ["yields", str(ranks_cpu), "ranks"], services=1, env=ALWAYS).ok()
    assert nonblocking_by_ranks(result) == 3
    said = sorted(line for line in result.out.splitlines() if line.startswith("rank "))
    assert said == ["rank 0 yields 1 times", "rank 1 yields 1 times", "rank 2 yields 0 times"]
