"""Counts that differ between ranks, which MPI forbids, across the limit up to which calls are native: some ranks are in
their MPI, and the others' operation fails with a message. Natively such programs end in any way, or hang.
"""

import pytest

pytestmark = pytest.mark.any_mpi

CALLS = ("gather", "scatter", "bcast", "reduce", "alltoall")
RULES = {"OUTRIGGER_ALGORITHM": "all:b-8K=native", "OUTRIGGER_BLOCKING": "on"}
SAID = "failed: the counts differ between ranks; this rank passes 16384 bytes, and rank {} a count for which"


@pytest.mark.parametrize("nodes", (1, 2))
@pytest.mark.parametrize("few", (0, 1))
@pytest.mark.parametrize("call", CALLS)
def test_nobody_waits_for_ever(offload, call, few, nodes):
    """With 3 ranks, one of which passes few bytes."""
    offload.pretend_nodes = nodes
    result = offload.run(3, ["differing_counts", call, "nonblocking", str(few)], env=RULES, timeout_s=30)
    assert result.returncode != 0
    assert f"i{call} on a communicator of 3 ranks {SAID.format(few)}" in result.out, result.out


@pytest.mark.parametrize("call", ("gather", "bcast"))
def test_blocking_forms(offload, call):
    offload.pretend_nodes = 2
    result = offload.run(2, ["differing_counts", call, "blocking", "0"], env=RULES, timeout_s=30)
    assert result.returncode != 0
    assert SAID.format(0) in result.out, result.out


@pytest.mark.parametrize("form", ("nonblocking", "persistent"))
@pytest.mark.parametrize("call", ("gather", "reduce"))
def test_by_the_built_in_choice(offload, call, form):
    offload.measured_choice = True
    offload.pretend_nodes = 2
    env = {"OUTRIGGER_CHOICE": "fixed"}
    result = offload.run(2, ["differing_counts", call, form, "0"], env=env, timeout_s=30)
    if "differing_counts: none" in result.out:
        pytest.skip(f"{offload.installed} has no persistent collectives")
    assert result.returncode != 0
    assert SAID.format(0) in result.out, result.out
