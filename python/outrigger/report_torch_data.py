"""The report of a PyTorch job as data: made from the counts of its ranks, or read from JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from outrigger import formats
from outrigger.report_data import CallBytes, Ended, Run, Spread
from outrigger.report_torch_ranks import Rank, Row
from outrigger.torch_layout import Form, State, numbers_of, size_class

KIND = "torch"
VERSION = 1
_FORMS = {Form.BLOCKING: "blocking", Form.ASYNC: "async", Form.MESSAGE: "message"}

Ranges = tuple[tuple[int, int], ...]
"""First and last of ranks in a row."""


@dataclass(frozen=True, kw_only=True)
class TorchGroup:
    """A process group."""

    name: str
    label: str
    """As torch calls it."""
    size: int
    ranks: Ranges
    """Ranks of the job. Empty: all if `size` is that of the job, or else unknown."""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """Calls of one operation in a group, of one type, form and range of sizes, over the counted ranks."""

    operation: str
    type: str
    form: str
    """`blocking`, `async` or `message`."""
    group: TorchGroup
    calls: int
    bytes: CallBytes
    """Length of the calling rank's tensors."""
    failed: int
    seconds: Spread
    """In the calls and in wait(), of each rank."""
    completed: int
    """Asynchronous ones and messages only, as all that follow."""
    flight_seconds: Spread
    """From the calls to the completions."""
    waited: int
    """Completed ones for which the program has called wait()."""
    waited_flight_seconds: float
    """The same time of these, all ranks together."""
    hidden_seconds: Spread
    """Part of it in which the calling thread was in no call and in no wait()."""
    futures: int
    """Those whose future was taken."""


@dataclass(frozen=True, kw_only=True)
class HostRanks:
    """Counted ranks of a machine."""

    host: str
    ranks: Ranges


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """A rank that has ended without destroying its groups, and not by Python's exit."""

    rank: int
    operation: str
    """In which it was, or that has failed. Empty: none."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """An earlier start of the ranks by torchrun, or in the same directory. Its calls are in no other figure."""

    ranks: Ranges
    world_size: int
    calls: int
    seconds: float
    """Longest time of a rank."""
    stopped: tuple[Stopped, ...]
    exited: Ranges = ()
    """As in the report."""


@dataclass(frozen=True, kw_only=True)
class Versions:
    """Versions, with commas if ranks differ."""

    outrigger: str = ""
    torch: str = ""
    python: str = ""


@dataclass(frozen=True, kw_only=True)
class TorchReport:
    """The report of a PyTorch job: of its last attempt."""

    kind: str = KIND
    program: str
    world_size: int
    counted_ranks: Ranges
    hosts: tuple[HostRanks, ...]
    missing_ranks: tuple[int, ...]
    """On these hosts, without counts."""
    stopped: tuple[Stopped, ...]
    exited: Ranges = ()
    """Ended by Python's exit, without destroying their groups."""
    ended: Ended | None = None
    """None: not started by `outrigger run`."""
    run: Run | None = None
    versions: Versions
    restarts: int | None
    """How often torchrun had restarted the ranks before."""
    earlier: tuple[Attempt, ...]
    run_seconds: Spread | None
    """From a rank's first group to its end."""
    blocked_seconds: Spread | None
    """Part of it in calls and in wait(). Times of several threads add up."""
    operations: tuple[Operation, ...]

    @property
    def counted(self) -> int:
        """Number of counted ranks."""
        return sum(last - first + 1 for first, last in self.counted_ranks)

    @property
    def calls(self) -> int:
        """Sum over all counted ranks."""
        return sum(entry.calls for entry in self.operations)


def parse(text: str | bytes, what: str) -> TorchReport:
    """Parses a report's JSON."""
    return formats.parse_version(text, TorchReport, VERSION, what)


def ranges(ranks: Iterable[int]) -> Ranges:
    """Numbers as first and last of those in a row."""
    found: list[tuple[int, int]] = []
    for rank in sorted(ranks):
        if found and found[-1][1] == rank - 1:
            found[-1] = (found[-1][0], rank)
        else:
            found.append((rank, rank))
    return tuple(found)


def _spread(values: dict[int, float]) -> Spread:
    """Figures by rank, of at least one."""
    least, most = min(values, key=lambda rank: values[rank]), max(values, key=lambda rank: values[rank])
    return Spread(sum(values.values()), values[least], values[most], least, most, len(values))


_SUMS = (
    "calls", "bytes", "call_seconds", "failed", "completed", "flight_seconds", "waited", "waited_flight_seconds",
    "wait_seconds", "hidden_seconds", "futures",
)  # fmt: skip
Key = tuple[str, str, Form, str, int]


def _key(row: Row) -> Key:
    return (row.operation, row.type, row.form, row.group.name, size_class(row.most_bytes))


def _sum(one: Row, other: Row) -> Row:
    """One row from two of a rank with the same key, as those of groups whose names are not known."""
    sums = {name: getattr(one, name) + getattr(other, name) for name in _SUMS}
    least, most = min(one.least_bytes, other.least_bytes), max(one.most_bytes, other.most_bytes)
    return replace(one, least_bytes=least, most_bytes=most, **sums)


def _operation(rows: dict[int, Row]) -> Operation:
    """One operation from its rows by rank."""
    each = list(rows.values())
    first = each[0]

    def total(number: Callable[[Row], int]) -> int:
        return sum(map(number, each))

    def spread(seconds: Callable[[Row], float]) -> Spread:
        return _spread({rank: seconds(row) for rank, row in rows.items()})

    group = first.group
    calls = total(lambda row: row.calls)
    return Operation(
        operation=first.operation,
        type=first.type,
        form=_FORMS[first.form],
        group=TorchGroup(name=group.name, label=group.label, size=group.size, ranks=ranges(numbers_of(group.ranks))),
        calls=calls,
        bytes=CallBytes(
            calls,
            total(lambda row: row.bytes),
            min(row.least_bytes for row in each),
            max(row.most_bytes for row in each),
        ),
        failed=total(lambda row: row.failed),
        seconds=spread(lambda row: row.blocked_seconds),
        completed=total(lambda row: row.completed),
        flight_seconds=spread(lambda row: row.flight_seconds),
        waited=total(lambda row: row.waited),
        waited_flight_seconds=sum(row.waited_flight_seconds for row in each),
        hidden_seconds=spread(lambda row: row.hidden_seconds),
        futures=total(lambda row: row.futures),
    )


def _operations(ranks: Sequence[Rank]) -> tuple[Operation, ...]:
    found: dict[Key, dict[int, Row]] = {}
    for rank in ranks:
        for row in rank.rows:
            of_key = found.setdefault(_key(row), {})
            of_key[rank.rank] = _sum(of_key[rank.rank], row) if rank.rank in of_key else row
    return tuple(_operation(rows) for rows in found.values())


def _missing(ranks: Sequence[Rank]) -> tuple[int, ...]:
    """Ranks that torchrun started on these hosts, and that have left nothing."""
    expected: set[int] = set()
    for rank in ranks:
        process = rank.process
        if process.local_rank is not None and process.local_world_size is not None:
            first = process.rank - process.local_rank
            expected |= set(range(first, first + process.local_world_size))
    return tuple(sorted(expected - {rank.rank for rank in ranks}))


def _hosts(ranks: Sequence[Rank]) -> tuple[HostRanks, ...]:
    by_host: dict[str, list[int]] = {}
    for rank in ranks:
        by_host.setdefault(rank.process.host, []).append(rank.rank)
    return tuple(HostRanks(host=host, ranks=ranges(found)) for host, found in by_host.items())


def _stopped(ranks: Sequence[Rank]) -> tuple[Stopped, ...]:
    return tuple(Stopped(rank=rank.rank, operation=rank.current) for rank in ranks if rank.state is State.RUNNING)


def _exited(ranks: Sequence[Rank]) -> Ranges:
    return ranges(rank.rank for rank in ranks if rank.state is State.EXITED)


def _attempt(ranks: Sequence[Rank]) -> Attempt:
    return Attempt(
        ranks=ranges(rank.rank for rank in ranks),
        world_size=ranks[0].process.world_size,
        calls=sum(row.calls for rank in ranks for row in rank.rows),
        seconds=max(rank.seconds for rank in ranks),
        stopped=_stopped(ranks),
        exited=_exited(ranks),
    )


def _words(values: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(values))


def make(attempts: Sequence[Sequence[Rank]], ended: Ended | None = None, run: Run | None = None) -> TorchReport:
    """The report of the last attempt. There may be none: no process has made a group."""
    ranks = attempts[-1] if attempts else ()
    processes = [rank.process for rank in ranks]
    return TorchReport(
        program=processes[0].program if processes else "",
        world_size=max((process.world_size for process in processes), default=0),
        counted_ranks=ranges(rank.rank for rank in ranks),
        hosts=_hosts(ranks),
        missing_ranks=_missing(ranks),
        stopped=_stopped(ranks),
        exited=_exited(ranks),
        ended=ended,
        run=run,
        versions=Versions(
            outrigger=_words(process.outrigger for process in processes),
            torch=_words(process.torch for process in processes),
            python=_words(process.python for process in processes),
        ),
        restarts=processes[0].restarts if processes else None,
        earlier=tuple(map(_attempt, attempts[:-1])),
        run_seconds=_spread({rank.rank: rank.seconds for rank in ranks}) if ranks else None,
        blocked_seconds=_spread({rank.rank: _blocked(rank) for rank in ranks}) if ranks else None,
        operations=_operations(ranks),
    )


def _blocked(rank: Rank) -> float:
    return sum(row.blocked_seconds for row in rank.rows)
