"""MPIs other than the one that a benchmark was built with, and what makes each of them fast."""

from pathlib import Path

import pytest

from outrigger import libraries, linked
from outrigger.bench import natives
from outrigger.errors import UserError
from outrigger.linked import Libmpi
from outrigger.mpis import INTEL, Mpi

PROGRAM = Path("orbench")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """An MPICH as PyPI has it: by MPICH's own name alone."""
    place = tmp_path / "elsewhere" / "lib"
    place.mkdir(parents=True)
    for name in ("libmpi.so.12", "libfabric.so"):
        (place / name).write_text(name)
    return place


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The MPI library that the program loads by itself."""
    libraries.directory_for.cache_clear()
    own = Path("/usr/lib/libmpich.so.12")
    monkeypatch.setattr(linked, "of_program", lambda _program: Libmpi("libmpich.so.12", own))
    return own


def mpi(family: str, library: Path | None, vendor: str = "", version: str = "5.0.2") -> Mpi:
    return Mpi(family, version, Path("mpiexec"), library, vendor)


@pytest.mark.usefixtures("loads")
def test_a_program_finds_another_mpi_by_the_name_it_knows(elsewhere: Path) -> None:
    directory = libraries.directory_for(PROGRAM, mpi("mpich", elsewhere / "libmpi.so.12"))
    assert directory is not None
    assert {path.name for path in directory.iterdir()} == {"libmpi.so.12", "libmpich.so.12", "libfabric.so"}
    assert (directory / "libmpich.so.12").resolve() == elsewhere / "libmpi.so.12"


def test_its_own_mpi_needs_nothing(loads: Path) -> None:
    assert libraries.directory_for(PROGRAM, mpi("mpich", loads)) is None
    assert libraries.directory_for(PROGRAM, mpi("mpich", None)) is None


@pytest.mark.usefixtures("loads")
def test_an_mpi_of_another_abi_is_refused() -> None:
    with pytest.raises(UserError, match=r"orbench is built for MPICH's ABI, which Open MPI 5\.0\.2 does not have"):
        libraries.directory_for(PROGRAM, mpi("openmpi", Path("/opt/lib/libmpi.so.40")))


def test_ranks_that_share_cores_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    assert natives.crowded(mpi("mpich", None, version="4.0.2")) == {}
    assert natives.crowded(mpi("openmpi", None)) == {}
    assert natives.crowded(mpi("mpich", None))["MPIR_CVAR_CH4_PROGRESS_THROTTLE"] == "1"
    assert natives.crowded(mpi("mpich", None, INTEL, "2021.18")) == {"I_MPI_THREAD_YIELD": "3"}
    monkeypatch.setenv("I_MPI_THREAD_YIELD", "0")
    assert natives.crowded(mpi("mpich", None, INTEL, "2021.18")) == {}


def test_progress_threads_are_pinned() -> None:
    assert natives.with_threads(mpi("openmpi", None), 2, 1) is None
    assert natives.with_threads(mpi("mpich", None), 3, 1) == {
        "MPIR_CVAR_ASYNC_PROGRESS": "1",
        "MPIR_CVAR_PROGRESS_THREAD_AFFINITY": "1,1,1",
    }
    assert natives.with_threads(mpi("mpich", None, INTEL), 2, 7) == {
        "I_MPI_ASYNC_PROGRESS": "1",
        "I_MPI_ASYNC_PROGRESS_PIN": "7,7",
    }
