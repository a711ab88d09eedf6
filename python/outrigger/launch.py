"""Starting an MPI program: the command, its environment, and waiting for it."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from outrigger.artifacts import Artifacts
from outrigger.cores import Core, Placement, format_cpu_list, place
from outrigger.errors import UserError
from outrigger.mpis import Mpi, is_python
from outrigger.settings import Settings

_SECONDS_TO_END = 5.0


@dataclass(frozen=True)
class Job:
    """What is to be run."""

    program: tuple[str, ...]
    ranks: int
    mpi: Mpi
    settings: Settings = field(default_factory=Settings)
    native: bool = False
    """Leave the library out; the placement stays the same."""
    bind: bool = True
    report: Path | None = None
    """Where the library writes its report, as JSON."""


@dataclass(frozen=True)
class Plan:
    """A job's command and what is added to the environment, ready to be shown or started."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    placement: Placement
    notes: tuple[str, ...] = field(default=())


def _launcher_options(mpi: Mpi, ranks: int) -> list[str]:
    options = [str(mpi.launcher), "-n", str(ranks)]
    if mpi.family == "openmpi":
        options += ["--bind-to", "none", "--oversubscribe"]
    return options


def _mpi_environment(mpi: Mpi, placement: Placement) -> dict[str, str]:
    """What the MPI needs to be at its best in this placement."""
    variables: dict[str, str] = {}
    if mpi.family == "openmpi":
        if os.geteuid() == 0:
            variables |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        if placement.oversubscribed:
            variables["OMPI_MCA_mpi_yield_when_idle"] = "1"
    return variables


def _offload_environment(job: Job, artifacts: Artifacts, placement: Placement) -> dict[str, str]:
    if job.native:
        return {"OUTRIGGER_ENABLE": "0"}
    variables = {"OUTRIGGER_DAEMON": str(artifacts.daemon), **job.settings.environment()}
    if placement.service_cpus:
        variables["OUTRIGGER_SERVICE_CPUS"] = ",".join(map(str, placement.service_cpus))
    if job.report is not None:
        variables["OUTRIGGER_REPORT"] = str(job.report)
    return variables


def _mpi4py_environment(job: Job) -> dict[str, str]:
    """An mpi4py that takes any MPI is told which, or it would take the first it finds."""
    if not is_python(Path(job.program[0])) and not job.program[0].endswith(".py"):
        return {}
    variables = {"MPI4PY_MPIABI": job.mpi.family}
    if job.mpi.library is not None:
        variables["MPI4PY_LIBMPI"] = str(job.mpi.library)
    return variables


def _wrapper(job: Job, artifacts: Artifacts, placement: Placement) -> list[str]:
    """Put before the program, so that the launcher itself is neither bound nor preloaded."""
    words = [str(artifacts.daemon), "exec"]
    if job.bind:
        lists = placement.core_of_rank or (placement.rank_cpus,)
        words += ["--cpus", ";".join(map(format_cpu_list, lists))]
    if not job.native:
        words += ["--preload", str(artifacts.preload(job.mpi.family))]
    return [*words, "--"] if len(words) > 2 else []


def _notes(job: Job, cores: Sequence[Core], placement: Placement) -> list[str]:
    notes = []
    if job.bind and not placement.service_cpus and not job.native:
        notes.append("only one core may be used here: service processes share it with the ranks")
    wanted = job.settings.services or 1
    if job.bind and not job.native and placement.service_cpus and len(placement.service_cpus) < wanted:
        notes.append(f"{wanted} service processes share {len(placement.service_cpus)} of {len(cores)} cores")
    return notes


def make_plan(job: Job, artifacts: Artifacts, cores: Sequence[Core]) -> Plan:
    """The command for a job on cores that may be used."""
    if job.ranks < 1:
        raise UserError(f"-n {job.ranks}: at least one rank is needed")
    placement = place(cores, job.ranks, job.settings.services, bind=job.bind)
    environment = {
        **_mpi_environment(job.mpi, placement),
        **_mpi4py_environment(job),
        **_offload_environment(job, artifacts, placement),
    }
    command = _launcher_options(job.mpi, job.ranks)
    if job.mpi.family == "openmpi":
        for name in sorted(environment):
            if not name.startswith("OMPI_"):
                command += ["-x", name]
    command += [*_wrapper(job, artifacts, placement), *job.program]
    return Plan(tuple(command), environment, placement, tuple(_notes(job, cores, placement)))


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


@contextlib.contextmanager
def _signals_passed_to(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """While the program runs, a SIGTERM or SIGHUP for this command is one for the launcher."""

    def pass_on(number: int, _frame: object) -> None:
        process.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run(plan: Plan, *, capture: bool = False, timeout_s: float | None = None) -> tuple[int, str]:
    """Starts a plan and waits for its end: the exit code, and with `capture` what it printed to stdout.

    Ctrl-C reaches the launcher as well, since it is in the same process group; this waits for it to end its ranks.
    """
    process = subprocess.Popen(
        plan.command,
        env={**os.environ, **plan.environment},
        stdin=subprocess.DEVNULL if capture else None,
        stdout=subprocess.PIPE if capture else None,
    )
    with _signals_passed_to(process):
        try:
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
