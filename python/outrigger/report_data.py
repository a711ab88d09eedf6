"""The library's report as data: the JSON it writes when the job ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from outrigger import formats
from outrigger.errors import UserError

VERSION = 1
_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


@dataclass(frozen=True)
class Spread:
    """A sum over the ranks with the smallest and the largest."""

    sum: float
    min: float
    max: float
    min_rank: int = 0
    """Of MPI_COMM_WORLD, which has the smallest."""
    max_rank: int = 0
    ranks: int = 0
    """How many ranks this is of."""

    @property
    def mean(self) -> float:
        """Of those ranks."""
        return self.sum / max(self.ranks, 1)


@dataclass(frozen=True, kw_only=True)
class Collective:
    """The figures of one collective on one communicator, of all ranks together."""

    collective: str
    communicator: str
    size: int
    calls: int
    offloaded: int
    algorithms: Mapping[str, int]
    """Which served how many of those."""
    native: Mapping[str, int]
    bytes: Mapping[str, int]
    late_announcements: int
    post_seconds: Spread
    """In the starting calls, to their returns."""
    completion_seconds: Spread
    group: str = ""


@dataclass(frozen=True)
class CallBytes:
    """What a rank hands over in one call, or gets where it hands over nothing."""

    calls: int
    """As many are known."""
    sum: int
    min: int
    max: int

    @property
    def mean(self) -> int:
        """Of one call."""
        return self.sum // max(self.calls, 1)


@dataclass(frozen=True)
class Tests:
    """Calls that tested nonblocking operations, of all ranks together."""

    calls: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class BeforeWait:
    """From the start of nonblocking operations to the calls that waited for them, of all ranks together."""

    operations: int = 0
    """Those that the program waited for, and no test completed before."""
    seconds: float = 0.0

    @property
    def mean(self) -> float:
        """Of one operation."""
        return self.seconds / max(self.operations, 1)


@dataclass(frozen=True, kw_only=True)
class Call:
    """One MPI function on one communicator, offloaded or not, of all ranks together."""

    call: str
    form: str
    """`blocking`, `nonblocking` or `persistent`."""
    collective: str | None
    """What can be offloaded of it."""
    communicator: str
    size: int
    """0: several communicators."""
    calls: int
    offloaded: int
    native: Mapping[str, int]
    bytes: CallBytes
    seconds: Spread
    """In the call and in what waits for it, of each rank."""
    tests: Tests = Tests()
    before_wait: BeforeWait = BeforeWait()
    group: str = ""
    by_ranks: int = 0
    """Calls that the ranks of a node did by themselves."""


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A phase that the program has named, of all ranks together; what is in a phase inside it counts there alone."""

    phase: str
    entered: int
    calls: int
    offloaded: int
    bytes: int
    seconds: Spread
    """In it, of each rank that was."""
    collective_seconds: Spread
    """Of these in collectives and in what waits for them."""


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
    """One way by which data went between nodes, as UCX reported it, and how many nodes used it."""

    kind: str
    """`rdma`: the network moves memory to memory; `messages`: processors copy."""
    transports: str
    nodes: int


@dataclass(frozen=True)
class Service:
    """The service processes of the first node."""

    processes: int
    core: int
    """-1: not pinned."""
    core_is_free: bool
    cross_memory_attach: bool
    xpmem: bool = False


@dataclass(frozen=True)
class ServiceProcess:
    """One of the job's."""

    node: int
    number: int
    core: int
    core_is_free: bool
    core_taken: float | None = None
    """The part of its time for which others had its core. None: it was not measured."""
    other_job: int | None = None
    """A process of another job that has had the core, too; -1: not known which. None: none has."""
    restarts: int = 0
    """How often it was killed, and another one took its place."""
    warning: str = ""
    """Why nothing has been offloaded any more; empty: it has."""


@dataclass(frozen=True)
class SharedHeap:
    """Of all ranks together."""

    allocations: int
    bytes: int
    refused: int
    forks: int


@dataclass(frozen=True)
class CpuSeconds:
    """Of the ranks."""

    offloaded_calls: Spread
    process: Spread


@dataclass(frozen=True, kw_only=True)
class Report:
    """What the library wrote."""

    mpi: str
    ranks: int
    nodes: int
    wire: tuple[WireUse, ...]
    shared_heap: SharedHeap | None = None
    """None: it was not asked for."""
    copied_while_waiting: int = 0
    """Bytes counted under `copier` that ranks copied themselves while they waited, of all ranks together."""
    in_huge_pages: int = 0
    """Bytes of buffers that were moved to huge pages, of all ranks together."""
    service: Service
    services: tuple[ServiceProcess, ...] = ()
    ended: Ended = Ended("finalized")
    counted_ranks: tuple[tuple[int, int], ...] | None = None
    """Whose counts are in it, from and to. None in reports that do not say it: all."""
    native_because: str = ""
    """Why the whole job ran natively; empty: it did not."""
    run_seconds: Spread | None = None
    """From MPI_Init to the end, of each rank."""
    calls: tuple[Call, ...] = ()
    collectives: tuple[Collective, ...]
    phases: tuple[Phase, ...] = ()
    rank_cpu_seconds: CpuSeconds

    @property
    def on_dpu(self) -> bool:
        """Service processes reach the ranks' memory as only a DPU's do."""
        return any(entry.bytes.get(reach) for entry in self.collectives for reach in ("rdma", "alias"))

    @property
    def no_spare_core(self) -> bool:
        """Service processes share cores with ranks. That another job has one is said elsewhere."""
        of_job = any(process.other_job is not None for process in self.services)
        return self.service.processes > 0 and not (self.service.core_is_free or of_job or self.on_dpu)

    @property
    def counted(self) -> int:
        """How many ranks' counts are in it."""
        if self.counted_ranks is None:
            return self.ranks
        return sum(last - first + 1 for first, last in self.counted_ranks)


def parse(text: str | bytes, what: str = "the report") -> Report:
    """A report from its JSON."""
    return formats.parse_version(text, Report, VERSION, what)


def read(path: Path) -> Report:
    """A report from its file."""
    try:
        return parse(path.read_bytes(), f"the report {path}")
    except OSError as error:
        raise UserError(f"the report {path} cannot be read: {error.strerror}") from error


def offload_verdict(report: Report, collectives: Sequence[str]) -> str:
    """Empty when each of the collectives was offloaded on some communicator, else why not."""
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
    """Three figures with a binary unit: 1.50 MiB."""
    for size, unit in _UNITS:
        if count >= size:
            value = count / size
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
    return f"{count} B"


def format_seconds(seconds: float) -> str:
    """Three figures with a unit: 12.3 ms."""
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= size:
            value = seconds / size
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
    return "0" if seconds <= 0 else f"{seconds * 1e9:.0f} ns"


def in_words(reason: str, form: str = "") -> str:
    """Why calls stayed native. Only rules of the user's are counted as the table's, and --blocking off is one."""
    if reason != "your rule":
        return reason
    return "your --blocking or --algorithm rule" if form == "blocking" else "your --algorithm rule"


def plural(count: int, word: str) -> str:
    """1 rank, 2 ranks."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"
