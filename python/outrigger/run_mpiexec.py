"""`outrigger run -- mpirun -n 4 ./program`: keeps the user's own command, and adds the library to its ranks.

The launcher starts the ranks and places them. This command keeps no cores and binds nothing. Variables go through the
environment of the launcher, which passes it on; Open MPI's passes it to other hosts only as options.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from outrigger import choice, launch, linked, mpis, settings, switch_on
from outrigger.artifacts import Artifacts
from outrigger.binding import UNPLACED
from outrigger.errors import UserError
from outrigger.linked import Libmpi
from outrigger.mpis import FAMILIES, MPIABI, Mpi
from outrigger.sections import SEPARATOR

_BEFORE_LAUNCHERS = ("env", "time", "nice", "nohup", "numactl", "stdbuf", "taskset", "timeout")
_HOSTS = frozenset(
    dashes + name
    for dashes in ("-", "--")
    for name in ("H", "host", "hostfile", "machinefile", "default-hostfile", "add-host", "add-hostfile")
)
_ALLOCATIONS = ("SLURM_JOB_ID", "PBS_NODEFILE", "LSB_DJOB_HOSTFILE")
_ENV_LIST = "mca_base_env_list"
"""Open MPI refuses -x beside this parameter."""


@dataclass(frozen=True)
class Choice:
    """The MPI of a command's ranks."""

    mpi: Mpi
    note: str | None = None
    """For the user, if the command does not show it."""


def _launcher_at(words: Sequence[str]) -> int | None:
    """The place of mpirun, srun or the like; only env, time and such words come before it."""
    if linked.starts_mpi_programs(Path(words[0])):
        return 0
    if Path(words[0]).name not in _BEFORE_LAUNCHERS:
        return None
    return next((at for at, word in enumerate(words) if linked.starts_mpi_programs(Path(word))), None)


def is_mpiexec(program: Sequence[str]) -> bool:
    """True for commands of mpiexec, mpirun, srun and the like."""
    return _launcher_at(program) is not None


def launcher_of(program: Sequence[str]) -> str:
    """The launcher's word in a command for which is_mpiexec() is true."""
    return program[_launcher_at(program) or 0]


def _loaded(words: Sequence[str]) -> Iterator[Libmpi]:
    """The libmpi of each program among the words, which may be another program's argument."""
    for word in words:
        path = shutil.which(word)
        if path is None:
            continue
        try:
            loaded = linked.of_program(Path(path))
        except UserError:
            continue
        if loaded is not None:
            yield loaded


def _of_its_own(launcher: str, found: Sequence[Mpi], wanted: str, words: Sequence[str]) -> Choice:
    """A launcher that belongs to an MPI."""
    if wanted != choice.AUTO:
        places = {mpi.launcher.resolve() for mpi in choice.named(wanted, found)} if os.sep in wanted else set()
        title = found[0].title
        found = [m for m in found if wanted in (m.implementation, m.family) or m.launcher.resolve() in places]
        if not found:
            raise UserError(f"--mpi {wanted}: {launcher} starts programs of {title}")
    families = {mpi.family: mpi for mpi in reversed(found)}
    shown = next((families[loaded.family] for loaded in _loaded(words) if loaded.family in families), None)
    return Choice(shown or found[0])


def _of_any(launcher: str, wanted: str, words: Sequence[str]) -> Choice:
    """srun and others, which start programs of any MPI."""
    installed = mpis.find_all_mpis()
    if wanted in (*FAMILIES, MPIABI):
        named = [mpi for mpi in installed if mpi.family == wanted]
        return Choice(named[0] if named else _without_mpiexec(wanted, launcher, None))
    if wanted != choice.AUTO:
        return Choice(choice.named(wanted, installed)[0])
    if (loaded := next(_loaded(words), None)) is not None:
        fitting = [mpi for mpi in installed if mpi.family == loaded.family]
        return Choice(fitting[0] if fitting else _without_mpiexec(loaded.family or "", launcher, loaded.path))
    if not installed:
        raise UserError(f"{launcher}: the command does not show which MPI it starts; say it with --mpi")
    taken = f"taking {installed[0].title} (choose with --mpi)"
    return Choice(installed[0], f"the command of {launcher} does not show which MPI it starts; {taken}")


def _without_mpiexec(family: str, launcher: str, library: Path | None) -> Mpi:
    """The MPI of an ABI, on clusters that only have the batch system's launcher."""
    vendor = FAMILIES[0] if family == MPIABI else ""
    return Mpi(family, "", Path(launcher), library, vendor)


def choose(program: Sequence[str], wanted: str) -> Choice:
    """The MPI of the ranks that the command starts."""
    at = _launcher_at(program) or 0
    for word in {program[0], program[at]}:
        if shutil.which(word) is None:
            raise UserError(f"{word}: no such program, or it is not executable")
    found = mpis.identify(Path(shutil.which(program[at]) or program[at]))
    words = program[at + 1 :]
    name = Path(program[at]).name
    return _of_its_own(name, found, wanted, words) if found else _of_any(name, wanted, words)


def make_plan(job: launch.Job, found: Artifacts) -> launch.Plan:
    """The command in job.program, with the library for its ranks."""
    environment = launch.offload_environment(job, found)
    command = _with_options(job, environment)
    if preload := launch.preload_words(job, found, environment):
        command = [str(found.daemon), "exec", *preload, "--", *command]
    return launch.Plan(found.daemon, tuple(command), environment, UNPLACED)


def _with_options(job: launch.Job, environment: Mapping[str, str]) -> list[str]:
    """Tells Open MPI what to pass to other hosts."""
    words = job.program
    at = _launcher_at(words) or 0
    is_own = not linked.starts_any_mpi(Path(words[at]))
    has_list = any(_ENV_LIST in word for word in words) or f"OMPI_MCA_{_ENV_LIST}" in os.environ
    is_far = bool(_HOSTS.intersection(words)) or any(name in os.environ for name in _ALLOCATIONS)
    if job.mpi.implementation != "openmpi" or not is_own or has_list or not is_far:
        return list(words)
    names = {name for name in {**os.environ, **environment} if name.startswith("OUTRIGGER_")} - {settings.BUILD}
    names |= set() if job.native else {switch_on.PRELOAD, "ASAN_OPTIONS"}
    options = [word for name in sorted(names) for word in ("-x", name)]
    placed = [*words[: at + 1], *options]
    for word in words[at + 1 :]:
        placed += [word, *options] if word == SEPARATOR else [word]
    return placed
