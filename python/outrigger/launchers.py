"""Commands that start ranks: mpiexec of each MPI, and srun."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from outrigger.errors import UserError
from outrigger.hostfile import is_this_host
from outrigger.mpis import INTEL, Mpi
from outrigger.plan import Share

SSH = "ssh"
_MANAGERS = "^slurm,flux,tm,pbs,lsf,gridengine,alps,pals"
"""Open MPI's components that start ranks on the hosts of a batch job; absent ones do no harm."""


@dataclass(frozen=True)
class Start:
    """Job of a launcher."""

    mpi: Mpi
    ranks: int
    program: tuple[str, ...]
    shares: tuple[Share, ...] = ()
    """Empty: all ranks on this machine."""
    agent: str = SSH
    """Command that reaches another host: AGENT HOST COMMAND."""
    passed: Sequence[str] = field(default=())
    """Variables needed by ranks on other hosts."""

    @property
    def host_counts(self) -> str:
        """n0:2,n1:2, the format of Open MPI and hydra."""
        return ",".join(f"{share.host.name}:{share.ranks}" for share in self.shares)

    @property
    def here(self) -> bool:
        """True if all ranks are on this machine, which needs no agent."""
        return all(is_this_host(share.host.name) for share in self.shares)


@dataclass(frozen=True)
class Started:
    """A command and its added environment."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


def split_agent(agent: str) -> tuple[str, ...]:
    """Words of --launch-agent, the first as a path."""
    try:
        words = shlex.split(agent)
    except ValueError as error:
        raise UserError(f"--launch-agent {agent}: {error}") from None
    path = shutil.which(words[0]) if words else None
    if path is None and agent == SSH:
        raise UserError("there is no ssh on PATH to reach other hosts; install it, or name another with --launch-agent")
    if path is None:
        raise UserError(
            f"--launch-agent {agent}: {words[0] if words else 'nothing'} is no program on PATH; it is called as "
            "AGENT HOST COMMAND, like ssh"
        )
    return (path, *words[1:])


def _is_known(ssh: str, name: str) -> bool:
    """True also for aliases in ssh's configuration, or with a jump host, which may know the name."""
    asked = subprocess.run([ssh, "-G", name], capture_output=True, text=True, errors="replace", check=False)
    told = dict(line.split(" ", 1) for line in asked.stdout.splitlines() if " " in line)
    if asked.returncode != 0 or "hostname" not in told or {"proxyjump", "proxycommand"} & told.keys():
        return True
    with contextlib.suppress(OSError):
        return bool(socket.getaddrinfo(told["hostname"], None))
    return False


def check_names(agent: str, names: Sequence[str]) -> None:
    """Checked before the start, because MPIs report an unknown host in twenty lines."""
    words = split_agent(agent)
    if len(words) > 1 or Path(words[0]).name != SSH:
        return
    for name in names:
        try:
            socket.getaddrinfo(name, None)
        except OSError as error:
            if not _is_known(words[0], name):
                raise UserError(
                    f"host {name} is unknown ({error.strerror}); correct the name in --hostfile, or give its address "
                    "in ~/.ssh/config"
                ) from None


def _openmpi_places(start: Start) -> list[str]:
    """Hosts of mpirun: only those of the job, neither of a default hostfile nor of a batch job."""
    by_prrte = not start.mpi.version.startswith("4")  # since version 5
    option, prefix, agent = ("--prtemca", "prte", "ssh") if by_prrte else ("--mca", "orte", "rsh")
    words = [option, f"{prefix}_default_hostfile", "none", option, "ras", _MANAGERS]
    if not start.here:
        command = shlex.join(split_agent(start.agent))
        hosts = ["--host", start.host_counts, "--map-by", "slot"]
        return [*hosts, *words, option, "plm", agent, option, f"plm_{agent}_agent", command]
    needs_ssh = not by_prrte and shutil.which(SSH) is None  # even if it does not call it
    return ["--oversubscribe", *words, option, "plm", "isolated" if needs_ssh else _MANAGERS]


def openmpi(start: Start) -> Started:
    """mpirun of Open MPI. It binds nothing: binding is done on the node."""
    command = [str(start.mpi.launcher), "-n", str(start.ranks), "--bind-to", "none", *_openmpi_places(start)]
    for name in start.passed:
        command += ["-x", name]
    return Started((*command, *start.program))


def _agent_options(agent: str, variable: str) -> Started:
    """Hydra takes a path, and the agent's arguments from a variable."""
    path, *arguments = split_agent(agent)
    environment = {variable: " ".join(arguments)} if arguments else {}
    return Started(("-launcher", SSH, "-launcher-exec", path), environment)


def _hydra_here(start: Start) -> tuple[str, ...]:
    """Hydra's start on this machine: otherwise it uses the hosts of its variables or of a batch job."""
    return (str(start.mpi.launcher), "-hosts", socket.gethostname(), "-launcher", "fork", "-n", str(start.ranks))


def mpich(start: Start) -> Started:
    """mpiexec of MPICH. It forwards its whole environment."""
    if start.here:
        return Started((*_hydra_here(start), *start.program))
    agent = _agent_options(start.agent, "HYDRA_LAUNCHER_EXTRA_ARGS")
    command = (str(start.mpi.launcher), "-n", str(start.ranks), "-hosts", start.host_counts, *agent.command)
    return Started((*command, *start.program), agent.environment)


def intel(start: Start) -> Started:
    """mpiexec of Intel MPI. Its -hosts has no counts, so each host is a part of the command."""
    unbound = {"I_MPI_PIN": "0"}  # binding is done on the node
    if start.here:
        return Started((*_hydra_here(start), *start.program), unbound)
    agent = _agent_options(start.agent, "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS")
    command = [str(start.mpi.launcher), *agent.command]
    for index, share in enumerate(start.shares):
        command += [":"] if index else []
        command += ["-n", str(share.ranks), "-host", share.host.name, *start.program]
    return Started(tuple(command), {**unbound, **agent.environment})


def srun(start: Start, mpi_type: str | None, *, as_allocated: bool = False) -> Started:
    """srun within an allocation. It forwards its whole environment; binding is done on the node.

    `as_allocated`: every node has as many ranks as Slurm has planned. Other uneven counts must be forced, and then
    Slurm reports one rank per node to MPICH by PMI2.
    """
    command = ["srun", f"--ntasks={start.ranks}", f"--nodes={len(start.shares)}"]
    counts = {share.ranks for share in start.shares}
    if len(counts) == 1 or as_allocated:
        names = ",".join(share.host.name for share in start.shares)
        command += [f"--nodelist={names}", "--distribution=block"]
        command += [f"--ntasks-per-node={counts.pop()}"] if len(counts) == 1 else []
    else:
        names = ",".join(",".join([share.host.name] * share.ranks) for share in start.shares)  # one for each rank
        command += [f"--nodelist={names}", "--distribution=arbitrary"]
    # as every mpiexec does: otherwise other ranks would wait forever for a killed rank
    command += ["--kill-on-bad-exit=1"]
    command += ["--cpu-bind=none", "--export=ALL"]
    if mpi_type is not None:
        command.append(f"--mpi={mpi_type}")
    return Started((*command, *start.program))


def mpiexec(start: Start) -> Started:
    """Launcher of the job's MPI."""
    starters = {"openmpi": openmpi, "mpich": mpich, INTEL: intel}
    return starters[start.mpi.implementation](start)


def on_node(agent: str, node: str, command: Sequence[str], *, slurm: bool) -> list[str]:
    """Command on a host or DPU: by srun within an allocation, else by the launch agent."""
    if not slurm:
        return on_host(agent, node, command)
    return ["srun", f"--nodelist={node}", "--nodes=1", "--ntasks=1", "--overlap", "--cpu-bind=none", *command]


def on_host(agent: str, host: str, command: Sequence[str]) -> list[str]:
    """Command on another host. Like ssh, the agent passes its words to a shell."""
    return [*split_agent(agent), host, shlex.join(command)]
