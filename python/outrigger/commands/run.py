"""`outrigger run`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from outrigger import artifacts, binding, itself, launchers, options, settings
from outrigger import run as running
from outrigger.hosts import Hosts


def run(
    program: Annotated[
        list[str],
        typer.Argument(
            help="The program and its arguments, or an mpirun, mpiexec or srun with its own.",
            metavar="-- PROGRAM [ARGS]...",
        ),
    ],
    ranks: options.Ranks = 1,
    mpi: options.OneMpi = "auto",
    services: options.Services = None,
    algorithm: options.Algorithm = None,
    choice: options.Choice = None,
    blocking: options.Blocking = None,
    intranode: options.Intranode = None,
    sums: options.Sums = None,
    wait: options.Wait = None,
    native: Annotated[
        bool,
        typer.Option("--native", help="Offload nothing, in the same placement.", rich_help_panel=options.OFFLOAD),
    ] = False,
    report: Annotated[
        bool, typer.Option("--report", help="Print what was offloaded, and why not.", rich_help_panel=options.RESULT)
    ] = False,
    report_to: Annotated[
        Path | None,
        typer.Option(
            "--report-to", metavar="FILE.json", help="Write the report as JSON.", rich_help_panel=options.RESULT
        ),
    ] = None,
    trace_to: Annotated[
        str | None,
        typer.Option(
            "--trace",
            metavar="FILE.json",
            help="Write a timeline for Perfetto and lab replay; .json.gz, too.",
            rich_help_panel=options.RESULT,
        ),
    ] = None,
    live: Annotated[
        bool,
        typer.Option("--live", help="Show the job in top, watch and exporter.", rich_help_panel=options.RESULT),
    ] = False,
    reach: options.Reach = None,
    shared_heap: options.SharedHeap = None,
    wait_copies: options.WaitCopies = None,
    copy_cpus: options.CopyCpus = None,
    huge_pages: options.HugePages = None,
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
            metavar="mpiexec|srun|auto",
            help="auto: srun in a Slurm allocation without --hostfile.",
            rich_help_panel=options.MANY_NODES,
        ),
    ] = "auto",
    agent: options.Agent = launchers.SSH,
    variable: options.Variable = None,
    pretend_nodes: options.PretendNodes = 1,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the command and its added environment; start nothing.")
    ] = False,
    build: options.Build = None,
) -> None:
    """Start an MPI program with its collectives on service processes.

    One service process for eight ranks gets the last cores of each node, if ranks do not need them. The ranks are
    bound to the other cores. The exit code is the program's.
    """
    found = artifacts.find(build)
    request = running.Request(
        program=tuple(program),
        ranks=ranks,
        mpi=mpi,
        settings=settings.make(
            found, services=services, algorithms=algorithm, choice=choice, reach=reach, blocking=blocking,
            intranode=intranode, sums=sums, wait=wait, shared_heap=shared_heap, wait_copies=wait_copies,
            copy_cpus=copy_cpus, huge_pages=huge_pages, live=live,
        ),
        hosts=Hosts(hostfile, dpufile, dpu_pattern, launcher, agent, oversubscribe, pretend_nodes),
        bind=binding.NONE if no_bind else binding.parse_bind(bind),
        variables=running.parse_variables(variable or []),
        dpu_daemon=dpu_daemon,
        report=report,
        report_to=report_to,
        trace_to=trace_to,
        native=native,
        dry_run=dry_run,
        show_binding=show_binding,
        command=itself.as_given(),
    )  # fmt: skip
    raise typer.Exit(running.run(request, found))
