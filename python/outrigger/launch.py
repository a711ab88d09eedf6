"""Starting an MPI program: the command, its environment, and waiting for it."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from outrigger import binding, choice, claims, launchers, settings
from outrigger.artifacts import Artifacts
from outrigger.binding import NodeBinding
from outrigger.cores import format_cpu_list
from outrigger.hostfile import is_this_host
from outrigger.hosts import Where
from outrigger.job_process import JobProcess
from outrigger.linked import is_python
from outrigger.mpis import Mpi
from outrigger.plan import Share, check_ranks
from outrigger.sections import SEPARATOR, Section
from outrigger.settings import Settings

# What ranks on another host get from this environment beside what is ours.
_PASSED_IF_SET = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")
_PASSED_PREFIXES = ("OUTRIGGER_", "OMP_", "UCX_")
_PLANS = 8
"""So often others may be faster before a job goes where they are."""
_NOT_PASSED = (settings.BUILD,)  # for this command alone


@dataclass(frozen=True)
class Variables:
    """For the ranks, as asked for with -x."""

    values: Mapping[str, str] = field(default_factory=dict)
    passed: tuple[str, ...] = ()
    """Names of further ones that ranks on other hosts must have, as they are here."""


@dataclass(frozen=True)
class Dpus:
    """Those of a job."""

    shares: tuple[Share, ...] = ()
    """The hosts whose service processes run there: all of the job's, or none."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """What the ranks must know of them."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is to be run."""

    program: tuple[str, ...]
    ranks: int
    """Of all programs."""
    mpi: Mpi
    others: tuple[Section, ...] = ()
    """Further programs, on this machine."""
    settings: Settings = field(default_factory=Settings)
    native: bool = False
    """Leave the library out; the placement stays the same."""
    bind: str = binding.BUNCH
    """How ranks are placed, see binding.parse_bind."""
    report: Path | None = None
    """Where the library writes its report, as JSON."""
    trace: Path | None = None
    """Where it writes the events of a trace."""
    where: Where = field(default_factory=Where)
    pretend_nodes: int = 1
    variables: Variables = field(default_factory=Variables)
    library_path: Path | None = None
    """Where the ranks' loader looks first."""
    dpus: Dpus = field(default_factory=Dpus)

    @property
    def heeds_others(self) -> bool:
        """Whether it is planned here what other jobs have. Ranks on several hosts are placed on each by itself."""
        return all(is_this_host(share.host.name) for share in self.where.shares)

    def place_command(self, artifacts: Artifacts, ranks: int) -> list[str]:
        """The command that says where so many ranks of a host go."""
        command = binding.place_command(
            artifacts.daemon, self.bind, self.settings.services, ranks, self.pretend_nodes, keep=self.kept_cores()
        )  # fmt: skip
        return [*command, binding.HEED_OTHERS] if self.heeds_others else command

    def kept_cores(self) -> list[str]:
        """Which cores service processes are left, for `outriggerd place` and `exec`.

        One that ranks need costs them more than overlap gains. Who fixes the choice wants it all the same.
        """
        if self.dpus.shares or self.settings.services == 0:
            return [binding.KEEP_NO_CORE]
        return [] if self.settings.is_fixed() else [binding.KEEP_SPARE_ONLY]


@dataclass(frozen=True)
class Plan:
    """A job's command and what is added to the environment, ready to be shown or started."""

    daemon: Path
    """Starts the command."""
    command: tuple[str, ...]
    environment: Mapping[str, str]
    placement: NodeBinding
    """Of this machine; empty where all ranks are on others."""
    notes: tuple[str, ...] = field(default=())


def _mpi_environment(mpi: Mpi) -> dict[str, str]:
    if mpi.implementation == "openmpi" and os.geteuid() == 0:
        return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return {}


def _offload_environment(job: Job, artifacts: Artifacts) -> dict[str, str]:
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


def _wrapper(job: Job, artifacts: Artifacts, environment: Mapping[str, str], node: NodeBinding) -> list[str]:
    """Put before the program: binds on the node itself, and keeps the launcher from being bound or preloaded."""
    words = [str(artifacts.daemon), "exec"]
    if job.bind != binding.NONE:
        words += ["--bind", job.bind]
        if job.settings.services is not None:
            words += ["--services", str(job.settings.services)]
        words += job.kept_cores()
        words += binding.others_options(node)
    if not job.native:
        libraries = [artifacts.heap] if settings.uses_heap({**os.environ, **environment}) else []
        words += ["--preload", ":".join(map(str, [*libraries, artifacts.preload(job.mpi.family)]))]
    return [*words, "--"] if len(words) > 2 else []


def _other_jobs_note(node: NodeBinding) -> list[str]:
    """What is shared with other jobs, since there are not enough other cores, or as the user wants it: one note."""
    parts = []
    for who in dict.fromkeys(job.who for job in node.other_jobs):
        cpus = [job.cpu for job in node.other_jobs if job.who == who]
        services = [cpu for cpu in cpus if set(node.core_of(cpu)) & set(node.service_cpus)]
        ranks = [cpu for cpu in cpus if cpu not in services and set(node.core_of(cpu)) & set(node.rank_cpus)]
        shared = [
            f"{'CPU' if len(found) == 1 else 'CPUs'} {format_cpu_list(found)}, where {what}"
            for found, what in ((services, "service processes give way"), (ranks, "ranks of this job run"))
            if found
        ]
        parts += [f"{who} also has {', and '.join(shared)}"] if shared else []
    return ["; ".join(parts)] if parts else []


def _notes(job: Job, node: NodeBinding) -> list[str]:
    """What the user should know of the placement."""
    return [*_other_jobs_note(node), *_services_notes(job, node)]


def _services_notes(job: Job, node: NodeBinding) -> list[str]:
    if job.bind == binding.NONE or job.native or job.dpus.shares or not any(rank.cpus for rank in node.ranks):
        return []
    if not node.service_cpus and node.cores == 1:
        return ["only one core may be used here: service processes share it with the ranks"]
    if not node.service_cpus:
        fixed = job.settings.is_fixed()  # else nothing is the worse for it
        return ["the ranks leave no core free: service processes share theirs"] if fixed else []
    cpus = {service.cpu for service in node.services}
    if job.settings.services is not None and len(cpus) < len(node.services):
        return [f"{len(node.services)} service processes share {len(cpus)} of {node.cores} cores"]
    return []


def _passed(job: Job, environment: Mapping[str, str]) -> list[str]:
    """The variables that Open MPI must be told to carry. Those of its own go by themselves."""
    names = {name for name in environment if not name.startswith("OMPI_")} | set(job.variables.passed)
    if job.where.shares:
        names |= {name for name in os.environ if name in _PASSED_IF_SET or name.startswith(_PASSED_PREFIXES)}
    return sorted(names.difference(_NOT_PASSED))


def _start(job: Job, artifacts: Artifacts, environment: Mapping[str, str], node: NodeBinding) -> launchers.Started:
    where = job.where
    wrapper = _wrapper(job, artifacts, environment, node)
    program = [*wrapper, *job.program]
    for section in job.others:
        program += [SEPARATOR, *section.options, *wrapper, *section.program]
    ranks = job.ranks - sum(section.ranks for section in job.others)
    start = launchers.Start(job.mpi, ranks, tuple(program), where.shares, where.agent, _passed(job, environment))
    if where.slurm:
        return launchers.srun(start, where.mpi_type, as_allocated=where.as_allocated)
    return launchers.mpiexec(start)


def _ranks_here(job: Job) -> int:
    """How many ranks this machine gets."""
    if not job.where.shares:
        return job.ranks
    return sum(share.ranks for share in job.where.shares if is_this_host(share.host.name))


def _placed(job: Job, artifacts: Artifacts) -> tuple[Job, NodeBinding, list[str]]:
    """The placement on this machine, and what the user should know of it.

    Other hosts find theirs by themselves, from their own cores. Where this one's are not known the job is unbound.
    """
    nothing = NodeBinding((), (), (), ())
    ranks = _ranks_here(job)
    if ranks == 0:
        return job, nothing, []
    try:
        node = binding.ask_for_help(job.place_command(artifacts, ranks))
    except binding.NotKnownError as error:
        bound = job.bind != binding.NONE
        return replace(job, bind=binding.NONE), nothing, [f"ranks are not bound: {error}"] if bound else []
    return job, node, _notes(job, node)


def _claimed(job: Job, artifacts: Artifacts) -> tuple[Job, NodeBinding, list[str]]:
    """The placement, with a claim on its cores: of two commands at the same time one plans again."""
    for _ in range(_PLANS):
        placed = _placed(job, artifacts)
        if claims.hold(placed[1]):
            break
    return placed


def make_plan(job: Job, artifacts: Artifacts, *, claim: bool = False) -> Plan:
    """The command for a job. `claim`: until this process ends, no other job is promised its cores on this machine."""
    check_ranks(job.ranks)
    claims.word()
    job, node, notes = _claimed(job, artifacts) if claim and job.heeds_others else _placed(job, artifacts)
    environment = {
        **_mpi_environment(job.mpi),
        **_mpi4py_environment(job),
        **(choice.with_library_path(job.library_path) if job.library_path is not None else {}),
        **_offload_environment(job, artifacts),
        **job.variables.values,
    }
    started = _start(job, artifacts, environment, node)
    environment.update(started.environment)
    return Plan(artifacts.daemon, started.command, environment, node, tuple(notes))


def exit_code(returncode: int) -> int:
    """What a shell would say: 128 + the signal for a process that a signal ended."""
    return 128 - returncode if returncode < 0 else returncode


def run(
    plan: Plan, *, capture: bool = False, timeout_s: float | None = None, looks: Callable[[], None] | None = None
) -> tuple[int, str]:
    """Starts a plan and waits for its end: the exit code, and with `capture` what it printed to stdout. `looks` is
    called now and then meanwhile.

    Signals for this command are for the launcher, and end this only by ending that.
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
    """The same for a program whose output and errors go to a file."""
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
