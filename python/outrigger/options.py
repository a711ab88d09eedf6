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
        help="measured: without a rule, calls are tried natively and offloaded, and the faster way is used; early: "
        "tried soon, so that short runs help later ones; fixed: no trials.",
        show_default="measured",
    ),
]
Reach = Annotated[
    str | None,
    typer.Option(
        "--reach",
        metavar="WORDS",
        help="Allowed reaches: NAME,NAME only these, -NAME all others. `outrigger info` lists the names.",
    ),
]
Blocking = Annotated[
    str | None,
    typer.Option(
        "--blocking",
        metavar="on|off",
        help="Offload the blocking forms always or never; by default where measurements show a gain.",
    ),
]
SharedHeap = Annotated[
    str | None,
    typer.Option(
        "--shared-heap",
        metavar="on|off",
        help="Short for --reach heap: large allocations use memory shared with service processes.",
    ),
]
WaitCopies = Annotated[
    str | None,
    typer.Option(
        "--wait-copies",
        metavar="on|off",
        help="off is short for --reach -wait_copies: waiting ranks make no copies for their service process.",
    ),
]
HugePages = Annotated[
    str | None,
    typer.Option(
        "--huge-pages",
        metavar="on|off",
        help="off is short for --reach -huge_pages: buffers keep their pages.",
    ),
]
Hostfile = Annotated[
    Path | None,
    typer.Option("--hostfile", metavar="FILE", help="Hosts, one HOST:SLOTS per line.", rich_help_panel=MANY_NODES),
]
Dpufile = Annotated[
    Path | None,
    typer.Option(
        "--dpufile", metavar="FILE", help="DPUs, one name per line, in the hosts' order.", rich_help_panel=MANY_NODES
    ),
]
DpuPattern = Annotated[
    str | None,
    typer.Option(
        "--dpu-pattern",
        metavar="RE",
        help="In a Slurm allocation: nodes with a matching name are DPUs.",
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
        help="Starts commands on other hosts: CMD HOST COMMAND.",
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
        help="Separated by commas: openmpi, mpich, intel, or directories of MPIs; or auto: openmpi and mpich if found.",
    ),
]
Pairs = Annotated[int, typer.Option("--pairs", min=1, help="Pairs of a native and an offloaded job, in turn.")]
Figures = Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.", callback=check_place)]
