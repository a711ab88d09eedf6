"""Options shared by several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from outrigger.out import check_place

MANY_NODES = "Many nodes"
BINDING = "Binding"
TO_TERMINAL = "-"
"""Value of --report without a file."""

Build = Annotated[Path | None, typer.Option("--build", help="Build directory to use.", show_default="build/release")]
Services = Annotated[int | None, typer.Option("--services", help="Service processes per node.")]
Algorithm = Annotated[
    list[str] | None,
    typer.Option(
        "--algorithm",
        metavar="RULES",
        help="NAME, COLLECTIVE=NAME, NAME may be native; or rules from FILE.toml. See docs/using/reference.md.",
    ),
]
Choice = Annotated[
    str | None,
    typer.Option(
        "--choice",
        metavar="measured|early|fixed",
        help="measured: what no rule decides is tried natively and offloaded, and done in the better way; early: tried "
        "soon, for short runs that are to teach later ones; fixed: nothing is tried.",
        show_default="measured",
    ),
]
Reach = Annotated[
    str | None,
    typer.Option(
        "--reach",
        metavar="WORDS",
        help="How memory may be reached: NAME,NAME only by these, -NAME not so. `outrigger info` has their names.",
    ),
]
Blocking = Annotated[
    str | None,
    typer.Option(
        "--blocking",
        metavar="on|off",
        help="Offload the blocking forms, too, or never. Unless given, where it was measured to pay.",
    ),
]
SharedHeap = Annotated[
    str | None,
    typer.Option(
        "--shared-heap",
        metavar="on|off",
        help="Short for --reach heap: large allocations come from memory that service processes map, too.",
    ),
]
WaitCopies = Annotated[
    str | None,
    typer.Option(
        "--wait-copies",
        metavar="on|off",
        help="off is short for --reach -wait_copies: ranks that wait make no copies for their service process.",
    ),
]
HugePages = Annotated[
    str | None,
    typer.Option(
        "--huge-pages",
        metavar="on|off",
        help="off is short for --reach -huge_pages: buffers stay in the pages they have.",
    ),
]
Hostfile = Annotated[
    Path | None,
    typer.Option("--hostfile", metavar="FILE", help="Hosts, HOST:SLOTS a line.", rich_help_panel=MANY_NODES),
]
Dpufile = Annotated[
    Path | None,
    typer.Option(
        "--dpufile", metavar="FILE", help="DPUs, a name a line, in the hosts' order.", rich_help_panel=MANY_NODES
    ),
]
DpuPattern = Annotated[
    str | None,
    typer.Option(
        "--dpu-pattern",
        metavar="RE",
        help="In a Slurm allocation: nodes with such a name are DPUs.",
        rich_help_panel=MANY_NODES,
    ),
]
DpuDaemon = Annotated[
    str | None,
    typer.Option(
        "--dpu-daemon",
        metavar="PATH",
        help="outriggerd on the DPUs.",
        show_default="outriggerd on PATH there",
        rich_help_panel=MANY_NODES,
    ),
]
Agent = Annotated[
    str,
    typer.Option(
        "--launch-agent",
        metavar="CMD",
        help="What starts a command on another host: CMD HOST COMMAND.",
        rich_help_panel=MANY_NODES,
    ),
]
Bind = Annotated[
    str,
    typer.Option(
        "--bind",
        metavar="HOW",
        help="bunch (consecutive cores), scatter (one of each NUMA domain in turn), hybrid (a block of cores a "
        "rank), none, or CPUs: 0,2,4 (one a rank), 0-1:2-3 (a list a rank).",
        rich_help_panel=BINDING,
    ),
]
Ranks = Annotated[int, typer.Option("-n", "-np", help="Number of ranks.")]
SomeRanks = Annotated[int, typer.Option("-n", "-np", min=2, help="Number of ranks.")]
EachMpi = Annotated[
    str,
    typer.Option(
        "--mpi",
        metavar="LIST",
        help="With commas between: openmpi, mpich, intel, or directories where one is installed; or auto: the "
        "openmpi and mpich that are found.",
    ),
]
Pairs = Annotated[int, typer.Option("--pairs", min=1, help="Of a native and an offloaded job, in turn.")]
Figures = Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.", callback=check_place)]
