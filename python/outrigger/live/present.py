"""The present call of each rank of a job, from the data of its nodes."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from outrigger import code_places
from outrigger.code_places import CodePlace
from outrigger.live.snapshot import Communicator, Message, Node, Present

_MOST_THREADS = 8
"""A rank shows the calls of no more (src/report/ledger.hpp)."""
MERGED = "0" * 32
"""Id of communicators that are counted together (src/report/ledger.hpp)."""
_SAME_TIME_SECONDS = 1e-5


class Where(NamedTuple):
    """Call site and its caller; empty objects: unknown."""

    object: str = ""
    offset: int = 0
    caller_object: str = ""
    caller_offset: int = 0


class Key(NamedTuple):
    """A collective, the same on all ranks."""

    communicator: str
    call: str
    number: int


@dataclass(frozen=True)
class Thread:
    """A thread that has called collectives, and its last call."""

    key: Key
    form: str
    communicator: Communicator
    inside: bool
    waits: bool
    seconds: float
    where: Where
    may_name: bool
    """The program's file belongs to this user."""
    behind: bool = False
    """In the background: the program does something else, or waits unseen."""


@dataclass(frozen=True)
class Blocked:
    """A thread that is in a call with messages, or waits for requests."""

    message: Message
    where: Where
    may_name: bool


@dataclass
class RankNow:
    """One rank."""

    world: int
    pid: int
    host: str
    gone: bool
    ended: bool
    run_seconds: float
    moved: bool = False
    tests: bool = False
    """It has spent time in tests of requests between two looks."""
    threads: list[Thread] = field(default_factory=list)
    blocked: list[Blocked] = field(default_factory=list)
    """Threads in calls with messages, the longest first."""
    other_threads: int = 0
    """Threads with messages that have called no collective."""
    shows_messages: bool = False
    """Those of all its threads."""
    calls: dict[tuple[str, str], int] = field(default_factory=dict)
    """Ended calls, by communicator and function."""
    all_calls: bool = True
    """`calls` has all of them."""

    def open(self) -> list[Thread]:
        """Threads that are in a call; none of a rank that has ended, wherever it ended."""
        return [] if self.gone or self.ended else [thread for thread in self.threads if thread.inside]

    def busy(self) -> list[Thread]:
        """Those that are not in the background."""
        return [thread for thread in self.open() if not thread.behind]

    def in_message(self) -> Blocked | None:
        """Its longest call with messages, if all its known threads are in such calls and none in a collective."""
        others = sum(not thread.behind for thread in self.threads) + self.other_threads
        all_blocked = self.blocked and len(self.blocked) >= others
        return self.blocked[0] if all_blocked and not (self.busy() or self.gone or self.ended) else None

    def has_threads(self) -> bool:
        """True if it is known to have several."""
        return sum(not thread.behind for thread in self.threads) + self.other_threads > 1

    def last(self) -> Thread | None:
        """Its latest call."""
        return min(self.threads, key=lambda thread: thread.seconds, default=None)

    def has_arrived(self, key: Key) -> bool:
        """True if it has entered the call, started the operation, or may have."""
        reached = self.calls.get(key[:2], 0)
        known = self.all_calls or key[:2] in self.calls
        if not known or len(self.threads) >= _MOST_THREADS or self._has_merged(key.call):
            return True  # no wrong accusations
        ended = self.gone or self.ended
        return reached >= key.number or any(
            thread.key[:2] == key[:2] and thread.key.number >= key.number and not (ended and thread.inside)
            for thread in self.threads
        )

    def _has_merged(self, call: str) -> bool:
        """True if it counts calls of this function together for several communicators."""
        return (MERGED, call) in self.calls or any(thread.key[:2] == (MERGED, call) for thread in self.threads)


_names_of_places: dict[CodePlace, code_places.Named] = {}


def place_text(object_: str, offset: int, may_name: bool) -> str:
    """Text of a place, by files of this machine."""
    if not object_:
        return ""
    place = CodePlace(object_, offset)
    if not may_name:
        return code_places.Named(place).text
    if place not in _names_of_places:
        _names_of_places.update(code_places.named([place]))
    return _names_of_places[place].text


def learn_places(nodes: Iterable[Node]) -> None:
    """Asks for all names at once."""
    wanted = [
        CodePlace(object_, offset)
        for node in nodes
        if node.uid == os.geteuid()
        for place in node.places
        for object_, offset in ((place.object, place.offset), (place.caller_object, place.caller_offset))
        if object_
    ]
    _names_of_places.update(code_places.named(place for place in wanted if place not in _names_of_places))


def function_of(thread: Thread) -> str:
    """MPI_Bcast, persistent MPI_Bcast."""
    if thread.form != "persistent":
        return thread.key.call
    return f"persistent {thread.key.call.removesuffix('_init')}"


def _where(node: Node, place: int) -> Where:
    if place < 0:
        return Where()
    found = node.places[place]
    return Where(found.object, found.offset, found.caller_object, found.caller_offset)


def _thread_of(node: Node, now: Present) -> Thread:
    call, communicator = node.calls[now.call], node.communicators[now.communicator]
    key = Key(communicator.id, call.name, now.number)
    # Analyzing files of other users is not for root.
    may_name = node.uid == os.geteuid()
    where = _where(node, now.place)
    return Thread(key, call.form, communicator, now.inside, now.waits, now.seconds, where, may_name, now.behind)


def _blocked(node: Node, messages: Iterable[Message]) -> list[Blocked]:
    inside = sorted((one for one in messages if one.inside), key=lambda one: -one.seconds)
    return [Blocked(one, _where(node, one.place), node.uid == os.geteuid()) for one in inside]


def _messages_by_rank(node: Node) -> dict[int, list[Message]]:
    found: dict[int, list[Message]] = defaultdict(list)
    for message in node.messages:
        found[node.ranks[message.rank].world].append(message)
    return found


def _spent(node: Node) -> dict[int, tuple[int, int]]:
    """Calls and exposed time of each rank."""
    sums: dict[int, tuple[int, int]] = {}
    for row in node.rows:
        calls, exposed = sums.get(row.rank, (0, 0))
        sums[row.rank] = (calls + row.calls, exposed + row.exposed_ns)
    return {node.ranks[at].world: sum_ for at, sum_ in sums.items()}


def _threads_by_rank(node: Node) -> dict[int, list[Present]]:
    found: dict[int, list[Present]] = defaultdict(list)
    for now in node.present:
        found[node.ranks[now.rank].world].append(now)
    return found


def _state(one: Present | Message) -> tuple[object, ...]:
    return (one.inside, one.waits, one.number) if isinstance(one, Present) else (one.inside, one.calls)


def _has_moved(now: Sequence[Present | Message], before: Sequence[Present | Message], passed: float) -> bool:
    """`passed`: seconds between these looks."""
    if len(now) != len(before):
        return True
    for new, old in zip(now, before, strict=True):
        if _state(new) != _state(old) or abs(new.seconds - old.seconds - passed) > _SAME_TIME_SECONDS:
            return True
    return False


def seconds_between(before: Node | None, node: Node) -> float:
    """0: the node has said nothing new, or has been seen once only."""
    return max(0.0, (node.at_ns - before.at_ns) * 1e-9) if before is not None else 0.0


def ranks_of(node: Node, before: Node | None) -> list[RankNow]:
    """`before`: what the node said before."""
    threads, rows, messages = _threads_by_rank(node), _spent(node), _messages_by_rank(node)
    old_messages = _messages_by_rank(before) if before is not None else {}
    old_threads = _threads_by_rank(before) if before is not None else {}
    old_rows = _spent(before) if before is not None else {}
    passed = seconds_between(before, node)
    found = []
    for rank in node.ranks:
        one = RankNow(rank.world, rank.pid, node.host, rank.gone, rank.ended, rank.run_seconds)
        one.threads = [_thread_of(node, now) for now in threads.get(rank.world, [])]
        one.all_calls = node.rows_left_out == 0
        mine = messages.get(rank.world, [])
        one.shows_messages = node.shows_messages and len(mine) < _MOST_THREADS
        one.blocked = _blocked(node, mine)
        one.other_threads = sum(not message.is_present for message in mine)
        if before is not None and passed > 0:
            now, old = threads.get(rank.world, []), old_threads.get(rank.world, [])
            calls, exposed = rows.get(rank.world, (0, 0))
            old_calls, old_exposed = old_rows.get(rank.world, (0, 0))
            one.moved = _has_moved(now, old, passed) or calls != old_calls
            one.moved = one.moved or _has_moved(mine, old_messages.get(rank.world, []), passed)
            one.tests = not one.moved and not one.open() and exposed > old_exposed
        found.append(one)
    for row in node.rows:
        key = (node.communicators[row.communicator].id, node.calls[row.call].name)
        calls_of = found[row.rank].calls
        calls_of[key] = calls_of.get(key, 0) + row.calls
    return found


def members_of(communicator: Communicator, world: int, ranks: Mapping[int, RankNow]) -> tuple[list[int], int]:
    """Its known world ranks, and the number of others."""
    if communicator.size <= 1 or communicator.id == MERGED:
        return [], 0  # several communicators: those of one rank share an id
    if communicator.size == world:
        return list(range(world)), 0
    if communicator.stride:
        last = communicator.first + communicator.stride * communicator.size
        return list(range(communicator.first, min(last, world), communicator.stride)), 0
    known = [
        one.world
        for one in ranks.values()
        if any(key[0] == communicator.id for key in one.calls)
        or any(thread.key.communicator == communicator.id for thread in one.threads)
    ]
    return sorted(known), max(0, communicator.size - len(known))
