"""Turns successive data of keepers into views: rates, fractions of the time, the last minutes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count

from outrigger.live import present, standstill
from outrigger.live.links import LinkRates, between, rates
from outrigger.live.names import CommunicatorNames, named
from outrigger.live.snapshot import Dpu, Node, Row
from outrigger.live.view import (
    CallView,
    DpuView,
    History,
    JobView,
    LinkView,
    NodeView,
    RankColumns,
    ServiceView,
    View,
)

VERSION = 1
MOST_HISTORY = 180
"""Intervals kept per job."""
_KEPT_SECONDS = 10.0
"""A job without new data is shown for this long: keepers may be busy and machines slow."""

_Counts = tuple[int, int, int, int, int]
"""calls, bytes, exposed, hidden and late ns"""


def _counts(row: Row) -> _Counts:
    return (row.calls, row.bytes, row.exposed_ns, row.hidden_ns, row.late_ns)


@dataclass
class _Seen:
    """Last data of a node."""

    node: Node
    at: float
    rows: dict[tuple[int, str, str, int], _Counts] = field(default_factory=dict)
    """By rank, communicator, function and an index among equal ones; in the node's order."""
    reached: dict[str, int] = field(default_factory=dict)
    ran: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """pid, ran_ns, waited_ns by service."""


@dataclass
class _Change:
    """A node and its changes since its last data."""

    node: Node
    seconds: float
    """Between the two; since MPI_Init for the first data."""
    rows: list[_Counts] = field(default_factory=list)
    reached: dict[str, int] = field(default_factory=dict)
    services: list[tuple[float, float]] = field(default_factory=list)
    asleep: list[float] = field(default_factory=list)
    """Fraction of each rank's time."""
    links: LinkRates = field(default_factory=LinkRates)
    dpu: tuple[float, float] = (0.0, 0.0)
    """Bytes read and written in its host's memory, per second."""
    age: float = 0.0
    before: Node | None = None


def _remember(node: Node, now: float) -> _Seen:
    seen = _Seen(node, now)
    for row in node.rows:
        name = (node.ranks[row.rank].world, node.communicators[row.communicator].id, node.calls[row.call].name)
        nth = next(nth for nth in count() if (*name, nth) not in seen.rows)
        seen.rows[*name, nth] = _counts(row)
        for reach, received in row.reached:
            way = node.reaches[reach]
            seen.reached[way] = seen.reached.get(way, 0) + received
    seen.ran = {service.number: (service.pid, service.ran_ns, service.waited_ns) for service in node.services}
    return seen


def _service_parts(node: Node, before: _Seen | None, seconds: float) -> list[tuple[float, float]]:
    parts = []
    for service in node.services:
        pid, ran, waited = before.ran.get(service.number, (0, 0, 0)) if before is not None else (0, 0, 0)
        if pid != service.pid:  # a replacement
            ran = waited = 0
        time = max(seconds, 1e-9) * 1e9
        parts.append(
            (min(1.0, max(0, service.ran_ns - ran) / time), min(1.0, max(0, service.waited_ns - waited) / time))
        )
    return parts


def _without_overlap(node: Node, rows: Sequence[_Counts], seconds: float) -> list[_Counts]:
    """Time hidden behind a rank's computation, counted once. Keepers also count the rest of the posts, and each of
    several operations at the same time.
    """
    exposed, hidden = [0] * len(node.ranks), [0] * len(node.ranks)
    for row, counts in zip(node.rows, rows, strict=True):
        exposed[row.rank] += counts[2]
        hidden[row.rank] += counts[3]
    parts = [
        min(1.0, max(0.0, seconds * 1e9 - spent) / max(behind, 1))
        for spent, behind in zip(exposed, hidden, strict=True)
    ]
    return [
        (calls, data, spent, round(behind * parts[row.rank]), late)
        for row, (calls, data, spent, behind, late) in zip(node.rows, rows, strict=True)
    ]


def _change(node: Node, before: _Seen | None, now: _Seen) -> _Change:
    seconds = max((rank.run_seconds for rank in node.ranks), default=0.0)
    if before is not None:
        seconds = (node.at_ns - before.node.at_ns) * 1e-9
    change = _Change(node, max(seconds, 1e-9), before=before.node if before is not None else None)
    old_rows = before.rows if before is not None else {}
    for key, counts in now.rows.items():
        old = old_rows.get(key, (0, 0, 0, 0, 0))
        calls, data, exposed, hidden, late = (max(0, new - was) for new, was in zip(counts, old, strict=True))
        change.rows.append((calls, data, exposed, hidden, late))
    change.rows = _without_overlap(node, change.rows, change.seconds)
    old_reached = before.reached if before is not None else {}
    change.reached = {way: max(0, sum_ - old_reached.get(way, 0)) for way, sum_ in now.reached.items()}
    change.links = rates(node, before.node if before is not None else None, change.seconds)
    was = before.node.dpu if before is not None else Dpu()
    read, written = max(0, node.dpu.read - was.read), max(0, node.dpu.written - was.written)
    change.dpu = (read / change.seconds, written / change.seconds)
    change.services = _service_parts(node, before, change.seconds)
    slept = {rank.pid: rank.slept_seconds for rank in before.node.ranks} if before is not None else {}
    change.asleep = [
        min(1.0, max(0.0, rank.slept_seconds - slept.get(rank.pid, 0.0)) / change.seconds) for rank in node.ranks
    ]
    return change


@dataclass
class _Sum:
    """Figures of one function on one communicator."""

    name: tuple[str, str, str | None]
    communicator: tuple[str, str, int]
    named: bool
    calls: int = 0
    offloaded: int = 0
    by_ranks: int = 0
    bytes: int = 0
    least: int | None = None
    most: int = 0
    exposed_ns: int = 0
    hidden_ns: int = 0
    late_ns: int = 0
    native: dict[str, int] = field(default_factory=dict)
    new: list[float] = field(default_factory=lambda: [0.0] * 4)
    """calls, bytes, exposed and hidden, per second."""
    latest: tuple[int, int, int] = (0, -1, 0)
    """late ns of the last interval, rank, calls."""

    def add(self, node: Node, row: Row, change: _Counts, seconds: float) -> None:
        self.calls += row.calls
        self.offloaded += row.offloaded
        self.by_ranks += row.by_ranks
        self.bytes += row.bytes
        if row.most_bytes or row.bytes:
            self.least = row.least_bytes if self.least is None else min(self.least, row.least_bytes)
        self.most = max(self.most, row.most_bytes)
        self.exposed_ns += row.exposed_ns
        self.hidden_ns += row.hidden_ns
        self.late_ns += row.late_ns
        for reason, calls in row.native:
            name = node.reasons[reason]
            self.native[name] = self.native.get(name, 0) + calls
        for place, value in enumerate((change[0], change[1], change[2] * 1e-9, change[3] * 1e-9)):
            self.new[place] += value / seconds
        if change[4] > self.latest[0]:
            self.latest = (change[4], node.ranks[row.rank].world, change[0])

    def view(self, ranks: int) -> CallView:
        late, rank, calls = self.latest
        (call, form, collective), (identity, communicator, size) = self.name, self.communicator
        return CallView(
            call=call,
            form=form,
            collective=collective,
            communicator=communicator,
            named=self.named,
            id=identity,
            size=size,
            calls=self.calls,
            calls_per_second=self.new[0],
            offloaded=self.offloaded,
            by_ranks=self.by_ranks,
            bytes=self.bytes,
            bytes_per_second=self.new[1],
            least_bytes=self.least or 0,
            most_bytes=self.most,
            exposed_seconds=self.exposed_ns * 1e-9,
            hidden_seconds=self.hidden_ns * 1e-9,
            exposed=self.new[2] / max(ranks, 1),
            hidden=self.new[3] / max(ranks, 1),
            late_seconds=self.late_ns * 1e-9,
            latest_rank=rank,
            latest_mean_seconds=late * 1e-9 / max(calls, 1),
            native=self.native,
        )


def _sums(changes: Sequence[_Change], names: CommunicatorNames) -> list[_Sum]:
    sums: dict[tuple[str, str], _Sum] = {}
    for change in changes:
        node = change.node
        for row, counts in zip(node.rows, change.rows, strict=True):
            call, comm = node.calls[row.call], node.communicators[row.communicator]
            entry = sums.get((call.name, comm.id))
            if entry is None:
                entry = _Sum(
                    (call.name, call.form, call.collective), (comm.id, names.name(comm), comm.size), named(comm)
                )
                sums[call.name, comm.id] = entry
            entry.add(node, row, counts, change.seconds)
    return sorted(sums.values(), key=lambda entry: (-entry.new[2] - entry.new[3], -entry.calls, entry.name[0]))


def _ranks(changes: Sequence[_Change]) -> RankColumns:
    found: list[tuple[int, int, float, float, float, float, float]] = []
    for change in changes:
        totals = [[0.0] * 4 for _ in change.node.ranks]
        for row, (calls, _bytes, exposed, hidden, late) in zip(change.node.rows, change.rows, strict=True):
            for place, value in enumerate((exposed * 1e-9, hidden * 1e-9, late * 1e-9, calls)):
                totals[row.rank][place] += value / change.seconds
        for rank, (exposed_part, hidden_part, late_part, rate), asleep in zip(
            change.node.ranks, totals, change.asleep, strict=True
        ):
            found.append((rank.world, change.node.node, exposed_part, hidden_part, late_part, rate, asleep))
    columns = RankColumns()
    for world, number, exposed_part, hidden_part, late_part, rate, asleep in sorted(found):
        columns.rank.append(world)
        columns.node.append(number)
        columns.exposed.append(round(min(exposed_part, 1.0), 4))
        columns.hidden.append(round(hidden_part, 4))
        columns.late.append(round(late_part, 6))
        columns.calls_per_second.append(round(rate, 2))
        columns.asleep.append(round(asleep, 4))
    return columns


def _links(changes: Sequence[_Change], totals: Sequence[_Seen]) -> list[LinkView]:
    rates: dict[str, float] = {}
    sums: dict[str, int] = {}
    for change in changes:
        for way, received in change.reached.items():
            rates[way] = rates.get(way, 0.0) + received / change.seconds
    for seen in totals:
        for way, received in seen.reached.items():
            sums[way] = sums.get(way, 0) + received
    routes = dict.fromkeys(f"{route.kind} {route.transports}" for change in changes for route in change.node.wire)
    between = ", ".join(routes)
    links = [
        LinkView(way, received, rates.get(way, 0.0), between if way == "wire" else "")
        for way, received in sums.items()
        if received
    ]
    return sorted(links, key=lambda link: -link.bytes)


def _dpus(changes: Sequence[_Change]) -> list[DpuView]:
    return [
        DpuView(change.node.node, dpu.name, dpu.read, dpu.written, *change.dpu)
        for change in changes
        if (dpu := change.node.dpu).name
    ]


def _services(changes: Sequence[_Change]) -> list[ServiceView]:
    views = []
    for change in changes:
        for service, (ran, waited) in zip(change.node.services, change.services, strict=True):
            views.append(
                ServiceView(
                    node=change.node.node,
                    number=service.number,
                    cpu=service.cpu,
                    core_is_free=service.core_is_free,
                    ran=ran,
                    waited=waited,
                    asleep=max(0.0, 1 - ran - waited) if service.pid else 0.0,
                    restarts=service.restarts,
                    other_job=service.other_job,
                    warning=service.warning,
                )
            )
    return views


@dataclass
class _Past:
    """The last minutes of a job."""

    values: deque[tuple[float, float, float, float, float, float]] = field(
        default_factory=lambda: deque(maxlen=MOST_HISTORY)
    )

    def add(self, now: float, job: JobView) -> None:
        ran = sum(service.ran for service in job.services) / max(len(job.services), 1)
        self.values.append((now, job.calls_per_second, job.bytes_per_second, job.exposed, job.hidden, ran))

    def view(self, now: float) -> History:
        columns = list(zip(*self.values, strict=True)) or [()] * 6
        when, calls, data, exposed, hidden, ran = ([round(value, 6) for value in column] for column in columns)
        return History([round(now - at, 3) for at in when], calls, data, exposed, hidden, ran)


def _standstill(changes: Sequence[_Change], names: CommunicatorNames) -> str:
    nodes = [change.node for change in changes if change.node.ranks]
    if not standstill.may_stand_still(nodes):
        return ""
    before = [change.before for change in changes if change.before is not None]
    present.learn_places(nodes)
    state = standstill.state_of(nodes, before, names)
    return state.verdict if state.stands_still else ""


class Tracker:
    """Receives the data of all nodes repeatedly. Not thread-safe."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int], _Seen] = {}
        self._changes: dict[tuple[str, int], _Change] = {}
        self._past: dict[str, _Past] = {}
        self._names: dict[str, CommunicatorNames] = {}
        self._updated: float | None = None

    def update(self, nodes: Iterable[Node], now: float, problems: Sequence[str] = (), refused: int = 0) -> View:
        """`now`: this command's clock, in seconds; the rest as in sources.Told."""
        for node in nodes:
            key = (node.host, node.keeper)
            before, seen = self._seen.get(key), _remember(node, now)
            if before is None or node.at_ns > before.node.at_ns:
                self._changes[key] = _change(node, before, seen)
                self._seen[key] = seen
        for key in [key for key, seen in self._seen.items() if now - seen.at > _KEPT_SECONDS]:
            del self._seen[key], self._changes[key]
        interval = 0.0 if self._updated is None else now - self._updated
        self._updated = now
        jobs = [self._job(job, now) for job in dict.fromkeys(seen.node.job for seen in self._seen.values())]
        self._past = {job.job: self._past[job.job] for job in jobs}
        self._names = {job.job: self._names[job.job] for job in jobs}
        return View(VERSION, interval, jobs, list(problems), refused)

    def _job(self, job: str, now: float) -> JobView:
        keys = sorted((key for key, seen in self._seen.items() if seen.node.job == job), key=self._order)
        seen, changes = [self._seen[key] for key in keys], [self._changes[key] for key in keys]
        first = seen[0].node
        ranks = sum(len(one.node.ranks) for one in seen)
        names = self._names.setdefault(job, CommunicatorNames())
        names.learn(one.node for one in seen)
        calls = [entry.view(ranks) for entry in _sums(changes, names)]
        services = _services(changes)
        view = JobView(
            job=job,
            mpi=first.mpi,
            world=first.world,
            run_seconds=max((rank.run_seconds for one in seen for rank in one.node.ranks), default=0.0),
            nodes_of_job=first.nodes,
            nodes=[NodeView(one.node.node, one.node.host, len(one.node.ranks), round(now - one.at, 3)) for one in seen],
            services=services,
            calls=calls,
            ranks=_ranks(changes),
            links=_links(changes, seen),
            between_nodes=between([(change.node, change.links) for change in changes]),
            dpus=_dpus(changes),
            history=History(),
            exposed=sum(call.exposed for call in calls),
            hidden=sum(call.hidden for call in calls),
            calls_per_second=sum(call.calls_per_second for call in calls),
            bytes_per_second=sum(call.bytes_per_second for call in calls),
            offloaded=sum(call.offloaded for call in calls),
            by_ranks=sum(call.by_ranks for call in calls),
            native=sum(call.calls - call.offloaded - call.by_ranks for call in calls),
            rows_left_out=sum(one.node.rows_left_out for one in seen),
            warnings=list(dict.fromkeys(service.warning for service in services if service.warning)),
            standstill=_standstill(changes, names),
        )
        past = self._past.setdefault(job, _Past())
        past.add(now, view)
        view.history = past.view(now)
        return view

    def _order(self, key: tuple[str, int]) -> tuple[int, str, int]:
        return (self._seen[key].node.node, *key)
