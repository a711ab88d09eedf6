"""The `outrigger advise` command."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from outrigger import artifacts, binding, busy, choice, cores, linked, mpis, options, report
from outrigger.advise import overlap, sentences, show, variants
from outrigger.advise.given import Given
from outrigger.advise.trials import FILES, Limits, ProgramFailed, Trials
from outrigger.artifacts import Artifacts
from outrigger.bar import Bar
from outrigger.bench import jobs
from outrigger.durations import parse_duration
from outrigger.errors import UserError
from outrigger.hosts import Hosts
from outrigger.launchers import SSH
from outrigger.noise import FEWEST
from outrigger.out import directory
from outrigger.terminal import console as make_console
from outrigger.terminal import note

_PLACE = Path("outrigger-advise")
_YIELDS = "OMPI_MCA_mpi_yield_when_idle"


def _yielding(given: Given, many: bool) -> list[str]:
    """Native must be at its best: unbound ranks that share cores must yield, which Open MPI may not detect itself."""
    chosen = choice.choose(given.mpi, linked.find_program(given.program[0]), mpis.find_all_mpis())
    crowded = many or given.ranks > len(cores.allowed_cores())
    asked = any(word.startswith(_YIELDS) for word in given.variables) or _YIELDS in os.environ
    return [f"{_YIELDS}=1"] if chosen.mpi.implementation == "openmpi" and crowded and not asked else []


def _prepared(place: Path) -> Path:
    """Without outputs and reports of earlier runs, which would be taken for new ones."""
    return directory(place, FILES)


def _run_all(console: Console, given: Given, found: Artifacts, limits: Limits, place: Path) -> Trials:
    many = given.hosts.hostfile is not None
    chosen = variants.first(given, _yielding(given, many))
    bound_here = not many and given.bind != binding.NONE
    if bound_here and (why := cores.without_spare(given.ranks, len(cores.allowed_cores()))):
        console.print(f"[yellow]{escape(why)}[/]", soft_wrap=True)
    busy.warn_of_others()
    with Bar(console) as bar:
        trials = Trials(found, place, limits, bar)
        trials.measure(chosen)
    return trials


def _tell(console: Console, trials: Trials, given: Given, json_to: Path | None) -> None:
    results = trials.results
    for line in trials.notes:
        note(line)
    if variants.NATIVE not in results.rows or not any(not row.variant.given.native for row in results.judged):
        if trials.interrupted:
            raise typer.Exit(130)
        raise UserError(
            f"a native and an offloaded run do not end within --budget {trials.limits.budget_s:.0f}s; give more, or a "
            "shorter run of the program"
        )
    advice = sentences.of_results(results)
    console.print(show.table(results, given))
    if trials.interrupted or trials.out_of_time:
        console.print(f"[yellow]{'Interrupted' if trials.interrupted else 'At the end of the budget'}: "
                      "figures are from the runs until then.[/]")  # fmt: skip
    show.advice(console, advice)
    console.print(f"\n[dim]The program's output and the reports are in {escape(str(trials.place))}[/]", soft_wrap=True)
    jobs.save_json(console, json_to, json.dumps(show.as_data(results, advice), indent=2))
    if not results.concluded:
        return show.command(console, _again(given, trials.limits), "To conclude, with time for more runs")
    best = results.best.variant.given
    return show.command(console, best.typed(), "Use from now on, natively" if best.native else "Use from now on")


def _again(given: Given, limits: Limits) -> str:
    """The same with three runs of each, if the time was too short or the option is missing."""
    enough = [f"--budget={2 * limits.budget_s:.0f}s", f"--runs={max(limits.runs, FEWEST)}"]
    return shlex.join(["outrigger", "advise", "-n", str(given.ranks), *enough, *given.options(), "--", *given.program])


def _is_native(read: report.Report) -> bool:
    return not any(entry.offloaded for entry in read.collectives)


def _read_reports(console: Console, paths: Sequence[Path], json_to: Path | None) -> None:
    read = [(str(path), report.read(path)) for path in paths]
    console.print(show.reports_table(read))
    native = next((each for _, each in read if _is_native(each) and not overlap.has_windows(each)), None)
    others = [(name, each) for name, each in read if not _is_native(each) or overlap.has_windows(each)] or read[:1]
    data: list[dict[str, Any]] = []
    for name, each in others:
        found = sentences.of_report(each, None if each is native else native)
        if len(others) > 1:
            console.print(f"\n[bold]{escape(name)}[/]")
        show.advice(console, found)
        options = list(dict.fromkeys(one.option for one in found if one.option))
        line = " ".join(["outrigger run -n", str(each.ranks), *options, "-- PROGRAM"])
        if options:
            show.command(console, line, "To be tried, and measured by `outrigger advise`")
        data.append({"report": name, "command": line, "advice": show.advice_as_data(found)})
    jobs.save_json(console, json_to, json.dumps(data, indent=2))


def advise(
    program: Annotated[
        list[str] | None, typer.Argument(help="The program and its arguments.", metavar="-- PROGRAM [ARGS]...")
    ] = None,
    ranks: options.Ranks = 1,
    mpi: options.OneMpi = choice.AUTO,
    services: options.Services = None,
    algorithm: options.Algorithm = None,
    reach: options.Reach = None,
    blocking: options.Blocking = None,
    intranode: options.Intranode = None,
    shared_heap: options.SharedHeap = None,
    wait_copies: options.WaitCopies = None,
    huge_pages: options.HugePages = None,
    bind: options.Bind = binding.BUNCH,
    hostfile: options.Hostfile = None,
    agent: options.Agent = SSH,
    pretend_nodes: options.PretendNodes = 1,
    variable: options.Variable = None,
    budget: Annotated[str, typer.Option("--budget", metavar="TIME", help="Time for all runs: 90s, 5m, 1h.")] = "5m",
    runs: Annotated[
        int, typer.Option("--runs", metavar="N", min=1, help="Runs of each variant, if the budget allows.")
    ] = 5,
    reports: Annotated[
        list[Path] | None,
        typer.Option("--from", metavar="FILE.json", help="Run nothing: read an earlier run's report; repeatable."),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Directory for the program's output and the reports.",
            show_default=str(_PLACE),
        ),
    ] = _PLACE,
    json_to: options.Figures = None,
    build: options.Build = None,
) -> None:
    """Run a program natively and offloaded in several ways, in turn, and print the fastest command.

    The time of the whole program counts, as a median. Differences within the noise of the runs do not count.
    """
    screen = make_console()
    if reports:
        if program:
            raise UserError(
                "--from reads what an earlier run has written, and a program would be run: give one of them"
            )
        _read_reports(screen, reports, json_to)
        return
    if not program:
        raise UserError("name a program after --, or a report of an earlier run with --from FILE.json")
    limits = Limits(parse_duration("--budget", budget), runs)
    found = artifacts.find(build)
    given = Given(
        program=tuple(program), ranks=ranks, mpi=mpi, services=services, algorithms=tuple(algorithm or ()),
        reach=reach, blocking=blocking, intranode=intranode, shared_heap=shared_heap, wait_copies=wait_copies,
        huge_pages=huge_pages, hosts=Hosts(hostfile=hostfile, agent=agent, pretend_nodes=pretend_nodes), bind=bind,
        variables=tuple(variable or ()),
    )  # fmt: skip
    given.request(found, None).check()
    try:
        trials = _run_all(screen, given, found, limits, _prepared(out))
    except ProgramFailed as failed:
        note(str(failed))
        raise typer.Exit(failed.code) from failed
    _tell(screen, trials, replace(given), json_to)
