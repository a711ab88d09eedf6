"""The `outrigger lab calibrate` command."""

from __future__ import annotations

import datetime
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from outrigger import artifacts, binding, busy, cores, formats, options, settings, sizes
from outrigger.artifacts import Artifacts
from outrigger.bar import Bar
from outrigger.bench import jobs, natives
from outrigger.bench.command import choose_one_mpi, parse_memories
from outrigger.bench.runner import Request, Runner
from outrigger.calibrate import cluster_file, model, whole
from outrigger.calibrate.estimates import Estimate
from outrigger.calibrate.measuring import ALGORITHMS, Measuring, place_of
from outrigger.calibrate.readings import Readings, check_sizes
from outrigger.errors import UserError
from outrigger.hosts import Hosts, find_where
from outrigger.launchers import SSH
from outrigger.machine import describe
from outrigger.terminal import console as make_console

_SIZES = "64,4K,64K,1M"
_SECONDS = 1
_ITERATIONS = 200
_INTERRUPTED = 130
_FEWEST_RANKS = 2


def empty_readings(runner: Runner) -> Readings:
    """Place and time, before the measurements."""
    shares = find_where(runner.site.hosts, runner.request.ranks, runner.mpi.implementation, os.environ).shares
    cores, own_core = place_of(runner)
    nodes = max(len(shares), 1)
    if runner.request.ranks % nodes != 0:
        raise UserError(f"-n {runner.request.ranks}: as many ranks on each of {nodes} hosts; write a multiple")
    return Readings(
        machine=describe(),
        mpi=runner.mpi.title,
        family=runner.mpi.family,
        date=datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        command=shlex.join(["outrigger", *sys.argv[1:]]),
        cores=cores,
        own_core=own_core,
        memory=runner.request.memories[0],
        spins=not natives.can_yield(runner.mpi),
        nodes=nodes,
        services=runner.request.settings.services or 1,
    )


def read(path: Path) -> Readings:
    """Reads the file of --json."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UserError(f"--from {path} cannot be read: {error.strerror}") from error
    return formats.parse(text, Readings, f"--from {path}")


def _table(numbers: Mapping[str, Estimate]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, header_style="dim", pad_edge=False)
    for name in ("", "value", "from", "to"):
        table.add_column(name, justify="left" if not name else "right", no_wrap=True)
    table.add_column("how")
    for key, one in numbers.items():
        if not one.measured:
            continue
        bounds = (cluster_file.text_of(key, one.low, -1), cluster_file.text_of(key, one.high, 1))
        table.add_row(
            key,
            f"[bold]{cluster_file.text_of(key, one.value)}[/]",
            *bounds,
            "; ".join(filter(None, (one.how, one.doubt))),
        )
    return table


def parse_ranks(text: str | None) -> list[int]:
    """In rising order."""
    if text is None:
        return [cores.measured_ranks(None)]
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) >= _FEWEST_RANKS for word in words):
        raise UserError(f"-n {text}: write numbers of ranks with commas between, each at least {_FEWEST_RANKS}: 2,4")
    return sorted(set(map(int, words)))


def _measure(screen: Console, runners: Sequence[Runner], rounds: int) -> Readings:
    *fewer, readings = [empty_readings(runner) for runner in runners]
    for other in fewer:
        if (other.nodes, other.own_core) != (readings.nodes, readings.own_core):
            raise UserError(
                "-n: the jobs are not on the same hosts, or not all leave service processes cores of their own"
            )
    measuring = Measuring(runners, readings, list(ALGORITHMS.items()), rounds=rounds, messages=True)
    with Bar(screen, draws_itself=True) as bar:
        measuring.measure(bar.shows)
    return measuring.readings


def _fit(screen: Console, readings: Readings, found: Artifacts, out: Path) -> None:
    with Bar(screen, draws_itself=True) as bar:
        file, notes = whole.fit_all(
            readings, model.simulator_of(found),
            lambda done, total: bar.counts("fitting the costs", done, total),
        )  # fmt: skip
    cluster_file.write(out, cluster_file.text_of_file(file, readings, notes))
    screen.print(_table(file.numbers))
    for note in notes:
        screen.print(note, style="yellow" if not readings.complete else "dim")
    screen.print(f"Cluster file: [bold]{escape(str(out))}[/]. Use it:", soft_wrap=True)
    screen.print(
        f"\n    [bold]outrigger-sim time --cluster {escape(str(out))} --pattern ialltoall:64KiB[/]", soft_wrap=True
    )


def calibrate(
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE.toml", help="File for the cluster.")] = Path(
        "cluster.toml"
    ),
    ranks: Annotated[
        str | None,
        typer.Option(
            "-n", "-np", metavar="LIST", help="Numbers of ranks: 2,4.", show_default="all cores but one, from 2 to 4"
        ),
    ] = None,
    mpi: options.OneMpi = "auto",
    size_list: Annotated[
        str, typer.Option("--sizes", metavar="LIST", help="Bytes of a block, like 4K,16K:1M.")
    ] = _SIZES,
    rounds: Annotated[
        int, typer.Option("--rounds", metavar="N", min=1, help="Rounds of each collective, in turn.")
    ] = 3,
    memory: Annotated[
        str, typer.Option("--memory", metavar="NAME", help="Where buffers come from: malloc or alloc_mem.")
    ] = "alloc_mem",
    services: options.Services = None,
    hostfile: options.Hostfile = None,
    agent: options.Agent = SSH,
    bind: options.Bind = binding.BUNCH,
    json_to: options.Figures = None,
    again: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE.json", help="Measure nothing: fit the figures of an earlier --json."),
    ] = None,
    build: options.Build = None,
) -> None:
    """Measure this machine, its network and its MPI, and write a cluster file for predictions.

    Rates of the cores and messages of the MPI are measured alone. The costs of service processes are fitted to
    collectives that are measured natively and offloaded. If your jobs have more ranks than cores, name such a number
    in -n. Ctrl-C keeps what was measured.
    """
    if out.suffix != ".toml":
        raise UserError(f"--out {out}: a cluster file ends with .toml")
    found = artifacts.find(build)
    screen = make_console()
    if again is not None:
        readings = read(again)
    else:
        measured_sizes = sizes.parse_sizes(size_list)
        check_sizes(measured_sizes)
        settings.check_names(found, os.environ)
        site = jobs.Site(Hosts(hostfile=hostfile, agent=agent), binding.parse_bind(bind))
        base = settings.make(found, services=services, choice=settings.FIXED)
        collectives, memories, chosen = tuple(ALGORITHMS), parse_memories(memory), choose_one_mpi(mpi, "a cluster file")
        runners = [
            Runner(
                Request(collectives, memories, tuple(measured_sizes), count, _ITERATIONS, _SECONDS, base),
                chosen, found, site,
            )
            for count in parse_ranks(ranks)
        ]  # fmt: skip
        busy.warn_of_others()
        readings = _measure(screen, runners, rounds)
        jobs.save_json(screen, json_to, formats.as_json(readings))
    if readings.rates is None and not readings.cells:
        raise typer.Exit(_INTERRUPTED)
    _fit(screen, readings, found, out)
