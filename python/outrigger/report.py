"""Prints the library's report on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from outrigger import report_advice, report_calls, report_headline
from outrigger.learned import Kept
from outrigger.report_data import (
    Collective,
    Phase,
    Report,
    ServiceProcess,
    Spread,
    format_bytes,
    format_seconds,
    in_words,
    offload_verdict,
    parse,
    plural,
    read,
)

__all__ = ["Report", "as_data", "format_bytes", "format_seconds", "offload_verdict", "parse", "read", "show"]


_TAKEN = 0.005
"""Share of the time below which the report has no line about a taken core."""


_NO_SPARE_CORE = (
    "No spare core: the service process shares the ranks' cores and takes its time from them, which seldom pays. "
    "Leave a free core on each node."
)


def _spread(spread: Spread, ranks: int) -> str:
    return f"{format_seconds(spread.sum / max(ranks, 1))} ({format_seconds(spread.max)})"


def _why_native(entry: Collective) -> str:
    return "\n".join(f"{calls:,} {in_words(reason)}" for reason, calls in entry.native.items() if calls) or "-"


def _offloaded(entry: Collective) -> Text:
    """Number of calls, and their algorithms: with counts if there are several."""
    style = "green" if entry.offloaded == entry.calls else "yellow"
    names = [name if len(entry.algorithms) == 1 else f"{calls:,} {name}" for name, calls in entry.algorithms.items()]
    return Text("\n".join([f"{entry.offloaded:,}", *names]), style=style)


def _offloaded_rows(report: Report) -> list[Collective]:
    """Offloaded collectives with their algorithms, which the table of calls does not have."""
    return [entry for entry in report.collectives if entry.offloaded or not report.calls]


def _new_table() -> Table:
    return Table(box=box.SIMPLE_HEAD, header_style="dim", pad_edge=False, padding=(0, 1))


def _reaches(entry: Collective) -> str:
    return "\n".join(f"{format_bytes(count)} {name}" for name, count in entry.bytes.items() if count) or "-"


def _wide_table(entries: list[Collective]) -> Table:
    table = _new_table()
    table.add_column("collective\ncommunicator", no_wrap=True)
    table.add_column("calls\nall ranks", justify="right")
    table.add_column("offloaded\nby", justify="right", no_wrap=True)
    table.add_column("native, why")
    table.add_column("received by reach")
    for name in ("in the call\nmean (max)", "in waits\nmean (max)", "late\narrivals"):
        table.add_column(name, justify="right", no_wrap=True)
    for entry in entries:
        table.add_row(
            f"{entry.collective}\n[dim]{escape(entry.communicator)}, {plural(entry.size, 'rank')}[/]",
            f"{entry.calls:,}",
            _offloaded(entry),
            _why_native(entry),
            _reaches(entry),
            _spread(entry.post_seconds, entry.size),
            _spread(entry.completion_seconds, entry.size),
            f"{entry.late_announcements:,}",
        )
    return table


def _narrow_table(entries: list[Collective]) -> Table:
    table = _new_table()
    table.add_column("collective\ncommunicator", no_wrap=True, min_width=24)
    for name in ("calls\nlate", "offloaded\nby"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("received by\nreach")
    table.add_column("in the call\nin waits", justify="right", no_wrap=True)
    for entry in entries:
        inside = (entry.post_seconds.sum, entry.completion_seconds.sum)
        posts, waits = (format_seconds(seconds / max(entry.size, 1)) for seconds in inside)
        table.add_row(
            f"{entry.collective}\n[dim]{escape(entry.communicator)}, {plural(entry.size, 'rank')}[/]",
            f"{entry.calls:,}\n[dim]{entry.late_announcements:,}[/]",
            _offloaded(entry),
            _reaches(entry),
            f"{posts}\n{waits}",
        )
    return table


def collectives_table(report: Report, width: int) -> Table:
    """One row per collective and communicator."""
    entries = _offloaded_rows(report)
    return _wide_table(entries) if width >= report_calls.WIDE else _narrow_table(entries)


def phases_table(phases: Sequence[Phase], ranks: int) -> Table:
    """One row per phase, the longest first."""
    table = _new_table()
    table.add_column("phase")
    for name in ("entered", "calls", "offloaded"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("time in it\nmean (max)", "in collectives\nmean (max)"):
        table.add_column(name, justify="right", no_wrap=True)
    for phase in sorted(phases, key=lambda each: -each.seconds.sum):
        table.add_row(
            escape(phase.phase),
            f"{phase.entered:,}",
            f"{phase.calls:,}",
            f"{phase.offloaded:,}",
            _spread(phase.seconds, ranks),
            _spread(phase.collective_seconds, ranks),
        )
    return table


def wire_line(report: Report) -> str:
    """Transports between nodes; empty on one node."""
    if report.nodes == 1:
        return ""
    uses = []
    for use in report.wire:
        where = "" if use.nodes == report.nodes else f" on {use.nodes} of {report.nodes} nodes"
        uses.append(f"{use.kind} ({use.transports}){where}")
    return f"wire: {'; '.join(uses) or 'not used'}\n"


def heap_line(report: Report) -> str:
    """Data from the shared heap; empty if it was not enabled."""
    heap = report.shared_heap
    if heap is None:
        return ""
    refused = f"; {heap.refused:,} more became ordinary memory" if heap.refused else ""
    forks = f"; {plural(heap.forks, 'fork')} made what was there ordinary memory" if heap.forks else ""
    return f"shared heap: {heap.allocations:,} large allocations, {format_bytes(heap.bytes)}{refused}{forks}\n"


def waiting_line(report: Report) -> str:
    """Data copied by waiting ranks; empty if none."""
    if not report.copied_while_waiting:
        return ""
    return f"copied by ranks while they waited: {format_bytes(report.copied_while_waiting)}, counted with copier\n"


def huge_pages_line(report: Report) -> str:
    """Buffers that became huge pages; empty if none."""
    return f"buffers moved to huge pages: {format_bytes(report.in_huge_pages)}\n" if report.in_huge_pages else ""


def _of(process: ServiceProcess) -> str:
    cpu = f"CPU {process.core} of " if process.core >= 0 else ""
    return f"\nService process {process.number}, {cpu}node {process.node}: "


def taken_lines(report: Report) -> str:
    """Service processes whose cores were used by others; empty if not measured."""
    lines = [
        f"{_of(process)}the service's core was taken by others for {process.core_taken:.0%} of the time."
        for process in report.services
        if process.core_taken is not None and process.core_taken >= _TAKEN
    ]
    return "".join(lines)


def restart_lines(report: Report) -> str:
    """Service processes that were killed and replaced."""
    lines = []
    for process in report.services:
        if process.restarts:
            often = "once" if process.restarts == 1 else f"{process.restarts} times"
            lines.append(
                f"\nService process {process.number} of node {process.node} was killed {often}; "
                "another one took its place, and nothing was lost."
            )
    return "".join(lines)


def warning_lines(report: Report) -> str:
    """Reason for the end of offloading, once."""
    warnings = dict.fromkeys(process.warning for process in report.services if process.warning)
    return "".join(f"\n{warning.removeprefix('outrigger: ')}." for warning in warnings)


def other_job_lines(report: Report) -> str:
    """Service processes whose cores another job used."""
    lines = []
    for process in report.services:
        if process.other_job is not None:
            who = f" (process {process.other_job})" if process.other_job > 0 else ""
            lines.append(f"{_of(process)}another job{who} had the core, too.")
    return "".join(lines)


def _offloads(report: Report) -> bool:
    """False without offloaded calls, when the search for requests takes time, too."""
    return any(entry.offloaded for entry in report.collectives)


def _cpu_line(report: Report) -> str:
    calls, process = report.rank_cpu_seconds.offloaded_calls, report.rank_cpu_seconds.process
    all_ranks = process.ranks in (0, report.ranks)
    whole = f"{_spread(process, report.ranks)} in all" if all_ranks and process.sum > 0 else ""
    inside = f"{_spread(calls, report.ranks)} in offloaded calls and their waits" if _offloads(report) else ""
    parts = ", of ".join(filter(None, (inside, whole)))
    return f"\nCPU time of a rank, mean (max): {parts}." if parts else ""


def summary(report: Report) -> str:
    """Lines below the table."""
    service = report.service
    if service.processes == 0:
        return f"No service process.{_cpu_line(report)}"
    count = service.processes
    processes = "1 service process" if count == 1 else f"{count} service processes"
    on_dpu = report.on_dpu
    where = " on DPUs" if on_dpu else f" on CPU {service.core}" if service.core >= 0 else ""
    if where and not on_dpu and not service.core_is_free:
        first = [process for process in report.services if process.node == 0]
        where += ", which another job has too" if any(p.other_job for p in first) else ", which ranks use too"
    xpmem = "; private memory by XPMEM" if service.xpmem else ""
    cma = "" if on_dpu or service.cross_memory_attach else "; cross-memory attach is not available"
    return (
        f"{heap_line(report)}{waiting_line(report)}{huge_pages_line(report)}{wire_line(report)}"
        f"{plural(report.ranks, 'rank')} under {report.mpi}; {processes} per node{where}{xpmem}{cma}."
        f"{other_job_lines(report)}{restart_lines(report)}{warning_lines(report)}{taken_lines(report)}{_cpu_line(report)}"
    )


def show(console: Console, report: Report, kept: Sequence[Kept] = ()) -> None:
    """Prints the report. `kept`: learned decisions, if it ran on this machine."""
    if report.no_spare_core:
        console.print(f"[yellow]{_NO_SPARE_CORE}[/]")
    if line := report_headline.headline(report, kept):
        console.print(f"[bold]{escape(line)}[/]")
    console.print(report_calls.heading(report))
    if report.calls:
        console.print(report_calls.table(report, console.width, kept))
    for line in report_advice.advice(report):
        console.print(f"[bold]*[/] {escape(line)}")
    if _offloaded_rows(report):
        console.print(collectives_table(report, console.width))
    elif not report.collectives and not report.native_because:
        console.print("No collective that can be offloaded was called in a form that was to be offloaded.")
    if report.phases:
        console.print(phases_table(report.phases, report.ranks))
    console.print(summary(report))


def as_data(report: Report) -> dict[str, Any]:
    """For --json: statements about the figures; the figures are in the report itself."""
    offloaded, calls = report_headline.counts(report)
    return {
        "version": 1,
        "headline": report_headline.headline(report),
        "calls": calls,
        "offloaded": offloaded,
        "computed_seconds": report_headline.computed_seconds(report),
        "not_hidden_seconds": report_headline.waited_seconds(report),
        "advice": report_advice.advice(report),
    }
