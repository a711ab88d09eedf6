"""Explains calls that measured decisions kept native, if nothing was offloaded."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from outrigger import learned
from outrigger.report_calls import MEASURED, block_bytes
from outrigger.report_data import Call, Report, format_seconds

_BEFORE_A_TRIAL = 140
"""Calls of a kind (docs/inside/algorithms.md, By measuring)."""
_OF_A_NAME = 5
"""Letters that distinguish Open MPI, MPICH and Intel MPI in reports and decision files."""


def _of_rank(row: Call, report: Report) -> int:
    """Calls left to the MPI."""
    return row.native[MEASURED] // max(row.size or report.counted, 1)


def _learned(row: Call, report: Report, kept: Sequence[learned.Kept]) -> datetime | None:
    """Time of the last addition to a decision file that has these calls native."""
    form = "blocking" if row.form == "blocking" else "nonblocking"
    least, most = map(learned.size_class, block_bytes(row))
    dates = [
        each.changed
        for each in kept
        if each.mpi[:_OF_A_NAME] == report.mpi[:_OF_A_NAME]
        for choice in each.choices
        if (choice.collective, choice.form, choice.ranks, choice.way) == (row.collective, form, row.size, "native")
        and least <= choice.size_class <= most
    ]
    return max(dates, default=None)


def explanation(report: Report, kept: Sequence[learned.Kept]) -> str:
    """Reason for the row with most such calls. A trial offloads calls, so there was none in this run."""
    rows = [row for row in report.calls if row.size != 1 and row.native.get(MEASURED)]
    row = max(rows, key=lambda each: each.native[MEASURED])
    if date := _learned(row, report, kept):
        return f"as learned on {date:%Y-%m-%d}, which `outrigger cache` lists"
    if not report.no_spare_core:
        return "as measured by earlier runs, see `outrigger cache`"
    calls = _of_rank(row, report)
    run = report.run_seconds
    made = f"{calls:,} {row.call} of a rank" + (f" in {format_seconds(run.mean)}" if run is not None else "")
    if calls < _BEFORE_A_TRIAL:
        return f"too few calls to try offloading, {made}; it is tried after {_BEFORE_A_TRIAL}"
    return f"too short to try offloading, {made}: `--choice early` tries it early, for later runs"
