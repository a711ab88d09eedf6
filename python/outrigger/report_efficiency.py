"""Efficiencies of a run, as the POP Centre of Excellence defines them (https://co-design.pop-coe.eu/metrics/index.html).

    parallel efficiency      = load balance * communication efficiency  = mean computation / time of the run
    load balance             = mean computation / longest computation
    communication efficiency = serialization * transfer                 = longest computation / time of the run
    serialization            = longest computation / time of the run with transfers that take no time
    transfer                 = time of the run with transfers that take no time / time of the run

Computation is what a rank does outside collectives and the calls that wait for them. The report has sums over the run,
and not when each rank came to each call. So the time of transfers is known only up to a bound: in a call in which all
ranks meet, no rank is quicker than the transfer.

The same holds for a phase that the program names, with the time in the phase for the time of the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from outrigger import report_times
from outrigger.report_data import Call, Phase, Report, Spread, format_seconds
from outrigger.report_model import Cell, Column, Line, Table, Tone, cell

_MEET = {
    "MPI_Alltoall", "MPI_Allgather", "MPI_Allgatherv", "MPI_Allreduce", "MPI_Reduce_scatter",
    "MPI_Reduce_scatter_block", "MPI_Barrier",
}  # fmt: skip
"""Those of src/protocol/collective_calls.hpp: in others a rank may have no data while others have some."""
_KNOWN = 0.99
"""Part of the time in communication. A bound above it tells nothing."""


def meets(entry: Call) -> bool:
    """True for calls that no rank leaves before the last one of their communicator, of which all are counted, has
    arrived. Waits of nonblocking calls tell nothing: they may be short because the transfer was hidden.
    """
    return entry.form == "blocking" and entry.call in _MEET and entry.seconds.ranks == entry.size


@dataclass(frozen=True)
class Efficiencies:
    """Fractions from 0 to 1."""

    run_seconds: float
    """The longest run of a rank."""
    computation: Spread
    load_balance: float
    communication: float
    most_serialization: float | None
    """Upper bound. None: there is none below 1."""
    least_transfer: float | None
    """Lower bound."""

    @property
    def parallel(self) -> float:
        """Product of the factors."""
        return self.load_balance * self.communication


def _most_transfer_seconds(report: Report) -> float:
    """Upper bound of the time for transfers on a rank."""
    return sum(
        entry.seconds.min if meets(entry) and entry.size == report.ranks else entry.seconds.max
        for entry in report.calls
        if entry.size != 1
    )


def _of_times(run: Spread | None, outside: Spread | None, transfer: float) -> Efficiencies | None:
    """`transfer`: upper bound of a rank's seconds."""
    if run is None or outside is None or outside.ranks < 2 or run.max <= 0 or outside.max <= 0:
        return None
    longest = min(outside.max, run.max)
    within = run.max - longest
    known = transfer < _KNOWN * within
    return Efficiencies(
        run_seconds=run.max,
        computation=outside,
        load_balance=outside.mean / outside.max,
        communication=longest / run.max,
        most_serialization=longest / (run.max - transfer) if known else None,
        least_transfer=(run.max - transfer) / run.max if known else None,
    )


def of_report(report: Report) -> Efficiencies | None:
    """None without more than one rank that has computed, in a report of an earlier version, or if times of threads add
    up to more than the run.
    """
    if report_times.threads_add_up(report):
        return None
    return _of_times(report.run_seconds, report.outside_seconds, _most_transfer_seconds(report))


def of_phase(phase: Phase, report: Report) -> Efficiencies | None:
    """None without more than one rank that has computed in it, or in a report of an earlier version."""
    if phase.meetings is None or phase.meeting_seconds is None or phase.other_seconds is None:
        return None
    all_meet = phase.meetings.ranks == report.ranks and phase.meetings.min == phase.meetings.max
    bound = phase.meeting_seconds.min + phase.other_seconds.max if all_meet else phase.collective_seconds.max
    return _of_times(phase.seconds, phase.outside_seconds, bound)


def of_phases(report: Report) -> list[tuple[Phase, Efficiencies]]:
    """The longest phase first."""
    longest_first = sorted(report.phases, key=lambda each: -each.seconds.sum)
    return [(phase, found) for phase in longest_first if (found := of_phase(phase, report)) is not None]


def as_data(found: Efficiencies | None) -> dict[str, float | None] | None:
    """For --json."""
    if found is None:
        return None
    return {
        "parallel": found.parallel,
        "load_balance": found.load_balance,
        "communication": found.communication,
        "serialization_at_most": found.most_serialization,
        "transfer_at_least": found.least_transfer,
    }


_COLUMNS = (
    Column(title="efficiency", is_text=True),
    Column(title=""),
    Column(title="", is_text=True, wraps=True),
)
_GOOD = 0.95
_COUNTED = (
    "Time in collectives and in their waits counts as communication. All else counts as computation, also MPI_Send, "
    "MPI_Recv and other MPI calls."
)
_SOURCE = (
    "Parallel efficiency is load balance times communication efficiency, as the POP Centre of Excellence defines them "
    "(pop-coe.eu)."
)
_FACTORS = (
    "Communication efficiency is serialization, lost by waiting for other ranks, times transfer, lost by moving data."
)
_BOUNDS = f"{_FACTORS} The run has sums of times and not each call, so only bounds are known."
_UNKNOWN = f"{_FACTORS} The run has sums of times and not each call, which do not tell the two apart."


_THREADS = (
    "Times of several threads of a rank add up, here to more than its run: parts of the run are of one thread, and "
    "efficiencies are not known."
)


def _percent(part: float) -> str:
    return f"{100 * part:.0f}%"


def _row(depth: int, name: str, part: float, meaning: str, bound: str = "") -> tuple[Cell, ...]:
    indent = "\u00a0\u00a0" * depth
    return cell(f"{indent}{name}"), cell(f"{bound}{_percent(part)}", bar=part), cell(meaning)


def _verdict(found: Efficiencies) -> str:
    """The factor that costs most."""
    if found.parallel >= _GOOD:
        return "The ranks compute nearly all the time: faster collectives would gain little."
    if found.load_balance < found.communication:
        rank = found.computation.max_rank
        return f"Uneven computation costs most: the others wait for rank {rank}, which computes longest."
    return "Communication costs most: time in collectives, and waiting in them."


def _rows(found: Efficiencies) -> Iterator[tuple[Cell, ...]]:
    spread, run = found.computation, format_seconds(found.run_seconds)
    mean, longest = format_seconds(spread.mean), f"{format_seconds(spread.max)} of rank {spread.max_rank}"
    yield _row(0, "parallel efficiency", found.parallel, f"a rank's mean computation, {mean}, of the run's {run}")
    yield _row(1, "load balance", found.load_balance, f"this mean, of the longest computation, {longest}")
    yield _row(1, "communication", found.communication, f"the longest computation, {longest}, of the run's {run}")
    if found.most_serialization is not None and found.least_transfer is not None:
        ideal = f"{format_seconds(found.run_seconds * found.least_transfer)} or more"
        longest_of_ideal = f"the longest computation, of a run without time for transfers, {ideal}"
        yield _row(2, "serialization", found.most_serialization, longest_of_ideal, "at most ")
        yield _row(2, "transfer", found.least_transfer, f"such a run, {ideal}, of the run's {run}", "at least ")


_OF_PHASES = (
    Column(title="phase", is_text=True),
    Column(title="parallel", unit="efficiency"),
    Column(title="load", unit="balance"),
    Column(title="communication"),
    Column(title="serialization", unit="at most"),
    Column(title="transfer", unit="at least"),
)
_PHASE_COUNTED = (
    "Efficiencies of a phase count the time in it, without inner phases. A wait counts in the phase that waits."
)


def phase_blocks(report: Report) -> Iterator[Line | Table]:
    """Efficiencies of the phases as a table; nothing if they are unknown."""

    def bound(part: float | None) -> Cell:
        return cell("-" if part is None else _percent(part))

    rows = [
        (
            cell(phase.phase),
            cell(_percent(found.parallel), bar=found.parallel),
            cell(_percent(found.load_balance)),
            cell(_percent(found.communication)),
            bound(found.most_serialization),
            bound(found.least_transfer),
        )
        for phase, found in of_phases(report)
    ]
    if rows:
        yield Table(_OF_PHASES, tuple(rows))
        yield Line(_PHASE_COUNTED, Tone.DIM)


def blocks(report: Report) -> Iterator[Line | Table]:
    """Efficiencies in words and as a table; nothing if they are unknown."""
    if report_times.threads_add_up(report):
        yield Line(_THREADS, Tone.WARNING)
    found = of_report(report)
    if found is None or not report.calls:
        return
    yield Line(_verdict(found))
    yield Table(_COLUMNS, tuple(_rows(found)))
    yield Line(_COUNTED, Tone.DIM)
    yield Line(_SOURCE, Tone.DIM, on_terminal=False)
    yield Line(_UNKNOWN if found.least_transfer is None else _BOUNDS, Tone.DIM, on_terminal=False)
