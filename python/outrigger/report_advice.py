"""Advice about the collectives with most of a run's time. Every figure is from that run."""

from __future__ import annotations

from outrigger.report_calls import could_block, percent, share
from outrigger.report_data import Call, Report, format_bytes, format_seconds, in_words

_LEAST_SHARE = 0.05
"""Fraction of the run time. Less is not worth a line."""
_LINES = 5
_UNEVEN = 2.0
"""Ratio of the ranks with the longest and the shortest time in a call."""
_MEET = ("alltoall", "allgather", "allreduce", "reduce_scatter", "barrier")
"""No rank leaves these before the last has arrived."""
_BY_RANKS = ("barrier", "bcast", "allgather", "allgatherv", "alltoall", "alltoallv", "gather", "gatherv", "scatter",
             "scatterv")  # fmt: skip
"""Blocking calls that the ranks of a node can do themselves, whatever their datatypes."""
_REDUCTIONS = ("iallreduce", "ireduce", "iscan", "iexscan")

_REASONS = {
    "blocking form": "blocking calls are left to the MPI unless asked for",
    "no offloaded form": "there is no offloaded form of it",
    "native job": "the whole job ran natively",
    "switched off": "its communicator has the info key outrigger=off",
    "group too large": "its communicator has too many ranks",
    "unknown communicator": "its communicator is unknown",
    "intercommunicator": "collectives between two groups are left to the MPI",
    "invalid arguments": "its arguments were left to the MPI",
    "small blocks": "blocks of up to 8 KiB are faster by the MPI itself",
    "service core taken": "other processes took the core of a service process",
    "not tried": "offloading was not tried: no core is spare, and the run was short",
    "group of one": "it is a group of one rank",
}


def _nonblocking(entry: Call) -> str:
    return "MPI_I" + entry.call.removeprefix("MPI_").lower()


def _why(entry: Call) -> str:
    reason = max(entry.native, key=lambda name: entry.native[name], default="")
    return _REASONS.get(reason, f"of {in_words(reason, entry.form)}")


def _measured(entry: Call, report: Report) -> str:
    size = f" of {format_bytes(entry.bytes.mean)} a rank" if entry.bytes.sum else ""
    return f"{entry.calls:,} {entry.call}{size}, {percent(share(entry, report))} of the run time"


def _late(entry: Call) -> str:
    """The last rank in a synchronizing call: it waits least."""
    name = entry.call.removeprefix("MPI_").lower()
    meets = name.startswith(_MEET) or name.removeprefix("i").startswith(_MEET)
    seconds = entry.seconds
    if not meets or entry.size == 0 or seconds.ranks < entry.size or seconds.max < _UNEVEN * seconds.min:
        return ""
    return (
        f" Rank {seconds.min_rank} was in it for {format_seconds(seconds.min)}, rank {seconds.max_rank} for "
        f"{format_seconds(seconds.max)}: the last rank waits least."
    )


def _blocking_on(entry: Call) -> str:
    """The report lacks the operations of reductions."""
    collective = entry.collective or ""
    if not collective.startswith(_REDUCTIONS):
        return " `--blocking on` offloads it"
    return (
        f" `--blocking on` offloads it, floating-point sums and products only with `--algorithm {collective}=on`, as "
        "that may round otherwise"
    )


def _ranks_could(entry: Call, report: Report) -> bool:
    left = "blocking form" in entry.native or "native job" in entry.native
    known = entry.call.removeprefix("MPI_").lower() in _BY_RANKS
    return report.nodes == 1 and entry.form == "blocking" and entry.by_ranks == 0 and left and known


def _what_to_do(entry: Call, report: Report) -> str:
    time = format_seconds(entry.seconds.mean)
    if could_block(entry):
        return (
            f"{_blocking_on(entry)}; posted earlier as {_nonblocking(entry)}, up to {time} of a rank "
            "could be hidden behind its computation."
        )
    if _ranks_could(entry, report):
        return " `--intranode on` lets the ranks of the node do it, where that is faster."
    if entry.form == "blocking" and entry.offloaded == entry.calls:
        return f" Offloaded; posted earlier as {_nonblocking(entry)}, up to {time} of a rank could be hidden."
    if entry.form == "nonblocking" and entry.offloaded == entry.calls:
        return " Offloaded: this is the rest in the call and in waits."
    return ""


def _line(entry: Call, report: Report) -> str:
    if entry.by_ranks > entry.calls / 2:
        done = ", done by the ranks themselves."
    else:
        done = f", native because {_why(entry)}." if entry.offloaded == 0 else "."
    return _measured(entry, report) + done + _what_to_do(entry, report) + _late(entry)


def advice(report: Report) -> list[str]:
    """One line for each important row, the longest first."""
    rows = [entry for entry in report.calls if entry.size != 1 and share(entry, report) >= _LEAST_SHARE]
    return [_line(entry, report) for entry in sorted(rows, key=lambda row: -row.seconds.sum)[:_LINES]]
