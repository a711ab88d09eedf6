"""Requests that are completed in unusual ways: in the last call of a callback, by functions of the MPI itself, beside
requests that only the MPI progresses, and by several threads. All as natively.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conftest import Mpi, Result
from test_languages import python_environment
from test_other_mpis import other

__all__ = ["other"]  # a fixture

COMPLETIONS = ("wait", "waitall", "waitany", "waitsome", "test", "testall", "testany", "testsome")
OF_PERSISTENT = ("free", "start", "startall")
ALONE = Path(__file__).parent / "languages" / "around.py"
REPEATED = Path(__file__).parent / "languages" / "repeated.py"


def well(mpi: Mpi, ranks: int, program: list[str], services: int | None, **options) -> Result:
    result = mpi.run(ranks, program, services=services, **options).ok()
    assert f"{program[0]}: well" in result.out
    if services is not None:
        assert result.offloaded() > 0
    return result


@pytest.mark.parametrize("kinds", ((*COMPLETIONS, "get_status"), OF_PERSISTENT), ids=("nonblocking", "persistent"))
@pytest.mark.parametrize("ranks", (2, 3))
def test_a_callback_ends_with_the_call(mpi: Mpi, services: int | None, ranks: int, kinds: tuple[str, ...]) -> None:
    """The call's return address is in the MPI, so the request identifies it."""
    result = mpi.run(ranks, ["tail_calls", *kinds], services=services, timeout_s=120).ok()
    if "no persistent" in result.out:
        pytest.skip(f"{mpi.installed} has no persistent collectives")
    assert "tail_calls: well" in result.out


def test_a_callback_ends_with_the_call_in_other_mpis(other: Mpi) -> None:
    if not (other.programs / "tail_calls").exists():
        pytest.skip(f"build the target mpiabi_programs for the {other.name} programs")
    well(other, 2, ["tail_calls", *COMPLETIONS, *OF_PERSISTENT], 1, timeout_s=120)


@pytest.mark.parametrize("ranks", (2, 3))
@pytest.mark.parametrize("kinds", ((*COMPLETIONS, "mixed", "rendezvous"), ("threads",)), ids=("one", "threads"))
def test_completed_around_the_library(mpi: Mpi, services: int | None, kinds: tuple[str, ...], ranks: int) -> None:
    """The program names each kind when it is done."""
    result = well(mpi, ranks, ["around", *kinds], services, timeout_s=120)
    assert [kind for kind in kinds if f"around: {kind} is well" not in result.out] == []


def test_completed_around_the_library_in_other_mpis(other: Mpi) -> None:
    if not (other.programs / "around").exists():
        pytest.skip(f"build the target mpiabi_programs for the {other.name} programs")
    well(other, 2, ["around", *COMPLETIONS, "mixed", "rendezvous"], 1, timeout_s=120)


def test_completed_from_python_without_bindings(mpi: Mpi, services: int | None) -> None:
    """Posted by mpi4py, completed by ctypes."""
    pytest.importorskip("mpi4py", reason="mpi4py is not installed beside pytest")
    env = python_environment(mpi)
    result = mpi.run(2, [sys.executable, str(ALONE)], services=services, env=env).ok()
    assert "around: well" in result.out
    if services is not None:
        assert result.offloaded() > 0


@pytest.mark.parametrize("ranks", (2, 3))
def test_repeated_calls(mpi: Mpi, services: int | None, ranks: int) -> None:
    """The same arguments again, in several requests, in place, with other roots, and on communicators made anew."""
    pytest.importorskip("mpi4py", reason="mpi4py is not installed beside pytest")
    result = mpi.run(ranks, [sys.executable, str(REPEATED)], services=services, env=python_environment(mpi)).ok()
    assert "repeated: well" in result.out
    if services is not None:
        assert result.offloaded() > 0


def test_together_with_a_file(mpi: Mpi, services: int | None, tmp_path: Path) -> None:
    well(mpi, 2, ["shared_requests", "file", str(tmp_path / "written")], services)


@pytest.mark.parametrize("comes", ("early", "late"))
def test_together_with_one_that_fails(mpi: Mpi, services: int | None, comes: str) -> None:
    """MPICH ends a call at the first error, and Open MPI when all others are done: nothing may be lost in either."""
    well(mpi, 2, ["failed_requests", comes], services)


@pytest.mark.parametrize("threads", (2, 4))
def test_threads_complete_one_request(mpi: Mpi, services: int | None, threads: int) -> None:
    """MPI 4.1 forbids it; MPICH and Open MPI give the request to one thread, and the others find none."""
    well(mpi, 2, ["shared_requests", "threads", str(threads)], services, timeout_s=120)


def test_together_and_by_threads_in_other_mpis(other: Mpi, tmp_path: Path) -> None:
    if not (other.programs / "shared_requests").exists():
        pytest.skip(f"build the target mpiabi_programs for the {other.name} programs")
    well(other, 2, ["shared_requests", "file", str(tmp_path / "written")], 1)
    well(other, 2, ["shared_requests", "threads", "4"], 1, timeout_s=120)
    well(other, 2, ["around", "threads"], 1)
