"""`outrigger bench`, without its subcommands."""

from __future__ import annotations

from typing import Annotated

import typer

from outrigger import artifacts, binding, cores, launchers, options, settings, sizes
from outrigger.bench import command, jobs, runner, startup
from outrigger.hosts import Hosts
from outrigger.terminal import console


def measure(
    collectives: Annotated[
        list[str] | None,
        typer.Argument(
            help="Collectives: ibcast, bcast_init, all, ...; startup: MPI_Init.",
            show_default="ialltoall ialltoallv",
        ),
    ] = None,
    size_list: Annotated[
        str, typer.Option("--sizes", metavar="LIST", help="Bytes of a block, like 4K,16K:1M.")
    ] = "16K:1M",
    ranks: options.MeasuredRanks = None,
    mpi: options.EachMpi = "auto",
    memory: Annotated[
        str, typer.Option("--memory", metavar="NAMES", help="Where buffers come from: alloc_mem,malloc.")
    ] = "alloc_mem",
    iterations: Annotated[
        int, typer.Option("--iterations", metavar="N", min=1, max=1_000_000, help="Most iterations for each size.")
    ] = 200,
    seconds: Annotated[
        int, typer.Option("--seconds", metavar="N", min=1, max=3600, help="Most seconds for each size.")
    ] = 3,
    services: options.Services = None,
    algorithm: options.Algorithm = None,
    reach: options.Reach = None,
    shared_heap: options.SharedHeap = None,
    wait_copies: options.WaitCopies = None,
    huge_pages: options.HugePages = None,
    hostfile: options.Hostfile = None,
    compare: Annotated[bool, typer.Option("--compare", help="Show all MPIs side by side, as with --hostfile.")] = False,
    agent: options.Agent = launchers.SSH,
    bind: options.Bind = binding.BUNCH,
    order: Annotated[
        str,
        typer.Option("--order", metavar="contiguous|strided", help="Place ranks node by node, or round-robin."),
    ] = "contiguous",
    link_rate: Annotated[
        str | None,
        typer.Option("--link-rate", metavar="RATE", help="Rate of a host's link, like 1gbit, for goodput."),
    ] = None,
    json: options.Figures = None,
    plot: options.Picture = None,
    build: options.Build = None,
) -> None:
    """Compare native and offloaded collectives in one run: latency, overlap, equal work."""
    count = cores.measured_ranks(ranks, fewest=1)
    site = jobs.Site(Hosts(hostfile=hostfile, agent=agent), binding.parse_bind(bind))
    found = artifacts.find(build)
    chosen = settings.make(
        found, services=services, algorithms=algorithm, choice=settings.FIXED, reach=reach, shared_heap=shared_heap,
        wait_copies=wait_copies, huge_pages=huge_pages,
    )  # fmt: skip
    if collectives == ["startup"]:
        startup.run(console(), count, chosen, command.choose_mpis(mpi), found, site, json)
        return
    request = runner.Request(
        command.parse_collectives(collectives or [], (*command.COLLECTIVES, *command.PERSISTENT)),
        command.parse_memories(memory),
        tuple(sizes.parse_sizes(size_list)),
        count,
        iterations,
        seconds,
        chosen,
        command.parse_order(order),
    )
    output = command.Output(json, plot, command.parse_link_rate(link_rate), compares=compare or site.many)
    command.run(console(), request, command.choose_mpis(mpi), found, site, output)
