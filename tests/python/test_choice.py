"""Which MPI a program is started with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from outrigger import choice, linked, mpis
from outrigger.choice import Choice, choose
from outrigger.errors import UserError
from outrigger.linked import Libmpi
from outrigger.mpis import Mpi

DEBIAN = Mpi("openmpi", "4.1.4", Path("/usr/bin/mpirun.openmpi"), Path("/lib/libmpi.so.40"))
OPENMPI5 = Mpi("openmpi", "5.0.11", Path("/opt/ompi/bin/mpiexec"), Path("/opt/ompi/lib/libmpi.so.40"))
MPICH = Mpi("mpich", "5.0.2", Path("/opt/mpich/bin/mpiexec"), Path("/opt/mpich/lib/libmpi.so.12"))
MPICH_ABI = Mpi("mpiabi", "5.0.2", MPICH.launcher, Path("/opt/mpich/lib/libmpi_abi.so.1"), "mpich")
INTEL = Mpi("mpich", "2021.18", Path("/opt/intel/bin/mpiexec"), Path("/opt/intel/lib/libmpi.so.12"), "intel")
ALL = [DEBIAN, OPENMPI5, MPICH, MPICH_ABI, INTEL]
PROGRAM = Path("prog")


def loads(monkeypatch: pytest.MonkeyPatch, path: str | None, *others: str, python: bool = False) -> None:
    """The program loads this libmpi (a soname alone is not found; None shows nothing); once told where to look, the
    first of the others that lies there."""

    def of_program(_program: Path, environment: Mapping[str, str] | None = None) -> Libmpi | None:
        if path is None:
            return None
        told = " ".join((environment or {}).values())
        chosen = next((other for other in others if str(Path(other).parent) in told), path)
        return Libmpi(Path(chosen).name, Path(chosen) if "/" in chosen else None)

    monkeypatch.setattr(linked, "of_program", of_program)
    monkeypatch.setattr(linked, "interpreter_of", lambda program: program if python else None)
    monkeypatch.setattr(mpis, "at", lambda _place: [])
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)


@pytest.mark.parametrize("mpi", ALL, ids=lambda mpi: mpi.title)
def test_auto_takes_the_mpi_whose_library_the_program_loads(monkeypatch: pytest.MonkeyPatch, mpi: Mpi) -> None:
    loads(monkeypatch, str(mpi.library))
    assert choose("auto", PROGRAM, ALL) == Choice(mpi)


def test_an_mpi_that_is_not_on_path_is_found_beside_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    loads(monkeypatch, str(OPENMPI5.library))
    monkeypatch.setattr(mpis, "at", lambda place: [OPENMPI5] if place == Path("/opt/ompi") else [])
    assert choose("auto", PROGRAM, [DEBIAN]) == Choice(OPENMPI5)


def test_a_library_that_is_not_found_is_that_of_the_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    loads(monkeypatch, "libmpi_abi.so.1")
    assert choose("auto", PROGRAM, ALL) == Choice(MPICH_ABI, None, Path("/opt/mpich/lib"))


def test_a_launcher_in_this_directory_is_not_that_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mpiexec").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(mpis, "identify", lambda launcher: [mpis.Mpi("mpich", "4.0.2", launcher, None)])
    (found,) = choice.named("./mpiexec", ALL)
    assert found.launcher == tmp_path / "mpiexec"


def test_auto_says_so_when_it_guesses(monkeypatch: pytest.MonkeyPatch) -> None:
    loads(monkeypatch, None)
    taken = choose("auto", Path("job.sh"), [OPENMPI5, MPICH])
    assert taken.mpi == OPENMPI5
    assert taken.note == (
        "job.sh does not show which MPI it starts; taking that of /opt/ompi/bin/mpiexec, Open MPI 5.0.11 "
        "(choose with --mpi)"
    )


def test_auto_says_so_when_program_and_mpiexec_may_not_match(monkeypatch: pytest.MonkeyPatch) -> None:
    loads(monkeypatch, "/elsewhere/libmpi.so.40")
    taken = choose("auto", PROGRAM, [MPICH, DEBIAN])
    assert taken.mpi == DEBIAN
    assert taken.note is not None
    assert "prog loads /elsewhere/libmpi.so.40, whose mpiexec was not found; taking Open MPI 4.1.4" in taken.note


@pytest.mark.parametrize(
    ("wanted", "loaded", "taken"),
    [
        ("openmpi", OPENMPI5, OPENMPI5),
        ("mpich", MPICH, MPICH),
        ("mpich", MPICH_ABI, MPICH_ABI),
        ("mpiabi", MPICH_ABI, MPICH_ABI),
        ("intel", INTEL, INTEL),
    ],
)
def test_a_name_is_taken_with_the_programs_abi(
    monkeypatch: pytest.MonkeyPatch, wanted: str, loaded: Mpi, taken: Mpi
) -> None:
    loads(monkeypatch, str(loaded.library))
    assert choose(wanted, PROGRAM, ALL) == Choice(taken)


def test_another_mpi_of_the_same_abi_is_put_before_the_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    loads(monkeypatch, str(MPICH.library), str(INTEL.library))
    assert choose("intel", PROGRAM, ALL) == Choice(INTEL, None, Path("/opt/intel/lib"))
    assert choice.with_library_path(Path("/opt/intel/lib")) == {"LD_LIBRARY_PATH": "/opt/intel/lib"}


def test_a_place_is_an_mpi_too(monkeypatch: pytest.MonkeyPatch) -> None:
    loads(monkeypatch, str(DEBIAN.library), str(OPENMPI5.library))
    monkeypatch.setattr(mpis, "at", lambda place: [OPENMPI5] if place == Path("/opt/ompi") else [])
    assert choose("/opt/ompi", PROGRAM, [DEBIAN]) == Choice(OPENMPI5, None, Path("/opt/ompi/lib"))
    with pytest.raises(UserError, match="--mpi /opt/none: there is no MPI: name its mpiexec"):
        choose("/opt/none", PROGRAM, [DEBIAN])


def test_mpi4py_is_told_which_to_take(monkeypatch: pytest.MonkeyPatch) -> None:
    loads(monkeypatch, str(DEBIAN.library), str(MPICH.library), python=True)
    assert choose("mpich", PROGRAM, ALL) == Choice(MPICH)
    assert choice.mpi4py_environment(MPICH) == {"MPI4PY_LIBMPI": str(MPICH.library)}
    assert choice.mpi4py_environment(Mpi("mpich", "4", Path("m"), None)) == {"MPI4PY_MPIABI": "mpich"}
    with pytest.raises(UserError, match=r"mpi4py of prog does not take /opt/intel/lib/libmpi\.so\.12 of Intel MPI"):
        choose("intel", PROGRAM, ALL)


def test_mpi4py_that_does_not_look_where_it_is_told_is_named_with_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPI4PY_MPIABI", "mpich")
    loads(monkeypatch, str(DEBIAN.library), python=True)
    with pytest.raises(UserError, match=r"does not take /opt/mpich/lib/libmpi\.so\.12 .*: MPI4PY_MPIABI is set"):
        choose("mpich", PROGRAM, ALL)
    loads(monkeypatch, None, python=True)  # not even that of the ABI is there
    note = choose("mpich", PROGRAM, ALL).note
    assert note is not None and note.endswith("--mpi has no effect: unset it")
    loads(monkeypatch, None)  # no Python
    assert choose("mpich", PROGRAM, ALL) == Choice(MPICH)
    loads(monkeypatch, str(MPICH.library), python=True)  # the loader knows it
    assert choose("mpich", PROGRAM, ALL) == Choice(MPICH)


@pytest.mark.parametrize(
    ("wanted", "loaded", "installed", "message"),
    [
        ("auto", None, [], "no MPI was found"),
        (
            "auto", "/lib/libmpi.so.40", [MPICH],
            r"prog is linked to libmpi\.so\.40 \(Open MPI's ABI\), whose mpiexec is not on PATH \(found: MPICH 5\.0\.2",
        ),
        ("auto", "/x/libmpi_abi.so.1", [DEBIAN, INTEL], r"libmpi_abi\.so\.1 \(the standard ABI\), whose mpiexec"),
        ("mpich", "/lib/libmpi.so.40", ALL, r"\(Open MPI's ABI\), but --mpi mpich was asked for"),
        ("mpich", None, [DEBIAN], "--mpi mpich: its mpirun is not on PATH"),
        ("lam", None, [DEBIAN], "--mpi lam: there are auto, openmpi, mpich, intel, mpiabi, or where it is installed"),
        (
            "openmpi", "/rpath/libmpi.so.40", [DEBIAN],
            r"loads /rpath/libmpi\.so\.40, whatever LD_LIBRARY_PATH says, not /lib/libmpi\.so\.40 of Open MPI 4\.1\.4",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(
    monkeypatch: pytest.MonkeyPatch, wanted: str, loaded: str | None, installed: Sequence[Mpi], message: str
) -> None:
    loads(monkeypatch, loaded)
    with pytest.raises(UserError, match=message):
        choose(wanted, PROGRAM, installed)
