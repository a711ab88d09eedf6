"""`outrigger env`: enables the library for programs that are started without `outrigger run`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from outrigger import artifacts, choice, formats, mpis, options, shells
from outrigger.artifacts import Artifacts
from outrigger.errors import UserError
from outrigger.mpis import Mpi

PRELOAD = "LD_PRELOAD"
_MPIEXEC = "mpiexec"
_SRUN = "srun"
_LAUNCHERS = (_MPIEXEC, _SRUN)
_SEPARATORS = re.compile(r"[:\s]+")
_LIBRARY = re.compile(r"liboutrigger-\w+\.so")


def _others(environment: Mapping[str, str]) -> list[str]:
    """Other libraries in LD_PRELOAD."""
    there = [path for path in _SEPARATORS.split(environment.get(PRELOAD, "")) if path]
    return [path for path in there if not _LIBRARY.fullmatch(Path(path).name)]


def switched_on(library: Path, environment: Mapping[str, str]) -> str:
    """LD_PRELOAD with this library first; another library of ours is removed."""
    if _SEPARATORS.search(str(library)):
        raise UserError(f"{library}: LD_PRELOAD takes no path with a space or colon; move the installation")
    return ":".join([str(library), *_others(environment)])


def lines(shell: shells.Shell, preload: str) -> list[str]:
    """For `eval`."""
    return [shell.export(PRELOAD, preload) if preload else shell.unset(PRELOAD)]


def launcher_options(launcher: str, mpi: Mpi, preload: str) -> list[str]:
    """Options after mpiexec or srun, for one job."""
    if launcher == _SRUN:
        return [f"--export=ALL,{PRELOAD}={preload}"]
    if mpi.implementation == "openmpi":
        return ["-x", f"{PRELOAD}={preload}"]
    return ["-genv", PRELOAD, preload]


def _chosen(wanted: str) -> Mpi:
    installed = mpis.find_all_mpis()
    if wanted != choice.AUTO:
        return choice.named(wanted, installed)[-1 if wanted == mpis.MPIABI else 0]
    if not installed:
        raise UserError("no MPI was found: there is no mpiexec on PATH; load an MPI's module, or say --mpi")
    return installed[0]


def _say(words: Sequence[str]) -> None:
    print("\n".join(words))


def env(
    mpi: Annotated[
        str,
        typer.Option("--mpi", metavar="NAME", help="openmpi, mpich, intel, mpiabi or a directory."),
    ] = choice.AUTO,
    shell: Annotated[
        str | None,
        typer.Option(
            "--shell",
            metavar="|".join(shells.NAMES),
            help="Shell that evaluates the output.",
            show_default="the calling one",
        ),
    ] = None,
    options_of: Annotated[
        str | None,
        typer.Option("--options", metavar="|".join(_LAUNCHERS), help="Print options of this launcher, for one job."),
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="Print the commands that switch it off.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON: the variables and both launchers' options.")
    ] = False,
    build: options.Build = None,
) -> None:
    """Print commands that switch Outrigger on for mpiexec and srun: eval "$(outrigger env)".

    They put the library for an MPI first in LD_PRELOAD. mpiexec on this host and srun pass LD_PRELOAD to the ranks.
    Open MPI's mpiexec passes it to other hosts only as an option:

    mpiexec $(outrigger env --options mpiexec) -n 64 ./program
    """
    if options_of is not None and options_of not in _LAUNCHERS:
        raise UserError(f"--options {options_of}: {' or '.join(_LAUNCHERS)}")
    chosen_shell = shells.choose(shell)
    if off:
        _say(lines(chosen_shell, ":".join(_others(os.environ))))
        return
    _switch_on(artifacts.find(build), _chosen(mpi), chosen_shell, options_of, as_json=json)


def _switch_on(found: Artifacts, mpi: Mpi, shell: shells.Shell, options_of: str | None, *, as_json: bool) -> None:
    preload = switched_on(found.preload(mpi.family), os.environ)
    if as_json:
        by_launcher = {name: launcher_options(name, mpi, preload) for name in _LAUNCHERS}
        print(formats.as_json({"mpi": mpi.title, "variables": {PRELOAD: preload}, "options": by_launcher}))
    elif options_of is not None:
        _say([" ".join(launcher_options(options_of, mpi, preload))])
    else:
        _say(lines(shell, preload))
