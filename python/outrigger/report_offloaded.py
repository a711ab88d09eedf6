"""Offloaded collectives, phases and service processes in a report."""

from __future__ import annotations

from collections.abc import Iterator

from outrigger.report_calls import where
from outrigger.report_data import (
    Collective,
    Report,
    ServiceProcess,
    Spread,
    format_bytes,
    format_seconds,
    plural,
)
from outrigger.report_model import Cell, Column, Narrow, Piece, Table, Tone, cell, dim
from outrigger.report_reasons import in_words

_TAKEN = 0.005
"""Share of the time below which the report has no line about a taken core."""


def _spread(spread: Spread) -> str:
    return f"{format_seconds(spread.mean)} ({format_seconds(spread.max)})"


def _timed(spread: Spread) -> Cell:
    return cell(_spread(spread), short=format_seconds(spread.mean))


def _why_native(entry: Collective) -> Cell:
    return cell(*([f"{calls:,} {in_words(reason)}" for reason, calls in entry.native.items() if calls] or ["-"]))


def _offloaded(entry: Collective) -> Cell:
    """Number of calls, and their algorithms: with counts if there are several."""
    tone = Tone.GOOD if entry.offloaded == entry.calls else Tone.WARNING
    names = [name if len(entry.algorithms) == 1 else f"{calls:,} {name}" for name, calls in entry.algorithms.items()]
    return cell(*(Piece(text, tone) for text in (f"{entry.offloaded:,}", *names)))


def _reaches(entry: Collective) -> Cell:
    return cell(*([f"{format_bytes(count)} {name}" for name, count in entry.bytes.items() if count] or ["-"]))


def rows_of(report: Report) -> list[Collective]:
    """Offloaded collectives with their algorithms, which the table of calls does not have; the longest first."""
    rows = [entry for entry in report.collectives if entry.offloaded or not report.calls]
    return sorted(rows, key=lambda entry: -(entry.post_seconds.sum + entry.completion_seconds.sum))


_COLLECTIVES = (
    Column(title="collective", unit="communicator", is_text=True),
    Column(title="calls", unit="all ranks"),
    Column(title="late", unit="arrivals", narrow=Narrow.UNDER),
    Column(title="offloaded", unit="by"),
    Column(title="native, why", is_text=True, wraps=True, narrow=Narrow.NONE),
    Column(title="received by", unit="reach", is_text=True, wraps=True),
    Column(title="in the call", unit="mean (max)"),
    Column(title="in waits", unit="mean (max)", narrow=Narrow.UNDER),
)


def collectives_table(report: Report) -> Table:
    """One row per collective and communicator."""
    rows = [
        (
            cell(entry.collective, dim(where(entry))),
            cell(f"{entry.calls:,}"),
            cell(f"{entry.late_announcements:,}"),
            _offloaded(entry),
            _why_native(entry),
            _reaches(entry),
            _timed(entry.post_seconds),
            _timed(entry.completion_seconds),
        )
        for entry in rows_of(report)
    ]
    return Table(_COLLECTIVES, tuple(rows))


_PHASES = (
    Column(title="phase", is_text=True),
    Column(title="entered"),
    Column(title="calls"),
    Column(title="offloaded"),
    Column(title="time in it", unit="mean (max)"),
    Column(title="in collectives", unit="mean (max)"),
)


def phases_table(report: Report) -> Table:
    """One row per phase, the longest first."""
    rows = [
        (
            cell(phase.phase),
            cell(f"{phase.entered:,}"),
            cell(f"{phase.calls:,}"),
            cell(f"{phase.offloaded:,}"),
            cell(_spread(phase.seconds)),
            cell(_spread(phase.collective_seconds)),
        )
        for phase in sorted(report.phases, key=lambda each: -each.seconds.sum)
    ]
    return Table(_PHASES, tuple(rows))


def _wire(report: Report) -> str:
    """Transports between nodes; empty on one node."""
    if report.nodes == 1:
        return ""
    uses = []
    for use in report.wire:
        where_used = "" if use.nodes == report.nodes else f" on {use.nodes} of {report.nodes} nodes"
        uses.append(f"{use.kind} ({use.transports}){where_used}")
    return f"wire: {'; '.join(uses) or 'not used'}"


def _heap(report: Report) -> str:
    """Data from the shared heap; empty if it was not enabled."""
    heap = report.shared_heap
    if heap is None:
        return ""
    refused = f"; {heap.refused:,} more became ordinary memory" if heap.refused else ""
    forks = f"; {plural(heap.forks, 'fork')} made what was there ordinary memory" if heap.forks else ""
    return f"shared heap: {heap.allocations:,} large allocations, {format_bytes(heap.bytes)}{refused}{forks}"


def _copied_while_waiting(report: Report) -> str:
    if not report.copied_while_waiting:
        return ""
    return f"copied by ranks while they waited: {format_bytes(report.copied_while_waiting)}, counted with copier"


def _copied_on_spare_cores(report: Report) -> str:
    if not report.copied_on_spare_cores:
        return ""
    return f"copied on spare cores (--copy-cpus): {format_bytes(report.copied_on_spare_cores)}, counted with copier"


def _huge_pages(report: Report) -> str:
    return f"buffers moved to huge pages: {format_bytes(report.in_huge_pages)}" if report.in_huge_pages else ""


def _of(process: ServiceProcess) -> str:
    cpu = f"CPU {process.core} of " if process.core >= 0 else ""
    return f"Service process {process.number}, {cpu}node {process.node}: "


def _taken(report: Report) -> Iterator[str]:
    """Service processes whose cores were used by others, if measured."""
    for process in report.services:
        if process.core_taken is not None and process.core_taken >= _TAKEN:
            share = f"{process.core_taken:.0%}"
            yield f"{_of(process)}the service's core was taken by others for {share} of the time."


def _restarts(report: Report) -> Iterator[str]:
    """Service processes that were killed and replaced."""
    for process in report.services:
        if process.restarts:
            often = "once" if process.restarts == 1 else f"{process.restarts} times"
            yield (
                f"Service process {process.number} of node {process.node} was killed {often}; "
                "another one took its place, and nothing was lost."
            )


def _warnings(report: Report) -> Iterator[str]:
    """Reason for the end of offloading, once."""
    for warning in dict.fromkeys(process.warning for process in report.services if process.warning):
        yield f"{warning.removeprefix('outrigger: ')}."


def _other_jobs(report: Report) -> Iterator[str]:
    """Service processes whose cores another job used."""
    for process in report.services:
        if process.other_job is not None:
            who = f" (process {process.other_job})" if process.other_job > 0 else ""
            yield f"{_of(process)}another job{who} had the core, too."


def _offloads(report: Report) -> bool:
    """False without offloaded calls, when the search for requests takes time, too."""
    return any(entry.offloaded for entry in report.collectives)


def _cpu(report: Report) -> str:
    calls, process = report.rank_cpu_seconds.offloaded_calls, report.rank_cpu_seconds.process
    all_ranks = process.ranks in (0, report.ranks)
    whole = f"{_spread(process)} in all" if all_ranks and process.sum > 0 else ""
    inside = f"{_spread(calls)} in offloaded calls and their waits" if _offloads(report) else ""
    parts = ", of ".join(filter(None, (inside, whole)))
    return f"CPU time of a rank, mean (max): {parts}." if parts else ""


def _polite(report: Report) -> str:
    """How waiting ranks gave their cores away; empty if they did not."""
    waits = report.waits
    if waits is None:
        return ""
    if waits.seconds.sum > 0:
        slept, yielded, waited = (
            format_seconds(spread.sum) for spread in (waits.slept_seconds, waits.yielded_seconds, waits.seconds)
        )
        ranks = plural(report.counted, "rank")
        return f"Polite waits: {ranks} waited {waited} in all, {slept} asleep and {yielded} in yields."
    return f"Waits: the MPI yields by its own setting, {waits.setting}." if waits.setting else ""


def _energy(report: Report) -> str:
    if report.energy_joules is None:
        return ""
    return f"Energy of this machine's processors during the run: {report.energy_joules:,.0f} J, also of other jobs."


def _placed(report: Report) -> str:
    service = report.service
    if service.processes == 0:
        return "No service process."
    count = service.processes
    processes = "1 service process" if count == 1 else f"{count} service processes"
    on_dpu = report.on_dpu
    place = " on DPUs" if on_dpu else f" on CPU {service.core}" if service.core >= 0 else ""
    if place and not on_dpu and not service.core_is_free:
        first = [process for process in report.services if process.node == 0]
        place += ", which another job has too" if any(p.other_job for p in first) else ", which ranks use too"
    xpmem = "; private memory by XPMEM" if service.xpmem else ""
    cma = "" if on_dpu or service.cross_memory_attach else "; cross-memory attach is not available"
    return f"{plural(report.ranks, 'rank')} under {report.mpi}; {processes} per node{place}{xpmem}{cma}."


def summary(report: Report) -> list[str]:
    """Lines below the tables."""
    if report.service.processes == 0:
        return [*filter(None, (_polite(report), _placed(report), _cpu(report), _energy(report)))]
    lines = [
        _polite(report),
        _heap(report),
        _copied_while_waiting(report),
        _copied_on_spare_cores(report),
        _huge_pages(report),
        _wire(report),
        _placed(report),
    ]
    for more in (_other_jobs, _restarts, _warnings, _taken):
        lines += more(report)
    return [*filter(None, (*lines, _cpu(report), _energy(report)))]
