"""Ranks that may open few files: their collectives are staged in private memory, or all ranks go natively.

With even fewer descriptors service processes cannot be started at all: tests/mpi/test_run.py.
"""

import pytest
from conftest import Mpi

# Most are too few for regions of service processes: the keeper keeps 64 of its own.
LIMITS = (31, 34, 48, 64, 100)
ROOM = {"openmpi": 31, "mpich": 31}
"""With fewer these MPIs themselves may fail."""
WORK = ["--seed", "7", "--operations", "25"]


def limited(mpi: Mpi, limit: int) -> list[str]:
    if limit < ROOM.get(str(mpi.installed), max(LIMITS)):
        pytest.skip("the MPI needs more for itself")
    return ["/bin/sh", "-c", f'ulimit -n {limit} && exec {mpi.programs}/differential "$@"', "sh", *WORK]


@pytest.mark.parametrize("nodes", (1, 2))
@pytest.mark.parametrize("limit", LIMITS)
def test_right_bytes(offload: Mpi, limit: int, nodes: int) -> None:
    """Mainly derived datatypes, which are packed."""
    offload.pretend_nodes = nodes
    result = offload.run(2, limited(offload, limit)).ok()
    assert "no difference" in result.out, result.out
    said = [line for line in result.out.splitlines() if "outrigger: running natively" in line]
    assert bool(said) != (result.offloaded() > 0), result.out
    if limit >= 40:
        assert not said, result.out


@pytest.mark.parametrize("limit", LIMITS)
def test_where_only_mapped_memory_is_reached_all_go_natively(offload: Mpi, limit: int) -> None:
    """No rank waits for others, as the reason is found at the start. Open MPI may have too few for itself then."""
    native = offload.run(3, limited(offload, limit), services=None)
    result = offload.run(3, limited(offload, limit), env={"OUTRIGGER_REACH": "mapped,bounce"})
    assert (result.returncode == 0) == (native.returncode == 0), result.out
    assert ("no difference" in result.out) == (result.returncode == 0), result.out
    (line,) = [line for line in result.out.splitlines() if "outrigger: running natively" in line]
    assert f"(limit {limit}); raise ulimit -n" in line or "Too many open files" in line, line


def test_with_enough_of_them_only_mapped_memory_will_do(offload: Mpi) -> None:
    result = offload.run(3, limited(offload, 300), env={"OUTRIGGER_REACH": "mapped,bounce"}).ok()
    assert "no difference" in result.out and "natively" not in result.out
    assert result.offloaded() > 0
