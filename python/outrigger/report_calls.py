"""End of the job in a report, and the table of every collective that its program called."""

from __future__ import annotations

import signal
from collections.abc import Sequence

from outrigger import report_choice
from outrigger.learned import Kept
from outrigger.report_data import Call, Collective, Ended, Report, Spread, format_bytes, format_seconds, plural
from outrigger.report_model import Cell, Column, Line, Narrow, Piece, Table, Tone, cell, dim
from outrigger.report_reasons import AS_FAST, BLOCKING, FEW


def share(entry: Call, report: Report) -> float:
    """Fraction of a rank's run time in these calls, as a mean over the ranks with such calls."""
    run = report.run_seconds
    return entry.seconds.mean / run.mean if run is not None and run.mean > 0 else 0.0


_SMALL_BYTES = 8192
"""Blocks up to this size go natively in every form (src/protocol/options/selection.hpp)."""


_LEFT = {BLOCKING, FEW, AS_FAST}
"""Reasons of blocking calls that no rule offloads."""


def could_block(entry: Call, report: Report) -> bool:
    """True for a blocking form that `--blocking on` would offload: not without service processes, or if all blocks are
    small.
    """
    if report.service.processes == 0 or report.native_because:
        return False
    left = entry.form == "blocking" and entry.collective is not None and not _LEFT.isdisjoint(entry.native)
    return left and entry.by_ranks == 0 and report_choice.block_bytes(entry)[1] > _SMALL_BYTES


def percent(part: float) -> str:
    """Whole percentages, with one digit more below 1 %."""
    if part >= 0.0095:
        return f"{100 * part:.0f}%"
    return f"{100 * part:.1f}%" if part >= 0.0005 else "0%"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def end_of(ended: Ended) -> str:
    """End of the job in words; empty if it called MPI_Finalize."""
    by = "" if ended.rank is None else f" by rank {ended.rank}"
    of = "" if ended.rank is None else f", rank {ended.rank} first"
    why = f": {ended.text}" if ended.text else ""
    match ended.how:
        case "finalized":
            return ""
        case "aborted":
            return f"The job was ended by MPI_Abort with code {ended.code}{by}{why}."
        case "signal":
            return f"The job was ended by {_signal_name(ended.signal or 0)}{of}{why}."
        case "exited":
            return f"The job ended without MPI_Finalize{of}, with exit code {ended.code}{why}."
        case "ended":
            return f"The job could not go on{why}."
        case "running":
            return f"The job is still running, or ended without a message{why}."
    return f"The job ended without MPI_Finalize{of}{why}."


def counted(report: Report) -> str:
    """The counted ranks, if not all."""
    if report.counted_ranks is None or report.counted == report.ranks:
        return ""
    if not report.counted:
        return "No rank has counted anything."
    words = ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in report.counted_ranks)
    return f"Counted {'is rank' if report.counted == 1 else 'are ranks'} {words} of {report.ranks}."


def heading(report: Report) -> list[Line]:
    """Lines above the table."""
    lines = []
    if report.run_seconds is not None and report.run_seconds.ranks > 0:
        time = format_seconds(report.run_seconds.mean)
        lines.append(Line(f"{plural(report.ranks, 'rank')} under {report.mpi}, {time} from MPI_Init to the end."))
    lines += [Line(line, Tone.WARNING) for line in (end_of(report.ended), counted(report)) if line]
    if report.native_because:
        by_ranks = any(entry.by_ranks for entry in report.calls)
        what = "No call was offloaded" if by_ranks else "The whole job ran natively"
        lines.append(Line(f"{what}: {report.native_because}.", Tone.WARNING))
    return lines


def where(entry: Call | Collective) -> str:
    """Communicator and its size."""
    if entry.size <= 1:
        return entry.communicator
    return f"{entry.communicator}, {entry.size} ranks"


def _bytes(entry: Call) -> Cell:
    if entry.bytes.sum == 0:
        return cell("-")
    text = format_bytes(entry.bytes.mean)
    return cell(text) if entry.bytes.min == entry.bytes.max else cell(text, dim(f"to {format_bytes(entry.bytes.max)}"))


def of_rank(seconds: float, rank: int) -> Cell:
    """Time of one rank."""
    return cell((Piece(f"{format_seconds(seconds)} "), dim(f"({rank})")))


def time_cells(seconds: float, part: float, spread: Spread) -> tuple[Cell, ...]:
    """A time, its part of the run, and the ranks with the least and the most time."""
    ends = of_rank(spread.min, spread.min_rank), of_rank(spread.max, spread.max_rank)
    return (cell(format_seconds(seconds)), cell(percent(part), bar=part), *ends)


def _served(entry: Call, report: Report, kept: Sequence[Kept]) -> Cell:
    """How the calls were done."""
    ways = (("offloaded", entry.offloaded), ("by ranks", entry.by_ranks))
    parts = [Piece(way if calls == entry.calls else f"{way} {calls:,}", Tone.GOOD) for way, calls in ways if calls]
    only = len(entry.native) == 1 and not parts
    native = [
        (report_choice.why(reason, entry, report, kept), calls) for reason, calls in entry.native.items() if calls
    ]
    return cell(*parts, *(reason if only else f"{calls:,} {reason}" for reason, calls in native))


def name(entry: Call) -> Cell:
    """The call and its communicator."""
    return cell(entry.call, dim(where(entry)))


_COLUMNS = (
    Column(title="call", unit="communicator", is_text=True, wraps=True),
    Column(title="calls", unit="all ranks"),
    Column(title="bytes", unit="of a call", narrow=Narrow.UNDER),
    Column(title="time", unit="of a rank"),
    Column(title="of the", unit="run", short="of run", narrow=Narrow.UNDER),
    Column(title="least", unit="(rank)", short="least (rank)"),
    Column(title="most", unit="(rank)", short="most (rank)", narrow=Narrow.UNDER),
    Column(title="by ranks, or", unit="native, why", is_text=True, wraps=True),
)


def table(report: Report, kept: Sequence[Kept] = ()) -> Table:
    """A row for each call and communicator, the longest first."""
    rows = []
    for entry in sorted(report.calls, key=lambda entry: -entry.seconds.sum):
        part, seconds = share(entry, report), entry.seconds
        rows.append(
            (
                name(entry),
                cell(f"{entry.calls:,}"),
                _bytes(entry),
                *time_cells(seconds.mean, part, seconds),
                _served(entry, report, kept),
            )
        )
    return Table(_COLUMNS, tuple(rows))
