"""First line of a report: effect and cost of Outrigger for the program."""

from __future__ import annotations

from collections.abc import Sequence

from outrigger import report_choice, report_times
from outrigger.learned import Kept
from outrigger.report_calls import could_block, percent
from outrigger.report_data import Report, format_seconds, plural
from outrigger.report_reasons import ALONE, BLOCKING, in_words

_LEAST_PART = 0.0005
"""Smaller parts of the run are shown as less than 0.1%."""
_MEASURE = "`outrigger advise` measures whether that pays."


def _of_a_rank(seconds: float, report: Report) -> float:
    return seconds / max(report.counted, 1)


def computed_seconds(report: Report) -> float:
    """Mean computation of a rank between the starts of offloaded operations and its waits for them."""
    return _of_a_rank(report_times.computed_seconds(report), report)


def waited_seconds(report: Report) -> float:
    """Mean time of a rank in offloaded calls and their waits: the part that is not hidden."""
    return _of_a_rank(report_times.not_hidden_seconds(report), report)


def counts(report: Report) -> tuple[int, int]:
    """Offloaded collective calls, and all calls that were candidates: not those of a single rank."""
    rows = [entry for entry in report.calls if entry.size != 1]
    return sum(entry.offloaded for entry in rows), sum(entry.calls for entry in rows)


def _hidden(report: Report) -> str:
    computed, waited = computed_seconds(report), waited_seconds(report)
    run = report.run_seconds
    of_run = f" ({percent(waited / run.mean)} of the run)" if run is not None and run.mean > 0 else ""
    spent = f"{format_seconds(waited)}{of_run}"
    if computed == 0:
        return f"nothing was computed meanwhile; a rank spent {spent} in them"
    return f"a rank computed for {format_seconds(computed)} meanwhile, and {spent} was not hidden"


def _cores(report: Report) -> Sequence[int]:
    return sorted({process.core for process in report.services if process.core >= 0 and process.core_is_free})


def cost(report: Report) -> str:
    """Cost in service processes and in the ranks' CPU time."""
    count = report.service.processes
    processes = f"{count:,} service process{'' if count == 1 else 'es'}"
    cores = _cores(report)
    on = f" on CPU {', '.join(map(str, cores))}" if cores else " beside the ranks"
    cpu = _of_a_rank(report.rank_cpu_seconds.offloaded_calls.sum, report)
    return f"{processes}{' a node' if report.nodes > 1 else ''}{on}, {format_seconds(cpu)} of a rank's CPU time"


def _why_none(report: Report, kept: Sequence[Kept]) -> str:
    reasons: dict[str, int] = {}
    for entry in report.calls:
        for name, calls in entry.native.items():
            reason = in_words(name, entry.form)
            reasons[reason] = reasons.get(reason, 0) + calls
    reasons.pop(ALONE, None)
    most = max(reasons, key=lambda reason: reasons[reason], default="")
    if most == BLOCKING:
        changes = "; `--blocking on` changes that" if any(could_block(entry, report) for entry in report.calls) else ""
        return f": blocking calls are left to the MPI{changes}"
    if most in report_choice.CHOSEN:
        return f": {report_choice.explanation(report, kept)}"
    return f": {most}" if reasons.get(most) else ""


def done_by_ranks(report: Report) -> int:
    """Calls that the ranks of a node did by themselves."""
    return sum(entry.by_ranks for entry in report.calls)


def _by_ranks(report: Report, calls: int) -> str:
    """Empty if ranks did none by themselves. Without trials nothing is known to be saved."""
    done = done_by_ranks(report)
    if done == 0:
        return ""
    saved = _of_a_rank(sum(entry.saved_seconds for entry in report.calls), report)
    run = report.run_seconds
    if saved == 0 or run is None:
        effect = ""
    else:
        without = run.mean + saved
        part = percent(saved / without) if saved / without >= _LEAST_PART else "less than 0.1%"
        effect = f", which saved about {format_seconds(saved)} ({part} of the {format_seconds(without)} without)"
    return f"{done:,} of {plural(calls, 'collective call')} done by the ranks themselves through shared memory{effect}."


def sentences(report: Report, kept: Sequence[Kept] = ()) -> list[str]:
    """Verdict, then what it cost; empty if no collective was called or counted. `kept`: learned decisions of the
    machine.
    """
    offloaded, calls = counts(report)
    if calls == 0:
        alone = report.ranks == 1 and report.calls
        return ["Nothing to offload: the program ran with one rank; -n sets the number of ranks."] if alone else []
    by_ranks = _by_ranks(report, calls)
    if offloaded == 0 and by_ranks:
        return [by_ranks]
    if offloaded == 0:
        why = ", as the whole job did" if report.native_because else _why_none(report, kept)
        return [f"Nothing was offloaded: all {plural(calls, 'collective call')} ran natively{why}."]
    done = f"{offloaded:,} of {plural(calls, 'collective call')} offloaded: {_hidden(report)}."
    return [*filter(None, (by_ranks, done)), f"Cost: {cost(report)}.", _MEASURE]


def headline(report: Report, kept: Sequence[Kept] = ()) -> str:
    """The same in one line."""
    return " ".join(sentences(report, kept))
