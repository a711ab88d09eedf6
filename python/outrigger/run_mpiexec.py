"""`outrigger run -- mpirun -n 4 ./program`: keeps the user's own command, and adds the library to its ranks.

The launcher starts the ranks and places them. This command keeps no cores and binds nothing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from outrigger import choice, launch, linked, mpis, settings, switch_on
from outrigger.artifacts import Artifacts
from outrigger.binding import NodeBinding
from outrigger.errors import UserError
from outrigger.linked import Libmpi
from outrigger.mpis import ABI_NAMES, Mpi
from outrigger.sections import SEPARATOR

_NO_BINDING = NodeBinding((), (), (), ())
_OF_ALL_MPIS = ("srun", "jsrun", "aprun")


def is_mpiexec(program: Sequence[str]) -> bool:
    """True for mpiexec, mpirun, srun and the like."""
    return linked.starts_mpi_programs(Path(program[0]))


def check_alone(given: Mapping[str, bool], launcher: str) -> None:
    """Rejects options for the placement of ranks, by their names."""
    if wrong := [name for name, is_given in given.items() if is_given]:
        raise UserError(
            f"{', '.join(wrong)}: {Path(launcher).name} starts and places the ranks of this command: use its own "
            "options, or name the program alone, as in `outrigger run -n 4 -- ./program`"
        )


def _loaded(words: Sequence[str]) -> tuple[str, Libmpi] | None:
    """The first program among the words that shows its MPI."""
    for word in words:
        path = shutil.which(word)
        if path is not None and (loaded := linked.of_program(Path(path))) is not None:
            return word, loaded
    return None


def _mpis(launcher: Path, wanted: str) -> Sequence[Mpi]:
    """The launcher's MPI, with an entry for each of its ABIs. srun and the like start programs of any MPI."""
    if wanted != choice.AUTO:
        return choice.named(wanted, mpis.find_all_mpis())
    found = mpis.find_all_mpis() if launcher.name in _OF_ALL_MPIS else mpis.identify(launcher)
    if not found:
        raise UserError(f"{launcher} belongs to no MPI that Outrigger knows; say which it starts with --mpi")
    return found


def choose(program: Sequence[str], wanted: str) -> Mpi:
    """The MPI of the ranks that the command starts."""
    launcher = Path(shutil.which(program[0]) or program[0])
    if not launcher.exists():
        raise UserError(f"{program[0]}: no such program, or it is not executable")
    found = _mpis(launcher, wanted)
    loads = _loaded(program[1:])
    if loads is None:
        return found[0]
    name, loaded = loads
    fitting = [mpi for mpi in found if mpi.family == loaded.family]
    if not fitting:
        raise UserError(
            f"{name} is linked to {loaded.soname} ({ABI_NAMES[loaded.family or '']}), and {program[0]} starts programs "
            f"of {found[0].title}: start it with the mpiexec of its own MPI"
        )
    return fitting[0]


def make_plan(job: launch.Job, found: Artifacts) -> launch.Plan:
    """The command in job.program, with the library for its ranks."""
    environment = {**launch.offload_environment(job, found), **job.variables.values}
    given = {**os.environ, **environment}
    preload = None
    if not job.native:
        heap = [found.heap] if settings.uses_heap(given) else []
        preload = switch_on.switched_on([*heap, found.preload(job.mpi.family)], os.environ)
    launcher, *words = job.program
    options = _options(Path(launcher).name, job, environment, preload)
    if not options and preload is not None:
        environment[switch_on.PRELOAD] = preload
    return launch.Plan(found.daemon, (launcher, *_in_sections(words, options)), environment, _NO_BINDING)


def _options(launcher: str, job: launch.Job, environment: Mapping[str, str], preload: str | None) -> list[str]:
    """So that the ranks have the library, and the launcher does not. Open MPI passes only variables that it is told."""
    if launcher in _OF_ALL_MPIS:
        return []
    options = [] if preload is None else switch_on.launcher_options(switch_on.MPIEXEC, job.mpi, preload)
    if job.mpi.implementation == "openmpi":
        for name in sorted({*environment, *job.variables.passed}):
            options += ["-x", name]
    return options


def _in_sections(words: Sequence[str], options: Sequence[str]) -> list[str]:
    """The launcher's words with the options before each program's own."""
    placed = [*options]
    for word in words:
        placed += [word, *options] if word == SEPARATOR else [word]
    return placed
