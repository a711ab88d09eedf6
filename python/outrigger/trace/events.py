"""Events from ranks and service processes: binary parts, one per rank (src/trace/snapshot.hpp)."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from outrigger.errors import UserError

MAGIC = b"OUTRTRC1"
VERSION = 2
NO_SEQUENCE = 2**64 - 1
NO_SERVICE = 2**32 - 1
OFFLOADED = 255
BY_RANKS = 254
_HEADER = struct.Struct("<8s4I5Q")
_ABOUT = struct.Struct("<5Ii2q3q3q2q64s256s64s")
_COMMUNICATOR = struct.Struct("<2Q2I64s")
_EVENT = struct.Struct("<2q5QBBHI")
_LATE_BITS = 24
_NAMES_LIMIT = 1 << 20


class Kind(IntEnum):
    """Kind of an event."""

    CALL = 1
    COMPLETION = 2
    COLLECTED = 3
    TAKEN = 4
    MOVE = 5
    REDUCE = 6
    ENDED = 7
    PHASE = 8


@dataclass(frozen=True, slots=True)
class Event:
    """An event, with the fields of trace/event.hpp. Nanoseconds of the rank's own clock."""

    kind: Kind
    began: int
    ended: int
    bytes: int
    group: tuple[int, int]
    sequence: int | None
    subject: int
    detail: int
    name: int
    number: int

    @property
    def pair(self) -> tuple[int, int]:
        """For a move: source and destination world rank."""
        return self.subject >> 32, self.subject & (2**32 - 1)

    @property
    def status(self) -> int:
        """For an ended operation."""
        return self.number >> _LATE_BITS

    @property
    def late(self) -> int:
        """For an ended operation: number of peers that were ready before the rank."""
        return self.number & ((1 << _LATE_BITS) - 1)


@dataclass(frozen=True)
class Clock:
    """Offset from a rank's clock to another one, such as world rank 0's, with the time of its measurement."""

    at: int
    offset: int
    error: int

    @property
    def known(self) -> bool:
        """True if it was measured."""
        return self.error >= 0


def converted(clocks: Sequence[Clock], time: int) -> int:
    """The time of the other clock. `clocks`: ascending measurements. Between two of them the offset drifts linearly."""
    after = bisect_right(clocks, time, key=lambda clock: clock.at)
    if after in (0, len(clocks)):
        return time + clocks[max(0, after - 1)].offset
    first, last = clocks[after - 1], clocks[after]
    share = (time - first.at) / (last.at - first.at)
    return time + first.offset + round(share * (last.offset - first.offset))


@dataclass(frozen=True)
class Communicator:
    """Group of an id."""

    size: int
    name: str


@dataclass(frozen=True)
class Part:
    """Events of one rank, and of its service process for it."""

    rank: int
    ranks: int
    node: int
    nodes: int
    service: int | None
    cpu: int
    started: int
    ended: int | None
    clocks: tuple[Clock, ...]
    dpu: str
    """Its name, if the service process runs on one."""
    dpu_clock_error: int
    left_dpu: int | None
    """Time when its replacement on a core of the node has started."""
    mpi: str
    native_because: str
    names: dict[str, dict[int, str]] = field(repr=False)
    communicators: dict[tuple[int, int], Communicator] = field(repr=False)
    events: list[Event] = field(repr=False)
    service_events: list[Event] = field(repr=False)
    dropped: int
    service_dropped: int

    def name(self, kind: str, number: int) -> str:
        """Name of a number in an event."""
        return self.names.get(kind, {}).get(number, f"{kind} {number}")

    def reference(self, time: int) -> int:
        """Converts a time to the clock of world rank 0."""
        known = [clock for clock in self.clocks if clock.known]
        return converted(known, time) if known else time

    @property
    def clock_error(self) -> int | None:
        """Uncertainty of that, in nanoseconds. None: unknown."""
        known = [clock.error for clock in self.clocks if clock.known]
        return max(known) if known else None

    def on_dpu(self, time: int) -> bool:
        """True if the service process ran on a DPU at that time."""
        return bool(self.dpu) and (self.left_dpu is None or time < self.left_dpu)


class _Reader:
    """Reads bytes in order; all requested ones must exist."""

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._what = what
        self._at = 0

    def more(self) -> bool:
        return self._at < len(self._data)

    def bad(self, why: str) -> UserError:
        return UserError(f"{self._what} is no trace of Outrigger: {why}")

    def take(self, count: int) -> bytes:
        if count > len(self._data) - self._at:
            raise self.bad("it is truncated")
        self._at += count
        return self._data[self._at - count : self._at]


_KINDS = {int(kind): kind for kind in Kind}


def _text(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode(errors="replace")


def _names(raw: bytes) -> dict[str, dict[int, str]]:
    names: dict[str, dict[int, str]] = {}
    for line in raw.decode(errors="replace").splitlines():
        kind, _, rest = line.partition(" ")
        number, _, name = rest.partition(" ")
        if number.isdecimal() and len(number) < 6:
            names.setdefault(kind, {})[int(number)] = name
    return names


def _events(raw: bytes) -> list[Event]:
    """The valid ones: others may have been incomplete at the end of their process."""
    found = []
    for began, ended, size, high, low, sequence, subject, kind, detail, name, number in _EVENT.iter_unpack(raw):
        if kind not in _KINDS or not 0 <= began <= ended:
            continue
        known = None if sequence == NO_SEQUENCE else sequence
        found.append(Event(_KINDS[kind], began, ended, size, (high, low), known, subject, detail, name, number))
    return found


def _communicators(raw: bytes) -> dict[tuple[int, int], Communicator]:
    return {
        (high, low): Communicator(size, _text(name) or "(unnamed)")
        for high, low, size, _, name in _COMMUNICATOR.iter_unpack(raw)
    }


def _read_part(reader: _Reader) -> Part:
    magic, version, header_bytes, event_bytes, communicators, names, events, dropped, serviced, service_dropped = (
        _HEADER.unpack(reader.take(_HEADER.size))
    )
    if magic != MAGIC:
        raise reader.bad("a part has a wrong beginning")
    if version != VERSION:
        raise reader.bad(f"it has version {version}, this command reads version {VERSION}")
    if header_bytes != _HEADER.size + _ABOUT.size or event_bytes != _EVENT.size or names > _NAMES_LIMIT:
        raise reader.bad("its parts have wrong sizes")
    about = _ABOUT.unpack(reader.take(_ABOUT.size))
    rank, ranks, node, nodes, service, cpu, started, ended, *clocks, dpu_error, left_dpu, mpi, because, dpu = about
    if rank >= ranks:
        raise reader.bad(f"it has a rank {rank} of {ranks}")
    return Part(
        rank, ranks, node, nodes, None if service == NO_SERVICE else service, cpu, started, ended or None,
        (Clock(*clocks[:3]), Clock(*clocks[3:])), _text(dpu), max(dpu_error, 0), left_dpu or None, _text(mpi),
        _text(because),
        names=_names(reader.take(names)),
        communicators=_communicators(reader.take(communicators * _COMMUNICATOR.size)),
        events=_events(reader.take(events * _EVENT.size)),
        service_events=_events(reader.take(serviced * _EVENT.size)),
        dropped=dropped,
        service_dropped=service_dropped,
    )  # fmt: skip


def read_parts(data: bytes, what: str) -> list[Part]:
    """Parts of a file; `what` is named in errors."""
    reader = _Reader(data, what)
    parts = []
    while reader.more():
        parts.append(_read_part(reader))
    return parts
