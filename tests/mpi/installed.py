"""The MPIs for the tests: the system's, or those of --mpi-prefix."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from outrigger import libraries, mpis

SYSTEM = ("openmpi", "mpich")
SYSTEM_MPIS = pytest.mark.parametrize("mpi", SYSTEM, indirect=True)


@dataclass(frozen=True)
class Installed:
    """An MPI, by the ABI for which its programs and the preload library are built."""

    family: str
    elsewhere: mpis.Mpi | None = None
    """None: the system's."""

    def __str__(self) -> str:
        if self.elsewhere is None:
            return self.family
        abi = f"-{self.family}" if self.family == mpis.MPIABI else ""
        return f"{self.elsewhere.implementation}-{self.elsewhere.version}{abi}"

    @property
    def implementation(self) -> str:
        return self.family if self.elsewhere is None else self.elsewhere.implementation

    @property
    def libraries(self) -> Path | None:
        """Directory of its libmpi; None: on the loader's path."""
        library = self.elsewhere.library if self.elsewhere is not None else None
        return None if library is None else library.parent

    def _is_open_mpi_4(self) -> bool:
        return self.implementation == "openmpi" and (self.elsewhere is None or self.elsewhere.version.startswith("4"))

    @property
    def yields(self) -> str:
        """Value of mpi_yield_when_idle. Yielding slows Open MPI 5 from seconds to minutes on virtual machines."""
        return "1" if self._is_open_mpi_4() else "0"

    def has_fortran(self) -> bool:
        """True if it has bindings for the Fortran compiler here."""
        names = ("libmpi_mpifh.so.40", "libmpichfort.so.12")
        return self.libraries is None or any((self.libraries / name).exists() for name in names)

    def launcher(self, ranks: int, shared_directory: str) -> list[str]:
        """Launcher for ranks on this machine, unbound. Open MPI keeps its shared memory in a directory of the test."""
        if self.implementation != "openmpi":
            return [self._command("mpirun.mpich"), "-n", str(ranks)]
        transport = "vader" if self._is_open_mpi_4() else "sm"
        backing = ["--mca", f"btl_{transport}_backing_directory", shared_directory]
        return [
            self._command("mpirun.openmpi"), "--oversubscribe", "--bind-to", "none", *backing, "-n", str(ranks),
        ]  # fmt: skip

    def launcher_on_hosts(self, ranks: int, hosts: list[tuple[str, int]], directory: Path) -> list[str]:
        """Launcher for a number of ranks on each of some hosts, by ssh."""
        file = directory / "hosts"
        separator = " slots=" if self.implementation == "openmpi" else ":"
        file.write_text("".join(f"{name}{separator}{share}\n" for name, share in hosts))
        if self.implementation == "openmpi":
            return [
                self._command("mpirun.openmpi"), "--hostfile", str(file), "--bind-to", "none", "-n", str(ranks),
            ]  # fmt: skip
        option = "-machinefile" if self.implementation == mpis.INTEL else "-f"  # Intel's -f takes no counts
        return [self._command("mpiexec.mpich"), option, str(file), "-n", str(ranks)]

    def _command(self, system: str) -> str:
        return system if self.elsewhere is None else str(self.elsewhere.launcher)

    def search(self, directory: Path) -> list[str]:
        """For LD_LIBRARY_PATH: its libraries, by the names that the programs built here use."""
        if self.libraries is None:
            return []
        names = directory / "names"
        if not names.exists():
            names.mkdir()
            libraries.give_all_names(self.libraries, names)
        return [str(names), str(self.libraries)]


def at(prefixes: list[str]) -> list[Installed]:
    """The system's, unless prefixes are given."""
    if not prefixes:
        return [Installed(family) for family in SYSTEM]
    found = [Installed(mpi.family, mpi) for prefix in prefixes for mpi in mpis.at(Path(prefix).absolute())]
    if not found:
        raise pytest.UsageError(f"--mpi-prefix {' '.join(prefixes)}: there is no mpiexec in bin")
    return found
