"""The library's report as data: the JSON written at the end of a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from outrigger import formats
from outrigger.code_places import CodePlace
from outrigger.errors import UserError
from outrigger.report_reasons import in_words

VERSION = 1
_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


@dataclass(frozen=True)
class Spread:
    """Sum over the ranks, with minimum and maximum."""

    sum: float
    min: float
    max: float
    min_rank: int = 0
    """Rank in MPI_COMM_WORLD with the minimum."""
    max_rank: int = 0
    ranks: int = 0
    """Number of ranks in the sum."""

    @property
    def mean(self) -> float:
        """Mean over those ranks."""
        return self.sum / max(self.ranks, 1)


@dataclass(frozen=True, kw_only=True)
class Collective:
    """Figures of one collective on one communicator, over all ranks."""

    collective: str
    communicator: str
    size: int
    calls: int
    offloaded: int
    algorithms: Mapping[str, int]
    """Number of calls by algorithm."""
    native: Mapping[str, int]
    bytes: Mapping[str, int]
    late_announcements: int
    post_seconds: Spread
    """In the starting calls, to their returns."""
    completion_seconds: Spread
    late_seconds: Spread | None = None
    """Time of the posts after those of the first rank of the group. None in older reports."""
    group: str = ""


@dataclass(frozen=True)
class CallBytes:
    """Data sent by a rank in one call, or received if it sends none."""

    calls: int
    """Number of calls with known bytes."""
    sum: int
    min: int
    max: int

    @property
    def mean(self) -> int:
        """Mean per call."""
        return self.sum // max(self.calls, 1)


@dataclass(frozen=True)
class Tests:
    """Calls that tested nonblocking operations, over all ranks."""

    calls: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class BeforeWait:
    """From the start of nonblocking operations to the calls that waited for them, over all ranks."""

    operations: int = 0
    """Those that the program waited for, and that no test had completed."""
    seconds: float = 0.0

    @property
    def mean(self) -> float:
        """Mean per operation."""
        return self.seconds / max(self.operations, 1)


@dataclass(frozen=True, kw_only=True)
class Call:
    """One MPI function on one communicator, offloaded or not, over all ranks."""

    call: str
    form: str
    """`blocking`, `nonblocking` or `persistent`."""
    collective: str | None
    """Name if it can be offloaded."""
    communicator: str
    size: int
    """0: several communicators."""
    calls: int
    offloaded: int
    native: Mapping[str, int]
    bytes: CallBytes
    seconds: Spread
    """In the call and in its waits, of each rank."""
    tests: Tests = Tests()
    before_wait: BeforeWait = BeforeWait()
    group: str = ""
    by_ranks: int = 0
    """Calls that the ranks of a node did by themselves."""
    saved_seconds: float = 0.0
    """Time that all ranks together saved by these calls, as trials have measured."""


@dataclass(frozen=True, kw_only=True)
class Windows:
    """How long data stay unused after calls of one place, over all ranks."""

    calls: int
    """Measured calls."""
    ends: dict[str, int]
    """Their number by how they ended: used, mpi_call or system_call. Without a use a window is at least so long."""
    without: dict[str, int]
    """Calls without a window, by reason."""
    unused_seconds: float
    """Sum over the measured calls, as below."""
    spent_seconds: float
    """In the calls themselves."""
    hidden_seconds: float
    """Part of it that a wait right before the use would hide."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """One kind of call from one place of the program, over all ranks."""

    call: str
    waits: bool = False
    """Completion calls for these operations, not the calls themselves."""
    place: CodePlace | None
    """Innermost frame outside the MPI. None: code that is in no file, or in one beyond the limit."""
    caller: CodePlace | None = None
    """If that is in a library: the call of the library."""
    calls: int
    offloaded: int
    by_ranks: int = 0
    bytes: CallBytes
    seconds: Spread
    windows: Windows | None = None
    """None: not measured."""


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A phase named by the program, over all ranks; time in a nested phase counts only there."""

    phase: str
    entered: int
    calls: int
    offloaded: int
    bytes: int
    seconds: Spread
    """In the phase, of each rank with it."""
    collective_seconds: Spread
    """Part of it in collectives and their waits."""
    outside_seconds: Spread | None = None
    """The rest of it. None in older reports, like those below."""
    meetings: Spread | None = None
    """Number of blocking calls in which all ranks of the job meet."""
    meeting_seconds: Spread | None = None
    """In these."""
    other_seconds: Spread | None = None
    """In other collectives and in waits."""


@dataclass(frozen=True)
class Ended:
    """How the job ended."""

    how: str
    code: int | None = None
    signal: int | None = None
    rank: int | None = None
    text: str = ""


@dataclass(frozen=True)
class WireUse:
    """A transport between nodes, as reported by UCX, and its number of nodes."""

    kind: str
    """`rdma`: the network moves memory to memory; `messages`: processors copy."""
    transports: str
    nodes: int


@dataclass(frozen=True)
class Service:
    """Service processes of the first node."""

    processes: int
    core: int
    """-1: not pinned."""
    core_is_free: bool
    cross_memory_attach: bool
    xpmem: bool = False


@dataclass(frozen=True)
class ServiceProcess:
    """A service process of the job."""

    node: int
    number: int
    core: int
    core_is_free: bool
    core_taken: float | None = None
    """Fraction of its time when others used its core. None: not measured."""
    other_job: int | None = None
    """PID of another job's process on the same core; -1: unknown. None: none."""
    restarts: int = 0
    """Number of times it was killed and replaced."""
    warning: str = ""
    """Reason for the end of offloading; empty: it did not end."""


@dataclass(frozen=True)
class SharedHeap:
    """Over all ranks."""

    allocations: int
    bytes: int
    refused: int
    forks: int


@dataclass(frozen=True)
class Waits:
    """Waits inside the MPI in which ranks gave their cores away, over all ranks."""

    kind: str
    """`polite`: Outrigger's; `own setting`: the MPI's; `native`: none."""
    setting: str
    """The MPI's, as VARIABLE=value; empty: none."""
    naps: int
    slept_seconds: Spread
    yielded_seconds: Spread
    """In yields, from each call to its return."""
    seconds: Spread
    """In these waits."""


@dataclass(frozen=True)
class CpuSeconds:
    """CPU time of the ranks."""

    offloaded_calls: Spread
    process: Spread


@dataclass(frozen=True)
class Run:
    """How `outrigger run` has started the job."""

    command: str
    version: str
    """Outrigger's version."""
    mpi: str
    """With its version."""
    machine: str
    started: str
    """Date and time."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """Report of the library."""

    mpi: str
    program: str = ""
    """Name of the executable, or of an interpreter's script. Empty in older reports."""
    ranks: int
    nodes: int
    wire: tuple[WireUse, ...]
    shared_heap: SharedHeap | None = None
    """None: not enabled."""
    copied_while_waiting: int = 0
    """Bytes counted under `copier` that waiting ranks copied themselves, over all ranks."""
    copied_on_spare_cores: int = 0
    """Likewise, that copiers beside a DPU copied."""
    in_huge_pages: int = 0
    """Bytes of buffers moved to huge pages, over all ranks."""
    waits: Waits | None = None
    """None in older reports."""
    service: Service
    services: tuple[ServiceProcess, ...] = ()
    ended: Ended = Ended("finalized")
    counted_ranks: tuple[tuple[int, int], ...] | None = None
    """Ranges of counted ranks, from and to. None in older reports: all."""
    native_because: str = ""
    """Reason why the whole job ran natively; empty: it did not."""
    run_seconds: Spread | None = None
    """From MPI_Init to the end, of each rank."""
    outside_seconds: Spread | None = None
    """Part of it outside collectives and their waits. None in older reports."""
    run: Run | None = None
    """None: it was not started by `outrigger run`, or on another machine."""
    calls: tuple[Call, ...] = ()
    collectives: tuple[Collective, ...]
    phases: tuple[Phase, ...] = ()
    sites: tuple[Site, ...] = ()
    rank_cpu_seconds: CpuSeconds
    energy_joules: float | None = None
    """The sum over this machine's processors during the run, by `outrigger run`. None: not measured."""

    @property
    def on_dpu(self) -> bool:
        """True if service processes reach the ranks' memory as only those of a DPU do."""
        return any(entry.bytes.get(reach) for entry in self.collectives for reach in ("rdma", "alias"))

    @property
    def no_spare_core(self) -> bool:
        """True if service processes share cores with ranks. Cores of other jobs are reported elsewhere."""
        of_job = any(process.other_job is not None for process in self.services)
        return self.service.processes > 0 and not (self.service.core_is_free or of_job or self.on_dpu)

    @property
    def counted(self) -> int:
        """Number of counted ranks."""
        if self.counted_ranks is None:
            return self.ranks
        return sum(last - first + 1 for first, last in self.counted_ranks)


@dataclass(frozen=True)
class _Kind:
    kind: str = ""


def kind_of(text: str | bytes, what: str) -> str:
    """The kind of job of a report. Empty: MPI."""
    return formats.parse(text, _Kind, what).kind


def parse(text: str | bytes, what: str = "the report") -> Report:
    """Parses the JSON of an MPI job's report."""
    if kind_of(text, what):
        raise UserError(f"{what} is of a PyTorch job: only `outrigger report` reads it")
    return formats.parse_version(text, Report, VERSION, what)


def read_text(path: Path) -> tuple[bytes, str]:
    """The contents of a report's file, and its name for errors."""
    try:
        return path.read_bytes(), f"the report {path}"
    except OSError as error:
        raise UserError(f"the report {path} cannot be read: {error.strerror}") from error


def read(path: Path) -> Report:
    """Reads a report's file."""
    return parse(*read_text(path))


def offload_verdict(report: Report, collectives: Sequence[str]) -> str:
    """Empty if each of the collectives was offloaded on some communicator, else the reason."""
    for name in collectives:
        entries = [entry for entry in report.collectives if entry.collective == name]
        if any(entry.offloaded for entry in entries):
            continue
        if report.native_because:
            return f"{name} stayed native, as the whole job: {report.native_because}"
        reasons = dict.fromkeys(in_words(reason) for entry in entries for reason in entry.native)
        return f"{name} stayed native: {', '.join(reasons) or 'it was not called'}"
    return ""


def format_bytes(count: int) -> str:
    """Three digits with a binary unit: 1.50 MiB."""
    for size, unit in _UNITS:
        if count >= size:
            value = count / size
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
    return f"{count} B"


def format_seconds(seconds: float) -> str:
    """Three digits with a unit: 12.3 ms."""
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= size:
            value = seconds / size
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
    return "0" if seconds <= 0 else f"{seconds * 1e9:.0f} ns"


def plural(count: int, word: str) -> str:
    """1 rank, 2 ranks."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"
