"""Advice about the collectives with most of a run's time. Every figure is from that run."""

from __future__ import annotations

from collections.abc import Iterable

from outrigger import report_choice
from outrigger.report_calls import could_block, percent, share
from outrigger.report_data import Call, Report, format_bytes, format_seconds, plural
from outrigger.report_efficiency import meets
from outrigger.report_reasons import (
    BEFORE_A_TRIAL,
    BLOCKING,
    NATIVE_JOB,
    NO_SERVICES,
    NOT_TRIED,
    REASONS,
    RULE,
    because,
)

_LEAST_SHARE = 0.05
"""Fraction of the run time. Less is not worth a line."""
_LINES = 5
_NEARLY_ALL = 0.98
"""Fraction of a row's calls. The rest needs no number of its own."""
_UNEVEN = 2.0
"""Ratio of the ranks with the longest and the shortest time in a call."""
_REDUCTIONS = ("iallreduce", "ireduce", "iscan", "iexscan")


def _nonblocking(entry: Call) -> str:
    return "MPI_I" + entry.call.removeprefix("MPI_").lower()


def main_reason(entry: Call) -> str:
    """The reason of most of its native calls; empty if it has none."""
    return max(entry.native, key=lambda name: entry.native[name], default="")


def remedy(reason: str, entry: Call, report: Report) -> str:
    """Remedy for this reason that works for these calls; empty: none."""
    known = REASONS.get(reason)
    if known is None or not _works(reason, entry, report):
        return ""
    if reason == BLOCKING:
        return _blocking_on(entry)
    if reason == RULE and entry.form == "blocking":
        return f"{known.remedy}; `--blocking off` leaves all blocking calls to the MPI"
    return known.remedy.format(collective=entry.collective)


def _works(reason: str, entry: Call, report: Report) -> bool:
    if reason == BLOCKING:
        return could_block(entry, report)
    if reason == NOT_TRIED:
        return report_choice.calls_of_a_rank(entry, entry.native.get(reason, 0)) >= BEFORE_A_TRIAL
    return reason != NATIVE_JOB or (NO_SERVICES in report.native_because and entry.collective is not None)


def _measured(entry: Call, report: Report) -> str:
    size = f" of {format_bytes(entry.bytes.mean)}" if entry.bytes.sum else ""
    return f"{entry.calls:,} calls of {entry.call}{size}, {percent(share(entry, report))} of the run time"


def _late(entry: Call) -> str:
    """The last rank in a synchronizing call: it waits least."""
    seconds = entry.seconds
    if not meets(entry) or seconds.max < _UNEVEN * seconds.min:
        return ""
    return (
        f" Rank {seconds.min_rank} was in it for {format_seconds(seconds.min)}, rank {seconds.max_rank} for "
        f"{format_seconds(seconds.max)}: the last rank waits least."
    )


def _blocking_on(entry: Call) -> str:
    """The report lacks the operations of reductions."""
    collective = entry.collective or ""
    offloads = REASONS[BLOCKING].remedy
    if not collective.startswith(_REDUCTIONS):
        return offloads
    return (
        f"{offloads}, floating-point sums and products only with `--algorithm {collective}=on`, as that may round "
        "otherwise"
    )


def _what_to_do(entry: Call, report: Report) -> str:
    time = format_seconds(entry.seconds.mean)
    if could_block(entry, report):
        return (
            f" {_blocking_on(entry)}; posted earlier as {_nonblocking(entry)}, up to {time} of a rank "
            "could be hidden behind its computation."
        )
    if entry.form == "blocking" and entry.offloaded == entry.calls:
        return f" Offloaded; posted earlier as {_nonblocking(entry)}, up to {time} of a rank could be hidden."
    if entry.form == "nonblocking" and entry.offloaded == entry.calls:
        return " Offloaded: this is the rest in the call and in waits."
    reason = main_reason(entry)
    if entry.native.get(reason, 0) <= max(entry.by_ranks, entry.offloaded):
        return ""
    words = remedy(reason, entry, report)
    return f" {words[0].upper()}{words[1:]}." if words else ""


def _line(entry: Call, report: Report) -> str:
    if entry.by_ranks > entry.calls / 2:
        count = "" if entry.by_ranks >= _NEARLY_ALL * entry.calls else f"{entry.by_ranks:,} of them "
        done = f", {count}done by the ranks themselves."
    else:
        done = f", native because {because(main_reason(entry), entry.form)}." if entry.offloaded == 0 else "."
    return _measured(entry, report) + done + _what_to_do(entry, report) + _late(entry)


def of_kinds(rows: Iterable[Call]) -> list[tuple[Call, str]]:
    """The longest row of each kind, the longest kinds first, and a sentence about its other communicators: a program
    may split its ranks into many.
    """
    kinds: dict[tuple[str, str, int, str, str], list[Call]] = {}
    for row in sorted(rows, key=lambda row: -row.seconds.sum):
        kinds.setdefault((row.call, row.form, row.size, row.communicator, main_reason(row)), []).append(row)
    longest_first = sorted(kinds.values(), key=lambda alike: -sum(row.seconds.sum for row in alike))
    return [(alike[0], _and_more(len(alike) - 1)) for alike in longest_first]


def _and_more(count: int) -> str:
    return f" The same for {plural(count, 'more such communicator')}." if count else ""


def advice(report: Report) -> list[str]:
    """One line for each important kind of rows, the longest first."""
    rows = (entry for entry in report.calls if entry.size != 1 and share(entry, report) >= _LEAST_SHARE)
    return [f"{_line(entry, report)}{more}" for entry, more in of_kinds(rows)[:_LINES]]
