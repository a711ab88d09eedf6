"""Times of offloaded calls as the program's own clock would show them. All sums are of all ranks together."""

from __future__ import annotations

from outrigger.report_data import Call, Collective, Report


def _rows_of(entry: Collective, report: Report) -> list[Call]:
    """The calls that the entry counts together: those of which some were offloaded."""
    key = (entry.collective, entry.group, entry.communicator)
    return [row for row in report.calls if row.offloaded and (row.collective, row.group, row.communicator) == key]


def _share(row: Call) -> float:
    """A row does not tell its native calls' time from that of the others."""
    return row.offloaded / max(row.calls, 1)


def starting_seconds(entry: Collective, report: Report) -> float:
    """In the starting calls of offloaded operations, to their returns.

    `post_seconds` ends with the post. Where nothing else was called, the calls' own time has the rest, too.
    """
    rows = _rows_of(entry, report)
    if not rows or any(row.form == "blocking" or row.offloaded < row.calls for row in rows):
        return entry.post_seconds.sum
    return max(entry.post_seconds.sum, sum(row.seconds.sum for row in rows) - entry.completion_seconds.sum)


def _computed(entry: Collective, report: Report) -> float:
    """Between the calls: what lies before the waits also has the starting calls and the tests in it."""
    rows = _rows_of(entry, report)
    calls = sum(row.offloaded for row in rows)
    before = sum(row.before_wait.seconds * _share(row) for row in rows)
    waited = sum(row.before_wait.operations * _share(row) for row in rows)
    inside = starting_seconds(entry, report) + sum(row.tests.seconds * _share(row) for row in rows)
    return max(0.0, before - inside * min(1.0, waited / max(calls, 1)))


def _not_hidden(entry: Collective, report: Report) -> float:
    """All of the rows where nothing in them was native, else what is measured of the others."""
    rows = _rows_of(entry, report)
    measured = entry.post_seconds.sum + entry.completion_seconds.sum
    return measured if _is_mixed(rows) else max(measured, sum(row.seconds.sum for row in rows))


def _is_mixed(rows: list[Call]) -> bool:
    return any(row.offloaded < row.calls for row in rows)


def not_hidden_seconds(report: Report) -> float:
    """In offloaded calls and in what waits for them."""
    return sum(_not_hidden(entry, report) for entry in report.collectives if entry.offloaded)


def is_least(report: Report) -> bool:
    """There was more of these: ranks that share cores let others run after the post, which mixed rows do not tell."""
    return report.no_spare_core and any(_is_mixed(_rows_of(entry, report)) for entry in report.collectives)


def computed_seconds(report: Report) -> float:
    """Between the starts of offloaded operations and the waits for them; of several at once not more than there is."""
    computed = sum(_computed(entry, report) for entry in report.collectives)
    run = report.run_seconds
    if run is None:
        return computed
    return min(computed, max(0.0, run.sum - sum(row.seconds.sum for row in report.calls)))
