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

from rich.console import Console

from outrigger import binding, dpufile, hostfile, launchers, plan, slurm
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


def find_where(hosts: Hosts, ranks: int, family: str, environment: Mapping[str, str]) -> Where:
    """Which hosts get which ranks, and how they are started."""
    use_srun = _use_srun(hosts, environment)
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
    if not found:
        if hosts.dpufile is not None:
            raise UserError("--dpufile: its DPUs belong to the hosts of a --hostfile; name that too")
        check_pretend_nodes(hosts, (), ranks)
        return Where()
    dpus = _dpus(hosts, found, allocation.dpus if allocation is not None else ())
    shares = plan.assign(found, ranks, oversubscribe=hosts.oversubscribe, dpus=dpus)
    check_pretend_nodes(hosts, shares, ranks)
    if use_srun:
        return Where(shares, slurm=True, mpi_type=slurm.choose_mpi_type(family, slurm.offered_mpi_types()))
    if len(shares) == 1 and is_this_host(shares[0].host.name):
        return Where(shares, launchers.SSH)
    launchers.split_agent(hosts.agent)
    if family == "openmpi":
        here = next((share.host.name for share in shares if is_this_host(share.host.name)), "")
        shares = plan.with_first(shares, here)
    return Where(shares, hosts.agent)


def dpu_note(where: Where) -> str | None:
    """The line that says what DPUs are used for."""
    count = sum(share.dpu is not None for share in where.shares)
    if count == 0:
        return None
    return (
        f"{count} DPU{'s' if count > 1 else ''} planned, one a host; this version starts no service processes on DPUs, "
        "they run on host cores"
    )


def _there(job: Job, share: plan.Share, command: Sequence[str]) -> list[str]:
    if job.where.slurm:
        return [
            "srun", f"--nodelist={share.host.name}", "--nodes=1", "--ntasks=1", "--overlap", "--cpu-bind=none",
            *command,
        ]  # fmt: skip
    return launchers.on_host(job.where.agent, share.host.name, command)


def _ask_host(job: Job, artifacts: Artifacts, share: plan.Share) -> NodeBinding | str:
    """The binding on a host, or why it is not known."""
    command = binding.place_command(
        artifacts.daemon, job.bind_policy, job.settings.services, share.ranks, job.pretend_nodes
    )
    local = is_this_host(share.host.name)
    try:
        return binding.ask(command if local else _there(job, share, command))
    except UserError as error:
        return str(error).splitlines()[0]


def _suppose(job: Job, artifacts: Artifacts, share: plan.Share) -> NodeBinding | str:
    """The binding on a host if it were like this machine."""
    command = binding.place_command(
        artifacts.daemon, job.bind_policy, job.settings.services, share.ranks, job.pretend_nodes
    )
    try:
        return binding.ask(command)
    except UserError as error:
        return str(error)


def show_binding(console: Console, job: Job, artifacts: Artifacts, *, ask_hosts: bool) -> None:
    """Draws each node; one that is like an earlier one is named only."""
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
            console.print(binding.same_as(drawn[node], name, share.first, share.ranks, share.dpu))
        else:
            drawn[node] = name
            supposed = not ask_hosts and not is_this_host(name)
            binding.draw(console, f"{name} ({_LIKE_THIS})" if supposed else name, node, share.first, share.dpu)
            console.print()


def report_directory(where: Where) -> Path | None:
    """Where a report for the terminal is written: beside the program where rank 0 is on another host."""
    remote = bool(where.shares) and not is_this_host(where.shares[0].host.name)
    return Path.cwd() if remote else None


def note(text: str) -> None:
    """A line of this command's own, apart from the program's output."""
    print(f"outrigger: {text}", file=sys.stderr, flush=True)
