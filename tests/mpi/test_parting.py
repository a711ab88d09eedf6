"""MPI_Finalize begins with the delete callbacks of MPI_COMM_SELF: everything still works in them."""

import pytest
from conftest import Mpi
from test_other_mpis import other

__all__ = ["other"]  # a fixture

RANKS = 3
NODES = {"OUTRIGGER_PRETEND_NODES": "2"}
MODES = ({}, {"OUTRIGGER_BLOCKING": "on"}, NODES)


def as_natively(mpi: Mpi, what: str, *environments: dict[str, str]) -> None:
    native = mpi.run(RANKS, ["parting", what], services=None).ok().out.splitlines()
    assert "MPI_Finalize: right" in native and not any("WRONG" in line for line in native), native
    for env in environments:
        result = mpi.run(RANKS, ["parting", what], env=env).ok()
        assert sorted(result.out.splitlines()) == sorted(native), env
        assert result.offloaded() > 0, env
        assert result.report is not None and result.report["ended"]["how"] == "finalized", env


@pytest.mark.parametrize("what", ["server", "collectives"])
def test_callbacks_of_the_end(offload: Mpi, what: str) -> None:
    as_natively(offload, what, *MODES)


@pytest.mark.parametrize("what", ["server", "collectives"])
def test_callbacks_of_the_end_of_other_mpis(other: Mpi, what: str) -> None:
    if not (other.programs / "parting").exists():
        pytest.skip(f"build the target mpiabi_programs for the {other.name} programs")
    as_natively(other, what, NODES)
