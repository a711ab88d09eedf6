"""Times of offloaded calls on the program's clock. All sums are over all ranks."""

from __future__ import annotations

from outrigger.report_data import Call, Collective, Report


def _rows_of(entry: Collective, report: Report) -> list[Call]:
    """Rows of the calls that the entry sums up: those with offloaded calls."""
    key = (entry.collective, entry.group, entry.communicator)
    return [row for row in report.calls if row.offloaded and (row.collective, row.group, row.communicator) == key]


def _share(row: Call) -> float:
    """A row does not separate the time of its native calls."""
    return row.offloaded / max(row.calls, 1)


def starting_seconds(entry: Collective, report: Report) -> float:
    """In the starting calls of offloaded operations, until they return.

    `post_seconds` ends with the post. If nothing else was called, the calls' own time includes the rest, too.
    """
    rows = _rows_of(entry, report)
    if not rows or any(row.form == "blocking" or row.offloaded < row.calls for row in rows):
        return entry.post_seconds.sum
    return max(entry.post_seconds.sum, sum(row.seconds.sum for row in rows) - entry.completion_seconds.sum)


def _computed(entry: Collective, report: Report) -> float:
    """Between the calls: the time before the waits also includes starting calls and tests."""
    rows = _rows_of(entry, report)
    calls = sum(row.offloaded for row in rows)
    before = sum(row.before_wait.seconds * _share(row) for row in rows)
    waited = sum(row.before_wait.operations * _share(row) for row in rows)
    inside = starting_seconds(entry, report) + sum(row.tests.seconds * _share(row) for row in rows)
    return max(0.0, before - inside * min(1.0, waited / max(calls, 1)))


def _not_hidden(entry: Collective, report: Report) -> float:
    """All of the rows' time if nothing in them was native, otherwise the measured part of the others."""
    rows = _rows_of(entry, report)
    measured = entry.post_seconds.sum + entry.completion_seconds.sum
    return measured if _is_mixed(rows) else max(measured, sum(row.seconds.sum for row in rows))


def _is_mixed(rows: list[Call]) -> bool:
    return any(row.offloaded < row.calls for row in rows)


def not_hidden_seconds(report: Report) -> float:
    """In offloaded calls and their waits."""
    return sum(_not_hidden(entry, report) for entry in report.collectives if entry.offloaded)


def is_least(report: Report) -> bool:
    """The value is a lower bound: ranks that share cores yield after the post, which mixed rows do not show."""
    return report.no_spare_core and any(_is_mixed(_rows_of(entry, report)) for entry in report.collectives)


def computed_seconds(report: Report) -> float:
    """Between the starts of offloaded operations and their waits; several at once count once."""
    computed = sum(_computed(entry, report) for entry in report.collectives)
    run = report.run_seconds
    if run is None:
        return computed
    return min(computed, max(0.0, run.sum - sum(row.seconds.sum for row in report.calls)))
