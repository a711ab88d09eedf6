"""The `outrigger lab tune` command."""

from __future__ import annotations

import datetime
import json
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from outrigger import artifacts, binding, busy, cores, options, pictures, selection, settings, sizes, tables
from outrigger.artifacts import Artifacts
from outrigger.bar import Bar
from outrigger.bench import jobs
from outrigger.bench.command import choose_one_mpi, parse_collectives, parse_memories
from outrigger.bench.figures import Configuration
from outrigger.bench.runner import Request, Runner
from outrigger.durations import parse_duration
from outrigger.errors import UserError
from outrigger.hosts import Hosts, find_where
from outrigger.launchers import SSH
from outrigger.machine import describe
from outrigger.noise import FEWEST
from outrigger.terminal import console as make_console
from outrigger.tune import plot as plotting
from outrigger.tune import rules as ruling
from outrigger.tune import table_file
from outrigger.tune.figures import Figures, best_of
from outrigger.tune.measuring import Lane, Measuring, lanes_of

_SIZES = "1K,4K,16K,64K,256K,1M,4M"
_UNLESS_NAMED = ("ialltoall", "iallgather", "ibcast")
_STYLES = {True: "bold green", False: ""}


@dataclass(frozen=True)
class _Output:
    table: Path
    plot: Path
    json: Path | None

    def check(self) -> None:
        """Before the measurement."""
        if self.table.suffix != ".toml":
            raise UserError(f"--out {self.table}: its name must end with .toml to be a file of rules for --algorithm")
        pictures.check("--plot", self.plot)
        for path in filter(None, (self.table, self.plot, self.json)):
            if not path.absolute().parent.is_dir():
                raise UserError(f"{path}: there is no directory {path.absolute().parent}")


def _table(figures: Figures, collective: str, *, alike: bool) -> Table:
    names = list(dict.fromkeys(name for by in figures.ratios[collective].values() for name in by))
    made = Table(
        box=box.SIMPLE_HEAD, title=f"MPI_{collective.capitalize()}", title_justify="left", title_style="bold",
        header_style="dim", pad_edge=False,
    )  # fmt: skip
    made.add_column("bytes", justify="right")
    for name in names:
        made.add_column(name, justify="right", no_wrap=True)
    made.add_column("chosen")
    rows = {sizes.format_size(size): figures.bands(collective, size) for size in sorted(figures.ratios[collective])}
    if not alike:
        rows["all"] = figures.over_sizes(collective)
    for label, bands in rows.items():
        chosen = best_of(bands) if alike or label == "all" else None
        cells = [Text(str(bands[name]) if name in bands else "-", style=_STYLES[name == chosen]) for name in names]
        made.add_row(label, *cells, Text(chosen or "", style="bold"))
    return made


def _show(console: Console, figures: Figures, known: Sequence[tables.Collective]) -> None:
    alike = {row.name: row.alike for row in known}
    for collective in figures.ratios:
        console.print(_table(figures, collective, alike=alike[collective]))
    console.print(
        "Total by equal work, by native's of the same run: medians (lowest to highest that are likely). Chosen: "
        "better than the built-in table beyond noise.",
        style="dim",
    )


def _nodes(runner: Runner) -> int:
    where = find_where(runner.site.hosts, runner.request.ranks, runner.mpi.implementation, os.environ)
    return max(len(where.shares), 1)


def _measure(console: Console, runner: Runner, lanes: Sequence[Lane], rounds: int, budget_s: float) -> Measuring:
    """UserError: the library does not offload here, so that nothing can be compared."""
    with Bar(console, draws_itself=True) as bar:
        bar.shows("is anything offloaded here?", 0.0, budget_s)
        always = replace(runner.request.settings, algorithms=selection.words(runner.artifacts, ["on"]))
        able = Runner(replace(runner.request, settings=always), runner.mpi, runner.artifacts, runner.site)
        verdict = able.why_native()
        if verdict:
            raise UserError(f"nothing can be compared: {verdict}")

        def run(lane: Lane, limit_s: float) -> Sequence[Configuration]:
            request = lane.request(runner.request, runner.artifacts)
            return Runner(request, runner.mpi, runner.artifacts, runner.site).both_sides(limit_s)

        measuring = Measuring(lanes, run, bar.shows, rounds=rounds, budget_s=budget_s)
        measuring.measure()
    return measuring


def _write(
    console: Console, measuring: Measuring, found: Artifacts, origin: table_file.Origin, output: _Output
) -> None:
    figures = measuring.figures
    known = tables.read(found).collectives
    rules = ruling.make(figures, known)
    _show(console, figures, known)
    if not measuring.complete:
        why = "Interrupted" if measuring.interrupted else "At the end of the budget"
        few = "" if figures.rounds >= FEWEST else f"; below {FEWEST} rounds nothing is beyond noise"
        console.print(f"[yellow]{why}: {figures.rounds} rounds were begun{few}.[/]")
    table_file.write(table_file.text_of(rules, figures, origin, output.table), output.table)
    selection.words(found, [str(output.table)])
    jobs.save_json(console, output.json, json.dumps(figures.as_data(), indent=2))
    plotting.save(figures, rules, output.plot, f"{origin.mpi}, {origin.ranks} ranks: collectives by equal work")
    console.print(f"Plot: [bold]{escape(str(output.plot))}[/]", soft_wrap=True)
    count = "no rule" if not rules else "1 rule" if len(rules) == 1 else f"{len(rules)} rules"
    console.print(f"Table: [bold]{escape(str(output.table))}[/], {count}. Use it:", soft_wrap=True)
    console.print(f"\n    [bold]outrigger run --algorithm {escape(str(output.table))} -- PROGRAM[/]", soft_wrap=True)


def tune(
    collectives: Annotated[
        list[str] | None,
        typer.Argument(help="Collectives, such as ibcast; all: every one.", show_default=" ".join(_UNLESS_NAMED)),
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--out", metavar="FILE.toml", help="File for the rules.")] = Path(
        "tune.toml"
    ),
    ranks: options.MeasuredRanks = None,
    mpi: options.OneMpi = "auto",
    budget: Annotated[
        str, typer.Option("--budget", metavar="TIME", help="Time for the whole measurement: 90s, 10m, 1h.")
    ] = "10m",
    rounds: Annotated[
        int, typer.Option("--rounds", metavar="N", min=1, help="Rounds of each algorithm, if the budget allows.")
    ] = 5,
    size_list: Annotated[
        str, typer.Option("--sizes", metavar="LIST", help="Bytes of a block, like 4K,16K:1M.")
    ] = _SIZES,
    memory: Annotated[
        str, typer.Option("--memory", metavar="NAME", help="Where buffers come from: malloc or alloc_mem.")
    ] = "malloc",
    services: options.Services = None,
    reach: options.Reach = None,
    shared_heap: options.SharedHeap = None,
    hostfile: options.Hostfile = None,
    agent: options.Agent = SSH,
    bind: options.Bind = binding.BUNCH,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Picture: .png, .svg or .pdf.", show_default="beside the table"),
    ] = None,
    json_to: options.Figures = None,
    build: options.Build = None,
) -> None:
    """Measure the best algorithm for each collective on this machine, and write rules for outrigger run.

    Native and each algorithm do the same work, in turn. Differences within the noise make no rule.
    """
    count = cores.measured_ranks(ranks)
    chosen = _Output(output, plot or output.with_suffix(".png"), json_to)
    chosen.check()
    budget_s = parse_duration("--budget", budget)
    memories = parse_memories(memory)
    if len(memories) != 1:
        raise UserError(f"--memory {memory}: a table is of one")
    names = parse_collectives(collectives or _UNLESS_NAMED)
    found = artifacts.find(build)
    settings.check_names(found, os.environ)
    site = jobs.Site(Hosts(hostfile=hostfile, agent=agent), binding.parse_bind(bind))
    base = settings.make(found, services=services, choice=settings.FIXED, reach=reach, shared_heap=shared_heap)
    request = Request(names, memories, tuple(sizes.parse_sizes(size_list)), count, 200, 1, base)
    runner = Runner(request, choose_one_mpi(mpi, "a table"), found, site)
    screen = make_console()
    nodes = _nodes(runner)
    busy.warn_of_others()
    measuring = _measure(screen, runner, lanes_of(names, tables.read(found).collectives), rounds, budget_s)
    for lane, why in measuring.failed.items():
        screen.print(f"[bold red]{lane} is left out:[/] {escape(why)}")
    if not measuring.figures.ratios:
        if not measuring.interrupted:
            raise UserError("nothing could be measured")
        raise typer.Exit(130)
    origin = table_file.Origin(
        machine=describe(), mpi=runner.mpi.title, ranks=count, nodes=nodes, memory=memories[0],
        date=datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        command=shlex.join(["outrigger", *sys.argv[1:]]), complete=measuring.complete,
    )  # fmt: skip
    _write(screen, measuring, found, origin, chosen)
