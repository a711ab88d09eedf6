"""Explains calls that stayed native because of a measured choice, or because nothing was tried."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from outrigger import learned
from outrigger.report_data import Call, Report, format_seconds
from outrigger.report_reasons import BEFORE_A_TRIAL, MEASURED, NOT_TRIED, in_words

CHOSEN = (MEASURED, NOT_TRIED)
"""Reasons of the choice between native and offloaded."""
_TO_EACH = ("ialltoall", "iscatter", "ineighbor_alltoall")
"""A rank sends as many blocks as there are ranks."""
_OF_A_NAME = 5
"""Letters that distinguish Open MPI, MPICH and Intel MPI in reports and decision files."""


def block_bytes(entry: Call) -> tuple[float, float]:
    """The least and the most of one of its blocks."""
    to_each = entry.collective is not None and entry.collective.startswith(_TO_EACH)
    blocks = max(entry.size, 1) if to_each else 1
    return entry.bytes.min / blocks, entry.bytes.max / blocks


def _learned_on(row: Call, report: Report, kept: Sequence[learned.Kept]) -> datetime | None:
    """When an earlier run of the program found that these calls should be native. A trial offloads calls: none was in
    this run.
    """
    if row.offloaded or not row.collective:
        return None
    form = "blocking" if row.form == "blocking" else "nonblocking"
    least, most = map(learned.size_class, block_bytes(row))
    dates = [
        choice.since
        for each in kept
        if each.program == report.program and each.mpi[:_OF_A_NAME] == report.mpi[:_OF_A_NAME]
        for choice in each.choices
        if (choice.collective, choice.form, choice.ranks, choice.way) == (row.collective, form, row.size, "native")
        and least <= choice.size_class <= most
    ]
    return max(dates, default=None)


def why(reason: str, row: Call, report: Report, kept: Sequence[learned.Kept]) -> str:
    """In words why calls of a row stayed native."""
    if reason in CHOSEN and (date := _learned_on(row, report, kept)):
        return f"as learned on {date:%Y-%m-%d}"
    return in_words(reason, row.form)


def calls_of_a_rank(row: Call, calls: int) -> int:
    """How many of these calls each of its counted ranks has made."""
    return calls // max(row.seconds.ranks, 1)


def _chosen(row: Call) -> int:
    return sum(row.native.get(reason, 0) for reason in CHOSEN)


def explanation(report: Report, kept: Sequence[learned.Kept]) -> str:
    """Why, of the row with most such calls."""
    row = max((row for row in report.calls if row.size != 1), key=_chosen)
    if date := _learned_on(row, report, kept):
        return f"as learned on {date:%Y-%m-%d}, which `outrigger cache` lists"
    if row.native.get(NOT_TRIED, 0) < row.native.get(MEASURED, 0):
        return "as earlier runs have shown, which `outrigger cache` lists"
    calls = calls_of_a_rank(row, _chosen(row))
    run = report.run_seconds
    made = f"{calls:,} {row.call} of a rank" + (f" in {format_seconds(run.mean)}" if run is not None else "")
    if calls < BEFORE_A_TRIAL:
        return f"too few calls to try offloading, {made}; it is tried after {BEFORE_A_TRIAL}"
    return f"too short to try offloading, {made}: `--choice early` tries it early, for later runs"
