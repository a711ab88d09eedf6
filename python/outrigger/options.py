"""Options shared by several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from outrigger.out import check_picture, check_place

MANY_NODES = "Many nodes"
BINDING = "Placement of ranks"
OFFLOAD = "Offloading"
MEMORY = "Memory"
RESULT = "Results"

Build = Annotated[
    Path | None,
    typer.Option("--build", metavar="DIR", help="Use this build directory.", show_default="build/release"),
]
Services = Annotated[
    int | None,
    typer.Option(
        "--services", metavar="N", help="Service processes per node; 0: none, offload nothing.", rich_help_panel=OFFLOAD
    ),
]
Algorithm = Annotated[
    list[str] | None,
    typer.Option(
        "--algorithm", metavar="RULES", help="COLLECTIVE=NAME,... or a FILE.toml of rules.", rich_help_panel=OFFLOAD
    ),
]
Choice = Annotated[
    str | None,
    typer.Option(
        "--choice",
        metavar="measured|early|fixed",
        help="Try native and offloaded, try soon, or try nothing.",
        show_default="measured",
        rich_help_panel=OFFLOAD,
    ),
]
Blocking = Annotated[
    str | None,
    typer.Option(
        "--blocking",
        metavar="on|off|auto",
        help="Offload blocking collectives, too.",
        show_default="auto: where it pays",
        rich_help_panel=OFFLOAD,
    ),
]
Reach = Annotated[
    str | None,
    typer.Option(
        "--reach",
        metavar="NAMES",
        help="Allow these ways to memory only; -NAME forbids one.",
        show_default="all",
        rich_help_panel=MEMORY,
    ),
]
Intranode = Annotated[
    str | None,
    typer.Option(
        "--intranode",
        metavar="on|off|always",
        help="Let the ranks of a node do blocking and small collectives.",
        show_default="on",
        rich_help_panel=OFFLOAD,
    ),
]
Wait = Annotated[
    str | None,
    typer.Option(
        "--wait",
        metavar="auto|polite|native",
        help="auto: waiting ranks that share cores give them away.",
        show_default="auto",
        rich_help_panel=OFFLOAD,
    ),
]
Sums = Annotated[
    str | None,
    typer.Option(
        "--sums",
        metavar="native|any",
        help="Add in the MPI's order, or in one that never changes.",
        show_default="native",
        rich_help_panel=OFFLOAD,
    ),
]
SharedHeap = Annotated[
    str | None,
    typer.Option(
        "--shared-heap",
        metavar="on|off",
        help="Let service processes map large allocations.",
        show_default="off",
        rich_help_panel=MEMORY,
    ),
]
WaitCopies = Annotated[
    str | None,
    typer.Option(
        "--wait-copies",
        metavar="on|off",
        help="Let waiting ranks copy for their service process.",
        show_default="on",
        rich_help_panel=MEMORY,
    ),
]
CopyCpus = Annotated[
    str | None,
    typer.Option(
        "--copy-cpus",
        metavar="CPUS",
        help="With DPUs: each host's CPUs that copy between its ranks, e.g. 6,7.",
        show_default="none",
        rich_help_panel=MEMORY,
    ),
]
HugePages = Annotated[
    str | None,
    typer.Option(
        "--huge-pages",
        metavar="on|off",
        help="Move buffers that others often copy to huge pages.",
        show_default="on",
        rich_help_panel=MEMORY,
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
        help="Path of outriggerd on the DPUs.",
        show_default="outriggerd on PATH there",
        rich_help_panel=MANY_NODES,
    ),
]
Agent = Annotated[
    str,
    typer.Option(
        "--launch-agent",
        metavar="CMD",
        help="Command that starts others on a host: CMD HOST COMMAND.",
        rich_help_panel=MANY_NODES,
    ),
]
PretendNodes = Annotated[
    int,
    typer.Option(
        "--pretend-nodes",
        metavar="N",
        min=1,
        help="For tests: split this machine's ranks into N nodes.",
        rich_help_panel=MANY_NODES,
    ),
]
Variable = Annotated[
    list[str] | None,
    typer.Option(
        "-x", metavar="NAME[=VALUE]", help="Pass this variable to the ranks on all hosts.", rich_help_panel=MANY_NODES
    ),
]
Bind = Annotated[
    str,
    typer.Option(
        "--bind", metavar="HOW", help="bunch, scatter, hybrid, none, or CPUs such as 0,2,4.", rich_help_panel=BINDING
    ),
]
Ranks = Annotated[int, typer.Option("-n", "-np", metavar="N", help="Number of ranks.")]
MeasuredRanks = Annotated[
    int | None,
    typer.Option("-n", "-np", metavar="N", help="Number of ranks.", show_default="all cores but one, from 2 to 4"),
]
OneMpi = Annotated[
    str,
    typer.Option("--mpi", metavar="NAME", help="openmpi, mpich, intel, mpiabi or a directory; auto finds one."),
]
EachMpi = Annotated[
    str,
    typer.Option("--mpi", metavar="NAMES", help="MPIs: openmpi, mpich, intel or directories."),
]
Pairs = Annotated[
    int, typer.Option("--pairs", min=1, metavar="N", help="Pairs of a native and an offloaded job, in turn.")
]
Figures = Annotated[
    Path | None,
    typer.Option(
        "--json", metavar="FILE", help="Write the figures to this file.", callback=check_place, rich_help_panel=RESULT
    ),
]
Picture = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        metavar="FILE",
        help="Draw a picture: .png, .svg or .pdf.",
        callback=check_picture,
        rich_help_panel=RESULT,
    ),
]
