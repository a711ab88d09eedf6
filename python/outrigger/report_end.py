"""Completes a report after the end of the job: its end, if the ranks could not write it."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import outrigger
from outrigger import machine
from outrigger.errors import UserError
from outrigger.report_data import VERSION, CpuSeconds, Ended, Report, Run, Service, Spread, read

_KEEPER_SECONDS = 3.0
"""The keeper writes after the last rank has ended, possibly after the launcher has."""
_NODES_SECONDS = 3.0
"""The keeper's wait for the counts of other nodes."""
_LOOK_SECONDS = 0.02
_SIGNALS_FROM = 128
_NOBODY = "no rank has reached MPI_Init under the library"
_NO_MPI = f"{_NOBODY}: the program calls no MPI, or is linked to it statically"
_UNSAID = ("running", "lost")


def by_code(code: int) -> Ended:
    """From a shell's exit code."""
    if _SIGNALS_FROM < code < _SIGNALS_FROM + 65:
        return Ended("signal", signal=code - _SIGNALS_FROM, text=f"the launcher has ended with {code}")
    return Ended("exited", code=code)


def _blank(mpi: str, ranks: int, ended: Ended) -> Report:
    nothing = Spread(0.0, 0.0, 0.0)
    return Report(
        mpi=mpi, ranks=ranks, nodes=1, wire=(), service=Service(0, -1, core_is_free=False, cross_memory_attach=False),
        ended=ended, counted_ranks=(), collectives=(), rank_cpu_seconds=CpuSeconds(nothing, nothing),
    )  # fmt: skip


def _replace(path: Path, data: dict[str, Any]) -> None:
    """Replaces the file atomically."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        part.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise UserError(f"the report {path} cannot be written: {error.strerror}") from error


def write(path: Path, data: dict[str, Any]) -> None:
    """Writes a report that is complete: a file as a whole, into a pipe or a terminal at once."""
    if path.is_file() or not path.exists():
        return _replace(path, data)
    try:
        path.write_text(json.dumps(data) + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"the report {path} cannot be written: {error.strerror}") from error
    return None


def _read_at_its_end(path: Path) -> Report:
    """Waits for the keeper if there is one."""
    report = read(path)
    end = time.monotonic() + _KEEPER_SECONDS + (_NODES_SECONDS if report.nodes > 1 else 0)
    while report.ended.how == "running" and report.service.processes > 0 and time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)
        report = read(path)
    return report


def settle(path: Path, code: int, *, mpi: str, ranks: int) -> None:
    """Ensures that a report exists and has the job's end, at least from the launcher's exit code."""
    if path.exists() and not path.is_file():
        return  # a pipe has its report already
    ended = by_code(code)
    if not path.exists():
        nobody = _NO_MPI if code == 0 else _NOBODY
        text = f"{ended.text}; {nobody}" if ended.text else nobody
        blank = _blank(mpi, ranks, Ended(ended.how, ended.code, ended.signal, None, text))
        return _replace(path, {"version": VERSION, **asdict(blank)})
    report = _read_at_its_end(path)
    if report.ended.how in _UNSAID:
        data = json.loads(path.read_text(encoding="utf-8", errors="replace"))
        rank = report.ended.rank
        _replace(path, data | {"ended": asdict(ended) | {"rank": rank}})
    return None


def note_run(path: Path, command: str, mpi: str, started: datetime) -> None:
    """Adds the command, the versions and the machine to a report."""
    if not path.is_file():
        return
    run = Run(command, outrigger.__version__, mpi, machine.describe(), f"{started:%Y-%m-%d %H:%M:%S %z}")
    data = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    _replace(path, data | {"run": asdict(run)})


def note_energy(path: Path, joules: float | None) -> None:
    """Adds the energy of the run, if it was measured, to a report that is complete."""
    if joules is None or not path.is_file():
        return
    data = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    _replace(path, data | {"energy_joules": round(joules, 3)})


def forget(path: Path) -> None:
    """Files of an earlier job must not be mistaken for this job's."""
    try:
        if path.is_file():
            path.unlink()
    except OSError as error:
        raise UserError(f"the report {path} of an earlier job cannot be removed: {error.strerror}") from error
