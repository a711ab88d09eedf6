"""Finds the MPIs of this machine, and which of them a program uses."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from outrigger.errors import UserError

FAMILIES = ("openmpi", "mpich")
NAMES = {"openmpi": "Open MPI", "mpich": "MPICH"}
INTEL = "intel"
INTEL_NAME = "Intel MPI"

# The sonames by which a program's libmpi is known. Intel MPI and MVAPICH share MPICH's.
_SONAMES = {
    "openmpi": re.compile(r"libmpi\.so\.40\b"),
    "mpich": re.compile(r"lib(?:mpi|mpich)\.so\.12\b"),
}
_ANY_MPI = re.compile(r"\blib(?:mpi|mpich|mpi_abi)\.so(?:\.\d+)?\b")
_SHEBANG_LIMIT_BYTES = 256


@dataclass(frozen=True)
class Mpi:
    """An MPI that is installed."""

    family: str
    version: str
    launcher: Path
    library: Path | None
    vendor: str = ""
    """intel: of the MPICH family, with a launcher of its own."""

    @property
    def title(self) -> str:
        """Name and version for people."""
        return f"{INTEL_NAME if self.vendor == INTEL else NAMES[self.family]} {self.version}"


def _output(command: Sequence[str | Path]) -> str:
    """What a command prints, stdout and stderr together; nothing when it cannot be run."""
    try:
        result = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout.decode(errors="replace")


def identify_launcher(version_text: str) -> tuple[str, str] | None:
    """Family (or intel) and version from what `mpirun --version` prints."""
    if match := re.search(r"\((?:Open MPI|OpenRTE)\)\s+(\S+)", version_text):
        return "openmpi", match[1]
    if match := re.search(r"Intel\(R\) MPI Library.*?Version (\S+)", version_text):
        return INTEL, match[1]
    if "HYDRA" in version_text and (match := re.search(r"Version:\s*(\S+)", version_text)):
        return "mpich", match[1]
    return None


def family_of_libraries(text: str) -> str | None:
    """The family whose libmpi is named in a list of libraries such as ldd prints."""
    for family, soname in _SONAMES.items():
        if soname.search(text):
            return family
    return None


def _find_library(family: str) -> Path | None:
    ldconfig = shutil.which("ldconfig") or "/sbin/ldconfig"
    for line in _output([ldconfig, "-p"]).splitlines():
        name, arrow, path = line.partition("=>")
        if arrow and _SONAMES[family].search(name):
            return Path(path.strip())
    return None


def _intel_library(launcher: Path) -> Path | None:
    """Beside the launcher, as Intel MPI is installed."""
    prefix = launcher.resolve().parent.parent
    candidates = (prefix / "lib" / "libmpi.so.12", prefix / "lib" / "release" / "libmpi.so.12")
    return next((path for path in candidates if path.exists()), None)


def _identified(launcher: Path) -> tuple[str, Mpi] | None:
    identity = identify_launcher(_output([launcher, "--version"]))
    if identity is None:
        return None
    name, version = identity
    if name == INTEL:
        return name, Mpi("mpich", version, launcher, _intel_library(launcher), INTEL)
    return name, Mpi(name, version, launcher, _find_library(name))


def find_all_mpis() -> list[Mpi]:
    """The MPIs with a launcher on PATH: one Open MPI, one MPICH, one Intel MPI."""
    found: dict[str, Mpi] = {}
    for name in ("mpirun.openmpi", "mpirun.mpich", "mpirun", "mpiexec", "mpiexec.hydra"):
        launcher = shutil.which(name)
        if launcher is not None and (identified := _identified(Path(launcher))) is not None:
            found.setdefault(*identified)
    return [found[name] for name in (*FAMILIES, INTEL) if name in found]


def find_mpis() -> list[Mpi]:
    """One MPI per family, those with a launcher on PATH."""
    found: dict[str, Mpi] = {}
    for mpi in find_all_mpis():
        found.setdefault(mpi.family, mpi)
    return list(found.values())


def _interpreter(program: Path) -> list[str] | None:
    """The words after #! in a script; None when it is not a script."""
    with program.open("rb") as file:
        first = file.read(_SHEBANG_LIMIT_BYTES).split(b"\n", 1)[0]
    if not first.startswith(b"#!"):
        return None
    words = first[2:].decode(errors="replace").split()
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-")]
    return words


def is_python(program: Path) -> bool:
    """The program is a Python interpreter, by its name."""
    return re.fullmatch(r"python[\d.]*|pypy[\d.]*", program.name) is not None


_MPI4PY_MODULES = """
import glob, os, sys
try:
    import mpi4py
except ImportError:
    sys.exit("no mpi4py")
print("\\n".join(glob.glob(os.path.join(os.path.dirname(mpi4py.__file__), "MPI.*.so"))))
"""


def family_of_mpi4py(modules: Sequence[str]) -> str | None:
    """The family that an mpi4py is built for, from its MPI.*.so files; None: it takes the one it is told."""
    names = [Path(module).name for module in modules]
    if any(name.startswith(("MPI.openmpi.", "MPI.mpich.", "MPI.mpiabi.")) for name in names):
        return None
    for module in modules:
        if family := family_of_libraries(_output(["ldd", module])):
            return family
    return None


def find_program(name: str) -> Path:
    """The file that a command names."""
    path = shutil.which(name)
    if path is None:
        raise UserError(f"{name}: no such program, or it is not executable")
    return Path(path)


def detect_family(program: Path) -> str | None:
    """The MPI family that a program uses; None when that cannot be seen (scripts; Python that takes any).

    Raises UserError for a program that certainly uses none, or one that cannot be served.
    """
    words = _interpreter(program)
    if words is not None:
        interpreter = shutil.which(words[0]) if words else None
        if interpreter is None or not is_python(Path(interpreter)):
            return None
        program = Path(interpreter)
    if is_python(program):
        return family_of_mpi4py(_output([program, "-c", _MPI4PY_MODULES]).split())
    libraries = _output(["ldd", program])
    if family := family_of_libraries(libraries):
        return family
    if other := _ANY_MPI.search(libraries):
        raise UserError(f"{program} uses {other[0]}, which is neither Open MPI 4/5 nor of the MPICH family")
    raise UserError(
        f"{program} is not linked to an MPI library (ldd shows no libmpi). Linked statically, or found by dlopen, an "
        "MPI cannot be served; name it with --mpi if the program starts another that is linked to one"
    )


@dataclass(frozen=True)
class Choice:
    """The MPI a program is started with."""

    mpi: Mpi
    note: str | None
    """Something the user should know about how it was chosen."""


def _vendor(program: Path, installed: Sequence[Mpi]) -> str:
    """Which of the MPICH family a program would load its libmpi from: intel, or nothing."""
    for mpi in installed:
        if mpi.vendor and mpi.library is not None and str(mpi.library.parent) in _output(["ldd", program]):
            return mpi.vendor
    return ""


def _name(mpi: Mpi) -> str:
    return mpi.vendor or mpi.family


def _detected(wanted: str, program: Path) -> str | None:
    try:
        return detect_family(program)
    except UserError:
        if wanted == "auto":
            raise
        return None


def choose(wanted: str, program: Path, installed: Sequence[Mpi]) -> Choice:
    """The MPI to start `program` with; `wanted` is auto or a name."""
    if not installed:
        raise UserError("no MPI was found: neither mpirun of Open MPI nor of MPICH is on PATH")
    names = (*FAMILIES, INTEL)
    if wanted != "auto" and wanted not in names:
        raise UserError(f"--mpi {wanted}: there are auto, {', '.join(names)}")
    detected = _detected(wanted, program)
    if wanted != "auto":
        family = "mpich" if wanted == INTEL else wanted
        if detected is not None and detected != family:
            raise UserError(f"{program} is linked to {NAMES[detected]}, but --mpi {wanted} was asked for")
        chosen = next((mpi for mpi in installed if _name(mpi) == wanted), None)
        if chosen is None:
            found = ", ".join(map(_name, installed))
            raise UserError(f"--mpi {wanted}: its mpirun is not on PATH (found: {found})")
        return Choice(chosen, None)
    if detected is None:
        mpi = installed[0]
        return Choice(mpi, f"{program.name} does not show its MPI; taking {mpi.title} (choose with --mpi)")
    fitting = [mpi for mpi in installed if mpi.family == detected]
    if not fitting:
        raise UserError(f"{program} is linked to {NAMES[detected]}, whose mpirun is not on PATH")
    vendor = _vendor(program, fitting)
    return Choice(next((mpi for mpi in fitting if mpi.vendor == vendor), fitting[0]), None)
