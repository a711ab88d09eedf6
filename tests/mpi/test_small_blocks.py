"""Small blocks in private memory go through memory that ranks share with their service process."""

import pytest

pytestmark = pytest.mark.any_mpi

SMALL = 1000
"""Block size of the program `counted`, whose buffers are the heap's."""


def received(result) -> dict[str, int]:
    reaches = {reach for entry in result.report["collectives"] for reach in entry["bytes"]}
    return {reach: sum(entry["bytes"][reach] for entry in result.report["collectives"]) for reach in reaches}


@pytest.mark.one_machine
@pytest.mark.parametrize("ranks", (2, 3))
def test_no_system_call_reaches_them(offload, ranks):
    """The service process copies them between mapped memory; a rank copies its own block itself."""
    env = {"OUTRIGGER_ALGORITHM": "all=on"}
    by_reach = received(offload.run(ranks, ["counted", "all", "3"], env=env).ok())
    assert by_reach["mapped"] >= 3 * ranks * (ranks - 1) * SMALL, by_reach
    assert by_reach["own"] > 0, by_reach
    assert by_reach["relay"] == by_reach["cma"] == by_reach["copier"] == 0, by_reach


@pytest.mark.one_machine
def test_where_nothing_is_to_be_mapped_they_go_as_others_do(offload):
    env = {"OUTRIGGER_ALGORITHM": "all=on", "OUTRIGGER_REACH": "-mapped"}
    # In a ring of two ranks each is the other's neighbor twice, so its send data is packed into mapped memory.
    by_reach = received(offload.run(3, ["counted", "all", "3"], env=env).ok())
    assert by_reach["mapped"] == 0, by_reach
    assert by_reach["relay"] > 0, by_reach


@pytest.mark.parametrize("nodes", (1, 2))
@pytest.mark.parametrize("count", (1, 40, 500))
def test_a_root_does_not_wait_for_late_ranks(offload, nodes, count):
    """Its data is kept for them, even after it has left; beyond the limit it waits."""
    offload.pretend_nodes = nodes
    result = offload.run(2, ["ahead", str(count)], env={"OUTRIGGER_ALGORITHM": "all=on"}, timeout_s=60).ok()
    assert "root: went ahead" in result.out
    assert "rank 1: all bytes right" in result.out
