"""The libmpi that a program would load."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from outrigger import linked
from outrigger.errors import UserError
from outrigger.linked import Libmpi, in_ldd, of_mpi4py, of_program


def test_ldd_names_the_library_and_where_it_is() -> None:
    text = (
        "\tlinux-vdso.so.1 (0x00007ffc)\n"
        "\tlibmpi_mpifh.so.40 => /lib/libmpi_mpifh.so.40 (0x00007f)\n"
        "\tlibmpi.so.40 => /opt/my mpi/lib/libmpi.so.40 (0x00007f)\n"
        "\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n"
    )
    (found,) = in_ldd(text)
    assert found == Libmpi("libmpi.so.40", Path("/opt/my mpi/lib/libmpi.so.40"))
    assert found.family == "openmpi"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("\tlibmpich.so.12 => /lib/libmpich.so.12 (0x00007f)", ("libmpich.so.12", "mpich", "/lib/libmpich.so.12")),
        ("\tlibmpi.so.12 => not found", ("libmpi.so.12", "mpich", None)),
        ("\tlibmpi_abi.so.1 => /a/libmpi_abi.so.1 (0x00007f)", ("libmpi_abi.so.1", "mpiabi", "/a/libmpi_abi.so.1")),
        ("\tlibmpi.so.400 => /x/libmpi.so.400 (0x00007f)", ("libmpi.so.400", None, "/x/libmpi.so.400")),
    ],
)
def test_libraries_name_their_abi(line: str, found: tuple[str, str | None, str | None]) -> None:
    (libmpi,) = in_ldd(line)
    assert (libmpi.soname, libmpi.family, libmpi.path and str(libmpi.path)) == found


def test_other_libraries_are_no_mpi() -> None:
    assert in_ldd("\tlibmpi_mpifh.so.40 => /lib/libmpi_mpifh.so.40 (0x00007f)\n\tlibmpig.so => /x (0x00007f)") == []


def script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def fake_output(monkeypatch: pytest.MonkeyPatch, text: str) -> list[str]:
    """Sets the output of ldd or Python. Returns the list of the commands that are run."""
    asked: list[str] = []

    def output(command: list[object], _environment: object = None) -> str:
        asked.append(str(command[0]))
        return text

    monkeypatch.setattr(linked, "output", output)
    return asked


def test_a_shell_script_does_not_show_its_mpi(tmp_path: Path) -> None:
    assert of_program(script(tmp_path / "job.sh", "#!/bin/sh\nexec ./prog\n")) is None


def test_a_program_that_can_only_be_executed_does_not_show_its_mpi(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a user who may not read it; root may read everything."""

    def refused(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    program = script(tmp_path / "prog", "")
    monkeypatch.setattr(Path, "open", refused)
    asked = fake_output(monkeypatch, f"ldd: error: you do not have read permission for `{program}'\n")
    assert linked.interpreter_of(program) is None and of_program(program) is None
    assert asked == ["ldd"]


def test_a_python_script_is_asked_through_its_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = fake_output(monkeypatch, "usr/lib/libc.so.6\nopt/lib/libmpi.so.40.30.4\n")
    found = of_program(script(tmp_path / "job.py", f"#!{sys.executable}\n"))
    assert found == Libmpi("libmpi.so.40", Path("/opt/lib/libmpi.so.40.30.4"))
    assert asked == [sys.executable]


def test_a_copy_is_known_by_the_library_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in Intel MPI's wheel."""
    for name in ("libmpi.so", "libmpi.so.12"):
        (tmp_path / name).write_text("a library")
    (tmp_path / "libmpi.so.40").write_text("another library")
    fake_output(monkeypatch, str(tmp_path / "libmpi.so").removeprefix("/"))
    assert of_mpi4py(Path(sys.executable)) == Libmpi("libmpi.so.12", tmp_path / "libmpi.so.12")


def test_python_without_mpi4py_does_not_show_its_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_output(monkeypatch, "Traceback (most recent call last):\nRuntimeError: cannot load MPI library\n")
    assert of_mpi4py(Path(sys.executable)) is None


def test_a_program_without_mpi_does_not_show_which_it_starts() -> None:
    program = shutil.which("true")
    assert program is not None
    assert of_program(Path(program)) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\tlibmpi.so.99 => /x/libmpi.so.99 (0x1)", r"uses libmpi\.so\.99, which is neither"),
        (
            "\tlibmpi.so.40 => /x/libmpi.so.40 (0x1)\n\tlibmpi.so.12 => /y/libmpi.so.12 (0x1)",
            r"loads two MPIs, libmpi\.so\.40 and libmpi\.so\.12",
        ),
    ],
)
def test_what_cannot_be_served_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    program = tmp_path / "prog"
    program.write_bytes(b"\x7fELF")
    fake_output(monkeypatch, text)
    with pytest.raises(UserError, match=message):
        of_program(program)


@pytest.mark.parametrize(
    "name", ["mpirun", "mpiexec", "mpirun.openmpi", "mpiexec.hydra", "mpirun-mpich", "orterun", "srun"]
)
def test_launchers_are_no_programs(name: str, tmp_path: Path) -> None:
    launcher = tmp_path / name
    launcher.touch(0o755)
    with pytest.raises(UserError, match=rf"/{name} starts MPI programs itself: name the program instead"):
        linked.find_program(str(launcher))


@pytest.mark.parametrize("name", ["mpirunner", "mpirun_test.sh", "torchrun", "srun2"])
def test_programs_may_have_similar_names(name: str, tmp_path: Path) -> None:
    program = tmp_path / name
    program.touch(0o755)
    assert linked.find_program(str(program)) == program
