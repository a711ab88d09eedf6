"""Preloads the library into a real MPI program, under each MPI that was found."""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from outrigger import launch, mpis, report_data, scratch
from outrigger.artifacts import Artifacts
from outrigger.doctor import program
from outrigger.errors import UserError
from outrigger.mpis import Mpi
from outrigger.settings import ENABLE, FIXED, Settings

_RANKS = 2
_LIMIT_S = 120.0
_OURS = "outrigger: "
_EVERYTHING = "all=on"
"""For any block size, and even if other processes use the service processes' core."""


@dataclass(frozen=True)
class Trial:
    """Result of a trial."""

    mpi: str
    """Title of the MPI."""
    served: bool = True
    """True if there is a library for it."""
    calls: int = 0
    """Sum over all ranks."""
    offloaded: int = 0
    seconds: float = 0.0
    problem: str = ""
    """Not empty: it did not run, or its data was wrong."""
    said: str = ""
    """First message of the library, if any."""


def attempt(mpi: Mpi, artifacts: Artifacts) -> Trial:
    """Two ranks and a few calls, all of which must be offloaded."""
    try:
        artifacts.preload(mpi.family)
    except UserError as error:
        return Trial(mpi.title, served=False, problem=str(error))
    if mpi.library is None:
        return Trial(mpi.title, problem=_no_library(mpi))
    try:
        with scratch.directory() as place, tempfile.TemporaryFile() as output:
            report = place / "report.json"
            plan = launch.make_plan(_job(mpi, mpi.library, report), artifacts)
            started = time.monotonic()
            code = launch.run_into(plan, output, timeout_s=_LIMIT_S)
            seconds = time.monotonic() - started
            output.seek(0)
            text = output.read().decode(errors="replace")
            return _result(mpi.title, code, text, report, seconds)
    except UserError as error:
        return Trial(mpi.title, problem=str(error))


def _no_library(mpi: Mpi) -> str:
    hidden = mpis.unknown_to_the_loader(mpi)
    if hidden is None:
        return f"the libmpi of {mpi.launcher} was found neither beside it nor by the loader"
    remedy = f"run ldconfig as root, or put {hidden.parent} in LD_LIBRARY_PATH"
    return f"the loader's cache does not name {hidden}, though it is there: {remedy}"


def _job(mpi: Mpi, library: Path, report: Path) -> launch.Job:
    script = str(Path(program.__file__).resolve())
    return launch.Job(
        program=("env", sys.executable, "-I", script, mpi.family, str(library)),  # by env: its mpi4py does not matter
        ranks=_RANKS,
        mpi=mpi,
        report=report,
        settings=Settings(choice=FIXED, algorithms=(_EVERYTHING,)),
        variables=launch.Variables({ENABLE: "on"}),
    )


def _result(title: str, code: int, text: str, report: Path, seconds: float) -> Trial:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = next((line.removeprefix(_OURS) for line in lines if line.startswith(_OURS)), "")
    if code != 0:
        return Trial(title, seconds=seconds, said=said, problem=f"exit code {code}: {lines[-1] if lines else 'silent'}")
    if not report.exists():
        return Trial(title, seconds=seconds, said=said)
    calls = report_data.read(report).calls
    counts = sum(call.calls for call in calls), sum(call.offloaded for call in calls)
    return Trial(title, calls=counts[0], offloaded=counts[1], seconds=seconds, said=said)
