"""Makes programs built with one MPI load another MPI's library of the same ABI."""

from __future__ import annotations

import functools
from pathlib import Path

from outrigger import linked, scratch
from outrigger.errors import UserError
from outrigger.mpis import ABI_NAMES, Mpi

# Names of MPICH's libraries on Debian, also in programs built there.
_OTHER_NAMES = {"libmpi.so.12": "libmpich.so.12", "libmpifort.so.12": "libmpichfort.so.12"}


def give_all_names(libraries: Path, directory: Path) -> None:
    """Links in `directory` to all `libraries`, under every name used in the ABI: they search their own directory for
    others.
    """
    for path in libraries.iterdir():
        (directory / path.name).symlink_to(path)
        if path.name in _OTHER_NAMES and not (libraries / _OTHER_NAMES[path.name]).exists():
            (directory / _OTHER_NAMES[path.name]).symlink_to(path)


@functools.cache
def _with_all_names(libraries: Path) -> Path:
    """Exists until this process ends."""
    made = scratch.until_exit()
    give_all_names(libraries, made)
    return made


@functools.cache
def directory_for(program: Path, mpi: Mpi) -> Path | None:
    """First directory for the loader to search, so that the program loads this MPI; None: it does so anyway."""
    loaded = linked.of_program(program)
    if loaded is None or mpi.library is None:
        return None
    if loaded.path is not None and loaded.path.resolve() == mpi.library.resolve():
        return None
    if loaded.family != mpi.family:
        raise UserError(f"{program} is built for {ABI_NAMES[loaded.family or '']}, which {mpi.title} does not have")
    return _with_all_names(mpi.library.parent)
