"""The library's report: reading the JSON it writes at MPI_Finalize, and showing it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

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
    completion_seconds: Spread


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
    collectives: tuple[Collective, ...]
    rank_cpu_seconds: CpuSeconds


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
        reasons = dict.fromkeys(reason for entry in entries for reason in entry.native)
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


def _spread(spread: Spread, ranks: int) -> str:
    return f"{format_seconds(spread.sum / max(ranks, 1))} ({format_seconds(spread.max)})"


def _why_native(entry: Collective) -> str:
    return "\n".join(f"{calls:,} {reason}" for reason, calls in entry.native.items() if calls) or "-"


def _offloaded(entry: Collective) -> Text:
    """How many calls, and by which algorithms: with numbers where several served."""
    style = "green" if entry.offloaded == entry.calls else "yellow"
    names = [name if len(entry.algorithms) == 1 else f"{calls:,} {name}" for name, calls in entry.algorithms.items()]
    return Text("\n".join([f"{entry.offloaded:,}", *names]), style=style)


def collectives_table(report: Report) -> Table:
    """A row for each collective and communicator."""
    table = Table(box=box.SIMPLE_HEAD, header_style="dim", pad_edge=False, padding=(0, 1))
    table.add_column("collective\ncommunicator", no_wrap=True)
    table.add_column("calls\nall ranks", justify="right")
    table.add_column("offloaded\nby", justify="right", no_wrap=True)
    table.add_column("native, why")
    table.add_column("received by reach")
    for name in ("in the call\nmean (max)", "in waits\nmean (max)", "late\narrivals"):
        table.add_column(name, justify="right", no_wrap=True)
    for entry in report.collectives:
        reaches = [f"{format_bytes(count)} {name}" for name, count in entry.bytes.items() if count]
        table.add_row(
            f"{entry.collective}\n[dim]{entry.communicator}, {entry.size} ranks[/]",
            f"{entry.calls:,}",
            _offloaded(entry),
            _why_native(entry),
            "\n".join(reaches) or "-",
            _spread(entry.post_seconds, entry.size),
            _spread(entry.completion_seconds, entry.size),
            f"{entry.late_announcements:,}",
        )
    return table


def wire_line(report: Report) -> str:
    """How data went between nodes; empty on one node."""
    if report.nodes == 1:
        return ""
    uses = []
    for use in report.wire:
        where = "" if use.nodes == report.nodes else f" on {use.nodes} of {report.nodes} nodes"
        uses.append(f"{use.kind} ({use.transports}){where}")
    return f"wire: {'; '.join(uses) or 'not used'}\n"


def heap_line(report: Report) -> str:
    """What came from the shared heap; empty when it was not asked for."""
    heap = report.shared_heap
    if heap is None:
        return ""
    refused = f"; {heap.refused:,} more became ordinary memory" if heap.refused else ""
    forks = f"; {heap.forks:,} forks made what was there ordinary memory" if heap.forks else ""
    return f"shared heap: {heap.allocations:,} large allocations, {format_bytes(heap.bytes)}{refused}{forks}\n"


def waiting_line(report: Report) -> str:
    """What ranks copied while they waited; empty when they did not."""
    if not report.copied_while_waiting:
        return ""
    return f"copied by ranks while they waited: {format_bytes(report.copied_while_waiting)}, counted with copier\n"


def huge_pages_line(report: Report) -> str:
    """Which buffers became huge pages; empty when none did."""
    return f"buffers moved to huge pages: {format_bytes(report.in_huge_pages)}\n" if report.in_huge_pages else ""


def summary(report: Report) -> str:
    """The lines under the table."""
    service = report.service
    count = service.processes
    processes = "1 service process" if count == 1 else f"{count} service processes"
    on_dpu = any(entry.bytes.get(reach) for entry in report.collectives for reach in ("rdma", "alias"))
    where = " on DPUs" if on_dpu else f" on CPU {service.core}" if service.core >= 0 else ""
    if where and not on_dpu and not service.core_is_free:
        where += ", which ranks use too"
    xpmem = "; private memory by XPMEM" if service.xpmem else ""
    cma = "" if on_dpu or service.cross_memory_attach else "; cross-memory attach is not available"
    calls, process = report.rank_cpu_seconds.offloaded_calls, report.rank_cpu_seconds.process
    return (
        f"{heap_line(report)}{waiting_line(report)}{huge_pages_line(report)}{wire_line(report)}"
        f"{report.ranks} ranks under {report.mpi}; {processes} per node{where}{xpmem}{cma}.\n"
        f"CPU time of a rank, mean (max): {_spread(calls, report.ranks)} in offloaded calls and "
        f"their waits, of {_spread(process, report.ranks)} in all."
    )


def show(console: Console, report: Report) -> None:
    """Prints the report."""
    if report.collectives:
        console.print(collectives_table(report))
    else:
        console.print("No collective that can be offloaded was called.")
    console.print(summary(report))
