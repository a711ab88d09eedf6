"""Compares the timeline that Perfetto reads from a trace with the one that it was written from."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import perfetto_sql

from outrigger.trace.timeline import Timeline

_PROBLEMS = "SELECT name, value FROM stats WHERE severity != 'info' AND value > 0"
_LANES = "SELECT DISTINCT process.name FROM thread JOIN process USING (upid)"
_SLICES = """
    SELECT process.name AS lane, thread.name AS track, slice.name, category, slice.ts, slice.dur, slice.depth
    FROM slice JOIN thread_track ON slice.track_id = thread_track.id JOIN thread USING (utid) JOIN process USING (upid)
"""
_FLOWS = """
    SELECT source.ts AS from_ts, source.category AS source, target.ts AS to_ts, target.category AS target
    FROM flow LEFT JOIN slice source ON source.id = slice_out LEFT JOIN slice target ON target.id = slice_in
"""


def _expected_flows(made: Timeline) -> Counter[tuple[tuple[int, str], ...]]:
    """Perfetto has each step go from the slice that began first: a wait may have begun before the operation."""
    chains = ([one for one in (flow.call, flow.operation, flow.completion) if one is not None] for flow in made.flows)
    return Counter(
        tuple(sorted(((one.begin, one.kind), (other.begin, other.kind))))
        for slices in chains
        for one, other in pairwise(slices)
    )


def _same(found: Counter[Any], expected: Counter[Any]) -> None:
    """Says a few of those that are not: there may be thousands."""
    wrong = [list((found - expected).items())[:3], list((expected - found).items())[:3]]
    assert wrong == [[], []], f"of {found.total()} found, {expected.total()} expected: {wrong}"


def check(text: bytes, made: Timeline) -> None:
    """Skips the test where there is no Perfetto."""
    problems, lanes, slices, flows = perfetto_sql.ask(text, (_PROBLEMS, _LANES, _SLICES, _FLOWS))
    assert problems == []
    assert {lane.title for lane in made.lanes} >= {row["name"] for row in lanes if row["name"] is not None}
    found = [row for row in slices if row["dur"] > 0]
    _same(
        Counter((row["lane"], row["category"], row["name"], row["ts"], row["dur"]) for row in found),
        Counter((one.lane.title, one.kind, one.name, one.begin, max(one.end - one.begin, 1)) for one in made.slices),
    )
    assert all(row["track"] and row["depth"] == 0 for row in found), "slices of one track overlap"
    _same(
        Counter((row["lane"], row["category"], row["ts"]) for row in slices if row["dur"] == 0),
        Counter((mark.lane.title, mark.kind, mark.at) for mark in made.marks),
    )
    steps = (((row["from_ts"], row["source"]), (row["to_ts"], row["target"])) for row in flows)
    _same(Counter(tuple(sorted(step)) for step in steps), _expected_flows(made))
