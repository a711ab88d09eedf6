"""Blocking collectives that the ranks of a node do by themselves, through shared memory."""

import pytest

ALWAYS = {"OUTRIGGER_INTRANODE": "always"}


def by_ranks(result) -> int:
    assert result.report is not None, result.out
    return sum(call["by_ranks"] for call in result.report["calls"])


@pytest.mark.parametrize("services", (0, 1))
@pytest.mark.parametrize("ranks", (2, 3, 4))
def test_no_difference(offload, ranks, services):
    program = ["intranode", "--seed", str(10 * ranks + services), "--operations", "400"]
    result = offload.run(ranks, program, services=services, env=ALWAYS, timeout_s=150).ok()
    assert "no difference" in result.out
    assert by_ranks(result) > 200 * ranks


@pytest.mark.parametrize("services", (0, 1))
def test_trials_change_nothing(offload, services):
    program = ["intranode", "--seed", "3", "--operations", "1500", "--duplicates", "5"]
    env = {"OUTRIGGER_INTRANODE": "on"}
    result = offload.run(2, program, services=services, env=env, timeout_s=150).ok()
    assert "no difference" in result.out
    assert by_ranks(result) > 100


def test_communicators_come_and_go(offload):
    program = ["intranode", "--seed", "5", "--operations", "40", "--duplicates", "300"]
    result = offload.run(3, program, services=0, env=ALWAYS, timeout_s=150).ok()
    assert "no difference" in result.out
    assert by_ranks(result) > 1000


def test_threads(offload):
    program = ["intranode", "--seed", "6", "--operations", "200", "--threads", "3"]
    result = offload.run(2, program, services=1, env=ALWAYS, timeout_s=150).ok()
    assert "no difference" in result.out


def test_off_by_default(offload):
    result = offload.run(2, ["intranode", "--operations", "50"], services=0, timeout_s=100).ok()
    assert by_ranks(result) == 0


def test_pretended_nodes_share_no_memory(offload):
    """Each rank is a node: nothing can be done by ranks."""
    env = ALWAYS | {"OUTRIGGER_PRETEND_NODES": "2"}
    result = offload.run(2, ["intranode", "--operations", "50"], services=1, env=env, timeout_s=100).ok()
    assert "no difference" in result.out
    assert by_ranks(result) == 0
