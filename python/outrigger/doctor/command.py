"""`outrigger doctor`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import outrigger
from outrigger import artifacts, dpu_info, dpu_process, formats, info, launchers, mpis, options
from outrigger.artifacts import Artifacts
from outrigger.bar import Bar
from outrigger.doctor import checks, machine
from outrigger.doctor.line import Line, State, count
from outrigger.doctor.trial import Trial, attempt
from outrigger.hosts import Hosts, find_dpus
from outrigger.terminal import console

_MARKS: dict[State, tuple[str, str]] = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "bold red")}
_TRIAL_S = 4.0
"""Approximate time of one trial, for the progress bar."""


def _trials(target: Console, artifacts: Artifacts) -> tuple[Trial, ...]:
    found = mpis.find_all_mpis()
    results = []
    with Bar(target) as bar:
        for index, mpi in enumerate(found):
            bar.shows(f"a program under {mpi.title}", index * _TRIAL_S, len(found) * _TRIAL_S)
            results.append(attempt(mpi, artifacts))
    return tuple(results)


def examine(target: Console, artifacts: Artifacts, dpus: tuple[dpu_info.DpuFinding, ...] | None) -> checks.Facts:
    """Collects all facts; shows a progress bar on `target`."""
    found = info.collect(artifacts)
    return checks.Facts(
        command_version=outrigger.__version__,
        info=found,
        system=machine.look(os.environ),
        trials=_trials(target, artifacts),
        dpus=dpus,
    )


def verdict(lines: Sequence[Line]) -> str:
    """Summary in one sentence."""
    failed, warned = count(lines, "fail"), count(lines, "warn")
    if failed:
        return f"{failed} of {len(lines)} checks failed: see the remedies after the arrows."
    if warned:
        return f"Outrigger works here; {warned} of {len(lines)} checks suggest{'s' if warned == 1 else ''} a change."
    return f"Outrigger works here: all {len(lines)} checks passed."


def show(target: Console, lines: Sequence[Line]) -> None:
    """By topic, each remedy below its finding."""
    for topic in dict.fromkeys(line.topic for line in lines):
        target.print(f"[bold]{topic}[/]")
        table = Table(show_header=False, box=None, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold", min_width=22)
        table.add_column(overflow="fold")
        for line in lines:
            if line.topic != topic:
                continue
            mark, style = _MARKS[line.state]
            words = Text(line.value)
            if line.remedy:
                words.append(f"\n→ {line.remedy}", style=style.removeprefix("bold "))
            table.add_row(Text(f"  {mark}", style=style), Text(line.name), words)
        target.print(table)
    target.print(f"\n[bold]{verdict(lines)}[/]", soft_wrap=True)


def data(lines: Sequence[Line]) -> dict[str, Any]:
    """For --json."""
    counts: dict[str, Any] = {state: count(lines, state) for state in _MARKS}
    return {"version": 1, "outrigger": outrigger.__version__, **counts, "checks": list(lines)}


def doctor(
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    dpufile: options.Dpufile = None,
    dpu_pattern: options.DpuPattern = None,
    hostfile: options.Hostfile = None,
    agent: options.Agent = launchers.SSH,
    dpu_daemon: options.DpuDaemon = None,
    build: options.Build = None,
) -> None:
    """Check if Outrigger works on this machine, and print what to fix.

    A small program runs under each MPI on PATH with the library preloaded. With --dpufile or --dpu-pattern, each DPU
    is started and tried, too. The exit code is 1 if a check fails.
    """
    found = artifacts.find(build)
    dpus = None
    if dpufile is not None or dpu_pattern is not None:
        where = find_dpus(Hosts(hostfile, dpufile, dpu_pattern, agent=agent), os.environ)
        how = dpu_process.way(where.agent, None, os.environ, slurm=where.slurm, daemon=dpu_daemon)
        dpus = tuple(dpu_info.collect(where, how, Path(found.daemon)))
    lines = checks.lines(examine(console(stderr=True), found, dpus))
    if json:
        print(formats.as_json(data(lines)))
    else:
        show(console(), lines)
    raise typer.Exit(1 if count(lines, "fail") else 0)
