"""Finding the MPI of a program."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from outrigger import mpis
from outrigger.errors import UserError
from outrigger.mpis import Mpi, choose, detect_family, family_of_libraries, family_of_mpi4py, identify_launcher

OPENMPI = Mpi("openmpi", "4.1.4", Path("/usr/bin/mpirun.openmpi"), None)
MPICH = Mpi("mpich", "4.0.2", Path("/usr/bin/mpirun.mpich"), None)
INTEL = Mpi("mpich", "2021.18", Path("/opt/mpi/bin/mpiexec"), Path("/opt/mpi/lib/libmpi.so.12"), "intel")


@pytest.mark.parametrize(
    ("text", "identity"),
    [
        ("mpirun (Open MPI) 4.1.4\n\nReport bugs to ...", ("openmpi", "4.1.4")),
        ("mpiexec (Open MPI) 5.0.3", ("openmpi", "5.0.3")),
        ("mpirun.openmpi (OpenRTE) 4.1.4\n", ("openmpi", "4.1.4")),
        ("HYDRA build details:\n    Version:                                 4.0.2\n", ("mpich", "4.0.2")),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.18 Build 20260626 (id: b44)\n", ("intel", "2021.18")),
        ("something else", None),
        ("", None),
    ],
)
def test_launchers_are_known_by_their_version(text: str, identity: tuple[str, str] | None) -> None:
    assert identify_launcher(text) == identity


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("\tlibmpi.so.40 => /lib/x86_64-linux-gnu/libmpi.so.40 (0x00007f)", "openmpi"),
        ("\tlibmpich.so.12 => /lib/x86_64-linux-gnu/libmpich.so.12 (0x00007f)", "mpich"),
        ("\tlibmpi.so.12 => /opt/intel/libmpi.so.12 (0x00007f)", "mpich"),
        ("\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6", None),
        ("\tlibmpi.so.400 => /x", None),
    ],
)
def test_libraries_name_their_family(text: str, family: str | None) -> None:
    assert family_of_libraries(text) == family


def script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def fake_ldd(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(mpis, "_output", lambda _command: text)


def test_a_shell_script_does_not_show_its_mpi(tmp_path: Path) -> None:
    assert detect_family(script(tmp_path / "job.sh", "#!/bin/sh\nexec ./prog\n")) is None


def test_python_with_an_mpi4py_for_any_mpi_does_not_show_it() -> None:
    assert family_of_mpi4py(["/x/mpi4py/MPI.mpich.cpython-311.so", "/x/mpi4py/MPI.openmpi.cpython-311.so"]) is None


def test_python_with_an_mpi4py_for_one_mpi_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_ldd(monkeypatch, "\tlibmpi.so.40 => /lib/libmpi.so.40")
    assert family_of_mpi4py(["/x/mpi4py/MPI.cpython-311-x86_64-linux-gnu.so"]) == "openmpi"


def test_a_python_script_is_asked_through_its_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def output(command: list[object]) -> str:
        asked.append(str(command[0]))
        return ""

    monkeypatch.setattr(mpis, "_output", output)
    assert detect_family(script(tmp_path / "job.py", f"#!{sys.executable}\n")) is None
    assert asked == [sys.executable]


def test_a_program_without_mpi_is_refused() -> None:
    program = shutil.which("true")
    assert program is not None
    with pytest.raises(UserError, match="not linked to an MPI library"):
        detect_family(Path(program))


def test_an_unknown_mpi_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "prog"
    program.write_bytes(b"\x7fELF")
    fake_ldd(monkeypatch, "\tlibmpi.so.99 => /x/libmpi.so.99")
    with pytest.raises(UserError, match=r"uses libmpi\.so\.99"):
        detect_family(program)


def detected(monkeypatch: pytest.MonkeyPatch, family: str | None) -> None:
    monkeypatch.setattr(mpis, "detect_family", lambda _program: family)


def test_auto_takes_what_the_program_is_linked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    detected(monkeypatch, "mpich")
    assert choose("auto", Path("prog"), [OPENMPI, MPICH]) == mpis.Choice(MPICH, None)


def test_intel_mpi_is_told_from_mpich_by_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    detected(monkeypatch, "mpich")
    fake_ldd(monkeypatch, "\tlibmpi.so.12 => /opt/mpi/lib/libmpi.so.12 (0x00007f)")
    assert choose("auto", Path("prog"), [OPENMPI, MPICH, INTEL]).mpi == INTEL
    fake_ldd(monkeypatch, "\tlibmpich.so.12 => /lib/libmpich.so.12 (0x00007f)")
    assert choose("auto", Path("prog"), [OPENMPI, MPICH, INTEL]).mpi == MPICH
    assert choose("intel", Path("prog"), [OPENMPI, MPICH, INTEL]).mpi == INTEL
    assert INTEL.title == "Intel MPI 2021.18"


def test_auto_says_so_when_it_guesses(monkeypatch: pytest.MonkeyPatch) -> None:
    detected(monkeypatch, None)
    choice = choose("auto", Path("job.sh"), [OPENMPI, MPICH])
    assert choice.mpi == OPENMPI
    assert choice.note is not None
    assert "job.sh does not show its MPI; taking Open MPI 4.1.4" in choice.note


@pytest.mark.parametrize(
    ("wanted", "linked", "installed", "message"),
    [
        ("auto", "openmpi", [], "no MPI was found"),
        ("auto", "openmpi", [MPICH], "linked to Open MPI, whose mpirun is not on PATH"),
        ("mpich", "openmpi", [OPENMPI, MPICH], "linked to Open MPI, but --mpi mpich was asked for"),
        ("mpich", None, [OPENMPI], "--mpi mpich: its mpirun is not on PATH"),
        ("lam", None, [OPENMPI], "--mpi lam: there are auto, openmpi, mpich, intel"),
    ],
)
def test_what_cannot_be_is_refused(
    monkeypatch: pytest.MonkeyPatch, wanted: str, linked: str | None, installed: list[Mpi], message: str
) -> None:
    detected(monkeypatch, linked)
    with pytest.raises(UserError, match=message):
        choose(wanted, Path("prog"), installed)
