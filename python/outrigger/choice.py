"""The MPI of a program: the one whose library it loads."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from outrigger import linked, mpis
from outrigger.errors import UserError
from outrigger.linked import Libmpi
from outrigger.mpis import ABI_NAMES, FAMILIES, INTEL, MPIABI, Mpi

AUTO = "auto"
NAMES = (*FAMILIES, INTEL, MPIABI)


@dataclass(frozen=True)
class Choice:
    """The MPI for a program."""

    mpi: Mpi
    note: str | None = None
    """A note for the user about the choice."""
    library_path: Path | None = None
    """To be searched first by the ranks' loader, which would otherwise find another MPI."""


def _same_file(one: Path | None, other: Path | None) -> bool:
    return one is not None and other is not None and one.resolve() == other.resolve()


def _listed(installed: Sequence[Mpi]) -> str:
    return ", ".join(f"{mpi.title} ({mpi.launcher})" for mpi in installed) or "none"


def named(wanted: str, installed: Sequence[Mpi]) -> list[Mpi]:
    """The MPI of that name, or in that place, with an entry for each of its ABIs."""
    if os.sep in wanted:
        found = mpis.at(Path(wanted).absolute())  # a bare name would be looked for on PATH
        if not found:
            raise UserError(f"--mpi {wanted}: there is no MPI: name its mpiexec, or the directory that has it in bin")
        return found
    if wanted not in NAMES:
        raise UserError(f"--mpi {wanted}: there are {', '.join((AUTO, *NAMES))}, or where it is installed")
    found = [mpi for mpi in installed if wanted in (mpi.implementation, mpi.family if wanted == MPIABI else "")]
    if not found:
        raise UserError(f"--mpi {wanted}: its mpirun is not on PATH (found: {_listed(installed)})")
    return found


def _beside(library: Path) -> list[Mpi]:
    """The MPI of this library, by the launcher in the same prefix."""
    for path in dict.fromkeys((library, library.resolve())):
        for prefix in path.parents[1:3]:
            if found := [mpi for mpi in mpis.at(prefix) if _same_file(mpi.library, library)]:
                return found
    return []


def _asks_for(program: Path, loaded: Libmpi) -> str:
    return f"{program} is linked to {loaded.soname} ({ABI_NAMES[loaded.family or '']})"


def _by_itself(program: Path, loaded: Libmpi | None, installed: Sequence[Mpi]) -> Choice:
    if loaded is None:
        if not installed:
            raise UserError("no MPI was found: there is no mpiexec of Open MPI, MPICH or Intel MPI on PATH")
        mpi = installed[0]
        taken = f"taking that of {mpi.launcher}, {mpi.title}"
        return Choice(mpi, f"{program.name} does not show which MPI it starts; {taken} (choose with --mpi)")
    if exact := [mpi for mpi in installed if _same_file(mpi.library, loaded.path)]:
        return Choice(exact[0])
    if loaded.path is not None and (beside := _beside(loaded.path)):
        return Choice(beside[0])
    fitting = [mpi for mpi in installed if mpi.family == loaded.family]
    if not fitting:
        raise UserError(f"{_asks_for(program, loaded)}, whose mpiexec is not on PATH (found: {_listed(installed)})")
    mpi = fitting[0]
    if loaded.path is None:
        if mpi.library is None:
            raise UserError(f"{_asks_for(program, loaded)}, which the loader does not find; set LD_LIBRARY_PATH")
        return Choice(mpi, None, mpi.library.parent)
    if mpi.library is None:
        return Choice(mpi)
    note = (
        f"{program.name} loads {loaded.path}, whose mpiexec was not found; taking {mpi.title} of the same ABI. If the "
        "ranks do not find each other, choose with --mpi"
    )
    return Choice(mpi, note)


def _loaded(program: Path, *, required: bool) -> Libmpi | None:
    try:
        return linked.of_program(program)
    except UserError:
        if required:
            raise
        return None


def mpi4py_environment(mpi: Mpi) -> dict[str, str]:
    """Tells an mpi4py that supports any MPI which one to use; otherwise it uses the first it finds.

    With the ABI alone it leaves the library to the loader, which may not find it; from the library it detects the ABI.
    """
    return {"MPI4PY_MPIABI": mpi.family} if mpi.library is None else {"MPI4PY_LIBMPI": str(mpi.library)}


def _left_to_the_loader() -> str | None:
    """The reason why mpi4py may not use the named library: if the ABI is set, too, it ignores the library."""
    if "MPI4PY_MPIABI" not in os.environ:
        return None
    return "MPI4PY_MPIABI is set, so that mpi4py leaves the library to the loader and --mpi has no effect: unset it"


def with_library_path(directory: Path) -> dict[str, str]:
    """LD_LIBRARY_PATH with this directory before all others."""
    present = os.environ.get("LD_LIBRARY_PATH", "")
    return {"LD_LIBRARY_PATH": os.pathsep.join(filter(None, (str(directory), present)))}


def _made_to_load(program: Path, loaded: Libmpi, mpi: Mpi) -> Choice:
    """The program loads another libmpi of the same ABI: checks if it may load this one."""
    if mpi.library is None:
        return Choice(mpi)
    python = linked.interpreter_of(program)
    extra = mpi4py_environment(mpi) if python is not None else with_library_path(mpi.library.parent)
    now = linked.of_program(program, extra)
    if now is not None and _same_file(now.path, mpi.library):
        return Choice(mpi, None, None if python is not None else mpi.library.parent)
    if python is not None:
        how = f"mpi4py of {python} does not take"
        why = _left_to_the_loader() or f"it cannot be started with {mpi.launcher}"
    else:
        how = f"{program} loads {(now or loaded).path}, whatever LD_LIBRARY_PATH says, not"
        why = f"it cannot be started with {mpi.launcher}"
    raise UserError(f"{how} {mpi.library} of {mpi.title}: {why}")


def _as_wanted(wanted: str, program: Path, installed: Sequence[Mpi]) -> Choice:
    found = named(wanted, installed)
    loaded = _loaded(program, required=False)
    if loaded is None:  # mpi4py may be installed without its libmpi
        return Choice(found[0], _left_to_the_loader() if linked.interpreter_of(program) is not None else None)
    if exact := [mpi for mpi in found if _same_file(mpi.library, loaded.path)]:
        return Choice(exact[0])
    if linked.interpreter_of(program) is not None:  # mpi4py may load another than by default
        return _made_to_load(program, loaded, found[0])
    fitting = [mpi for mpi in found if mpi.family == loaded.family]
    if not fitting:
        raise UserError(f"{_asks_for(program, loaded)}, but --mpi {wanted} was asked for")
    return _made_to_load(program, loaded, fitting[0])


def choose(wanted: str, program: Path, installed: Sequence[Mpi]) -> Choice:
    """The MPI to start `program` with; `wanted` is auto, a name, or a place."""
    if wanted != AUTO:
        return _as_wanted(wanted, program, installed)
    return _by_itself(program, _loaded(program, required=True), installed)
