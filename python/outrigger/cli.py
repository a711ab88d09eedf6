"""The `outrigger` command."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from typing import Annotated

import typer

import outrigger
from outrigger import (
    artifacts,
    binding,
    demo,
    dpu_info,
    dpu_process,
    formats,
    info,
    launchers,
    mpis,
    options,
    report,
    settings,
    sizes,
    switch_on,
)
from outrigger import run as running
from outrigger.advise import command as advising
from outrigger.bench import example_commands, harm, never_slower, skew
from outrigger.calibrate import command as calibrating
from outrigger.chaos import command as chaotic
from outrigger.cluster import commands as cluster_commands
from outrigger.doctor import command as doctoring
from outrigger.errors import UserError
from outrigger.hosts import Hosts, find_dpus
from outrigger.live import exporter, top, watch
from outrigger.plan import check_ranks
from outrigger.predict import command as predicting
from outrigger.terminal import NO_COLOR, console, note
from outrigger.trace import command as tracing
from outrigger.tune import command as tuning

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.add_typer(cluster_commands.app, name="cluster")


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"outrigger {outrigger.__version__}")
        raise typer.Exit


@app.callback()
def of_all(
    no_color: Annotated[bool, typer.Option("--no-color", help="No colors, as NO_COLOR=1 in the environment.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_say_version)
    ] = False,
) -> None:
    """Runs MPI programs with their collectives on service processes, measures the gain, says what was found."""
    if no_color:
        os.environ[NO_COLOR] = "1"


def _split_report(arguments: list[str]) -> list[str]:
    """Lets --report stand alone: typer's options always take a value."""
    result: list[str] = []
    for index, argument in enumerate(arguments):
        if argument == "--":
            return result + arguments[index:]
        result.append(argument)
        if argument == "--report":
            following = arguments[index + 1] if index + 1 < len(arguments) else "--"
            if not following.endswith(".json"):
                result.append(running.TO_TERMINAL)
    return result


@app.command(context_settings={"allow_interspersed_args": False})
def run(
    program: Annotated[
        list[str], typer.Argument(help="The program and its arguments.", metavar="-- PROGRAM [ARGS]...")
    ],
    ranks: options.Ranks = 1,
    mpi: Annotated[
        str,
        typer.Option(
            "--mpi",
            help="auto: what the program loads; openmpi, mpich, intel, mpiabi, or where an MPI is installed.",
        ),
    ] = "auto",
    services: options.Services = None,
    algorithm: options.Algorithm = None,
    choice: options.Choice = None,
    reach: options.Reach = None,
    blocking: options.Blocking = None,
    shared_heap: options.SharedHeap = None,
    wait_copies: options.WaitCopies = None,
    huge_pages: options.HugePages = None,
    report_to: Annotated[
        str | None,
        typer.Option(
            "--report", metavar="[FILE.json]", help="Say what was offloaded: as tables, or as JSON in a file."
        ),
    ] = None,
    trace_to: Annotated[
        str | None,
        typer.Option(
            "--trace",
            metavar="FILE.json",
            help="Write what ranks and service processes did and when, for Perfetto and outrigger replay; .json.gz: "
            "compressed.",
        ),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Let `outrigger top`, watch and exporter see the job while it runs.")
    ] = False,
    hostfile: options.Hostfile = None,
    dpufile: options.Dpufile = None,
    dpu_pattern: options.DpuPattern = None,
    dpu_daemon: options.DpuDaemon = None,
    oversubscribe: Annotated[
        bool, typer.Option("--oversubscribe", help="Allow more ranks than slots.", rich_help_panel=options.MANY_NODES)
    ] = False,
    launcher: Annotated[
        str,
        typer.Option(
            "--launcher",
            help="mpiexec, srun, or auto: srun in a Slurm allocation without --hostfile.",
            rich_help_panel=options.MANY_NODES,
        ),
    ] = "auto",
    agent: options.Agent = launchers.SSH,
    variable: Annotated[
        list[str] | None,
        typer.Option(
            "-x",
            metavar="NAME[=VALUE]",
            help="A variable for the ranks of all hosts.",
            rich_help_panel=options.MANY_NODES,
        ),
    ] = None,
    pretend_nodes: Annotated[
        int,
        typer.Option(
            "--pretend-nodes",
            metavar="N",
            help="For tests: split this machine's ranks into N nodes.",
            rich_help_panel=options.MANY_NODES,
        ),
    ] = 1,
    bind: options.Bind = binding.BUNCH,
    no_bind: Annotated[
        bool, typer.Option("--no-bind", help="Neither keep cores nor bind ranks.", rich_help_panel=options.BINDING)
    ] = False,
    show_binding: Annotated[
        bool,
        typer.Option(
            "--show-binding", help="Draw each node: ranks and service processes.", rich_help_panel=options.BINDING
        ),
    ] = False,
    native: Annotated[bool, typer.Option("--native", help="Leave Outrigger out, with the same placement.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the command and what it adds to the environment; start nothing.")
    ] = False,
    build: options.Build = None,
) -> None:
    """Start an MPI program with its collectives on service processes.

    The last cores of each node that ranks do not need are kept for service processes, one for eight ranks; the ranks
    are bound to the others.
    The exit code is the program's.
    """
    found = artifacts.find(build)
    request = running.Request(
        program=tuple(program),
        ranks=ranks,
        mpi=mpi,
        settings=settings.make(
            found, services=services, algorithms=algorithm, choice=choice, reach=reach, blocking=blocking,
            shared_heap=shared_heap, wait_copies=wait_copies, huge_pages=huge_pages, live=live,
        ),
        hosts=Hosts(hostfile, dpufile, dpu_pattern, launcher, agent, oversubscribe, pretend_nodes),
        bind=binding.NONE if no_bind else binding.parse_bind(bind),
        variables=running.parse_variables(variable or []),
        dpu_daemon=dpu_daemon,
        report_to=report_to,
        trace_to=trace_to,
        native=native,
        dry_run=dry_run,
        show_binding=show_binding,
    )  # fmt: skip
    raise typer.Exit(running.run(request, found))


@app.command("report")
def show_report(
    written: Annotated[Path, typer.Argument(metavar="FILE.json", help="What --report FILE.json has written.")],
    json: Annotated[bool, typer.Option("--json", help="The first lines and the advice as JSON.")] = False,
) -> None:
    """Show a report: what was hidden, every collective that was called, what was offloaded, and what else could be."""
    read = report.read(written)
    if json:
        print(formats.as_json(report.as_data(read)))
    else:
        report.show(console(), read)


@app.command("info")
def show_info(
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    dpufile: options.Dpufile = None,
    dpu_pattern: options.DpuPattern = None,
    hostfile: options.Hostfile = None,
    agent: options.Agent = launchers.SSH,
    dpu_daemon: options.DpuDaemon = None,
    build: options.Build = None,
) -> None:
    """Say what was found: MPIs, cores, how memory can be reached, and why not better.

    With DPUs, only what each of them offers its host: reach, device, round trip and bandwidth.
    """
    if dpufile is not None or dpu_pattern is not None:
        where = find_dpus(Hosts(hostfile, dpufile, dpu_pattern, agent=agent), os.environ)
        how = dpu_process.way(where.agent, None, os.environ, slurm=where.slurm, daemon=dpu_daemon)
        raise typer.Exit(0 if dpu_info.run(console(), where, how, artifacts.find(build), as_json=json) else 1)
    info.run(console(), build, as_json=json)


app.command("doctor")(doctoring.doctor)
app.command("env")(switch_on.env)
app.command("advise", context_settings={"allow_interspersed_args": False})(advising.advise)
app.command("replay")(tracing.replay)
app.command("tune")(tuning.tune)
app.command("predict")(predicting.predict)
app.command("calibrate")(calibrating.calibrate)
app.command("top")(top.top)
app.command("watch")(watch.watch)
app.command("exporter")(exporter.exporter)
app.command("chaos", context_settings={"allow_interspersed_args": False})(chaotic.chaos)


@app.command("bench")
def measure(
    collectives: Annotated[
        list[str] | None,
        typer.Argument(
            help="Of ialltoall, ialltoallv, ialltoallw, iallgather, iallgatherv, ibcast, iallreduce, ireduce, "
            "ireduce_scatter_block, igather, igatherv, iscatter, iscatterv, ibarrier, ireduce_scatter, iscan, iexscan, "
            "ineighbor_alltoall, ineighbor_alltoallv, ineighbor_alltoallw, ineighbor_allgather, ineighbor_allgatherv "
            "(on a grid); all; alltoall_init and so on, their persistent forms; or startup: MPI_Init.",
            show_default="ialltoall ialltoallv",
        ),
    ] = None,
    size_list: Annotated[str, typer.Option("--sizes", help="Bytes of a block, like 4K,16K:1M.")] = "16K:1M",
    ranks: options.Ranks = 2,
    mpi: options.EachMpi = "auto",
    memory: Annotated[
        str, typer.Option("--memory", help="Of alloc_mem,malloc: where buffers come from.")
    ] = "alloc_mem",
    iterations: Annotated[int, typer.Option("--iterations", help="At most, for each size.")] = 200,
    seconds: Annotated[int, typer.Option("--seconds", help="At most about so long for each size.")] = 3,
    services: options.Services = None,
    algorithm: options.Algorithm = None,
    reach: options.Reach = None,
    shared_heap: options.SharedHeap = None,
    wait_copies: options.WaitCopies = None,
    huge_pages: options.HugePages = None,
    hostfile: Annotated[
        Path | None,
        typer.Option("--hostfile", metavar="FILE", help="As for run; implies --compare."),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="All MPIs by the same work, side by side, against the best native one.")
    ] = False,
    agent: options.Agent = launchers.SSH,
    bind: options.Bind = binding.BUNCH,
    order: Annotated[
        str,
        typer.Option("--order", help="Of the ranks: contiguous, node by node; or strided, by turns over the nodes."),
    ] = "contiguous",
    link_rate: Annotated[
        str | None, typer.Option("--link-rate", help="Of a host's link, like 1gbit: goodput is compared with it.")
    ] = None,
    json: options.Figures = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw the figures into this PNG.")] = None,
    build: options.Build = None,
) -> None:
    """Measure native against offloaded, in turn in one run, by latency, overlap and equal work.

    --never-slower: the whole grid against native as a heat map; see bench --never-slower --help.
    """
    from outrigger.bench import command, jobs, runner, startup

    check_ranks(ranks)
    site = jobs.Site(Hosts(hostfile=hostfile, agent=agent), binding.parse_bind(bind))
    found = artifacts.find(build)
    chosen = settings.make(
        found, services=services, algorithms=algorithm, choice=settings.FIXED, reach=reach, shared_heap=shared_heap,
        wait_copies=wait_copies, huge_pages=huge_pages,
    )  # fmt: skip
    if collectives == ["startup"]:
        startup.run(console(), ranks, chosen, command.choose_mpis(mpi), found, site, json)
        return
    request = runner.Request(
        command.parse_collectives(collectives or [], (*command.COLLECTIVES, *command.PERSISTENT)),
        command.parse_memories(memory),
        tuple(sizes.parse_sizes(size_list)),
        ranks,
        iterations,
        seconds,
        chosen,
        command.parse_order(order),
    )
    output = command.Output(json, plot, command.parse_link_rate(link_rate), compares=compare or site.many)
    command.run(console(), request, command.choose_mpis(mpi), found, site, output)


@app.command("demo")
def show_demo(
    ranks: Annotated[
        int | None,
        typer.Option("--ranks", "-n", help="Number of ranks.", show_default="all cores but one, from 2 to 4"),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Directory for the plot.")] = Path("demo-out"),
    json: options.Figures = None,
    build: options.Build = None,
) -> None:
    """See it work, in half a minute: an unmodified all-to-all benchmark, native and offloaded side by side."""
    count = demo.usual_ranks() if ranks is None else ranks
    check_ranks(count)
    demo.run(console(), artifacts.find(build), mpis.find_mpis(), count, out, json)


_NEVER_SLOWER = "--never-slower"
# Commands of two words; "bench" alone is one of its own.
_TWO_WORDS: dict[str, Callable[..., None]] = {
    "bench fft3d": example_commands.measure_fft3d,
    "bench halo": example_commands.measure_halo,
    "bench training": example_commands.measure_training,
    "bench harm": harm.measure_harm,
    "bench skew": skew.measure_skew,
    f"bench {_NEVER_SLOWER}": never_slower.measure_never_slower,
}
for _name, _command in _TWO_WORDS.items():
    app.command(_name)(_command)


def _join_words(arguments: list[str]) -> list[str]:
    """The two words of a command as the one that typer knows."""
    if arguments[:1] == ["bench"] and _NEVER_SLOWER in arguments:  # wherever it stands: its options are its own
        others = [argument for argument in arguments[1:] if argument != _NEVER_SLOWER]
        arguments = ["bench", _NEVER_SLOWER, *others]
    joined = " ".join(arguments[:2])
    return [joined, *arguments[2:]] if joined in _TWO_WORDS else arguments


def _uncolored(arguments: list[str]) -> list[str]:
    """Options for all commands before the command's words."""
    return arguments[: sum(1 for _ in takewhile(lambda word: word == "--no-color", arguments))]


def main() -> None:
    """Entry point: errors of users become one message and exit code 2."""
    first = _uncolored(sys.argv[1:])
    try:
        app(args=[*first, *_join_words(_split_report(sys.argv[1 + len(first) :]))], prog_name="outrigger")
    except UserError as error:
        note(str(error))
        sys.exit(2)
