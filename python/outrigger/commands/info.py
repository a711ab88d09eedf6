"""`outrigger info`"""

from __future__ import annotations

import os
from typing import Annotated

import typer

from outrigger import artifacts, dpu_info, dpu_process, info, launchers, options
from outrigger.hosts import Hosts, find_dpus
from outrigger.terminal import console


def show_info(
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    dpufile: options.Dpufile = None,
    dpu_pattern: options.DpuPattern = None,
    hostfile: options.Hostfile = None,
    agent: options.Agent = launchers.SSH,
    dpu_daemon: options.DpuDaemon = None,
    build: options.Build = None,
) -> None:
    """Show this machine: MPIs, cores, ways to reach memory, and what prevents better ways.

    With --dpufile or --dpu-pattern, show only the DPUs: reach, device, round trip and bandwidth.
    """
    if dpufile is not None or dpu_pattern is not None:
        where = find_dpus(Hosts(hostfile, dpufile, dpu_pattern, agent=agent), os.environ)
        how = dpu_process.way(where.agent, None, os.environ, slurm=where.slurm, daemon=dpu_daemon)
        raise typer.Exit(0 if dpu_info.run(console(), where, how, artifacts.find(build), as_json=json) else 1)
    info.run(console(), build, as_json=json)
