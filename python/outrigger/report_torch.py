"""The parts of a PyTorch job's report, for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from outrigger import report_torch_ranks
from outrigger.errors import UserError
from outrigger.report_calls import end_of, percent, time_cells
from outrigger.report_data import Ended, Run, format_bytes, format_seconds, plural
from outrigger.report_late import LATE_COLUMNS, LATE_HOW, LEAST_SHARE, MOST_ROWS
from outrigger.report_model import Cell, Column, Line, Narrow, Section, Table, Tone, cell, dim
from outrigger.report_run import run_table
from outrigger.report_torch_data import VERSION, Operation, Ranges, Stopped, TorchReport, make, ranges
from outrigger.torch_layout import MEETING, SUFFIX

_MOST_RANGES = 8
_LONGEST_LABEL = 16
"""torch gives some groups a hash as their name."""


def of_directory(directory: Path, ended: Ended | None = None, run: Run | None = None) -> TorchReport:
    """The report of what ranks have counted there."""
    return make(report_torch_ranks.read_all(directory), ended, run)


def read_directory(directory: Path) -> TorchReport:
    """The same; counts must be there."""
    found = of_directory(directory)
    if not found.counted:
        raise UserError(f"{directory}: there are no counts of a PyTorch job (files *{SUFFIX})")
    return found


def _in_words(found: Ranges) -> str:
    if len(found) > _MOST_RANGES:
        count = sum(last - first + 1 for first, last in found)
        return f"{found[0][0]} to {found[-1][1]} ({count} of them)"
    return ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in found)


def named(found: Ranges) -> str:
    """rank 3, ranks 0 to 2, 5."""
    one = len(found) == 1 and found[0][0] == found[0][1]
    return f"{'rank' if one else 'ranks'} {_in_words(found)}"


def _part(seconds: float, report: TorchReport) -> float:
    """Fraction of a rank's run time."""
    run = report.run_seconds
    return seconds / run.mean if run is not None and run.mean > 0 else 0.0


def _has_unseen_waits(report: TorchReport) -> bool:
    return any(entry.futures for entry in report.operations)


def sentences(report: TorchReport) -> list[str]:
    """Cost of the operations, and the hidden part."""
    blocked = report.blocked_seconds
    if not report.counted or blocked is None:
        return ["Nothing was counted: no process has made a process group of Outrigger."]
    at_least = "at least " if _has_unseen_waits(report) else ""
    spent = f"{at_least}{format_seconds(blocked.mean)} ({percent(_part(blocked.mean, report))} of the run)"
    found = [f"{plural(report.calls, 'call')} of {plural(report.counted, 'rank')}: a rank was blocked for {spent}."]
    waited = sum(entry.waited for entry in report.operations)
    flight = sum(entry.waited_flight_seconds for entry in report.operations)
    hidden = sum(entry.hidden_seconds.sum for entry in report.operations)
    if hidden > 0 and (part := percent(hidden / flight)) != "0%":
        has_messages = any(entry.waited for entry in report.operations if entry.form == "message")
        what = "operation or message" if has_messages else "asynchronous operation"
        words = plural(waited, what).replace("operation or messages", "operations and messages")
        found.append(f"{part} of the time of {words} was hidden: the program did something else meanwhile.")
    return found


def _names(stopped: Iterable[Stopped]) -> str:
    """rank 3, ranks 0 to 2 (in barrier)."""
    found: dict[str, list[int]] = {}
    for one in stopped:
        found.setdefault(one.operation, []).append(one.rank)
    return ", ".join(
        named(ranges(ranks)) + (f" (in {operation})" if operation else "") for operation, ranks in found.items()
    )


def _stops(report: TorchReport) -> str:
    stopped = report.stopped
    if not stopped:
        return ""
    was, its, more = ("was", "its", "") if len(stopped) == 1 else ("were", "their", "s")
    still = "" if report.ended is not None else "still ran, "
    names = _names(stopped)
    found = f"{names[0].upper()}{names[1:]} {still}{was} killed, or ended without Python's exit: "
    found += f"{its} figures end with {its} last call{more}."
    if report.ended is not None and report.ended.code:
        found += " torchrun ends all others when one fails."
    if report.exited:
        found += f" Ended by Python's exit, without destroy_process_group: {named(report.exited)}."
    return found


def _elsewhere(report: TorchReport) -> str:
    """Ranks that the counts cannot show."""
    others = report.world_size - report.counted - len(report.missing_ranks)
    if others <= 0:
        return ""
    seen = ", ".join(host.host for host in report.hosts)
    return (
        f"Counted: {named(report.counted_ranks)} of {report.world_size}, on {seen}. {plural(others, 'other rank')} "
        "ran on other machines, or made no group of Outrigger."
    )


def _missing(report: TorchReport) -> str:
    if not report.missing_ranks:
        return ""
    missing = named(ranges(report.missing_ranks))
    return f"Missing: {missing}, without counts: ended before making a group of Outrigger, or made none."


def _end(report: TorchReport) -> str:
    ended = report.ended
    if ended is None or (ended.how == "exited" and ended.code == 0):
        return ""
    return f"torchrun ended with exit code {ended.code}." if ended.how == "exited" else end_of(ended)


def _failures(report: TorchReport) -> str:
    failed = {entry.operation: 0 for entry in report.operations if entry.failed}
    for entry in report.operations:
        if entry.failed:
            failed[entry.operation] += entry.failed
    return f"Failed calls: {', '.join(f'{calls:,} of {name}' for name, calls in failed.items())}." if failed else ""


def _attempts(report: TorchReport) -> Iterator[str]:
    if report.earlier:
        count = len(report.earlier) + 1
        yield (
            f"The ranks made groups in {count} starts. All figures are of the last one alone; earlier ones are listed "
            "at the end."
        )


def _verdict(report: TorchReport) -> Iterator[Line]:
    first, *more = sentences(report)
    yield Line(first, Tone.STRONG, more=" ".join(more))
    run = report.run_seconds
    if run is not None:
        time = format_seconds(run.mean)
        versions = f"Outrigger {report.versions.outrigger}, torch {report.versions.torch}"
        where = ", ".join(f"{host.host} ({named(host.ranks)})" for host in report.hosts)
        yield Line(f"{plural(report.world_size, 'rank')} under {versions}, {time} from the first group to the end.")
        yield Line(f"Hosts: {where}.")
    for warning in (_end(report), _stops(report), _missing(report), _elsewhere(report), _failures(report)):
        if warning:
            yield Line(warning, Tone.WARNING)
    for line in _attempts(report):
        yield Line(line, Tone.WARNING)


def where(entry: Operation, report: TorchReport) -> str:
    """The group."""
    group = entry.group
    if not group.ranks and group.size in (0, report.world_size):
        return "all ranks" if group.size else group.label
    label = f"group {group.label}, " if group.label and len(group.label) < _LONGEST_LABEL else ""
    return label + (named(group.ranks) if group.ranks else plural(group.size, "rank"))


def _name(entry: Operation, report: TorchReport) -> Cell:
    form = "" if entry.form == "blocking" else f" ({entry.form})"
    return cell(f"{entry.operation}{form}", dim(where(entry, report)))


def _bytes(entry: Operation) -> Cell:
    kind = dim(entry.type)
    if entry.type == "-":
        return cell("-")
    if entry.bytes.min == entry.bytes.max:
        return cell(format_bytes(entry.bytes.max), kind)
    return cell(f"{format_bytes(entry.bytes.min)} to {format_bytes(entry.bytes.max)}", kind)


def _flight(entry: Operation) -> Cell:
    if not entry.completed:
        return cell("-")
    return cell(format_seconds(entry.flight_seconds.mean))


def _hidden(entry: Operation) -> Cell:
    if entry.form == "blocking":
        return cell("-")
    if entry.futures and not entry.waited:
        return cell(dim("future"))
    if not entry.waited or entry.waited_flight_seconds <= 0:
        return cell(dim("no wait"))
    part = entry.hidden_seconds.sum / entry.waited_flight_seconds
    return cell(percent(part), bar=part)


_COLUMNS = (
    Column(title="operation", unit="group", is_text=True, wraps=True),
    Column(title="calls", unit="all ranks"),
    Column(title="bytes", unit="of a call, type", short="bytes", narrow=Narrow.UNDER),
    Column(title="blocked", unit="of a rank"),
    Column(title="of the", unit="run", short="of run", narrow=Narrow.UNDER),
    Column(title="least", unit="(rank)", short="least (rank)"),
    Column(title="most", unit="(rank)", short="most (rank)", narrow=Narrow.UNDER),
    Column(title="to the end", unit="of a rank"),
    Column(title="hidden", narrow=Narrow.UNDER),
)


def _by_time(report: TorchReport) -> list[Operation]:
    return sorted(report.operations, key=lambda entry: -max(entry.seconds.sum, entry.flight_seconds.sum))


def _table(report: TorchReport) -> Table:
    rows = []
    for entry in _by_time(report):
        seconds, part = entry.seconds, _part(entry.seconds.mean, report)
        rows.append(
            (
                _name(entry, report),
                cell(f"{entry.calls:,}"),
                _bytes(entry),
                *time_cells(seconds.mean, part, seconds),
                _flight(entry),
                _hidden(entry),
            )
        )
    return Table(_COLUMNS, tuple(rows))


def _operations(report: TorchReport) -> Iterator[Line | Table]:
    if not report.operations:
        return
    yield _table(report)
    if any(entry.form != "blocking" for entry in report.operations):
        yield Line(
            "Blocked: in the calls and in wait(). To the end: from the calls to the completions of asynchronous "
            "operations. Hidden: the part of it in which the program was in no call and in no wait()."
        )
    if _has_unseen_waits(report):
        yield Line(
            "Futures, as DistributedDataParallel takes them: waits for a future are not seen. So these rows do not say "
            "what was hidden, and the ranks were blocked for longer."
        )


def _late(report: TorchReport) -> Iterator[Line | Table]:
    rows = []
    for entry in report.operations:
        seconds = entry.seconds
        waited = seconds.mean - seconds.min
        meets = entry.form == "blocking" and entry.operation in MEETING
        if meets and seconds.ranks == entry.group.size > 1 and _part(waited, report) >= LEAST_SHARE:
            rows.append((waited, (_name(entry, report), *time_cells(waited, _part(waited, report), seconds))))
    if rows:
        rows.sort(key=lambda row: -row[0])
        yield Table(LATE_COLUMNS, tuple(row for _, row in rows[:MOST_ROWS]))
        yield Line(LATE_HOW)


_EARLIER = (
    Column(title="start", is_text=True),
    Column(title="ranks"),
    Column(title="calls", unit="all ranks"),
    Column(title="time", unit="longest"),
    Column(title="killed", unit="(in operation)", is_text=True, wraps=True),
    Column(title="ended", unit="without destroy", is_text=True, wraps=True),
)


def _earlier(report: TorchReport) -> Iterator[Line | Table]:
    if not report.earlier:
        return
    yield Table(
        _EARLIER,
        tuple(
            (
                cell(f"{number}"),
                cell(f"{_in_words(one.ranks)} of {one.world_size}"),
                cell(f"{one.calls:,}"),
                cell(format_seconds(one.seconds)),
                cell(_names(one.stopped) or "-"),
                cell(_in_words(one.exited) or "-"),
            )
            for number, one in enumerate(report.earlier, start=1)
        ),
    )


def _run(report: TorchReport) -> Iterator[Line | Table]:
    versions = report.versions
    known = {
        "program": report.program, "torch": versions.torch, "Python": versions.python,
        "Outrigger": versions.outrigger, "ranks": f"{report.world_size:,}", "hosts": f"{len(report.hosts):,}",
    }  # fmt: skip
    yield from run_table(known, report.run)


def title(report: TorchReport) -> str:
    """Title of the page."""
    return f"Outrigger: {report.program or 'a program'} on {plural(report.world_size, 'rank')}"


def sections(report: TorchReport) -> list[Section]:
    """All parts with content."""
    found = [
        Section("Verdict", tuple(_verdict(report))),
        Section("Operations", tuple(_operations(report))),
        Section("Late ranks", tuple(_late(report)), on_terminal=False),
        Section("Earlier starts", tuple(_earlier(report))),
        Section("The run", tuple(_run(report)), on_terminal=False),
    ]
    return [section for section in found if section.blocks]


def as_json(report: TorchReport) -> dict[str, Any]:
    """The report as it is written."""
    return {"version": VERSION, **asdict(report)}


def as_data(report: TorchReport) -> dict[str, Any]:
    """For --json: statements about the figures."""
    blocked = report.blocked_seconds
    return {
        "version": VERSION,
        "headline": " ".join(sentences(report)),
        "calls": report.calls,
        "blocked_seconds": blocked.mean if blocked is not None else 0.0,
        "hidden_seconds": sum(entry.hidden_seconds.sum for entry in report.operations) / max(report.counted, 1),
        "stopped_ranks": [one.rank for one in report.stopped],
        "missing_ranks": list(report.missing_ranks),
    }
