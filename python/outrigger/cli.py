"""The `outrigger` command."""

from __future__ import annotations

import json as json_module
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from outrigger import (
    artifacts,
    binding,
    choice,
    demo,
    dpu_info,
    dpus,
    info,
    launch,
    launchers,
    linked,
    mpis,
    report,
    settings,
    sizes,
)
from outrigger import run as running
from outrigger.bench import fft3d, harm, skew
from outrigger.cluster import commands as cluster_commands
from outrigger.errors import UserError

app = typer.Typer(
    help="Runs MPI programs with their collectives on service processes, measures the gain, says what was found.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.add_typer(cluster_commands.app, name="cluster")

BuildOption = Annotated[
    Path | None, typer.Option("--build", help="Build directory to use.", show_default="build/release")
]
MpiOption = Annotated[
    str,
    typer.Option(
        "--mpi",
        help="auto: what the program loads; openmpi, mpich, intel, mpiabi, or where an MPI is installed.",
    ),
]
ServicesOption = Annotated[int | None, typer.Option("--services", help="Service processes per node.")]
AlgorithmOption = Annotated[
    list[str] | None,
    typer.Option("--algorithm", help="NAME, COLLECTIVE=NAME, NAME may be native; or rules from FILE.toml."),
]
DpuDaemonOption = Annotated[
    str | None,
    typer.Option(
        "--dpu-daemon",
        metavar="PATH",
        help="outriggerd on the DPUs.",
        show_default="outriggerd on PATH there",
        rich_help_panel="Many nodes",
    ),
]
BlockingOption = Annotated[
    str | None,
    typer.Option(
        "--blocking",
        help="on or off: offload the blocking forms, too, or never. Unless given, where it was measured to pay.",
    ),
]
SharedHeapOption = Annotated[
    str | None,
    typer.Option(
        "--shared-heap",
        help="on or off: large allocations come from memory that service processes map, too. Unless given, off.",
    ),
]
WaitCopiesOption = Annotated[
    str | None,
    typer.Option(
        "--wait-copies",
        help="on or off: ranks that wait make copies for their service process while all of its ranks wait "
        "without having computed first. Unless given, on.",
    ),
]
HugePagesOption = Annotated[
    str | None,
    typer.Option(
        "--huge-pages",
        help="on or off: ordinary memory that collectives are sent from again and again is moved to huge pages, "
        "which are faster to copy from. Unless given, on.",
    ),
]
ReachOption = Annotated[
    str | None,
    typer.Option("--reach", help="How memory may be reached: mapped,xpmem,cma,copier,rdma,alias,bounce; or -NAME."),
]


_MANY_NODES = "Many nodes"
_BINDING = "Binding"


def _console(*, stderr: bool = False) -> Console:
    console = Console(highlight=False, stderr=stderr)
    if console.is_terminal or "COLUMNS" in os.environ:
        return console
    return Console(highlight=False, width=130, stderr=stderr)


# Set on the command itself, so that `--report` may stand without a file.
_REPORT_TO_TERMINAL = "-"


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
                result.append(_REPORT_TO_TERMINAL)
    return result


@app.command(context_settings={"allow_interspersed_args": False})
def run(
    program: Annotated[
        list[str], typer.Argument(help="The program and its arguments.", metavar="-- PROGRAM [ARGS]...")
    ],
    ranks: Annotated[int, typer.Option("-n", help="Number of ranks.")] = 1,
    mpi: MpiOption = "auto",
    services: ServicesOption = None,
    algorithm: AlgorithmOption = None,
    reach: ReachOption = None,
    blocking: BlockingOption = None,
    shared_heap: SharedHeapOption = None,
    wait_copies: WaitCopiesOption = None,
    huge_pages: HugePagesOption = None,
    report_to: Annotated[
        str | None,
        typer.Option(
            "--report", metavar="[FILE.json]", help="Say what was offloaded: as tables, or as JSON in a file."
        ),
    ] = None,
    hostfile: Annotated[
        Path | None,
        typer.Option("--hostfile", metavar="FILE", help="Hosts, HOST:SLOTS a line.", rich_help_panel=_MANY_NODES),
    ] = None,
    dpufile: Annotated[
        Path | None,
        typer.Option(
            "--dpufile", metavar="FILE", help="DPUs, a name a line, in the hosts' order.", rich_help_panel=_MANY_NODES
        ),
    ] = None,
    dpu_pattern: Annotated[
        str | None,
        typer.Option(
            "--dpu-pattern",
            metavar="RE",
            help="In a Slurm allocation: nodes with such a name are DPUs.",
            rich_help_panel=_MANY_NODES,
        ),
    ] = None,
    dpu_daemon: DpuDaemonOption = None,
    oversubscribe: Annotated[
        bool, typer.Option("--oversubscribe", help="Allow more ranks than slots.", rich_help_panel=_MANY_NODES)
    ] = False,
    launcher: Annotated[
        str,
        typer.Option(
            "--launcher",
            help="mpiexec, srun, or auto: srun in a Slurm allocation without --hostfile.",
            rich_help_panel=_MANY_NODES,
        ),
    ] = "auto",
    agent: Annotated[
        str,
        typer.Option(
            "--launch-agent",
            metavar="CMD",
            help="What starts a command on another host: CMD HOST COMMAND.",
            rich_help_panel=_MANY_NODES,
        ),
    ] = launchers.SSH,
    variable: Annotated[
        list[str] | None,
        typer.Option(
            "-x", metavar="NAME[=VALUE]", help="A variable for the ranks of all hosts.", rich_help_panel=_MANY_NODES
        ),
    ] = None,
    pretend_nodes: Annotated[
        int,
        typer.Option(
            "--pretend-nodes",
            metavar="N",
            help="For tests: split this machine's ranks into N nodes.",
            rich_help_panel=_MANY_NODES,
        ),
    ] = 1,
    bind: Annotated[
        str,
        typer.Option(
            "--bind",
            metavar="HOW",
            help="bunch (consecutive cores), scatter (one of each NUMA domain in turn), hybrid (a block of cores a "
            "rank), none, or CPUs: 0,2,4 (one a rank), 0-1:2-3 (a list a rank).",
            rich_help_panel=_BINDING,
        ),
    ] = "bunch",
    no_bind: Annotated[
        bool, typer.Option("--no-bind", help="Neither keep cores nor bind ranks.", rich_help_panel=_BINDING)
    ] = False,
    show_binding: Annotated[
        bool,
        typer.Option("--show-binding", help="Draw each node: ranks and service processes.", rich_help_panel=_BINDING),
    ] = False,
    native: Annotated[bool, typer.Option("--native", help="Leave Outrigger out, with the same placement.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the command and what it adds to the environment; start nothing.")
    ] = False,
    build: BuildOption = None,
) -> None:
    """Start an MPI program with its collectives on service processes.

    The last cores of each node are kept for service processes, one for eight ranks; the ranks are bound to the others.
    The exit code is the program's.
    """
    found = artifacts.find(build)
    chosen = settings.make(
        found, services=services, algorithms=algorithm, reach=reach, blocking=blocking, shared_heap=shared_heap,
        wait_copies=wait_copies, huge_pages=huge_pages,
    )  # fmt: skip
    policy = "none" if no_bind else binding.parse_bind(bind)
    variables, passed = running.parse_variables(variable or [])
    if native and report_to:
        raise UserError("--native leaves the library out, so there is nothing to report")
    if native and pretend_nodes > 1:
        raise UserError("--native leaves the library out, and only that knows --pretend-nodes")
    chosen_mpi = choice.choose(mpi, linked.find_program(program[0]), mpis.find_all_mpis())
    hosts = running.Hosts(hostfile, dpufile, dpu_pattern, launcher, agent, oversubscribe, pretend_nodes)
    where = running.find_where(hosts, ranks, chosen_mpi.mpi.implementation, os.environ)
    environment = {**os.environ, **chosen.environment(), **variables}
    unknown = settings.check_names(found, environment)
    planned = running.dpu_shares(where, allowed=settings.allows_dpus(found, environment))
    how = dpus.way(agent, services, environment, slurm=where.slurm, daemon=dpu_daemon) if planned else dpus.Way()
    with (
        tempfile.TemporaryDirectory(prefix="outrigger-", dir=running.report_directory(where)) as directory,
        dpus.started(() if native or dry_run else planned, how) as fleet,
    ):
        written = _report_path(report_to, Path(directory))
        job = launch.Job(
            program=tuple(program),
            ranks=ranks,
            mpi=chosen_mpi.mpi,
            settings=chosen,
            native=native,
            bind=policy != "none",
            report=written,
            policy=policy,
            where=where,
            pretend_nodes=pretend_nodes,
            variables=variables,
            passed=passed,
            library_path=chosen_mpi.library_path,
            dpus=() if fleet.problem else planned,
            dpu_environment=dpus.placeholders(planned) if dry_run and not native else fleet.environment(),
        )
        plan = launch.make_plan(job, found)
        for note in filter(None, (unknown, chosen_mpi.note, fleet.problem, *plan.notes)):
            running.note(note)
        if show_binding:
            console = _console(stderr=not dry_run)
            running.show_binding(console, job, found, ask_hosts=not dry_run, ready=fleet.ready())
        if dry_run:
            for line in [] if native else dpus.as_comments(planned, how):
                print(line)
            print(launch.as_shell(plan))
            return
        code, _ = launch.run(plan)
        for note in fleet.notes():
            running.note(note)
        if report_to == _REPORT_TO_TERMINAL and written is not None:
            _show_report(written)
    raise typer.Exit(code)


def _report_path(report_to: str | None, directory: Path) -> Path | None:
    if report_to is None:
        return None
    if report_to == _REPORT_TO_TERMINAL:
        return directory / "report.json"
    path = Path(report_to).absolute()
    if not path.parent.is_dir():
        raise UserError(f"--report {report_to}: there is no directory {path.parent}")
    return path


def _show_report(written: Path) -> None:
    if not written.exists():
        running.note("there is no report: the program did not reach MPI_Finalize under the library")
        return
    report.show(_console(), report.read(written))


@app.command("info")
def show_info(
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    dpufile: Annotated[
        Path | None,
        typer.Option("--dpufile", metavar="FILE", help="Try these DPUs, too, from here or from --hostfile."),
    ] = None,
    dpu_pattern: Annotated[
        str | None, typer.Option("--dpu-pattern", metavar="RE", help="Try the DPUs of this Slurm allocation.")
    ] = None,
    hostfile: Annotated[
        Path | None, typer.Option("--hostfile", metavar="FILE", help="The hosts of the DPUs, as for run.")
    ] = None,
    agent: Annotated[str, typer.Option("--launch-agent", metavar="CMD", help="As for run.")] = launchers.SSH,
    dpu_daemon: DpuDaemonOption = None,
    build: BuildOption = None,
) -> None:
    """Say what was found: MPIs, cores, how memory can be reached, and why not better.

    With DPUs, only what each of them offers its host: reach, device, round trip and bandwidth.
    """
    if dpufile is not None or dpu_pattern is not None:
        hosts = running.Hosts(hostfile, dpufile, dpu_pattern, agent=agent)
        _show_dpus(running.find_dpus(hosts, os.environ), dpu_daemon, artifacts.find(build), json=json)
        return
    try:
        found = artifacts.find(build)
    except UserError:
        if build is not None:
            raise
        found = None
    data = info.collect(found)
    if json:
        print(json_module.dumps(data, indent=2))
    else:
        info.show(_console(), data)


def _show_dpus(where: launch.Where, daemon: str | None, found: artifacts.Artifacts, *, json: bool) -> None:
    how = dpus.way(where.agent, None, os.environ, slurm=where.slurm, daemon=daemon)
    findings = dpu_info.collect(where, how, found.daemon)
    if json:
        print(json_module.dumps(dpu_info.as_data(findings), indent=2))
    else:
        dpu_info.show(_console(), findings)
    if any(finding.problem for finding in findings):
        raise typer.Exit(1)


@app.command("bench")
def measure(
    collectives: Annotated[
        list[str] | None,
        typer.Argument(
            help="Of ialltoall, ialltoallv, ialltoallw, iallgather, iallgatherv, ibcast; all; or startup: MPI_Init.",
            show_default="ialltoall ialltoallv",
        ),
    ] = None,
    size_list: Annotated[str, typer.Option("--sizes", help="Bytes of a block, like 4K,16K:1M.")] = "16K:1M",
    ranks: Annotated[int, typer.Option("-n", help="Number of ranks.")] = 2,
    mpi: Annotated[
        str,
        typer.Option(
            "--mpi",
            metavar="LIST",
            help="With commas between: openmpi, mpich, intel, or directories where one is installed; or auto: the "
            "openmpi and mpich that are found.",
        ),
    ] = "auto",
    memory: Annotated[
        str, typer.Option("--memory", help="Of alloc_mem,malloc: where buffers come from.")
    ] = "alloc_mem",
    iterations: Annotated[int, typer.Option("--iterations", help="At most, for each size.")] = 200,
    seconds: Annotated[int, typer.Option("--seconds", help="At most about so long for each size.")] = 3,
    services: ServicesOption = None,
    algorithm: AlgorithmOption = None,
    reach: ReachOption = None,
    shared_heap: SharedHeapOption = None,
    wait_copies: WaitCopiesOption = None,
    huge_pages: HugePagesOption = None,
    hostfile: Annotated[
        Path | None,
        typer.Option("--hostfile", metavar="FILE", help="As for run; implies --compare."),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="All MPIs by the same work, side by side, against the best native one.")
    ] = False,
    agent: Annotated[str, typer.Option("--launch-agent", metavar="CMD", help="As for run.")] = launchers.SSH,
    bind: Annotated[str, typer.Option("--bind", metavar="HOW", help="As for run.")] = "bunch",
    order: Annotated[
        str,
        typer.Option("--order", help="Of the ranks: contiguous, node by node; or strided, by turns over the nodes."),
    ] = "contiguous",
    link_rate: Annotated[
        str | None, typer.Option("--link-rate", help="Of a host's link, like 1gbit: goodput is compared with it.")
    ] = None,
    json: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw the figures into this PNG.")] = None,
    build: BuildOption = None,
) -> None:
    """Measure native against offloaded, in turn in one run, by latency, overlap and equal work."""
    from outrigger.bench import command, jobs, runner, startup

    site = jobs.Site(running.Hosts(hostfile=hostfile, agent=agent), binding.parse_bind(bind))
    found = artifacts.find(build)
    chosen = settings.make(
        found, services=services, algorithms=algorithm, reach=reach, shared_heap=shared_heap,
        wait_copies=wait_copies, huge_pages=huge_pages,
    )  # fmt: skip
    if collectives == ["startup"]:
        startup.run(_console(), ranks, chosen, command.choose_mpis(mpi), found, site, json)
        return
    request = runner.Request(
        command.parse_collectives(collectives or []),
        command.parse_memories(memory),
        tuple(sizes.parse_sizes(size_list)),
        ranks,
        iterations,
        seconds,
        chosen,
        command.parse_order(order),
    )
    output = command.Output(json, plot, command.parse_link_rate(link_rate), compares=compare or site.many)
    command.run(_console(), request, command.choose_mpis(mpi), found, site, output)


@app.command("demo", hidden=True)
def show_demo(
    ranks: Annotated[int, typer.Option("--ranks", "-n", help="Number of ranks.")] = 4,
    out: Annotated[Path, typer.Option("--out", help="Directory for the plot.")] = Path("demo-out"),
    build: BuildOption = None,
) -> None:
    """An unmodified all-to-all benchmark, native and offloaded side by side."""
    demo.run(_console(), artifacts.find(build), mpis.find_mpis(), ranks, out)


# Commands of two words; "bench" alone is one of its own.
_TWO_WORDS: dict[str, Callable[..., None]] = {
    "bench fft3d": fft3d.measure_fft3d,
    "bench harm": harm.measure_harm,
    "bench skew": skew.measure_skew,
}
for _name, _command in _TWO_WORDS.items():
    app.command(_name)(_command)


def _join_words(arguments: list[str]) -> list[str]:
    """The two words of a command as the one that typer knows."""
    joined = " ".join(arguments[:2])
    return [joined, *arguments[2:]] if joined in _TWO_WORDS else arguments


def main() -> None:
    """Entry point: errors of users become one message and exit code 2."""
    try:
        app(args=_join_words(_split_report(sys.argv[1:])), prog_name="outrigger")
    except UserError as error:
        running.note(str(error))
        sys.exit(2)
