"""The `outrigger run` command behind its options."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from rich.console import Console

from outrigger import binding, dpufile, dpus, hostfile, launchers, plan, slurm, tables
from outrigger.artifacts import Artifacts
from outrigger.binding import NodeBinding
from outrigger.errors import UserError
from outrigger.hostfile import Host, is_this_host
from outrigger.launch import Job, Where

LAUNCHERS = ("auto", "mpiexec", "srun")
_ASKED_AT_ONCE = 16
_LIKE_THIS = "if it is like this machine"


@dataclass(frozen=True)
class Hosts:
    """What the user said of where to run."""

    hostfile: Path | None = None
    dpufile: Path | None = None
    dpu_pattern: str | None = None
    launcher: str = "auto"
    agent: str = launchers.SSH
    oversubscribe: bool = False
    pretend_nodes: int = 1


def parse_variables(words: Sequence[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """-x NAME=VALUE and -x NAME: variables to set, and names of those to pass as they are."""
    values: dict[str, str] = {}
    names: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        if not name.isidentifier():
            raise UserError(f"-x {word}: '{name}' is not the name of a variable; write NAME or NAME=VALUE")
        if equals:
            values[name] = value
        elif name in os.environ:
            names.append(name)
        else:
            raise UserError(f"-x {name}: {name} is not set here; write -x {name}=VALUE")
    return values, tuple(names)


def check_pretend_nodes(hosts: Hosts, shares: Sequence[plan.Share], ranks: int) -> None:
    """--pretend-nodes splits the ranks of one host."""
    nodes = hosts.pretend_nodes
    if nodes < 1 or nodes > ranks:
        raise UserError(f"--pretend-nodes {nodes}: from 1 to {ranks}, the number of ranks; -n sets it")
    if nodes > 1 and len(shares) > 1:
        raise UserError(
            f"--pretend-nodes {nodes}: it splits the ranks of one host, but the job has {len(shares)}; leave it out"
        )


def _use_srun(hosts: Hosts, environment: Mapping[str, str]) -> bool:
    if hosts.launcher not in LAUNCHERS:
        raise UserError(f"--launcher {hosts.launcher}: there are {', '.join(LAUNCHERS)}")
    if hosts.launcher == "srun" and not slurm.inside(environment):
        raise UserError("--launcher srun: this is no Slurm allocation (SLURM_JOB_ID is not set); start salloc first")
    if hosts.launcher != "auto":
        return hosts.launcher == "srun"
    return hosts.hostfile is None and slurm.inside(environment) and shutil.which("srun") is not None


def _within(chosen: Sequence[Host], allocation: slurm.Allocation, source: Path) -> tuple[Host, ...]:
    known = {host.name for host in allocation.hosts}
    for host in chosen:
        if host.name not in known:
            raise UserError(f"--hostfile {source}: {host.name} is not in the allocation of Slurm job {allocation.job}")
    return tuple(chosen)


def _dpus(hosts: Hosts, found: Sequence[Host], allocated: Sequence[str]) -> dict[str, str]:
    if hosts.dpufile is not None:
        return dpufile.pair(found, dpufile.read(hosts.dpufile), f"--dpufile {hosts.dpufile}")
    if allocated:
        return dpufile.pair(found, allocated, f"--dpu-pattern {hosts.dpu_pattern}")
    return {}


def find_where(hosts: Hosts, ranks: int, implementation: str, environment: Mapping[str, str]) -> Where:
    """Which hosts get which ranks, and how they are started."""
    use_srun = _use_srun(hosts, environment)
    found, dpus_of = _find_hosts(hosts, environment, use_srun=use_srun)
    if not found:
        check_pretend_nodes(hosts, (), ranks)
        return Where()
    shares = plan.assign(found, ranks, oversubscribe=hosts.oversubscribe, dpus=dpus_of)
    check_pretend_nodes(hosts, shares, ranks)
    if use_srun:
        mpi_type = slurm.choose_mpi_type(implementation, slurm.offered_mpi_types())
        whole = hosts.hostfile is None and not dpus_of and ranks == sum(host.slots for host in found)
        return Where(shares, slurm=True, mpi_type=mpi_type, as_allocated=whole)
    if len(shares) == 1 and is_this_host(shares[0].host.name):
        return Where(shares, launchers.SSH)  # all ranks here: no agent is needed for them
    launchers.split_agent(hosts.agent)
    if implementation == "openmpi":
        here = next((share.host.name for share in shares if is_this_host(share.host.name)), "")
        shares = plan.with_first(shares, here)
    return Where(shares, hosts.agent)


def find_dpus(hosts: Hosts, environment: Mapping[str, str]) -> Where:
    """The DPUs that are named, each with its host: this machine where no hosts are."""
    use_srun = _use_srun(hosts, environment)
    if hosts.hostfile is None and hosts.dpufile is not None and not use_srun:
        here = Host(socket.gethostname())
        return Where(tuple(plan.Share(here, 0, 1, dpu) for dpu in dpufile.read(hosts.dpufile)), hosts.agent)
    found, dpus_of = _find_hosts(hosts, environment, use_srun=use_srun)
    shares = plan.assign(found, sum(host.slots for host in found), dpus=dpus_of)
    return Where(tuple(share for share in shares if share.dpu is not None), hosts.agent, slurm=use_srun)


def _find_hosts(
    hosts: Hosts, environment: Mapping[str, str], *, use_srun: bool
) -> tuple[tuple[Host, ...], dict[str, str]]:
    """The hosts, none where none are named, and their DPUs by the hosts' names."""
    in_allocation = use_srun or hosts.dpu_pattern is not None
    if in_allocation and not slurm.inside(environment):
        raise UserError("--dpu-pattern finds DPUs in a Slurm allocation, and this is none; name them with --dpufile")
    if hosts.dpu_pattern is not None and hosts.dpufile is not None:
        raise UserError("--dpufile and --dpu-pattern both name DPUs; leave one out")
    allocation = slurm.allocation(environment, hosts.dpu_pattern) if in_allocation else None
    found: tuple[Host, ...] = allocation.hosts if allocation is not None else ()
    if hosts.hostfile is not None:
        found = hostfile.read(hosts.hostfile)
        found = _within(found, allocation, hosts.hostfile) if allocation is not None else found
    if not found and hosts.dpufile is not None:
        raise UserError("--dpufile: its DPUs belong to the hosts of a --hostfile; name that too")
    return found, _dpus(hosts, found, allocation.dpus if allocation is not None else ())


def dpu_shares(where: Where, *, allowed: bool) -> tuple[plan.Share, ...]:
    """The hosts whose DPUs the job is to use: all that have one, or none."""
    return tuple(share for share in where.shares if allowed and share.dpu is not None)


def _ask_host(job: Job, artifacts: Artifacts, share: plan.Share) -> NodeBinding | str:
    """The binding on a host, or why it is not known."""
    command = job.place_command(artifacts, share.ranks)
    if not is_this_host(share.host.name):
        command = launchers.on_node(job.where.agent, share.host.name, command, slurm=job.where.slurm)
    try:
        return binding.ask(command)
    except UserError as error:
        return str(error).splitlines()[0]


def _suppose(job: Job, artifacts: Artifacts, share: plan.Share) -> NodeBinding | str:
    """The binding on a host if it were like this machine."""
    try:
        return binding.ask(job.place_command(artifacts, share.ranks))
    except UserError as error:
        return str(error)


def dpu_words(share: plan.Share, services: int | None, ready: Mapping[str, dpus.Ready], ranks_per_service: int) -> str:
    """What runs on a host's DPU: as it says, or before it is asked."""
    if share.dpu is None:
        return ""
    if share.dpu in ready:
        there = ready[share.dpu]
        count = there.services_for(share.ranks, ranks_per_service)
        return f"DPU {share.dpu}: {binding.services_and_cores(count, there.cores)}"
    if services is not None:
        return f"DPU {share.dpu}: {binding.plural(services, 'service process')}"
    return f"DPU {share.dpu}: one service process for {ranks_per_service} ranks, at most one a core"


def show_binding(
    console: Console,
    job: Job,
    artifacts: Artifacts,
    *,
    ask_hosts: bool,
    ready: Mapping[str, dpus.Ready] = MappingProxyType({}),
) -> None:
    """Draws each node; one that is like an earlier one is named only."""
    each = tables.read(artifacts).limits.ranks_per_service if job.dpus else 0
    dpu_of = {share.host.name: dpu_words(share, job.settings.services, ready, each) for share in job.dpus}
    shares = job.where.shares or (plan.Share(Host(socket.gethostname(), job.ranks), 0, job.ranks),)
    find = _ask_host if ask_hosts else _suppose
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
        nodes = list(pool.map(lambda share: find(job, artifacts, share), shares))
    drawn: dict[NodeBinding, str] = {}
    for share, node in zip(shares, nodes, strict=True):
        name = share.host.name
        if isinstance(node, str):
            console.print(f"{binding.host_ranks(name, share.first, share.ranks)}: its cores are not known: {node}")
        elif node in drawn:
            console.print(binding.same_as(drawn[node], name, share.first, share.ranks, dpu_of.get(name, "")))
        else:
            drawn[node] = name
            supposed = not ask_hosts and not is_this_host(name)
            title = f"{name} ({_LIKE_THIS})" if supposed else name
            binding.draw(console, title, node, share.first, dpu_of.get(name, ""))
            console.print()


def report_directory(where: Where) -> Path | None:
    """Where a report for the terminal is written: beside the program where rank 0 is on another host."""
    remote = bool(where.shares) and not is_this_host(where.shares[0].host.name)
    return Path.cwd() if remote else None


def note(text: str) -> None:
    """A line of this command's own, apart from the program's output."""
    print(f"outrigger: {text}", file=sys.stderr, flush=True)
