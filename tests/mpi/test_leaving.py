"""Callbacks leave MPI calls as they do natively: by exceptions, longjmp, pthread_exit and cancellation."""

import pytest
from conftest import Mpi
from test_other_mpis import other

__all__ = ["other"]  # a fixture

ALWAYS = {"OUTRIGGER_BLOCKING": "on"}
MODES = ({"OUTRIGGER_ENABLE": "off"}, {}, ALWAYS)
WAYS = ["throw", "jump", "exit", "cancel"]


def as_natively(mpi: Mpi, program: list[str], *environments: dict[str, str]) -> None:
    native = mpi.run(2, program, services=None).ok().out.splitlines()
    assert any(": left" in line for line in native), native
    assert not any("WRONG" in line for line in native), native
    for env in environments:
        assert mpi.run(2, program, env=env).ok().out.splitlines() == native, env


@pytest.mark.parametrize("way", WAYS)
def test_callbacks_leave_calls(offload: Mpi, way: str) -> None:
    as_natively(offload, ["leaving", way], *MODES)


@pytest.mark.parametrize("way", ["throw", "jump"])
def test_callbacks_of_programs_with_their_own_unwinder(offload: Mpi, way: str) -> None:
    as_natively(offload, ["leaving_static", way], ALWAYS)


@pytest.mark.parametrize("way", WAYS)
def test_errors_of_offloaded_collectives_leave_calls(offload: Mpi, way: str) -> None:
    rows = [f"{call}-mismatch" for call in ("wait", "waitany", "test", "waitall")]
    result = offload.run(2, ["leaving", way, *rows]).ok()
    assert result.out.splitlines() == [f"{row}: left, collectives are right" for row in rows]


@pytest.mark.parametrize("memory", [{"OUTRIGGER_REACH": "cma"}, {"OUTRIGGER_SHARED_HEAP": "on"}], ids=["cma", "heap"])
def test_cancelled_threads_finish_what_they_do(offload: Mpi, memory: dict[str, str]) -> None:
    result = offload.run(2, ["leaving", "pending"], env=ALWAYS | memory).ok()
    assert "pending: posted and allocated, then left" in result.out


@pytest.mark.parametrize("way", WAYS)
def test_callbacks_leave_calls_of_other_mpis(other: Mpi, way: str) -> None:
    if not (other.programs / "leaving").exists():
        pytest.skip(f"build the target mpiabi_programs for the {other.name} programs")
    as_natively(other, ["leaving", way], ALWAYS)
