"""End of the job in a report, and the table of every collective that its program called."""

from __future__ import annotations

import signal
from collections.abc import Sequence

from rich import box
from rich.markup import escape
from rich.table import Table

from outrigger import report_choice
from outrigger.learned import Kept
from outrigger.report_data import Call, Ended, Report, format_bytes, format_seconds, plural

WIDE = 100
"""Minimum width for the figures of a row on one line."""


def share(entry: Call, report: Report) -> float:
    """Fraction of a rank's run time in these calls, as a mean over the ranks with such calls."""
    run = report.run_seconds
    return entry.seconds.mean / run.mean if run is not None and run.mean > 0 else 0.0


_SMALL_BYTES = 8192
"""Blocks up to this size go natively in every form (src/protocol/options/selection.hpp)."""


def could_block(entry: Call) -> bool:
    """True for a blocking form that `--blocking on` would offload: not if all blocks are small."""
    asked = entry.form == "blocking" and entry.collective is not None and "blocking form" in entry.native
    return asked and report_choice.block_bytes(entry)[1] > _SMALL_BYTES


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
            return f"The job ended without a message: no process was left to report how{why}."
    return f"The job ended without MPI_Finalize{of}{why}."


def counted(report: Report) -> str:
    """The counted ranks, if not all."""
    if report.counted_ranks is None or report.counted == report.ranks:
        return ""
    if not report.counted:
        return "No rank has counted anything."
    words = ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in report.counted_ranks)
    return f"Counted {'is rank' if report.counted == 1 else 'are ranks'} {words} of {report.ranks}."


def heading(report: Report) -> str:
    """Lines above the table."""
    lines = []
    if report.run_seconds is not None and report.run_seconds.ranks > 0:
        time = format_seconds(report.run_seconds.mean)
        lines.append(f"{plural(report.ranks, 'rank')} under {report.mpi}, {time} from MPI_Init to the end.")
    lines += [f"[yellow]{escape(line)}[/]" for line in (end_of(report.ended), counted(report)) if line]
    if report.native_because:
        lines.append(f"[yellow]The whole job ran natively: {escape(report.native_because)}.[/]")
    return "\n".join(lines)


def _where(entry: Call) -> str:
    if entry.size <= 1:
        return entry.communicator
    return f"{entry.communicator}, {entry.size} ranks"


def _bytes(entry: Call) -> str:
    if entry.bytes.sum == 0:
        return "-"
    text = format_bytes(entry.bytes.mean)
    return text if entry.bytes.min == entry.bytes.max else f"{text}\n[dim]to {format_bytes(entry.bytes.max)}[/]"


def _rank(seconds: float, rank: int) -> str:
    return f"{format_seconds(seconds)} [dim]({rank})[/]"


def _served(entry: Call, report: Report, kept: Sequence[Kept]) -> str:
    """How the calls were done."""
    ways = (("offloaded", entry.offloaded), ("by ranks", entry.by_ranks))
    parts = [f"[green]{way}{'' if calls == entry.calls else f' {calls:,}'}[/]" for way, calls in ways if calls]
    only = len(entry.native) == 1 and not parts
    native = [
        (report_choice.why(reason, entry, report, kept), calls) for reason, calls in entry.native.items() if calls
    ]
    parts += [reason if only else f"{calls:,} {reason}" for reason, calls in native]
    return "\n".join(parts)


def _new_table() -> Table:
    return Table(box=box.SIMPLE_HEAD, header_style="dim", pad_edge=False, padding=(0, 1))


def _in_order(report: Report) -> list[Call]:
    return sorted(report.calls, key=lambda entry: -entry.seconds.sum)


def _name(entry: Call) -> str:
    return f"{entry.call}\n[dim]{escape(_where(entry))}[/]"


def _least_and_most(entry: Call) -> tuple[str, str]:
    seconds = entry.seconds
    return _rank(seconds.min, seconds.min_rank), _rank(seconds.max, seconds.max_rank)


def _wide_table(report: Report, kept: Sequence[Kept]) -> Table:
    made = _new_table()
    made.add_column("call\ncommunicator", overflow="fold")
    for heading in (
        "calls\nall ranks",
        "bytes\nof a call",
        "time\nof a rank",
        "of the\nrun",
        "least\n(rank)",
        "most\n(rank)",
    ):
        made.add_column(heading, justify="right", no_wrap=True)
    made.add_column("native, why")
    for entry in _in_order(report):
        time, part = format_seconds(entry.seconds.mean), percent(share(entry, report))
        figures = (f"{entry.calls:,}", _bytes(entry), time, part, *_least_and_most(entry))
        made.add_row(_name(entry), *figures, _served(entry, report, kept))
    return made


def _narrow_table(report: Report, kept: Sequence[Kept]) -> Table:
    made = _new_table()
    made.add_column("call\ncommunicator", no_wrap=True, min_width=24)
    for heading in ("calls\nbytes", "time\nof run", "least (rank)\nmost (rank)"):
        made.add_column(heading, justify="right", no_wrap=True)
    made.add_column("native, why")
    for entry in _in_order(report):
        calls = f"{entry.calls:,}\n[dim]{format_bytes(entry.bytes.mean) if entry.bytes.sum else '-'}[/]"
        time = f"{format_seconds(entry.seconds.mean)}\n[dim]{percent(share(entry, report))}[/]"
        made.add_row(_name(entry), calls, time, "\n".join(_least_and_most(entry)), _served(entry, report, kept))
    return made


def table(report: Report, width: int, kept: Sequence[Kept] = ()) -> Table:
    """A row for each call and communicator, the longest first."""
    return _wide_table(report, kept) if width >= WIDE else _narrow_table(report, kept)
