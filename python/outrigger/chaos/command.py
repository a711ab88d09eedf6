"""The `outrigger lab chaos` command."""

from __future__ import annotations

import secrets
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from outrigger import artifacts, cores, formats, options
from outrigger.bar import Bar
from outrigger.bench import interrupts, jobs
from outrigger.chaos import strikes
from outrigger.chaos.outcome import Outcome
from outrigger.chaos.places import Here, OnCluster
from outrigger.chaos.runs import Runs
from outrigger.errors import UserError
from outrigger.out import directory
from outrigger.settings import FIXED
from outrigger.terminal import console as make_console

_PLACE = Path("outrigger-chaos")
_MOST_WITHOUT = 20
"""Consecutive runs without a service process to strike: the program is too short, or offloads nothing."""


@dataclass(frozen=True)
class _Wanted:
    kills: int
    kills_a_run: int
    stops: bool
    cuts: bool


def _run_all(screen: Console, runs: Runs, wanted: _Wanted, seed: str) -> list[Outcome]:
    kills = wanted.kills
    outcomes: list[Outcome] = []
    interrupted = False
    with Bar(screen) as bar:
        began = time.monotonic()
        undisturbed = runs.undisturbed()
        guess_s = undisturbed.took_s * (1 + kills / wanted.kills_a_run)
        bar.shows(f"{kills} kills", undisturbed.took_s, guess_s)
        done = without = 0
        while done < kills and without < _MOST_WITHOUT:
            one = f"{seed}/{len(outcomes)}"
            now = min(kills - done, wanted.kills_a_run)
            drawn = strikes.draw(one, undisturbed.took_s, now, wanted.stops, wanted.cuts)
            try:
                outcomes.append(runs.run(one, drawn, undisturbed))
            except KeyboardInterrupt:
                interrupted = True
                break
            done += outcomes[-1].kills
            without = 0 if outcomes[-1].kills else without + 1
            wrong = sum(outcome.wrong is not None for outcome in outcomes)
            spent_s = time.monotonic() - began
            what = f"{done} of {kills} kills, {len(outcomes)} runs, {wrong} wrong"
            bar.shows(what, spent_s, spent_s * kills / max(done, 1))
    if interrupted and not outcomes:
        screen.print(interrupts.NOTHING, style="yellow")
        raise KeyboardInterrupt
    if interrupted:
        interrupts.say(screen)
    elif not any(outcome.kills for outcome in outcomes):
        raise UserError("no service process was found: the program ends too soon, or it runs natively")
    return outcomes


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.1f} ms"


def _show(screen: Console, outcomes: Sequence[Outcome], seed: str) -> None:
    found = [recovery for outcome in outcomes for recovery in outcome.recoveries]
    wrong = [outcome for outcome in outcomes if outcome.wrong is not None]
    table = Table(box=box.SIMPLE, show_header=False)
    table.add_row("runs", str(len(outcomes)))
    table.add_row("service processes killed", str(sum(outcome.kills for outcome in outcomes)))
    table.add_row("stopped temporarily", str(sum(outcome.stops for outcome in outcomes)))
    if any(outcome.cuts for outcome in outcomes):
        table.add_row("disconnected hosts", str(sum(outcome.cuts for outcome in outcomes)))
    rest = sum(outcome.kills for outcome in outcomes) - len(found)
    at_the_end = f"; the other {rest} were killed when the program was about to end" if rest else ""
    table.add_row("replaced", f"{len(found)}{at_the_end}")
    if found:
        times = [recovery.took_s for recovery in found]
        table.add_row(
            "until another had taken over", f"median {_milliseconds(statistics.median(times))}, most "
            f"{_milliseconds(max(times))}",
        )  # fmt: skip
        again = [recovery.operations for recovery in found]
        table.add_row("continued operations", f"{sum(again)} in {sum(count > 0 for count in again)} takeovers")
    table.add_row("wrong runs", str(len(wrong)))
    screen.print(table)
    for outcome in wrong:
        screen.print(f"run {outcome.seed}: {outcome.wrong}", soft_wrap=True, highlight=False)
    screen.print(f"Again: --seed {seed}", highlight=False)


def chaos(
    program: Annotated[
        list[str], typer.Argument(metavar="PROGRAM [ARGS]...", help="The program; it should check its data.")
    ],
    ranks: options.MeasuredRanks = None,
    mpi: Annotated[
        str | None, typer.Option("--mpi", metavar="NAME", help="As for run.", show_default="that of the program")
    ] = None,
    services: options.Services = None,
    algorithm: options.Algorithm = None,
    reach: options.Reach = None,
    kills: Annotated[int, typer.Option("--kills", metavar="N", min=1, help="Number of kills, over all runs.")] = 100,
    kills_a_run: Annotated[
        int,
        typer.Option(
            "--kills-a-run",
            metavar="N",
            min=1,
            max=strikes.MOST_KILLS,
            help="Most kills in one run.",
        ),
    ] = strikes.USUAL_KILLS,
    stops: Annotated[bool, typer.Option("--stops", help="Also stop service processes, for up to two seconds.")] = False,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="NAME",
            help="Run on the hosts of this cluster of lab cluster.",
        ),
    ] = None,
    cuts: Annotated[bool, typer.Option("--cuts", help="Also cut hosts off, for up to two seconds.")] = False,
    seed: Annotated[
        str | None,
        typer.Option(
            "--seed", metavar="WORD", help="Repeat the kills of an earlier run with this seed.", show_default="drawn"
        ),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare-output", help="Also compare the output with an undisturbed run's.")
    ] = False,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIRECTORY", help="Directory for logs and output of wrong runs.")
    ] = _PLACE,
    json_to: options.Figures = None,
    build: options.Build = None,
) -> None:
    """Run a program repeatedly while its service processes are killed, and check each run.

    Kills come at random moments, several at once, and during startup. After three kills within a minute a job
    continues natively.

    Exit code 0: every run was right; 1: some were wrong, and are listed; 2: wrong options, or no service process
    was found; 130: interrupted, with the runs until then.
    """
    if services is not None and services < 1:
        raise UserError(f"--services {services}: lab chaos kills service processes, so there must be at least 1")
    count = cores.measured_ranks(ranks, fewest=1)
    screen = make_console()
    words = ["-n", str(count), "--choice", FIXED]
    words += ["--mpi", mpi] if mpi else []
    words += ["--services", str(services)] if services else []
    words += [word for rules in algorithm or ["all=on"] for word in ("--algorithm", rules)]
    words += ["--reach", reach] if reach else []
    words += ["--build", str(build.absolute())] if build else []
    place = directory(out)
    where = Here() if cluster is None else OnCluster.of(cluster, count, place)
    if cuts and not where.hosts():
        raise UserError("--cuts needs --cluster with two hosts or more: there are no links to be cut on this machine")
    runs = Runs(artifacts.find(build), (*words, "--", *program), place, compare, where)
    seed = seed or secrets.token_hex(4)
    outcomes = _run_all(screen, runs, _Wanted(kills, kills_a_run, stops, cuts), seed)
    _show(screen, outcomes, seed)
    jobs.save_json(screen, json_to, formats.as_json({"seed": seed, "runs": outcomes}))
    interrupts.leave()
    raise typer.Exit(1 if any(outcome.wrong is not None for outcome in outcomes) else 0)
