"""`outrigger run`: from the user's request to the end of the program."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType

from rich.console import Console

from outrigger import (
    binding,
    choice,
    dpu_process,
    dpus,
    energy,
    launch,
    launchers,
    learned,
    linked,
    mpis,
    plan,
    report,
    report_end,
    run_mpiexec,
    run_torch,
    scratch,
    sections,
    settings,
    tables,
)
from outrigger.artifacts import Artifacts
from outrigger.binding import NodeBinding
from outrigger.errors import UserError
from outrigger.hostfile import Host, is_this_host
from outrigger.hosts import Hosts, dpu_shares, find_where, report_directory
from outrigger.launch import Job
from outrigger.out import check_file
from outrigger.report_torch_data import TorchReport
from outrigger.settings import Settings
from outrigger.terminal import console, give_up_output, note
from outrigger.trace import collect

_ASKED_AT_ONCE = 16
_LIKE_THIS = "if it is like this machine"
_COUNTS, _EVENTS = "counts", "events"
"""Directories in the command of a dry run."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """The user's request."""

    program: tuple[str, ...]
    ranks: int
    mpi: str
    settings: Settings
    hosts: Hosts
    bind: str
    variables: launch.Variables = field(default_factory=launch.Variables)
    dpu_daemon: str | None = None
    report: bool = False
    """On the terminal."""
    report_to: Path | None = None
    trace_to: str | None = None
    native: bool = False
    dry_run: bool = False
    show_binding: bool = False
    command: str = ""
    """As the user gave it, for the report."""

    def check(self) -> None:
        """Rejects impossible values and combinations."""
        plan.check_ranks(self.ranks)
        first = self.program[0]
        if self.report and first.endswith(".json"):
            raise UserError(f"--report {first}: --report prints the report; --report-to {first} writes it")
        if self.native and (self.report or self.report_to):
            raise UserError("--native leaves the library out, so there is nothing to report")
        if self.settings.live and (self.native or self.settings.services == 0):
            without = "--native" if self.native else "--services 0"
            raise UserError(f"--live: jobs publish live data by a process of their nodes, which {without} leaves out")
        if self.trace_to and self.report_to and Path(self.trace_to).resolve() == self.report_to.resolve():
            raise UserError(f"--trace {self.trace_to} and --report-to name one file; give each its own")
        if self.native and self.trace_to:
            raise UserError("--native leaves the library out, so there is nothing to trace")
        if self.native and self.hosts.pretend_nodes > 1:
            raise UserError("--native leaves the library out, which is needed for --pretend-nodes")


def parse_variables(words: Sequence[str]) -> launch.Variables:
    """-x NAME=VALUE and -x NAME."""
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
    return launch.Variables(values, tuple(names))


Start = Callable[[launch.Plan, Callable[[], None]], int]
"""Starts a plan, calls the function regularly until its end, and returns the exit code."""


def _start(planned: launch.Plan, looks: Callable[[], None]) -> int:
    return launch.run(planned, looks=looks)[0]


def _with_environment(request: Request, found: Artifacts) -> tuple[Request, Mapping[str, str], str | None]:
    """The request with the settings of this shell, the ranks' variables, and a note about unknown ones."""
    environment = {**os.environ, **request.settings.environment(), **request.variables.values}
    unknown = settings.check_names(found, environment)
    request = replace(request, settings=request.settings.as_in(environment, found))
    request.check()
    return request, environment, unknown


class _Run:
    """A job and its DPUs, from the request to the program's exit code."""

    def __init__(self, request: Request, found: Artifacts, start: Start, say: Callable[[str], None]) -> None:
        self._start_plan = start
        self._say = say
        request, environment, self._unknown = _with_environment(request, found)
        self._request = request
        self._trace = None if request.trace_to is None else _trace_file(Path(request.trace_to))
        self._found = found
        self._program, self._others = sections.split(request.program)
        self._ranks = request.ranks + sum(section.ranks for section in self._others)
        plan.check_ranks(self._ranks)
        for section in self._others:
            linked.find_program(section.program[0])
        self._choice = choice.choose(request.mpi, linked.find_program(self._program[0]), mpis.find_all_mpis())
        self._where = find_where(request.hosts, self._ranks, self._choice.mpi.implementation, os.environ)
        if self._others and self._where.shares:
            raise UserError(
                f"several programs, with '{sections.SEPARATOR}', are started on this machine alone; on several hosts "
                "call mpiexec itself, with `outrigger env --options mpiexec`"
            )
        self._planned = dpu_shares(self._where, allowed=settings.allows_dpus(found, environment))
        self._how = dpu_process.Way()
        if self._planned:
            self._how = dpu_process.way(
                request.hosts.agent, request.settings.services, environment, slurm=self._where.slurm,
                daemon=request.dpu_daemon,
            )  # fmt: skip

    def _job(self, fleet: dpus.Fleet, written: Path | None) -> Job:
        request = self._request
        named = request.dry_run and not request.native
        return Job(
            program=self._program,
            ranks=self._ranks,
            others=self._others,
            mpi=self._choice.mpi,
            settings=request.settings,
            native=request.native,
            bind=request.bind,
            report=written,
            trace=None if self._trace is None else collect.events_path(self._trace),
            where=self._where,
            pretend_nodes=request.hosts.pretend_nodes,
            variables=request.variables,
            library_path=self._choice.library_path,
            dpus=launch.Dpus(
                () if fleet.problem else self._planned,
                dpus.placeholders(self._planned) if named else fleet.environment(),
            ),
        )

    def _show_dry_run(self, planned: launch.Plan) -> None:
        for line in [] if self._request.native else dpus.as_comments(self._planned, self._how):
            print(line)
        print(launch.as_shell(planned))

    def _show_binding(self, job: Job, fleet: dpus.Fleet) -> None:
        request = self._request
        screen = console(stderr=not request.dry_run)
        show_binding(screen, job, self._found, ask_hosts=not request.dry_run, ready=fleet.ready())

    def _start(self, fleet: dpus.Fleet, written: Path | None) -> int:
        request = self._request
        job = self._job(fleet, written)
        planned = launch.make_plan(job, self._found, claim=not request.dry_run)
        for line in filter(None, (self._unknown, self._choice.note, fleet.problem, *planned.notes)):
            self._say(line)
        if request.show_binding:
            self._show_binding(job, fleet)
        if request.dry_run:
            self._show_dry_run(planned)
            return 0
        here = all(is_this_host(share.host.name) for share in self._where.shares)
        results = _Results(request, job, written, self._trace, is_here=here)
        code = _start_and_settle(results, planned, self._start_plan, fleet.pass_on_logs, self._say)
        for line in fleet.notes():
            self._say(line)
        _show_wanted_report(request, written, self._say)
        return code

    def run(self) -> int:
        """Returns the exit code."""
        request = self._request
        starts = not (request.native or request.dry_run)
        with (
            _report_path(request, report_directory(self._where)) as written,
            dpus.started(self._planned if starts else (), self._how) as fleet,
        ):
            return self._start(fleet, written)


@dataclass(frozen=True)
class _Results:
    """Files that a job of an MPI writes."""

    request: Request
    job: Job
    report: Path | None
    trace: Path | None
    is_here: bool
    """The report is; otherwise it may be on another host."""


def _start_and_settle(
    results: _Results,
    planned: launch.Plan,
    start: Start,
    looks: Callable[[], None],
    say: Callable[[str], None],
) -> int:
    """Starts a job, calls `looks` meanwhile, completes its files and returns its exit code."""
    if results.report is not None:
        report_end.forget(results.report)
    if results.trace is not None:
        collect.forget(results.trace)
    started = datetime.now().astimezone()
    with energy.metering() as meter:

        def look() -> None:
            looks()
            meter.look_in_time()

        code = start(planned, look)
    if results.trace is not None:
        with _saying_errors(say):
            say(collect.finish(results.trace, planned.placement.cores))
    if results.report is not None and (results.is_here or results.report.exists()):
        title = results.job.mpi.title
        with _saying_errors(say):
            report_end.settle(results.report, code, mpi=title, ranks=results.job.ranks)
            report_end.note_run(results.report, results.request.command, title, started)
            report_end.note_energy(results.report, meter.joules)
    return code


@contextlib.contextmanager
def _saying_errors(say: Callable[[str], None]) -> Iterator[None]:
    """After the program has run, a failure to write one file must not prevent the others or change the exit code."""
    try:
        yield
    except UserError as error:
        say(str(error))
    except OSError as error:
        give_up_output(error)


def run(
    request: Request,
    found: Artifacts,
    *,
    start: Start = _start,
    say: Callable[[str], None] = note,
) -> int:
    """Runs the program and returns its exit code. `start` starts it, `say` prints notes for the user."""
    if run_mpiexec.is_mpiexec(request.program):
        return _run_mpiexec(request, found, start, say)
    if _concerns_torch(request) and run_torch.is_torchrun(request.program):
        return _run_torchrun(request, found, start, say)
    return _Run(request, found, start, say).run()


def _reports(request: Request) -> bool:
    return request.report or request.report_to is not None


def _concerns_torch(request: Request) -> bool:
    """True for options that jobs of torchrun have. Without one, torchrun is started as any other program."""
    own = request.settings
    return _reports(request) or request.trace_to is not None or own.live or own.services is not None


def _refuse(given: Mapping[str, bool], why: str) -> None:
    """Rejects options, by their names, if one was given."""
    if wrong := [name for name, is_given in given.items() if is_given]:
        raise UserError(f"{', '.join(wrong)}: {why}")


def _places_ranks(request: Request) -> dict[str, bool]:
    """Options for the start and the placement of ranks: were they given?"""
    hosts = request.hosts
    return {
        "-n": request.ranks != 1,
        "--hostfile": hosts.hostfile is not None,
        "--dpufile": hosts.dpufile is not None,
        "--dpu-pattern": hosts.dpu_pattern is not None,
        "--dpu-daemon": request.dpu_daemon is not None,
        "--launcher": hosts.launcher != Hosts.launcher,
        "--launch-agent": hosts.agent != Hosts.agent,
        "--oversubscribe": hosts.oversubscribe,
        "--pretend-nodes": hosts.pretend_nodes != 1,
        "--no-bind": request.bind == binding.NONE,
        "--bind": request.bind not in (binding.BUNCH, binding.NONE),
        "--show-binding": request.show_binding,
    }


def _check_torchrun(request: Request) -> None:
    replace(request, settings=replace(request.settings, services=None)).check()
    _refuse(
        {
            **_places_ranks(request),
            "--mpi": request.mpi != choice.AUTO,
            "--native": request.native,
            "options for offloading": request.settings
            != Settings(live=request.settings.live, services=request.settings.services),
        },
        "such options are for MPI jobs. torchrun starts the ranks of this one: give it --nproc-per-node and --nnodes",
    )


def _run_mpiexec(request: Request, found: Artifacts, start: Start, say: Callable[[str], None]) -> int:
    """The user's own launcher starts and places the ranks."""
    variables = request.variables
    given = {**_places_ranks(request), "-x": bool(variables.values or variables.passed)}
    launcher = Path(run_mpiexec.launcher_of(request.program)).name
    _refuse(
        given,
        f"{launcher} starts and places the ranks of this command: use its own options, or name the program alone, as "
        "in `outrigger run -n 4 -- ./program`",
    )
    request, _, unknown = _with_environment(request, found)
    chosen = run_mpiexec.choose(request.program, request.mpi)
    trace = None if request.trace_to is None else _trace_file(Path(request.trace_to))
    with _report_path(request, None) as written:
        job = Job(
            program=request.program,
            ranks=request.ranks,
            mpi=chosen.mpi,
            settings=request.settings,
            native=request.native,
            report=written,
            trace=None if trace is None else collect.events_path(trace),
        )
        planned = run_mpiexec.make_plan(job, found)
        for line in filter(None, (unknown, chosen.note)):
            say(line)
        if request.dry_run:
            print(launch.as_shell(planned))
            return 0
        results = _Results(request, job, written, trace, is_here=False)
        code = _start_and_settle(results, planned, start, lambda: None, say)
        if written is not None and not written.exists():
            say(
                "there is no report: no rank reached MPI_Init under the library, the first one is on another host, or "
                "the command replaces LD_PRELOAD or other variables of this one"
            )
        else:
            _show_wanted_report(request, written, say)
        return code


def _plan_torchrun(request: Request, found: Artifacts, counts: Path | None, events: Path | None) -> launch.Plan:
    """With directories in which the ranks count, and record events."""
    values = {**request.variables.values, **({settings.LIVE: "on"} if request.settings.live else {})}
    values |= {settings.REPORT: str(counts)} if counts is not None and _reports(request) else {}
    values |= {settings.TRACE: str(events)} if events is not None and request.trace_to is not None else {}
    return run_torch.make_plan(request.program, found, values, request.settings.services)


def _show_torchrun(request: Request, found: Artifacts, say: Callable[[str], None]) -> None:
    planned = _plan_torchrun(request, found, Path(_COUNTS), Path(_EVENTS))
    for line in planned.notes:
        say(line)
    if _reports(request):
        say(f"make the directory {_COUNTS} before; `outrigger report {_COUNTS}` shows what ranks have counted there")
    if request.trace_to is not None:
        say(f"make the directory {_EVENTS} before; `outrigger lab replay {_EVENTS}` draws what ranks have done")
    print(launch.as_shell(planned))


def _run_torchrun(request: Request, found: Artifacts, start: Start, say: Callable[[str], None]) -> int:
    """torchrun starts the ranks, and no MPI takes part."""
    _check_torchrun(request)
    trace = None if request.trace_to is None else _trace_file(Path(request.trace_to))
    with _report_path(request, None) as written, _temporary(_reports(request) or trace is not None) as directory:
        if request.dry_run:
            _show_torchrun(request, found, say)
            return 0
        planned = _plan_torchrun(request, found, directory, directory)
        unknown = settings.check_names(found, {**os.environ, **planned.environment})
        for line in filter(None, (unknown, *planned.notes)):
            say(line)
        for old, forget in ((written, report_end.forget), (trace, collect.forget)):
            if old is not None:
                forget(old)
        started = datetime.now().astimezone()
        code = start(planned, lambda: None)
        if trace is not None and directory is not None:
            with _saying_errors(say):
                say(collect.finish_torch(trace, directory))
        if written is not None and directory is not None:
            with _saying_errors(say):
                _write_torch_report(request, run_torch.make_report(directory, code, request.command, started), written)
    return code


def _write_torch_report(request: Request, made: TorchReport, written: Path) -> None:
    if request.report:
        with _saying_errors(note):
            report.show(console(), made)
    if request.report_to is not None:
        run_torch.write_report(written, made)


@contextlib.contextmanager
def _temporary(needed: bool) -> Iterator[Path | None]:
    """A directory for files of the ranks."""
    if not needed:
        yield None
        return
    with scratch.directory() as directory:
        check_file(directory / _COUNTS, "--report, --trace: temporary files")
        yield directory


@contextlib.contextmanager
def _report_path(request: Request, place: Path | None) -> Iterator[Path | None]:
    """Where the library is to write its report; for the terminal alone in a directory of its own."""
    if request.report and request.report_to is None:
        with scratch.directory(place) as directory:
            yield directory / "report.json"
        return
    path = _report_file(request.report_to) if request.report_to is not None else None
    scratch.sweep(place)
    yield path


def _report_file(place: Path) -> Path:
    if place.suffix != ".json":
        raise UserError(
            f"--report-to {place}: a report is written as JSON, so its name ends in .json; --report prints it"
        )
    return check_file(place, "--report-to")


def _trace_file(place: Path) -> Path:
    if not place.name.endswith((".json", ".json.gz")):
        raise UserError(f"--trace {place}: a trace is written as JSON, so its name ends in .json or .json.gz")
    return check_file(place, "--trace")


def show_report(written: Path) -> None:
    """On the terminal."""
    if not written.exists():
        note("there is no report: the program did not reach MPI_Finalize under the library")
        return
    report.show(console(), report.read(written), learned.read_all(learned.place()))


def _show_wanted_report(request: Request, written: Path | None, say: Callable[[str], None]) -> None:
    if request.report and written is not None:
        with _saying_errors(say):
            show_report(written)


def _ask_host(job: Job, artifacts: Artifacts, share: plan.Share) -> NodeBinding | str:
    """Binding on a host, or the reason why it is unknown."""
    command = job.place_command(artifacts, share.ranks)
    if not is_this_host(share.host.name):
        command = launchers.on_node(job.where.agent, share.host.name, command, slurm=job.where.slurm)
    try:
        return binding.ask(command)
    except UserError as error:
        return str(error).splitlines()[0]


def _suppose(job: Job, artifacts: Artifacts, share: plan.Share) -> NodeBinding | str:
    """Binding on a host that is assumed to be like this machine."""
    try:
        return binding.ask(job.place_command(artifacts, share.ranks))
    except UserError as error:
        return str(error)


def dpu_words(
    share: plan.Share, services: int | None, ready: Mapping[str, dpu_process.Ready], ranks_per_service: int
) -> str:
    """Service processes on a host's DPU: as reported by it, or expected before its start."""
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
    ready: Mapping[str, dpu_process.Ready] = MappingProxyType({}),
) -> None:
    """Draws each node; a node equal to an earlier one is only named."""
    each = tables.read(artifacts).limits.ranks_per_service if job.dpus.shares else 0
    dpu_of = {share.host.name: dpu_words(share, job.settings.services, ready, each) for share in job.dpus.shares}
    shares = job.where.shares or (plan.Share(Host(socket.gethostname(), job.ranks), 0, job.ranks),)
    find = _ask_host if ask_hosts else _suppose
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
        nodes = list(pool.map(lambda share: find(job, artifacts, share), shares))
    if job.native or job.settings.services == 0:
        nodes = [node if isinstance(node, str) else node.without_services() for node in nodes]
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
