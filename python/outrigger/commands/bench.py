"""`outrigger bench`, without its subcommands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from outrigger import artifacts, binding, launchers, options, settings, sizes
from outrigger.bench import command, jobs, runner, startup
from outrigger.hosts import Hosts
from outrigger.out import check_picture
from outrigger.plan import check_ranks
from outrigger.terminal import console


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
    memory: Annotated[str, typer.Option("--memory", help="Source of the buffers: alloc_mem,malloc.")] = "alloc_mem",
    iterations: Annotated[int, typer.Option("--iterations", min=1, max=1_000_000, help="Maximum for each size.")] = 200,
    seconds: Annotated[
        int, typer.Option("--seconds", min=1, max=3600, help="Approximate maximum time for each size.")
    ] = 3,
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
        bool,
        typer.Option("--compare", help="All MPIs with the same work, side by side, relative to the best native one."),
    ] = False,
    agent: options.Agent = launchers.SSH,
    bind: options.Bind = binding.BUNCH,
    order: Annotated[
        str,
        typer.Option(
            "--order", help="Order of the ranks: contiguous, node by node; or strided, round robin over the nodes."
        ),
    ] = "contiguous",
    link_rate: Annotated[
        str | None,
        typer.Option("--link-rate", help="Rate of a host's link, like 1gbit, for comparison with the goodput."),
    ] = None,
    json: options.Figures = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="A picture (.png, .svg, .pdf).", callback=check_picture)
    ] = None,
    build: options.Build = None,
) -> None:
    """Measure native against offloaded, in turn in one run, by latency, overlap and equal work.

    --never-slower: the whole grid against native as a heat map; see bench --never-slower --help.
    """
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
