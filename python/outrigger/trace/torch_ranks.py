"""Reads the events that processes of a PyTorch job have recorded (torch_events.py)."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from outrigger import formats, report_torch_ranks, torch_events
from outrigger.errors import UserError
from outrigger.torch_events import EVENT_BYTES, EVENT_NUMBERS, EVENTS_AT_BYTE, FAILED, Field, Kind, Recorder, Slot
from outrigger.torch_layout import (
    GROUP_BYTES,
    HEAD_BYTES,
    MOST_GROUPS,
    MOST_ROWS,
    NAME_BYTES,
    Group,
    Process,
    numbers_of,
)
from outrigger.trace.events import Clock

_EVENT = struct.Struct(f"={EVENT_NUMBERS}q")
_SLOTS = struct.Struct(f"={torch_events.SLOTS}q")
_KINDS = {int(kind): kind for kind in Kind}
_UNKNOWN = Group(name="", label="unknown", size=0, ranks=())


@dataclass(frozen=True, slots=True)
class Event:
    """An event. Nanoseconds of the rank's own clock."""

    kind: Kind
    began: int
    ended: int | None
    bytes: int
    request: int
    place: int
    """For a message its tag."""
    peer: int
    row: int
    group: int
    failed: bool


@dataclass(frozen=True)
class Compared:
    """The rank's clock was compared with that of another rank of the job."""

    rank: int
    clock: Clock


@dataclass(frozen=True)
class Recorded:
    """Events of one process."""

    head: Recorder
    began: int
    ended: int | None
    """None: it was killed, or still runs."""
    dropped: int
    groups: tuple[Group, ...] = field(repr=False)
    names: tuple[str, ...] = field(repr=False)
    events: tuple[Event, ...] = field(repr=False)
    compared: tuple[Compared, ...] = field(repr=False)

    @property
    def process(self) -> Process:
        """Its identity."""
        return self.head.process

    def group(self, number: int) -> Group:
        """By its number in an event."""
        return self.groups[number] if 0 <= number < len(self.groups) else _UNKNOWN

    def name(self, row: int) -> tuple[str, str]:
        """Operation and type of a row."""
        operation, _, kind = self.names[row].partition(" ") if 0 <= row < len(self.names) else ("?", "", "")
        return operation, kind

    @property
    def last(self) -> int:
        """The last time that is known of it."""
        times = [time for event in self.events for time in (event.began, event.ended) if time is not None]
        return max([self.began, self.ended or 0, *times])


def _blocks(data: bytes, at: int, length: int, count: int) -> list[bytes]:
    """Contents of a table, up to the last that is not empty."""
    found = [data[at + number * length : at + (number + 1) * length].rstrip(b"\0") for number in range(count)]
    while found and not found[-1]:
        found.pop()
    return found


def _event(numbers: tuple[int, ...]) -> Event | None:
    """None: none was written, or not all of it."""
    kind = _KINDS.get(numbers[Field.KIND] & ~FAILED)
    began, ended = numbers[Field.BEGAN], numbers[Field.ENDED]
    if kind is None or began <= 0 or (ended and ended < began):
        return None
    row = numbers[Field.ROW]
    return Event(
        kind,
        began,
        ended or None,
        numbers[Field.BYTES],
        numbers[Field.REQUEST],
        numbers[Field.PLACE],
        numbers[Field.PEER],
        row & ((1 << torch_events.GROUP_SHIFT) - 1),
        row >> torch_events.GROUP_SHIFT,
        bool(numbers[Field.KIND] & FAILED),
    )


def _events(data: bytes) -> Iterable[Event]:
    written = data[EVENTS_AT_BYTE:].rstrip(b"\0")
    padded = written + bytes(-len(written) % EVENT_BYTES)
    return filter(None, map(_event, _EVENT.iter_unpack(padded)))


def _compared(event: Event, group: Group, process: Process) -> Compared | None:
    """None: the ranks of the group are not known."""
    ranks = numbers_of(group.ranks) or ([0] if group.size == process.world_size else [])
    return Compared(ranks[0], Clock(event.began, event.bytes, event.place)) if ranks else None


def parse(data: bytes, what: str) -> Recorded | None:
    """From a file's bytes, which errors call `what`. None: its process ended before it had written its identity."""
    head = data[:HEAD_BYTES].rstrip(b"\0")
    if not head.endswith(b"}") or len(data) < EVENTS_AT_BYTE:
        return None
    recorder = formats.parse_version(head, Recorder, torch_events.VERSION, what)
    slots = _SLOTS.unpack_from(data, HEAD_BYTES)
    blocks = _blocks(data, torch_events.GROUPS_AT_BYTE, GROUP_BYTES, MOST_GROUPS)
    groups = [formats.parse(text, Group, f"a group of {what}") if text else _UNKNOWN for text in blocks]
    names = _blocks(data, torch_events.NAMES_AT_BYTE, NAME_BYTES, MOST_ROWS)
    events = list(_events(data))
    found = (
        _compared(event, groups[event.group], recorder.process)
        for event in events
        if event.kind is Kind.CLOCK and event.group < len(groups)
    )
    return Recorded(
        head=recorder,
        began=slots[Slot.BEGAN],
        ended=slots[Slot.ENDED] or None,
        dropped=slots[Slot.DROPPED],
        groups=tuple(groups),
        names=tuple(name.decode(errors="replace") for name in names),
        events=tuple(event for event in events if event.kind is not Kind.CLOCK),
        compared=tuple(filter(None, found)),
    )


def read_all(directory: Path) -> list[list[Recorded]]:
    """All ranks of each start of the job, the first start first."""
    try:
        paths = sorted(directory.glob(f"*{torch_events.SUFFIX}"))
        found = [one for path in paths if (one := parse(path.read_bytes(), f"the events {path}")) is not None]
    except OSError as error:
        raise UserError(f"the events in {directory} cannot be read: {error.strerror}") from error
    return report_torch_ranks.by_attempt(found, lambda one: one.process)
