"""MPIs of this machine: their launchers and libraries."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

FAMILIES = ("openmpi", "mpich")
"""Native ABIs of the MPIs of the same name."""
MPIABI = "mpiabi"
"""Standard ABI since MPI 5; MPIs have it beside their own."""
INTEL = "intel"

NAMES = {"openmpi": "Open MPI", "mpich": "MPICH", INTEL: "Intel MPI"}
ABI_NAMES = {"openmpi": "Open MPI's ABI", "mpich": "MPICH's ABI", MPIABI: "the standard ABI"}

# Sonames that identify a program's libmpi. Intel MPI and MVAPICH share MPICH's.
SONAMES = {
    "openmpi": ("libmpi.so.40",),
    "mpich": ("libmpi.so.12", "libmpich.so.12"),
    MPIABI: ("libmpi_abi.so.1", "libmpi_abi.so.0"),
}
_LIBRARY_DIRECTORIES = ("lib", "lib64", "lib/release")
# Debian's names for MPIs installed side by side, and the usual names; one of the latter is enough per directory.
_SPECIFIC = ("mpirun.openmpi", "mpirun.mpich")
_GENERIC = ("mpiexec", "mpirun", "mpiexec.hydra")


@dataclass(frozen=True)
class Mpi:
    """An installed MPI, with one of its ABIs."""

    family: str
    """The ABI: openmpi, mpich or mpiabi."""
    version: str
    launcher: Path
    library: Path | None
    vendor: str = ""
    """Its implementation if the ABI does not determine it: intel; always set for mpiabi."""

    @property
    def implementation(self) -> str:
        """openmpi, mpich or intel."""
        return self.vendor or self.family

    @property
    def title(self) -> str:
        """Name and version to print."""
        title = f"{NAMES[self.implementation]} {self.version}".rstrip()
        return f"{title} (standard ABI)" if self.family == MPIABI else title


def output(command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> str:
    """Output of a command, stdout and stderr together; empty if it cannot be run."""
    try:
        result = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **environment} if environment else None,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout.decode(errors="replace")


def identify_launcher(version_text: str) -> tuple[str, str] | None:
    """Implementation and version from the output of `mpirun --version`."""
    if match := re.search(r"\((?:Open MPI|OpenRTE)\)\s+(\S+)", version_text):
        return "openmpi", match[1]
    if match := re.search(r"Intel\(R\) MPI Library.*?Version (\S+)", version_text):
        return INTEL, match[1]
    if "HYDRA" in version_text and (match := re.search(r"Version:\s*(\S+)", version_text)):
        return "mpich", match[1]
    return None


def family_of_soname(name: str) -> str | None:
    """ABI of a libmpi, by its file name."""
    return next((family for family, sonames in SONAMES.items() if name in sonames), None)


def _in_directory(directory: Path, families: Iterable[str]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for family in families:
        for path in (directory / soname for soname in SONAMES[family]):
            if path.exists():
                found.setdefault(family, path)
    return found


def _known_to_the_system(family: str) -> Path | None:
    ldconfig = shutil.which("ldconfig") or "/sbin/ldconfig"
    for line in output([ldconfig, "-p"]).splitlines():
        name, arrow, path = line.partition("=>")
        if arrow and name.split(maxsplit=1)[0] in SONAMES[family]:
            return Path(path.strip())
    return None


def unknown_to_the_loader(mpi: Mpi) -> Path | None:
    """Its libmpi in an architecture's directory below its prefix, which only the loader's cache would reveal."""
    for prefix in dict.fromkeys((mpi.launcher.parent.parent, mpi.launcher.resolve().parent.parent)):
        for name in SONAMES[mpi.family]:
            if found := sorted(prefix.glob(f"lib/*-linux-gnu*/{name}")):
                return found[0]
    return None


def _libraries(launcher: Path, own: str) -> dict[str, Path]:
    """By ABI: beside the launcher, otherwise found by the system's loader."""
    found: dict[str, Path] = {}
    for prefix in dict.fromkeys((launcher.parent.parent, launcher.resolve().parent.parent)):
        for directory in _LIBRARY_DIRECTORIES:
            found = _in_directory(prefix / directory, (own, MPIABI)) | found
    if not found and (path := _known_to_the_system(own)) is not None:
        found[own] = path
    return found


def identify(launcher: Path) -> list[Mpi]:
    """One entry per ABI of the launcher's MPI, its own ABI first; empty if it belongs to no MPI."""
    identity = identify_launcher(output([launcher, "--version"]))
    if identity is None:
        return []
    implementation, version = identity
    own = "mpich" if implementation == INTEL else implementation
    libraries = _libraries(launcher, own)
    found = [Mpi(own, version, launcher, libraries.get(own), INTEL if implementation == INTEL else "")]
    if MPIABI in libraries:
        found.append(Mpi(MPIABI, version, launcher, libraries[MPIABI], implementation))
    return found


def _launchers_in(directory: Path) -> Iterator[Path]:
    def there(name: str) -> bool:
        return shutil.which(name, path=str(directory)) is not None

    yield from (directory / name for name in _SPECIFIC if there(name))
    if generic := next(filter(there, _GENERIC), None):
        yield directory / generic


def at(place: Path) -> list[Mpi]:
    """The MPI of a prefix or launcher; empty if there is none."""
    if place.is_file():
        return identify(place)
    return [mpi for launcher in _launchers_in(place / "bin") for mpi in identify(launcher)]


def _on_path() -> Iterator[Path]:
    """Each launcher once, in PATH's order."""
    seen = set()
    for directory in os.environ.get("PATH", os.defpath).split(os.pathsep):
        for launcher in _launchers_in(Path(directory)) if directory else ():
            if (real := launcher.resolve()) not in seen:
                seen.add(real)
                yield launcher


def _default_first(launchers: Sequence[Path]) -> list[Path]:
    """The MPI of `mpiexec` first."""
    default = next(filter(None, map(shutil.which, _GENERIC)), None)
    real = Path(default).resolve() if default else None
    return sorted(launchers, key=lambda launcher: launcher.resolve() != real)


def find_all_mpis() -> list[Mpi]:
    """MPIs with a launcher on PATH; the MPI of `mpiexec` first, then in PATH's order."""
    return [mpi for launcher in _default_first(list(_on_path())) for mpi in identify(launcher)]


def find_mpis() -> list[Mpi]:
    """One MPI for each of the FAMILIES: the system's if there is one, because local programs are built for it."""
    found: dict[str, Mpi] = {}
    for mpi in sorted(find_all_mpis(), key=lambda mpi: (mpi.launcher.name not in _SPECIFIC, bool(mpi.vendor))):
        found.setdefault(mpi.family, mpi)
    return [found[family] for family in FAMILIES if family in found]
