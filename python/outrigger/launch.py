"""Starting an MPI program: the command, its environment, and waiting for it."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from outrigger import binding, choice, launchers, settings, signals
from outrigger.artifacts import Artifacts
from outrigger.binding import NodeBinding
from outrigger.errors import UserError
from outrigger.hostfile import is_this_host
from outrigger.hosts import Where
from outrigger.linked import is_python
from outrigger.mpis import Mpi
from outrigger.plan import Share
from outrigger.settings import Settings

_SECONDS_TO_END = 5.0
# What ranks on another host get from this environment beside what is ours.
_PASSED_IF_SET = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")
_PASSED_PREFIXES = ("OUTRIGGER_", "OMP_", "UCX_")
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
    mpi: Mpi
    settings: Settings = field(default_factory=Settings)
    native: bool = False
    """Leave the library out; the placement stays the same."""
    bind: str = binding.BUNCH
    """How ranks are placed, see binding.parse_bind."""
    report: Path | None = None
    """Where the library writes its report, as JSON."""
    where: Where = field(default_factory=Where)
    pretend_nodes: int = 1
    variables: Variables = field(default_factory=Variables)
    library_path: Path | None = None
    """Where the ranks' loader looks first."""
    dpus: Dpus = field(default_factory=Dpus)

    def place_command(self, artifacts: Artifacts, ranks: int) -> list[str]:
        """The command that says where so many ranks of a host go."""
        return binding.place_command(
            artifacts.daemon, self.bind, self.settings.services, ranks, self.pretend_nodes,
            on_dpu=bool(self.dpus.shares),
        )  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """A job's command and what is added to the environment, ready to be shown or started."""

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
    return variables


def _mpi4py_environment(job: Job) -> dict[str, str]:
    if not is_python(Path(job.program[0])) and not job.program[0].endswith(".py"):
        return {}
    return choice.mpi4py_environment(job.mpi)


def _wrapper(job: Job, artifacts: Artifacts, environment: Mapping[str, str]) -> list[str]:
    """Put before the program: binds on the node itself, and keeps the launcher from being bound or preloaded."""
    words = [str(artifacts.daemon), "exec"]
    if job.bind != binding.NONE:
        words += ["--bind", job.bind]
        if job.settings.services is not None:
            words += ["--services", str(job.settings.services)]
        words += [binding.KEEP_NO_CORE] if job.dpus.shares else []
    if not job.native:
        libraries = [artifacts.heap] if settings.uses_heap({**os.environ, **environment}) else []
        words += ["--preload", ":".join(map(str, [*libraries, artifacts.preload(job.mpi.family)]))]
    return [*words, "--"] if len(words) > 2 else []


def _notes(job: Job, node: NodeBinding) -> list[str]:
    """What the user should know of the placement."""
    if job.bind == binding.NONE or job.native or job.dpus.shares or not any(rank.cpus for rank in node.ranks):
        return []
    if not node.service_cpus and node.cores == 1:
        return ["only one core may be used here: service processes share it with the ranks"]
    if not node.service_cpus:
        return ["the ranks leave no core free: service processes share theirs"]
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


def _start(job: Job, artifacts: Artifacts, environment: Mapping[str, str]) -> launchers.Started:
    where = job.where
    program = (*_wrapper(job, artifacts, environment), *job.program)
    start = launchers.Start(job.mpi, job.ranks, program, where.shares, where.agent, _passed(job, environment))
    if where.slurm:
        return launchers.srun(start, where.mpi_type, as_allocated=where.as_allocated)
    return launchers.mpiexec(start)


def _ranks_here(job: Job) -> int:
    """How many ranks this machine gets."""
    if not job.where.shares:
        return job.ranks
    return sum(share.ranks for share in job.where.shares if is_this_host(share.host.name))


def _place_here(job: Job, artifacts: Artifacts) -> NodeBinding:
    """The placement on this machine; other hosts find theirs by themselves, from their own cores."""
    ranks = _ranks_here(job)
    if ranks == 0:
        return NodeBinding((), (), (), ())
    return binding.ask(job.place_command(artifacts, ranks))


def make_plan(job: Job, artifacts: Artifacts) -> Plan:
    """The command for a job."""
    if job.ranks < 1:
        raise UserError(f"-n {job.ranks}: at least one rank is needed")
    node = _place_here(job, artifacts)
    environment = {
        **_mpi_environment(job.mpi),
        **_mpi4py_environment(job),
        **(choice.with_library_path(job.library_path) if job.library_path is not None else {}),
        **_offload_environment(job, artifacts),
        **job.variables.values,
    }
    started = _start(job, artifacts, environment)
    return Plan(started.command, {**environment, **started.environment}, node, tuple(_notes(job, node)))


def exit_code(returncode: int) -> int:
    """What a shell would say: 128 + the signal for a process that a signal ended."""
    return 128 - returncode if returncode < 0 else returncode


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a launcher and with it its ranks: kindly, then by force."""
    process.terminate()
    try:
        process.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()


class _Signals:
    """While the program runs, a SIGTERM or SIGHUP for this command is one for the launcher.

    From before it is started: what comes until it is known is kept for it, Ctrl-C as well.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []
        every = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
        self._before = {number: handler for number, handler in every.items() if handler != signal.SIG_IGN}

    def __enter__(self) -> _Signals:
        for number in self._before:
            signal.signal(number, self._take)
        return self

    def __exit__(self, *_: object) -> None:
        signals.put_back(self._before)

    def _take(self, number: int, _frame: object) -> None:
        if self._process is None:
            self._early.append(number)
        else:
            self._process.send_signal(number)

    def are_for(self, process: subprocess.Popen[bytes]) -> None:
        """From now on Ctrl-C is a KeyboardInterrupt again."""
        if signal.SIGINT in self._before:
            signals.put_back({signal.SIGINT: self._before[signal.SIGINT]})
        self._process = process
        for number in self._early:
            process.send_signal(number)
        if signal.SIGINT in self._early:
            raise KeyboardInterrupt


def run(plan: Plan, *, capture: bool = False, timeout_s: float | None = None) -> tuple[int, str]:
    """Starts a plan and waits for its end: the exit code, and with `capture` what it printed to stdout.

    Ctrl-C reaches the launcher as well, since it is in the same process group; this waits for it to end its ranks.
    """
    with _Signals() as held:
        process = subprocess.Popen(
            plan.command,
            env={**os.environ, **plan.environment},
            stdin=subprocess.DEVNULL if capture else None,
            stdout=subprocess.PIPE if capture else None,
        )
        try:
            held.are_for(process)
            output, _ = process.communicate(timeout=timeout_s)
        except KeyboardInterrupt:
            try:
                process.wait(_SECONDS_TO_END)
            except (subprocess.TimeoutExpired, KeyboardInterrupt):
                _end(process)
            return 130, ""
        except subprocess.TimeoutExpired:
            _end(process)
            raise UserError(f"still running after {timeout_s:.0f} s, ended: {' '.join(plan.command)}") from None
    return exit_code(process.returncode), (output or b"").decode(errors="replace")


def as_shell(plan: Plan) -> str:
    """A plan as a command to paste into a shell."""
    variables = [f"{name}={shlex.quote(value)}" for name, value in plan.environment.items()]
    return " ".join([*variables, shlex.join(plan.command)])
