"""A Slurm allocation: its hosts, their DPUs, and the abilities of srun."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from outrigger.captured import captured
from outrigger.errors import UserError
from outrigger.hostfile import Host

_TIMEOUT_S = 30.0
_COUNT = re.compile(r"(\d+)(?:\(x(\d+)\))?")


@dataclass(frozen=True)
class Allocation:
    """Resources that Slurm has given this job."""

    job: str
    hosts: tuple[Host, ...]
    dpus: tuple[str, ...]


def expand_counts(text: str, variable: str) -> list[int]:
    """Expands Slurm's format to one number per node: 2(x3),1 is 2, 2, 2, 1."""
    counts: list[int] = []
    for item in text.split(","):
        match = _COUNT.fullmatch(item.strip())
        if match is None:
            raise UserError(f"{variable}={text} cannot be read; Slurm writes it like 2(x3),1")
        counts += [int(match[1])] * int(match[2] or 1)
    return counts


def _output(command: Sequence[str]) -> str:
    result = captured(
        command,
        _TIMEOUT_S,
        if_missing="; Slurm's commands must be on PATH in an allocation",
        if_silent="; is slurmctld running?",
    )
    if result.returncode != 0:
        raise UserError(f"{' '.join(command)}: {result.stderr.strip() or f'exit code {result.returncode}'}")
    return result.stdout + result.stderr


def inside(environment: Mapping[str, str]) -> bool:
    """True if this command runs in an allocation."""
    return bool(environment.get("SLURM_JOB_ID"))


def _counts(environment: Mapping[str, str]) -> tuple[str, str]:
    """Variable with the slots of each node: the requested tasks, or else the CPUs."""
    asked = "SLURM_NTASKS" in environment or "SLURM_NTASKS_PER_NODE" in environment
    names = ("SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE")
    for name in names if asked else reversed(names):
        if value := environment.get(name):
            return name, value
    raise UserError("Slurm sets neither SLURM_TASKS_PER_NODE nor SLURM_JOB_CPUS_PER_NODE; name hosts with --hostfile")


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """--dpu-pattern as in grep: found anywhere in a name."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UserError(f"--dpu-pattern {pattern}: not a regular expression: {error}") from None


def allocation(environment: Mapping[str, str], dpu_pattern: str | None) -> Allocation:
    """Allocation of this command."""
    nodes = environment.get("SLURM_JOB_NODELIST", "")
    if not nodes:
        raise UserError("SLURM_JOB_ID is set but SLURM_JOB_NODELIST is not; name hosts with --hostfile")
    names = _output(["scontrol", "show", "hostnames", nodes]).split()
    variable, value = _counts(environment)
    counts = expand_counts(value, variable)
    if len(counts) != len(names):
        raise UserError(f"{variable}={value} is for {len(counts)} nodes, but the allocation has {len(names)}: {nodes}")
    pattern = compile_pattern(dpu_pattern) if dpu_pattern is not None else None
    dpus = tuple(name for name in names if pattern is not None and pattern.search(name))
    hosts = tuple(Host(name, slots) for name, slots in zip(names, counts, strict=True) if name not in dpus)
    if not hosts:
        raise UserError(
            f"--dpu-pattern {dpu_pattern}: all of {nodes} would be DPUs; choose one that hosts do not match"
        )
    if pattern is not None and not dpus:
        raise UserError(f"--dpu-pattern {dpu_pattern}: none of {nodes} matches; allocate the DPUs with their hosts")
    return Allocation(environment["SLURM_JOB_ID"], hosts, dpus)


def mpi_types(text: str) -> list[str]:
    """Names in the output of `srun --mpi=list`."""
    return re.findall(r"^\s+(\w+)\s*$", text, re.MULTILINE)


def choose_mpi_type(family: str, offered: Sequence[str]) -> str | None:
    """srun's way to connect the ranks of an MPI; None: Slurm's default."""
    wanted = ("pmix", "pmi2") if family == "openmpi" else ("pmi2", "pmix")
    return next((name for name in wanted if name in offered), None)


def offered_mpi_types() -> list[str]:
    """Abilities of this cluster's srun."""
    if shutil.which("srun") is None:
        raise UserError("srun is not on PATH; --launcher mpiexec works without it")
    return mpi_types(_output(["srun", "--mpi=list"]))
