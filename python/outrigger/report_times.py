"""Times of offloaded calls on the program's clock. All sums are over all ranks."""

from __future__ import annotations

from outrigger.report_data import Call, Collective, Report

_ROUNDED = 1e-4
"""Figures are rounded to nanoseconds."""


def _rows_of(entry: Collective, report: Report) -> list[Call]:
    """Rows of the calls that the entry sums up: those with offloaded calls."""
    key = (entry.collective, entry.group, entry.communicator)
    return [row for row in report.calls if row.offloaded and (row.collective, row.group, row.communicator) == key]


def _share(row: Call) -> float:
    """A row does not separate the time of its native calls."""
    return row.offloaded / max(row.calls, 1)


def _computed(entry: Collective, report: Report) -> float:
    """Between the returns of the starting calls and the waits, without the tests in between."""
    rows = _rows_of(entry, report)
    return sum(max(0.0, row.before_wait.seconds - row.tests.seconds) * _share(row) for row in rows)


def not_hidden_seconds(report: Report) -> float:
    """In the starting calls of offloaded operations and in the calls that wait for them."""
    return sum(entry.post_seconds.sum + entry.completion_seconds.sum for entry in report.collectives if entry.offloaded)


def _in_calls_seconds(report: Report) -> float:
    return sum(row.seconds.sum for row in report.calls)


def threads_add_up(report: Report) -> bool:
    """True if several threads of a rank were in collectives at once, for longer together than its run. The rest of its
    run then counts as 0.
    """
    run, outside = report.run_seconds, report.outside_seconds
    if run is None:
        return False
    outside_s = outside.sum if outside is not None else 0.0
    return _in_calls_seconds(report) + outside_s > (1 + _ROUNDED) * run.sum


def computed_seconds(report: Report) -> float:
    """Between the starts of offloaded operations and their waits; several at once count once."""
    computed = sum(_computed(entry, report) for entry in report.collectives)
    run = report.run_seconds
    if run is None:
        return computed
    return min(computed, run.sum if threads_add_up(report) else max(0.0, run.sum - _in_calls_seconds(report)))
