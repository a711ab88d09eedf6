"""Buffers that other processes cannot read, and other unusual memory, give the same bytes as the native MPI, which
copies through shared memory.
"""

from __future__ import annotations

import pytest
from conftest import Mpi, Result, with_copiers

pytestmark = [pytest.mark.one_machine, pytest.mark.any_mpi]

KINDS = ("secret", "mixed", "swapped", "write-only", "handled", "tracked", "lazy", "file", "huge", "sysv")
SKIPPED = 77
BY_SHARED_MEMORY = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none", "UCX_TLS": "posix,self"}
"""Copies by system calls between processes fail for such memory, natively."""


def right(result: Result, kind: str) -> Result:
    skipped = [line for line in result.out.splitlines() if line.startswith("unreadable: skipped: ")]
    if skipped:
        assert SKIPPED in (result.returncode, result.returncode & 0xFF), result.out
        pytest.skip(f"{kind}: {skipped[0].removeprefix('unreadable: skipped: ')}")
    result.ok()
    assert "unreadable: all right" in result.out
    assert "Read -1" not in result.out, result.out
    return result


@pytest.mark.parametrize("kind", KINDS)
def test_natively(mpi: Mpi, kind: str) -> None:
    right(mpi.run(2, ["unreadable", kind], services=None, env=BY_SHARED_MEMORY), kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("copies", ("copiers", "service"))
def test_offloaded(offload: Mpi, kind: str, copies: str) -> None:
    env = BY_SHARED_MEMORY | (with_copiers() if copies == "copiers" else {})
    assert right(offload.run(2, ["unreadable", kind], env=env), kind).offloaded() > 0


@pytest.mark.parametrize("kind", ("secret", "handled", "tracked"))
def test_between_nodes(offload: Mpi, kind: str) -> None:
    offload.pretend_nodes = 2
    assert right(offload.run(3, ["unreadable", kind], env=BY_SHARED_MEMORY), kind).offloaded() > 0


@pytest.mark.parametrize("kind", ("secret", "handled", "sysv"))
def test_beside_an_accelerator(offload: Mpi, kind: str) -> None:
    """Any buffer may be its memory then: the MPI copies, which may support it."""
    fake = offload.build / "tests" / "mpi" / "cuda" / "libcuda.so.1"
    env = BY_SHARED_MEMORY | {"LD_PRELOAD": f"{offload.library}:{fake}"}
    assert right(offload.run(2, ["unreadable", kind], env=env), kind).offloaded() > 0
