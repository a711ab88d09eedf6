"""`outrigger run`"""

from __future__ import annotations

from typing import Annotated

import typer

from outrigger import artifacts, binding, launchers, options, settings
from outrigger import run as running
from outrigger.hosts import Hosts


def run(
    program: Annotated[
        list[str], typer.Argument(help="The program and its arguments.", metavar="-- PROGRAM [ARGS]...")
    ],
    ranks: options.Ranks = 1,
    mpi: Annotated[
        str,
        typer.Option(
            "--mpi",
            help="auto: the MPI that the program loads; openmpi, mpich, intel, mpiabi, or the directory of an MPI.",
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
            "--report", metavar="[FILE.json]", help="Report offloaded calls: as tables, or as JSON in a file."
        ),
    ] = None,
    trace_to: Annotated[
        str | None,
        typer.Option(
            "--trace",
            metavar="FILE.json",
            help="Write a trace of ranks and service processes, for Perfetto and outrigger replay; .json.gz: "
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
        bool, typer.Option("--no-bind", help="Neither reserve cores nor bind ranks.", rich_help_panel=options.BINDING)
    ] = False,
    show_binding: Annotated[
        bool,
        typer.Option(
            "--show-binding", help="Draw each node: ranks and service processes.", rich_help_panel=options.BINDING
        ),
    ] = False,
    native: Annotated[bool, typer.Option("--native", help="Run without Outrigger, with the same placement.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the command and its added environment; start nothing.")
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
