"""All parts of a report in their order, for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from outrigger import (
    report_advice,
    report_calls,
    report_efficiency,
    report_headline,
    report_late,
    report_offloaded,
    report_sites,
)
from outrigger.learned import Kept
from outrigger.report_data import Report, format_seconds
from outrigger.report_model import Column, Line, Section, Table, Tone, cell
from outrigger.report_run import run_table

_NO_SPARE_CORE = (
    "No spare core: the service process shares the ranks' cores and takes its time from them, which seldom pays. "
    "Leave a free core on each node."
)


def title(report: Report) -> str:
    """Title of the page."""
    return f"Outrigger: {report.program or 'a program'} on {report.ranks} ranks"


def _only_by_ranks(report: Report) -> bool:
    offloaded, _ = report_headline.counts(report)
    return offloaded == 0 and report_headline.done_by_ranks(report) > 0


def _verdict(report: Report, kept: Sequence[Kept]) -> Iterator[Line]:
    if sentences := report_headline.sentences(report, kept):
        yield Line(sentences[0], Tone.STRONG, more=" ".join(sentences[1:]))
    if report.no_spare_core and not _only_by_ranks(report):
        yield Line(_NO_SPARE_CORE, Tone.WARNING)
    yield from report_calls.heading(report)


def _calls(report: Report, kept: Sequence[Kept]) -> Iterator[Line | Table]:
    if report.calls:
        yield report_calls.table(report, kept)
    for line in report_advice.advice(report):
        yield Line(line, is_item=True)


def _offloaded(report: Report) -> Iterator[Line | Table]:
    if report_offloaded.rows_of(report):
        yield report_offloaded.collectives_table(report)
    elif report.counted and not (report.collectives or report.native_because or _only_by_ranks(report)):
        yield Line("No collective was called in a form that is offloaded.")


def _phases(report: Report) -> Iterator[Line | Table]:
    if report.phases:
        yield report_offloaded.phases_table(report)
    yield from report_efficiency.phase_blocks(report)


_SAVED = (
    Column(title="call", unit="communicator", is_text=True),
    Column(title="by ranks", unit="all ranks"),
    Column(title="saved", unit="of a rank"),
    Column(title="of the run", unit="without"),
)


def _saved(report: Report) -> Iterator[Line | Table]:
    """Savings of calls by the ranks themselves, as trials measured them."""
    run = report.run_seconds
    entries = [entry for entry in report.calls if entry.saved_seconds > 0]
    if not entries or run is None:
        return
    ranks = max(report.counted, 1)
    without = run.mean + sum(entry.saved_seconds for entry in entries) / ranks
    rows = []
    for entry in sorted(entries, key=lambda entry: -entry.saved_seconds):
        saved = entry.saved_seconds / ranks
        part = saved / without
        name, time = report_calls.name(entry), format_seconds(saved)
        rows.append((name, cell(f"{entry.by_ranks:,}"), cell(time), cell(report_calls.percent(part), bar=part)))
    yield Table(_SAVED, tuple(rows))
    yield Line("Trials in this run measured each way; the saving is their difference, for all calls by ranks.")


def _run(report: Report) -> Iterator[Line | Table]:
    known = {"program": report.program, "MPI": report.mpi, "ranks": f"{report.ranks:,}", "nodes": f"{report.nodes:,}"}
    yield from run_table(known, report.run)


def of_report(report: Report, kept: Sequence[Kept] = ()) -> list[Section]:
    """All parts with content. `kept`: learned decisions, if it ran on this machine."""
    found = [
        Section("Verdict", tuple(_verdict(report, kept))),
        Section("Efficiency", tuple(report_efficiency.blocks(report))),
        Section("Calls", tuple(_calls(report, kept))),
        Section("Places in the program", tuple(report_sites.blocks(report))),
        Section("Late ranks", tuple(report_late.blocks(report)), on_terminal=False),
        Section("Saved by the ranks themselves", tuple(_saved(report)), on_terminal=False),
        Section("Offloaded collectives", tuple(_offloaded(report))),
        Section("Phases", tuple(_phases(report))),
        Section("Service processes and memory", tuple(map(Line, report_offloaded.summary(report)))),
        Section("The run", tuple(_run(report)), on_terminal=False),
    ]
    return [section for section in found if section.blocks]
