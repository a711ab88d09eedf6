"""The PyTorch jobs of this machine: their ranks' counts (torch_layout.py), in the form of keepers' data."""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from outrigger import claims, report_torch_ranks, torch_layout
from outrigger.errors import UserError
from outrigger.live import messages, snapshot, torch_processes
from outrigger.live.answer import Told, printable
from outrigger.live.names import TORCH, UNNAMED
from outrigger.live.snapshot import Call, Communicator, Message, Node, Row, Service
from outrigger.live.torch_processes import Seen
from outrigger.torch_layout import Form, Group, Present, Slot, State, Wait

_LONGEST_LABEL = 16
"""torch gives some groups a hash as their name."""
_FORMS = {Form.BLOCKING: "blocking", Form.ASYNC: "nonblocking", Form.MESSAGE: "message"}
_NS = 1e-9
_UNKNOWN_PEER = -5
"""No rank that is known (messages.py)."""


def read() -> Told:
    """Every job on this machine whose figures this user may read."""
    attempts: dict[tuple[str, int], list[Seen]] = {}
    problems: list[str] = []
    refused: set[int] = set()
    for pid, descriptor in torch_processes.find(claims.sockets()):
        try:
            seen = torch_processes.read(pid, descriptor)
        except PermissionError:
            refused.add(int(torch_processes.fields(pid)[1]))
        except UserError as error:
            problems.append(str(error))
        except OSError:
            continue
        else:
            if seen is not None:
                attempts.setdefault((seen.rank.process.attempt, seen.uid), []).append(seen)
    nodes = []
    for ranks in attempts.values():
        try:
            nodes.append(snapshot.check(_Maker(ranks).node(), "data of a PyTorch job"))
        except (UserError, ValueError, OverflowError, struct.error) as error:
            problems.append(f"data of a PyTorch job cannot be read: {error}")
    return Told(tuple(nodes), tuple(problems), len(refused))


def _step(group: Group) -> tuple[int, int]:
    """The first rank and the distance of its ranks; 0: they have none, or are not known."""
    if len(group.ranks) != 1:
        return 0, 0
    first, _last, step = group.ranks[0]
    return max(0, first), max(0, step)


def _world_rank(group: Group, peer: int) -> int:
    if peer == torch_layout.ANY_PEER:
        return messages.ANY_SOURCE
    if not group.ranks:
        return peer
    for first, last, step in group.ranks:
        count = (last - first) // max(1, step) + 1
        if 0 <= peer < count:
            return first + peer * step
        peer -= max(0, count)
    return _UNKNOWN_PEER


@dataclass
class _Totals:
    """Calls of one operation, form and group by one rank."""

    calls: int = 0
    bytes: int = 0
    least: int | None = None
    most: int = 0
    blocked: float = 0.0
    hidden: float = 0.0

    def add(self, row: report_torch_ranks.Row) -> None:
        self.calls += row.calls
        self.bytes += row.bytes
        self.least = row.least_bytes if self.least is None else min(self.least, row.least_bytes)
        self.most = max(self.most, row.most_bytes)
        self.blocked += row.blocked_seconds
        self.hidden += row.hidden_seconds


@dataclass
class _Maker:
    """Makes a node of the ranks of a job on this machine."""

    seen: list[Seen]
    now_ns: int = field(default_factory=time.monotonic_ns)
    calls: dict[Call, int] = field(default_factory=dict)
    communicators: dict[str, tuple[int, Communicator]] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    present: list[snapshot.Present] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    services: dict[int, None] = field(default_factory=dict)

    def node(self) -> Node:
        self.seen = list({one.rank.rank: one for one in self.seen}.values())
        self.seen.sort(key=lambda one: one.rank.rank)
        for number, one in enumerate(self.seen):
            self._add(number, one)
        head = self.seen[0].rank.process
        return Node(
            job=f"torch-{printable(head.attempt)[:8]}",
            host=printable(head.host),
            keeper=zlib.crc32(head.attempt.encode()) >> 1,
            uid=self.seen[0].uid,
            node=max(0, head.node),
            nodes=max(1, head.nodes),
            world=head.world_size,
            mpi=f"{TORCH} {printable(head.torch)}",
            at_ns=self.now_ns,
            reaches=(),
            reasons=(),
            calls=tuple(self.calls),
            communicators=tuple(one for _, one in self.communicators.values()),
            ranks=tuple(self._rank(one) for one in self.seen),
            rows=tuple(self.rows),
            rows_left_out=0,
            services=tuple(self._service(number, pid) for number, pid in enumerate(self.services)),
            wire=(),
            present=tuple(self.present),
            messages=tuple(self.messages),
            shows_messages=True,
        )

    def _rank(self, one: Seen) -> snapshot.Rank:
        began = self._slots(one)[Slot.BEGAN]
        ended = one.rank.state is not State.RUNNING
        return snapshot.Rank(one.rank.rank, one.pid, 0, False, self._seconds_since(began), 0.0, ended=ended)

    @staticmethod
    def _service(number: int, pid: int) -> Service:
        found = torch_processes.service(pid)
        return Service(number, pid, found.cpu, True, found.ran_ns, found.waited_ns, 0, 0, found.warning)

    @staticmethod
    def _slots(one: Seen) -> Sequence[int]:
        return struct.unpack_from(f"={torch_layout.SLOTS}q", one.data, torch_layout.HEAD_BYTES)

    def _seconds_since(self, then_ns: int) -> float:
        return max(0, self.now_ns - then_ns) * _NS

    def _call(self, name: str, form: Form) -> int:
        return self.calls.setdefault(Call(printable(name), _FORMS[form], None), len(self.calls))

    def _communicator(self, group: Group, world: int) -> int:
        first, stride = _step(group)
        made = Communicator(group.name, _name(group, world), group.size, first, stride)
        return self.communicators.setdefault(group.name, (len(self.communicators), made))[0]

    def _add(self, number: int, one: Seen) -> None:
        threads = self._add_present(number, one)
        self._add_messages(number, one, threads)
        self._add_rows(number, one)

    def _add_rows(self, number: int, one: Seen) -> None:
        totals: dict[tuple[str, str, Form], _Totals] = {}
        groups = {group.name: group for group in one.groups}
        for row in one.rank.rows:
            groups.setdefault(row.group.name, row.group)
            totals.setdefault((row.group.name, row.operation, row.form), _Totals()).add(row)
        for key, seconds in self._unfinished(one).items():
            groups.setdefault(key[0], next(group for group in one.groups if group.name == key[0]))
            totals.setdefault(key, _Totals()).blocked += seconds
        served = {group.name for at, group in enumerate(one.groups) if self._now(one, at)[Present.SERVICE]}
        for (name, operation, form), sums in totals.items():
            offloaded = sums.calls if form is Form.ASYNC and name in served else 0
            at = self._communicator(groups[name], one.rank.process.world_size)
            times = (round(sums.blocked / _NS), round(max(0.0, sums.hidden) / _NS), 0, 0, 0)
            sizes = (sums.calls, offloaded, sums.bytes, sums.least or 0, sums.most)
            self.rows.append(Row(number, self._call(operation, form), at, *sizes, *times, (), ()))

    def _unfinished(self, one: Seen) -> dict[tuple[str, str, Form], float]:
        """Seconds in calls and waits that have not ended."""
        found: dict[tuple[str, str, Form], float] = {}
        for at, group in enumerate(one.groups):
            now = self._now(one, at)
            operation, form = _operation_and_form(one.data, now[Present.ROW])
            if operation and now[Present.STATE] & 1 and form is Form.BLOCKING:
                found[group.name, operation, form] = self._seconds_since(now[Present.SINCE])
            if operation and now[Present.WAITS] > 0:
                found[group.name, operation, Form.ASYNC] = self._seconds_since(now[Present.WAIT_SINCE])
        for at in range(torch_layout.MOST_WAITS):
            wait = self._wait(one, at)
            operation, place = _operation_and_form(one.data, wait[Wait.ROW])[0], _group_of(one.data, wait[Wait.ROW])
            if wait[Wait.STATE] & 1 and operation and 0 <= place < len(one.groups):
                key = (one.groups[place].name, operation, Form.MESSAGE)
                found[key] = found.get(key, 0.0) + self._seconds_since(wait[Wait.SINCE])
        return found

    @staticmethod
    def _now(one: Seen, group: int) -> Sequence[int]:
        at = (torch_layout.PRESENT_AT + group * torch_layout.PRESENT_NUMBERS) * torch_layout.NUMBER_BYTES
        return struct.unpack_from(f"={torch_layout.PRESENT_NUMBERS}q", one.data, at)

    @staticmethod
    def _wait(one: Seen, number: int) -> Sequence[int]:
        at = (torch_layout.WAITS_AT + number * torch_layout.WAIT_NUMBERS) * torch_layout.NUMBER_BYTES
        return struct.unpack_from(f"={torch_layout.WAIT_NUMBERS}q", one.data, at)

    def _add_present(self, number: int, one: Seen) -> int:
        """Operations that have not ended, or else the last one. Returns their number."""
        found = [self._present(number, one, at, group) for at, group in enumerate(one.groups) if group.size]
        known = [each for each in found if each is not None]
        inside = [each for each in known if each.inside]
        shown = inside or sorted(known, key=lambda each: each.seconds)[:1]
        self.present += shown
        return sum(not each.behind for each in shown)

    def _present(self, number: int, one: Seen, at: int, group: Group) -> snapshot.Present | None:
        now = self._now(one, at)
        operation, form = _operation_and_form(one.data, now[Present.ROW])
        if not operation:
            return None
        inside, waits = bool(now[Present.STATE] & 1), now[Present.WAITS] > 0
        service = now[Present.SERVICE]
        if service > 0:
            self.services[service] = None
        return snapshot.Present(
            rank=number,
            call=self._call(operation, form),
            communicator=self._communicator(group, one.rank.process.world_size),
            place=-1,
            inside=inside,
            waits=inside and form is Form.ASYNC and waits,
            number=max(0, now[Present.STATE] // 2),
            seconds=self._seconds_since(now[Present.SINCE]),
            behind=inside and form is Form.ASYNC and not waits and not self._blocks(one, at),
        )

    def _blocks(self, one: Seen, group: int) -> bool:
        """True if the program waits in a blocking operation of the group for the present one."""
        current = self._slots(one)[Slot.CURRENT]
        return bool(report_torch_ranks.operation_of(one.data, current)) and _group_of(one.data, current) == group

    def _add_messages(self, number: int, one: Seen, threads: int) -> None:
        """So many that the job's other threads are known to be elsewhere."""
        slots = self._slots(one)
        known = max(slots[Slot.THREADS], 1)
        found = [message for at in range(torch_layout.MOST_WAITS) if (message := self._message(number, one, at))]
        alone = max(0, known - threads)
        since = self._seconds_since(max(slots[Slot.LAST], slots[Slot.BEGAN]))
        found += [_elsewhere(number, since)] * (min(alone, torch_layout.MOST_WAITS - 1) - len(found))
        self.messages += [_with(message, is_present=at >= alone) for at, message in enumerate(found)]

    def _message(self, number: int, one: Seen, at: int) -> Message | None:
        now = self._wait(one, at)
        operation = report_torch_ranks.operation_of(one.data, now[Wait.ROW])
        if not (now[Wait.STATE] & 1) or not operation:
            return None
        place = _group_of(one.data, now[Wait.ROW])
        group = one.groups[place] if 0 <= place < len(one.groups) else Group(name="", label="", size=0, ranks=())
        peer, is_send = _world_rank(group, now[Wait.PEER]), operation == "send"
        return Message(
            rank=number,
            name=printable(operation),
            inside=True,
            is_present=False,
            calls=max(0, now[Wait.STATE] // 2),
            seconds=self._seconds_since(now[Wait.SINCE]),
            place=-1,
            communicator=_name(group, one.rank.process.world_size),
            size=group.size,
            to=peer if is_send else messages.NO_SIDE,
            to_tag=now[Wait.TAG],
            source=messages.NO_SIDE if is_send else peer,
            source_tag=now[Wait.TAG],
            requests=0,
        )


def _with(message: Message, *, is_present: bool) -> Message:
    return msgspec.structs.replace(message, is_present=is_present)


def _elsewhere(rank: int, seconds: float) -> Message:
    """A thread that waits for no message."""
    none = messages.NO_SIDE
    return Message(rank, "", False, False, 0, seconds, -1, None, 0, none, 0, none, 0, 0)


def _number_in_row(data: bytes, row: int, number: int) -> int:
    return int(struct.unpack_from("=q", data, (row + number) * torch_layout.NUMBER_BYTES)[0])


def _operation_and_form(data: bytes, row: int) -> tuple[str, Form]:
    """Those of the row with this index; an empty name: there is none."""
    operation = report_torch_ranks.operation_of(data, row)
    form = _number_in_row(data, row, torch_layout.Number.FORM) if operation else 0
    return operation, Form(form) if form in set(Form) else Form.BLOCKING


def _group_of(data: bytes, row: int) -> int:
    """-1: there is no such row."""
    known = report_torch_ranks.operation_of(data, row)
    return _number_in_row(data, row, torch_layout.Number.GROUP) if known else -1


def _name(group: Group, world: int) -> str:
    if group.label == "0" and group.size == world:
        return "all ranks"
    label = printable(group.label)
    return f"group {label}" if label and len(label) < _LONGEST_LABEL else UNNAMED
