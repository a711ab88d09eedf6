"""Distribution of ranks over hosts, and how hosts are reached: from files, a Slurm allocation, or this
machine alone.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from outrigger import dpufile, hostfile, launchers, plan, slurm
from outrigger.errors import UserError
from outrigger.hostfile import Host, is_this_host

LAUNCHERS = ("auto", "mpiexec", "srun")


@dataclass(frozen=True)
class Hosts:
    """The user's options about hosts."""

    hostfile: Path | None = None
    dpufile: Path | None = None
    dpu_pattern: str | None = None
    launcher: str = "auto"
    agent: str = launchers.SSH
    oversubscribe: bool = False
    pretend_nodes: int = 1


@dataclass(frozen=True)
class Where:
    """Hosts, and how they are reached."""

    shares: tuple[plan.Share, ...] = ()
    """Empty: all ranks on this machine."""
    agent: str = launchers.SSH
    slurm: bool = False
    """Start with srun, within the allocation."""
    mpi_type: str | None = None
    """srun's --mpi."""
    as_allocated: bool = False
    """Slurm's own distribution: all nodes of the allocation, with all their slots."""


def check_pretend_nodes(hosts: Hosts, shares: Sequence[plan.Share], ranks: int) -> None:
    """--pretend-nodes needs all ranks on one host."""
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
    """Distribution of the ranks, and how they are started."""
    plan.check_ranks(ranks)
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
    if all(is_this_host(share.host.name) for share in shares):
        return Where(shares)  # all ranks are local and need no agent
    launchers.check_names(hosts.agent, [share.host.name for share in shares])
    if implementation == "openmpi":
        here = next((share.host.name for share in shares if is_this_host(share.host.name)), "")
        shares = plan.with_first(shares, here)
    return Where(shares, hosts.agent)


def find_dpus(hosts: Hosts, environment: Mapping[str, str]) -> Where:
    """The named DPUs with their hosts; without hosts, this machine."""
    use_srun = _use_srun(hosts, environment)
    if hosts.hostfile is None and hosts.dpufile is not None and not use_srun:
        here = Host(socket.gethostname())
        return Where(tuple(plan.Share(here, 0, 1, dpu) for dpu in dpufile.read(hosts.dpufile)), hosts.agent)
    found, dpus_of = _find_hosts(hosts, environment, use_srun=use_srun)
    shares = plan.assign(found, sum(host.slots for host in found), dpus=dpus_of)
    return Where(tuple(share for share in shares if share.dpu is not None), hosts.agent, slurm=use_srun)


_BATCH_HOSTFILES = ("PBS_NODEFILE", "LSB_DJOB_HOSTFILE")
"""Variables of PBS and LSF that name a file with a line for each slot of the job."""


def batch_hosts(environment: Mapping[str, str]) -> tuple[Host, ...]:
    """The hosts of a batch job; empty: there is none, or it has this machine alone, whose cores are known better."""
    for name in _BATCH_HOSTFILES:
        if not (path := environment.get(name)):
            continue
        found = hostfile.parse(hostfile.read_text(Path(path), name), path)
        return () if all(is_this_host(host.name) for host in found) else found
    return ()


def _find_hosts(
    hosts: Hosts, environment: Mapping[str, str], *, use_srun: bool
) -> tuple[tuple[Host, ...], dict[str, str]]:
    """The hosts, if given, and their DPUs by host name."""
    unnamed = hosts.launcher == "mpiexec" and hosts.hostfile is None and slurm.inside(environment)
    in_allocation = use_srun or unnamed or hosts.dpu_pattern is not None
    if in_allocation and not slurm.inside(environment):
        raise UserError("--dpu-pattern finds DPUs in a Slurm allocation, and this is none; name them with --dpufile")
    if hosts.dpu_pattern is not None and hosts.dpufile is not None:
        raise UserError("--dpufile and --dpu-pattern both name DPUs; leave one out")
    allocation = slurm.allocation(environment, hosts.dpu_pattern) if in_allocation else None
    found: tuple[Host, ...] = allocation.hosts if allocation is not None else ()
    if hosts.hostfile is not None:
        found = hostfile.read(hosts.hostfile)
        found = _within(found, allocation, hosts.hostfile) if allocation is not None else found
    elif not in_allocation:
        found = batch_hosts(environment)
    if not found and hosts.dpufile is not None:
        raise UserError("--dpufile: its DPUs belong to the hosts of a --hostfile; name that too")
    return found, _dpus(hosts, found, allocation.dpus if allocation is not None else ())


def dpu_shares(where: Where, *, allowed: bool) -> tuple[plan.Share, ...]:
    """Hosts whose DPUs the job uses: all that have one, or none."""
    return tuple(share for share in where.shares if allowed and share.dpu is not None)


def report_directory(where: Where) -> Path | None:
    """Directory of a report for the terminal: beside the program if rank 0 is on another host."""
    remote = bool(where.shares) and not is_this_host(where.shares[0].host.name)
    return Path.cwd() if remote else None
