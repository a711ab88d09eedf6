"""Starts an MPI program: command, environment, and the wait for its end."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from outrigger import binding, choice, claims, launchers, settings
from outrigger.artifacts import Artifacts
from outrigger.binding import NodeBinding
from outrigger.cores import format_cpu_list, parse_cpu_list
from outrigger.errors import UserError
from outrigger.hostfile import is_this_host
from outrigger.hosts import Where
from outrigger.job_process import JobProcess
from outrigger.linked import is_python
from outrigger.mpis import Mpi
from outrigger.plan import Share, check_ranks
from outrigger.sections import SEPARATOR, Section
from outrigger.settings import Settings

# Forwarded to ranks on other hosts beside our own variables.
_PASSED_IF_SET = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")
_PASSED_PREFIXES = ("OUTRIGGER_", "OMP_", "UCX_")
_PLANS = 8
"""Retries if other jobs take the cores between plan and claim."""
_NOT_PASSED = (settings.BUILD,)  # for this command alone


@dataclass(frozen=True)
class Variables:
    """Variables for the ranks, from -x."""

    values: Mapping[str, str] = field(default_factory=dict)
    passed: tuple[str, ...] = ()
    """Names of more variables that ranks on other hosts need, with their values here."""


@dataclass(frozen=True)
class Dpus:
    """DPUs of a job."""

    shares: tuple[Share, ...] = ()
    """Hosts with service processes on their DPUs: all of the job or none."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """For the ranks."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """Program and options of a run."""

    program: tuple[str, ...]
    ranks: int
    """Sum over all programs."""
    mpi: Mpi
    others: tuple[Section, ...] = ()
    """More programs, on this machine."""
    settings: Settings = field(default_factory=Settings)
    native: bool = False
    """Leave the library out; the placement stays the same."""
    bind: str = binding.BUNCH
    """Placement of ranks, see binding.parse_bind."""
    report: Path | None = None
    """Output file of the library's report, as JSON."""
    trace: Path | None = None
    """Output of the trace's events."""
    where: Where = field(default_factory=Where)
    pretend_nodes: int = 1
    variables: Variables = field(default_factory=Variables)
    library_path: Path | None = None
    """First directory that the ranks' loader searches."""
    dpus: Dpus = field(default_factory=Dpus)

    @property
    def heeds_others(self) -> bool:
        """True if the placement here considers other jobs. On several hosts, each places its ranks by itself."""
        return all(is_this_host(share.host.name) for share in self.where.shares)

    def place_command(self, artifacts: Artifacts, ranks: int) -> list[str]:
        """Command that prints the placement of this many ranks of a host."""
        command = binding.place_command(
            artifacts.daemon, self.bind, self.settings.services, ranks, self.pretend_nodes, keep=self.kept_cores()
        )  # fmt: skip
        return [*command, binding.HEED_OTHERS] if self.heeds_others else command

    @property
    def copy_cpus(self) -> str | None:
        """CPUs of ranks' copiers, which exist only beside DPUs."""
        return self.settings.copy_cpus if self.dpus.shares else None

    def kept_cores(self) -> list[str]:
        """Cores for service processes, for `outriggerd place` and `exec`.

        A core that ranks need costs more than overlap gains, unless the user fixes the choice.
        """
        if self.dpus.shares or self.settings.services == 0:
            return [binding.KEEP_NO_CORE, *(["--copy-cpus", self.copy_cpus] if self.copy_cpus else [])]
        return [] if self.settings.is_fixed() else [binding.KEEP_SPARE_ONLY]


@dataclass(frozen=True)
class Plan:
    """Command of a job and its added environment, ready to be shown or started."""

    daemon: Path
    """Program that starts the command."""
    command: tuple[str, ...]
    environment: Mapping[str, str]
    placement: NodeBinding
    """On this machine; empty if all ranks are on others."""
    notes: tuple[str, ...] = field(default=())


def _mpi_environment(mpi: Mpi) -> dict[str, str]:
    if mpi.implementation == "openmpi" and os.geteuid() == 0:
        return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return {}


def offload_environment(job: Job, artifacts: Artifacts) -> dict[str, str]:
    """Variables of the library for the ranks."""
    if job.native:
        return {settings.ENABLE: "0"}
    variables = {settings.DAEMON: str(artifacts.daemon), **job.settings.environment(), **job.dpus.environment}
    if job.pretend_nodes > 1:
        variables[settings.PRETEND_NODES] = str(job.pretend_nodes)
    if job.report is not None:
        variables[settings.REPORT] = str(job.report)
    if job.trace is not None:
        variables[settings.TRACE] = str(job.trace)
    return variables


def _mpi4py_environment(job: Job) -> dict[str, str]:
    programs = (job.program[0], *(section.program[0] for section in job.others))
    if not any(is_python(Path(program)) or program.endswith(".py") for program in programs):
        return {}
    return choice.mpi4py_environment(job.mpi)


def preload_words(job: Job, artifacts: Artifacts, environment: Mapping[str, str]) -> list[str]:
    """The libraries, for `outriggerd exec`."""
    if job.native:
        return []
    given = {**os.environ, **environment, **job.variables.values}
    libraries = [artifacts.heap] if settings.uses_heap(given) else []
    return ["--preload", ":".join(map(str, [*libraries, artifacts.preload(job.mpi.family)]))]


def _wrapper(job: Job, artifacts: Artifacts, environment: Mapping[str, str], node: NodeBinding) -> list[str]:
    """Prefix of the program: binds on the node itself, and keeps the launcher unbound and without the library."""
    words = [str(artifacts.daemon), "exec"]
    if job.bind != binding.NONE:
        words += ["--bind", job.bind]
        if job.settings.services is not None:
            words += ["--services", str(job.settings.services)]
        words += job.kept_cores()
        words += binding.others_options(node)
    words += preload_words(job, artifacts, environment)
    return [*words, "--"] if len(words) > 2 else []


def _with_variables(values: Mapping[str, str], command: Sequence[str]) -> list[str]:
    """Sets variables for ranks on the node, so that the launcher and this command's own processes lack them."""
    if not values:
        return list(command)
    guard = ["/bin/sh", "-c", 'exec "$0" "$@"'] if "=" in command[0] else []  # env would take it for a variable
    return ["/usr/bin/env", *(f"{name}={value}" for name, value in values.items()), *guard, *command]


def _other_jobs_note(node: NodeBinding) -> list[str]:
    """Note about cores shared with other jobs, for lack of free ones or on request."""
    parts = []
    for who in dict.fromkeys(job.who for job in node.other_jobs):
        cpus = [job.cpu for job in node.other_jobs if job.who == who]
        services = [cpu for cpu in cpus if set(node.core_of(cpu)) & set(node.service_cpus)]
        ranks = [cpu for cpu in cpus if cpu not in services and set(node.core_of(cpu)) & set(node.rank_cpus)]
        shared = [
            f"{'CPU' if len(found) == 1 else 'CPUs'} {format_cpu_list(found)}, where {what}"
            for found, what in ((services, "service processes yield"), (ranks, "ranks of this job run"))
            if found
        ]
        parts += [f"{who} also has {', and '.join(shared)}"] if shared else []
    return ["; ".join(parts)] if parts else []


def _notes(job: Job, node: NodeBinding) -> list[str]:
    """Notes for the user about the placement."""
    return [*_other_jobs_note(node), *_services_notes(job, node)]


def _services_notes(job: Job, node: NodeBinding) -> list[str]:
    if job.bind == binding.NONE or job.native or job.dpus.shares or not any(rank.cpus for rank in node.ranks):
        return []
    if not node.service_cpus and node.cores == 1:
        return ["only one core may be used here: service processes share it with the ranks"]
    if not node.service_cpus:
        fixed = job.settings.is_fixed()  # otherwise nothing gets worse
        return ["the ranks leave no core free: service processes share theirs"] if fixed else []
    cpus = {service.cpu for service in node.services}
    if job.settings.services is not None and len(cpus) < len(node.services):
        return [f"{len(node.services)} service processes share {len(cpus)} of {node.cores} cores"]
    return []


def _passed(job: Job, environment: Mapping[str, str]) -> list[str]:
    """Variables that Open MPI must forward. Its own are forwarded anyway."""
    names = {name for name in environment if not name.startswith("OMPI_")} | set(job.variables.passed)
    if job.where.shares:
        names |= {name for name in os.environ if name in _PASSED_IF_SET or name.startswith(_PASSED_PREFIXES)}
    return sorted(names.difference(_NOT_PASSED))


def _start(job: Job, artifacts: Artifacts, environment: Mapping[str, str], node: NodeBinding) -> launchers.Started:
    where = job.where
    wrapper = _wrapper(job, artifacts, environment, node)
    program = _with_variables(job.variables.values, [*wrapper, *job.program])
    for section in job.others:
        own = section.variables
        values = {name: value for name, value in job.variables.values.items() if name not in own}
        program += [SEPARATOR, *section.options, *_with_variables(values, [*wrapper, *section.program])]
    ranks = job.ranks - sum(section.ranks for section in job.others)
    start = launchers.Start(job.mpi, ranks, tuple(program), where.shares, where.agent, _passed(job, environment))
    if where.slurm:
        return launchers.srun(start, where.mpi_type, as_allocated=where.as_allocated)
    return launchers.mpiexec(start)


def _ranks_here(job: Job) -> int:
    """Number of ranks on this machine."""
    if not job.where.shares:
        return job.ranks
    return sum(share.ranks for share in job.where.shares if is_this_host(share.host.name))


def _placed(job: Job, artifacts: Artifacts) -> tuple[Job, NodeBinding, list[str]]:
    """Placement on this machine, with notes for the user.

    Other hosts place their ranks by their own cores. If this machine's cores are unknown, the job is unbound.
    """
    ranks = _ranks_here(job)
    if ranks == 0:
        return job, binding.UNPLACED, []
    try:
        node = binding.ask_for_help(job.place_command(artifacts, ranks))
    except binding.NotKnownError as error:
        bound = job.bind != binding.NONE
        return replace(job, bind=binding.NONE), binding.UNPLACED, [f"ranks are not bound: {error}"] if bound else []
    except UserError:
        if job.bind == binding.NONE:  # more ranks than can be placed
            return job, binding.UNPLACED, []
        raise
    return job, node, _notes(job, node)


def _claimed(job: Job, artifacts: Artifacts) -> tuple[Job, NodeBinding, list[str]]:
    """The placement, with a claim on its cores: of two simultaneous commands, one plans again."""
    for _ in range(_PLANS):
        placed = _placed(job, artifacts)
        if claims.hold(placed[1], parse_cpu_list(job.copy_cpus) if job.copy_cpus else ()):
            break
    return placed


def make_plan(job: Job, artifacts: Artifacts, *, claim: bool = False) -> Plan:
    """Command for a job. `claim`: reserves its cores on this machine until this process ends."""
    check_ranks(job.ranks)
    claims.word()
    job, node, notes = _claimed(job, artifacts) if claim and job.heeds_others else _placed(job, artifacts)
    environment = {
        **_mpi_environment(job.mpi),
        **_mpi4py_environment(job),
        **(choice.with_library_path(job.library_path) if job.library_path is not None else {}),
        **offload_environment(job, artifacts),
    }
    started = _start(job, artifacts, environment, node)
    environment.update(started.environment)
    return Plan(artifacts.daemon, started.command, environment, node, tuple(notes))


def exit_code(returncode: int) -> int:
    """Exit code of a shell: 128 + the signal if a signal ended the process."""
    return 128 - returncode if returncode < 0 else returncode


def run(
    plan: Plan, *, capture: bool = False, timeout_s: float | None = None, looks: Callable[[], None] | None = None
) -> tuple[int, str]:
    """Runs a plan to its end; returns the exit code and, with `capture`, its standard output. `looks` is called
    regularly.

    Signals for this command are forwarded to the launcher, and end this command only by ending the launcher.
    """
    environment = {**os.environ, **plan.environment}
    process = JobProcess(plan.daemon, plan.command, environment, capture=capture, looks=looks)
    code, output = process.run(timeout_s)
    if capture and process.interrupted:
        return exit_code(-signal.SIGINT), ""
    return exit_code(code), output.decode(errors="replace")


def run_into(
    plan: Plan, output: IO[bytes], *, timeout_s: float | None = None, looks: Callable[[], None] | None = None
) -> int:
    """The same with output and errors into a file."""
    environment = {**os.environ, **plan.environment}
    process = JobProcess(plan.daemon, plan.command, environment, capture=False, into=output, looks=looks)
    code, _ = process.run(timeout_s)
    if process.interrupted:
        raise KeyboardInterrupt
    return exit_code(code)


def as_shell(plan: Plan) -> str:
    """A plan as a command to paste into a shell."""
    variables = [f"{name}={shlex.quote(value)}" for name, value in plan.environment.items()]
    return " ".join([*variables, shlex.join(plan.command)])
