"""Ranks that come late to collectives, as far as a report knows them."""

from __future__ import annotations

from collections.abc import Iterator

from outrigger.report_calls import name, time_cells
from outrigger.report_data import Call, Report, format_seconds
from outrigger.report_efficiency import meets
from outrigger.report_model import Cell, Column, Line, Table, cell, dim

LEAST_SHARE = 0.005
"""Fraction of the run. Less is not worth a row."""
MOST_ROWS = 10

LATE_COLUMNS = (
    Column(title="call", unit="communicator", is_text=True),
    Column(title="a rank", unit="waits"),
    Column(title="of the", unit="run"),
    Column(title="waits least", unit="(rank)"),
    Column(title="waits most", unit="(rank)"),
)
_POSTED = (
    Column(title="collective", unit="communicator", is_text=True),
    Column(title="posted last", unit="rank"),
    Column(title="after the", unit="first, a call"),
)
LATE_HOW = (
    "No rank leaves these calls before the last one has come. So the rank with the least time in them comes last most "
    "often, and the others wait for about as long as they spend beyond its time."
)


def _waited_seconds(entry: Call) -> float:
    """A rank's mean time beyond that of the rank with the least."""
    return entry.seconds.mean - entry.seconds.min


def _waited(report: Report) -> list[tuple[Cell, ...]]:
    run = report.run_seconds
    if run is None or run.mean <= 0:
        return []
    rows: list[tuple[Cell, ...]] = []
    for entry in sorted(report.calls, key=lambda entry: -_waited_seconds(entry)):
        seconds, part = entry.seconds, _waited_seconds(entry) / run.mean
        if not meets(entry) or entry.size < 2 or part < LEAST_SHARE:
            continue
        rows.append((name(entry), *time_cells(_waited_seconds(entry), part, seconds)))
    return rows[:MOST_ROWS]


def _posted(report: Report) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    for entry in report.collectives:
        late = entry.late_seconds
        if late is None or late.max <= 0 or entry.size < 2 or not entry.offloaded:
            continue
        each = late.max * late.ranks / entry.offloaded
        where = dim(f"{entry.communicator}, {entry.size} ranks")
        rows.append((cell(entry.collective, where), cell(str(late.max_rank)), cell(format_seconds(each))))
    return rows[:MOST_ROWS]


def blocks(report: Report) -> Iterator[Line | Table]:
    """Nothing if no rank waited for others for long."""
    if waited := _waited(report):
        yield Table(LATE_COLUMNS, tuple(waited))
        yield Line(LATE_HOW)
    if posted := _posted(report):
        yield Table(_POSTED, tuple(posted))
        yield Line("Service processes measured when each rank posted these offloaded collectives.")
