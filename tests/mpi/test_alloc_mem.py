"""Memory from MPI_Alloc_mem is the program's own, although service processes use it."""

import pytest

pytestmark = [pytest.mark.one_machine, pytest.mark.any_mpi]


def test_children_are_apart_natively(mpi):
    mpi.run(2, ["heap", "fork", "alloc_mem"], services=None).ok()


@pytest.mark.parametrize("services", (1, 2))
def test_children_are_apart(offload, services):
    """No child sees its parent's later writes, and memory allocated after a fork is mapped again."""
    result = offload.run(2, ["heap", "fork", "alloc_mem"], services=services).ok()
    assert "heap: fork: all right" in result.out
    mapped = sum(entry["bytes"]["mapped"] for entry in result.report["collectives"])
    assert mapped > 2 * 6 * 300_000


def test_without_room_it_is_native(offload):
    """With a limit on address space nothing can be reserved."""
    command = f"ulimit -v 20000000; exec {offload.programs}/heap fork alloc_mem"
    result = offload.run(2, ["/bin/sh", "-c", command]).ok()
    assert "heap: fork: all right" in result.out
