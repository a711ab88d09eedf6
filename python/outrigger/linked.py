"""Finds the libmpi that a program would load, from the loader or mpi4py."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from outrigger.errors import UserError
from outrigger.mpis import family_of_soname, output

_SHEBANG_LIMIT_BYTES = 256
_LONGEST_INTERPRETER = 240
"""Longer ones may be cut."""
_IN_LDD = re.compile(
    r"^\s*(?:\S*/)?(lib(?:mpi|mpich|mpi_abi)\.so(?:\.\d+)*)(?: => (\S.*?))?(?: \(0x[0-9a-f]+\))?$", re.M
)

# `mpirun.openmpi` and `mpiexec.hydra`, too.
_STARTS_MPI_PROGRAMS = re.compile(
    r"(mpirun|mpiexec)([-._](openmpi|mpich|hydra|intel|mvapich\d?|rsh|mpt|\d+))*|orterun|prterun|prun|srun|jsrun|aprun|"
    r"ibrun"
)
_STARTS_ANY_MPI = ("srun", "jsrun", "aprun", "ibrun")

# mpi4py's MPI is visible in its mapped files; MPI is not initialized for that.
_ASK_MPI4PY = """
import sys
try:
    import mpi4py
except ImportError:
    sys.exit(0)
mpi4py.rc.initialize = False
from mpi4py import MPI
for line in open("/proc/self/maps"):
    print(line.rstrip().partition("/")[2])
"""


@dataclass(frozen=True)
class Libmpi:
    """A libmpi requested by a program."""

    soname: str
    path: Path | None
    """None: the loader does not find it."""

    @property
    def family(self) -> str | None:
        """Its ABI; None: unknown."""
        return family_of_soname(self.soname)


def starts_mpi_programs(program: Path) -> bool:
    """True for the launchers of MPIs and batch systems, by their names."""
    return _STARTS_MPI_PROGRAMS.fullmatch(program.name) is not None


def starts_any_mpi(program: Path) -> bool:
    """True for those of batch systems, which belong to no MPI."""
    return program.name in _STARTS_ANY_MPI


def find_program(name: str) -> Path:
    """Path of a program to be started as ranks."""
    path = shutil.which(name)
    if path is None:
        raise UserError(f"{name}: no such program, or it is not executable")
    words = _first_line(Path(path))
    if words and words[0].startswith("/") and len(words[0]) < _LONGEST_INTERPRETER and not Path(words[0]).exists():
        raise UserError(f"{name}: its first line names {words[0]}, which does not exist")
    if starts_mpi_programs(Path(path)):
        raise UserError(f"{name} starts MPI programs itself: name the program instead (--mpi chooses its MPI)")
    return Path(path)


def is_python(program: Path) -> bool:
    """True if the program is a Python interpreter, by its name."""
    return re.fullmatch(r"python[\d.]*|pypy[\d.]*", program.name) is not None


def _first_line(program: Path) -> list[str] | None:
    """Words after #! in a script; None if it is not a script."""
    try:
        with program.open("rb") as file:
            first = file.read(_SHEBANG_LIMIT_BYTES).split(b"\n", 1)[0]
    except OSError:  # it may be executable and not readable
        return None
    if not first.startswith(b"#!"):
        return None
    return first[2:].decode(errors="replace").split()


def _interpreter(program: Path) -> list[str] | None:
    """The same with what `env` starts."""
    words = _first_line(program)
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-")]
    return words


def interpreter_of(program: Path) -> Path | None:
    """Python interpreter that runs it: itself, or the one in a script's first line."""
    words = _interpreter(program)
    if words is not None:
        found = shutil.which(words[0]) if words else None
        program = Path(found) if found is not None else program
    return program if is_python(program) else None


def in_ldd(text: str) -> list[Libmpi]:
    """The libmpis in the output of ldd, without duplicates."""
    found = {}
    for match in _IN_LDD.finditer(text):
        name, path = match[1], match[2]
        found[name] = Libmpi(name, None if path in (None, "not found") else Path(path))
    return list(found.values())


def _mapped(path: Path) -> Libmpi | None:
    """The libmpi of a mapped file. Links are resolved there: libmpi.so.12.0.0 for libmpi.so.12. Wheels have copies in
    place of links, so libmpi.so is possible, too.
    """
    match = re.fullmatch(r"(lib(?:mpi|mpich|mpi_abi)\.so)(\.\d+)?(?:\.\d+)*", path.name)
    if match is None:
        return None
    if match[2] is not None:
        found = Libmpi(match[1] + match[2], path)
        return found if found.family is not None else None
    for other in sorted(path.parent.glob(f"{match[1]}.*")):
        if family_of_soname(other.name) is not None and other.stat().st_size == path.stat().st_size:
            return Libmpi(other.name, other)
    return None


def of_mpi4py(python: Path, environment: Mapping[str, str] | None = None) -> Libmpi | None:
    """The libmpi that mpi4py loads there; None without mpi4py or with an unknown MPI."""
    for line in output([python, "-c", _ASK_MPI4PY], environment).splitlines():
        if (found := _mapped(Path("/") / line)) is not None:
            return found
    return None


def of_program(program: Path, environment: Mapping[str, str] | None = None) -> Libmpi | None:
    """The libmpi that a program loads; None if it cannot be determined.

    This is so for scripts other than Python's, Python without mpi4py, and programs without MPI, which may start others.
    Raises UserError for an unsupported program.
    """
    python = interpreter_of(program)
    if python is not None:
        return of_mpi4py(python, environment)
    if _interpreter(program) is not None:
        return None
    found = in_ldd(output(["ldd", program], environment))
    if not found:
        return None
    if len({libmpi.family for libmpi in found}) > 1:
        names = " and ".join(libmpi.soname for libmpi in found)
        raise UserError(f"{program} loads two MPIs, {names}: one of its libraries is built for another MPI")
    if found[0].family is None:
        raise UserError(
            f"{program} uses {found[0].soname}, which is neither Open MPI's (4, 5), of the MPICH family, nor of the "
            "standard ABI"
        )
    return found[0]
