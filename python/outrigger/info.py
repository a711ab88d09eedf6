"""Finds MPIs, cores and ways to reach memory on this machine, and the reasons for what is missing."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from outrigger import busy, formats, tables
from outrigger.artifacts import Artifacts, find
from outrigger.captured import captured
from outrigger.cores import allowed_cores, format_cpu_list
from outrigger.errors import UserError
from outrigger.mpis import ABI_NAMES, FAMILIES, NAMES, Mpi, find_all_mpis
from outrigger.report import format_bytes

_TIMEOUT_S = 20.0
_WATCHED_S = 0.3


@dataclass(frozen=True, kw_only=True)
class Reach:
    """How this machine's service processes access its ranks' memory."""

    mapped: bool
    cma: bool
    cma_why_not: str = ""
    xpmem: bool
    xpmem_why_not: str = ""
    copier: bool


@dataclass(frozen=True, kw_only=True)
class Wire:
    """Transport to another node."""

    kind: str = ""
    transports: str = ""
    problem: str = ""
    """Not empty: there is none."""


@dataclass(frozen=True, kw_only=True)
class HugePages:
    """For buffers."""

    bytes: int
    """0: there are none."""
    why_not: str


@dataclass(frozen=True)
class Claim:
    """A CPU used by a job."""

    cpu: int
    by: str
    """service or ranks."""
    job: str
    pid: int
    """PID of its keeper or its planning `outrigger run`."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Output of `outriggerd info`, as far as it is used here."""

    version: str
    protocol: int
    reach: Reach
    wire: Wire
    huge_pages: HugePages
    claims: tuple[Claim, ...] = ()


@dataclass(frozen=True)
class Finding:
    """One line: topic, state, remark."""

    name: str
    good: bool
    value: str
    remark: str = ""


@dataclass(frozen=True, kw_only=True)
class FoundMpi:
    """An MPI, and the library for its programs."""

    family: str
    vendor: str
    title: str
    version: str
    launcher: str
    library: str | None
    preload: str | None
    served: bool
    reason: str
    """Reason without a library."""


@dataclass(frozen=True)
class Cores:
    """CPUs and their use."""

    allowed: tuple[tuple[int, ...], ...]
    """By core."""
    ranks: tuple[int, ...]
    services: tuple[int, ...]
    taken: Mapping[int, float]
    """Load by other processes on the services' CPUs."""


@dataclass(frozen=True)
class Daemon:
    """Output of outriggerd about this machine."""

    path: str | None
    problem: str = ""
    """Not empty: there is no output."""
    info: Mapping[str, Any] | None = None
    machine: Machine | None = None
    """Parsed, as far as it is used here."""


@dataclass(frozen=True)
class Variable:
    """One of our variables that is set."""

    value: str
    meaning: str
    """Empty: unknown."""


@dataclass(frozen=True)
class Info:
    """All information of `outrigger info`."""

    mpis: tuple[FoundMpi, ...]
    ucx: str | None
    cores: Cores
    daemon: Daemon
    environment: Mapping[str, Variable]
    reaches: tuple[tables.Reach, ...]

    def data(self) -> dict[str, Any]:
        """For --json."""
        data = asdict(self)
        del data["daemon"]["machine"]
        return data


def _mpi(artifacts: Artifacts | None, mpi: Mpi) -> FoundMpi:
    preload, reason = None, "no build was found"
    if artifacts is not None:
        try:
            preload, reason = str(artifacts.preload(mpi.family)), ""
        except UserError as error:
            reason = str(error)
    return FoundMpi(
        family=mpi.family,
        vendor=mpi.vendor,
        title=mpi.title,
        version=mpi.version,
        launcher=str(mpi.launcher),
        library=str(mpi.library) if mpi.library else None,
        preload=preload,
        served=not reason,
        reason=reason,
    )


def find_ucx() -> str | None:
    """The version of UCX, or None."""
    try:
        library = ctypes.CDLL("libucp.so.0")
        library.ucp_get_version_string.restype = ctypes.c_char_p
        version: bytes = library.ucp_get_version_string()
    except (OSError, AttributeError):
        return None
    return version.decode()


def _daemon(artifacts: Artifacts | None) -> Daemon:
    if artifacts is None:
        return Daemon(None, "no build was found; run ./dev build")
    try:
        path = str(artifacts.daemon)
        # UCX writes its warnings to standard output.
        environment = {"UCX_LOG_FILE": "/dev/stderr", **os.environ}
        result = captured([path, "info", "--json"], _TIMEOUT_S, environment=environment)
        if result.returncode != 0:
            return Daemon(path, result.stderr.strip() or f"exit code {result.returncode}")
        what = f"what {path} info printed"
        machine = formats.parse(result.stdout, Machine, what)
        return Daemon(path, info=formats.parse(result.stdout, dict, what), machine=machine)
    except UserError as error:
        return Daemon(None, str(error))


def _tables(artifacts: Artifacts | None) -> tables.Tables | None:
    """None if the build does not support it."""
    try:
        return None if artifacts is None else tables.read(artifacts)
    except UserError:
        return None


def collect(artifacts: Artifacts | None) -> Info:
    """Collects all of it."""
    sample = busy.Sample.take()
    cores = allowed_cores()
    kept = cores[-1:] if len(cores) > 1 else []
    known = _tables(artifacts)
    meanings = {} if known is None else {row.name: row.meaning for row in known.settings}
    mpis = tuple(_mpi(artifacts, mpi) for mpi in find_all_mpis())
    daemon = _daemon(artifacts)
    sample.wait_for(_WATCHED_S)
    names = sorted(name for name in os.environ if name.startswith("OUTRIGGER_"))
    return Info(
        mpis=mpis,
        ucx=find_ucx(),
        cores=Cores(
            tuple(cores),
            tuple(cpu for core in cores if core not in kept for cpu in core),
            tuple(core[0] for core in kept),
            busy.taken(sample.busy_since(), [core[0] for core in kept]),
        ),
        daemon=daemon,
        environment={name: Variable(os.environ[name], meanings.get(name, "")) for name in names},
        reaches=() if known is None else known.reaches,
    )


def _mpi_finding(found: FoundMpi) -> Finding:
    name = NAMES[found.vendor or found.family]
    value = f"{found.version}, {ABI_NAMES[found.family]}"
    where = f"{found.launcher}, {found.library or 'its libmpi was not found'}"
    if found.preload is None:
        return Finding(name, False, value, f"{where}; cannot be served: {found.reason}")
    return Finding(name, True, value, f"{where}; served by {Path(found.preload).name}")


def _mpi_findings(found: Sequence[FoundMpi]) -> list[Finding]:
    there = {mpi.vendor or mpi.family for mpi in found}
    missing = [name for name in FAMILIES if name not in there]
    return [
        *map(_mpi_finding, found),
        *(Finding(NAMES[name], False, "not found", "its mpiexec is not on PATH") for name in missing),
    ]


def _core_finding(cores: Cores) -> Finding:
    ranks = f"ranks on CPU{'s' if len(cores.ranks) > 1 else ''} {format_cpu_list(cores.ranks)}"
    if not cores.services:
        return Finding("cores", False, ranks, "only one core may be used: service processes share it with the ranks")
    kept = f"service process on CPU {format_cpu_list(cores.services)}"
    if cores.taken:
        why = f"other processes use CPU {busy.in_words(cores.taken)}: collectives are native meanwhile"
        return Finding("cores", False, f"{ranks}, {kept}", why)
    return Finding("cores", True, f"{ranks}, {kept}", "as placed by outrigger run for up to eight ranks")


def job_findings(claims: Sequence[Claim]) -> list[Finding]:
    """One line for each job on cores of this machine."""
    found = []
    for job in dict.fromkeys(claim.job for claim in claims):
        mine = [claim for claim in claims if claim.job == job]
        parts = []
        for by, what in (("ranks", "ranks"), ("service", "service processes")):
            cpus = [claim.cpu for claim in mine if claim.by == by]
            parts += [f"{what} on CPU{'s' if len(cpus) > 1 else ''} {format_cpu_list(cpus)}"] if cpus else []
        pids = sorted({claim.pid for claim in mine})
        who = "process" if len(pids) == 1 else "processes"
        found.append(Finding("job", True, ", ".join(parts), f"{who} {', '.join(map(str, pids))}, {job}"))
    return found


def _daemon_findings(daemon: Daemon, reaches: Sequence[tables.Reach]) -> list[Finding]:
    if daemon.machine is None:
        return [Finding("outriggerd", False, daemon.path or "not found", daemon.problem)]
    machine = daemon.machine
    return [
        Finding("outriggerd", True, daemon.path or ""),
        *job_findings(machine.claims),
        *reach_findings(machine.reach, reaches),
        huge_pages_finding(machine.huge_pages),
        wire_finding(machine.wire),
    ]


def wire_finding(wire: Wire) -> Finding:
    """Transport of a service process to another node like this one."""
    if wire.problem:
        return Finding("wire", False, "none", f"jobs on several nodes run natively: {wire.problem}")
    how = "the network moves memory" if wire.kind == "rdma" else "processors copy"
    return Finding("wire", True, f"{wire.kind} ({wire.transports})", f"to a node like this one; {how}")


def reach_findings(here: Reach, reaches: Sequence[tables.Reach]) -> list[Finding]:
    """Access of service processes to the ranks' memory: available reaches, and those that could be allowed."""
    there = {"mapped": "", "xpmem": here.xpmem_why_not, "cma": here.cma_why_not, "bounce": ""}
    there["copier"] = "" if here.copier else "needs cma"
    return [
        Finding(f"reach {row.name}", False, "no", why)
        if (why := there.get(row.name, "only on a DPU: test with outrigger info --dpufile FILE"))
        else Finding(f"reach {row.name}", True, "yes", f"{row.when}: {row.cost}")
        for row in reaches
        if row.selectable
    ]


def huge_pages_finding(huge: HugePages) -> Finding:
    if not huge.bytes:
        return Finding("huge pages", False, "no", huge.why_not)
    return Finding("huge pages", True, format_bytes(huge.bytes), "for buffers that are copied repeatedly")


def findings(found: Info) -> list[Finding]:
    """The lines of `outrigger info`."""
    return [
        *_mpi_findings(found.mpis),
        _core_finding(found.cores),
        *_daemon_findings(found.daemon, found.reaches),
        Finding("UCX", found.ucx is not None, found.ucx or "not found", "not used between processes of one node"),
        *(
            Finding(name, bool(variable.meaning), variable.value, variable.meaning or "not read")
            for name, variable in found.environment.items()
        ),
    ]


def show(console: Console, found: Info) -> None:
    """Prints the lines as a table."""
    table = Table(show_header=False, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(style="dim", overflow="fold")
    for finding in findings(found):
        mark = "[green]●[/]" if finding.good else "[yellow]○[/]"
        table.add_row(mark, finding.name, escape(finding.value), escape(finding.remark))
    console.print(table)


def run(console: Console, build: Path | None, *, as_json: bool) -> None:
    """`outrigger info`; less without a build."""
    try:
        artifacts = find(build)
    except UserError:
        if build is not None:
            raise
        artifacts = None
    found = collect(artifacts)
    if as_json:
        print(formats.as_json(found.data()))
    else:
        show(console, found)
