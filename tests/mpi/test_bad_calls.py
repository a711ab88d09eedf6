"""Invalid calls on requests have the native MPI's result, and nothing is lost."""

import pytest
from conftest import Mpi
from test_other_mpis import other

__all__ = ["other"]  # a fixture

OF_MPI_41 = "4.1: "


def said(mpi: Mpi, services: int | None) -> list[str]:
    return mpi.run(2, ["bad_requests"], services=services).ok().out.splitlines()


def same_as_natively(mpi: Mpi) -> None:
    """If the MPI lacks calls of MPI 4.1, ours at least return an error."""
    native, ours = said(mpi, None), said(mpi, 1)
    assert len(native) > 20
    if mpi.name != "mpiabi" and not any(line.startswith(OF_MPI_41) for line in native):
        stand_ins = [line for line in ours if line.startswith(OF_MPI_41)]
        assert stand_ins and not any("class 0" in line or "request gone" in line for line in stand_ins), stand_ins
        ours = [line for line in ours if line not in stand_ins]
    assert ours == native


def test_bad_calls_on_requests(offload: Mpi) -> None:
    same_as_natively(offload)


def test_bad_calls_on_requests_of_other_mpis(other: Mpi) -> None:
    if not (other.programs / "bad_requests").exists():
        pytest.skip(f"build the target mpiabi_programs for the {other.name} programs")
    same_as_natively(other)
