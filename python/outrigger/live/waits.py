"""Which calls the ranks of a job are in, which ranks are absent there, and what these do instead.

A call is matched between ranks by its communicator, its function and its number among the calls of that function on
that communicator: MPI has all ranks of a communicator call its collectives in the same order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from outrigger.live.messages import communicator_text, message_text, ranges
from outrigger.live.names import CommunicatorNames, is_torch
from outrigger.live.present import (
    MERGED,
    Blocked,
    Key,
    RankNow,
    Thread,
    Where,
    function_of,
    members_of,
    place_text,
    ranks_of,
    seconds_between,
)
from outrigger.live.snapshot import Node

_MOST_MESSAGES = 8
"""Different messages of ranks at one place of the program that are shown one by one."""


@dataclass
class Doing:
    """Ranks that do the same at the same place of the program."""

    ranks: str
    """World ranks: 0-5,7."""
    count: int
    state: str
    """call, wait, background, message, tests, outside (of these calls), finalized or gone."""
    call: str
    """The function; outside of such calls, the last collective. Empty: none yet."""
    communicator: str
    number: int
    """Position among the calls of this function on this communicator."""
    place: str
    called_by: str
    least_seconds: float
    most_seconds: float
    """Since they began with it."""
    message: str = ""
    """Arguments of a call with messages: from rank 0, tag 7, on MPI_COMM_WORLD."""
    more_threads: int = 0
    """Further threads of the ranks that are in calls with messages."""


def _state_of(thread: Thread) -> str:
    """The state of a thread in a call."""
    return "background" if thread.behind else "wait" if thread.waits else "call"


@dataclass
class OpenCall:
    """A collective that some ranks have not ended."""

    call: str
    form: str
    communicator: str
    id: str
    size: int
    """Ranks of the communicator; 0: not known."""
    number: int
    inside: list[Doing]
    absent: list[Doing]
    """Ranks of the communicator that have not arrived at this call."""
    ended: str
    """Ranks that have arrived, and are no longer in it."""
    unseen: str
    """Ranks of the communicator on nodes that were not asked."""
    unknown: int
    """Number of further ranks of the communicator."""


class Waits:
    """The ranks of a job, the collectives that they are in, and those that are absent there."""

    def __init__(self, nodes: Sequence[Node], before: Mapping[tuple[str, int], Node], names: CommunicatorNames) -> None:
        self._names = names
        self._world = nodes[0].world
        self.is_torch = is_torch(nodes[0].mpi)
        pairs = [(node, before.get((node.host, node.keeper))) for node in nodes]
        self.ranks = {rank.world: rank for node, old in pairs for rank in ranks_of(node, old)}
        self.interval = min((seconds_between(old, node) for node, old in pairs), default=0.0)
        """0: some node has been seen once only."""
        self.inside: dict[Key, dict[int, Thread]] = defaultdict(dict)
        for rank in self.ranks.values():
            for thread in rank.open():
                self.inside[thread.key].setdefault(rank.world, thread)
        self.absent = {key: self._absent_of(key) for key in self.inside}

    def _absent_of(self, key: Key) -> list[int]:
        communicator = next(iter(self.inside[key].values())).communicator
        members, _ = members_of(communicator, self._world, self.ranks)
        seen = (self.ranks[rank] for rank in members if rank in self.ranks)
        return [rank.world for rank in seen if rank.world not in self.inside[key] and not rank.has_arrived(key)]

    def _in_message(self, rank: RankNow, blocked: Blocked) -> Doing:
        message, where = blocked.message, blocked.where
        return Doing(
            ranks="",
            count=1,
            state="message",
            call=message.name,
            communicator=communicator_text(message),
            number=0,
            place=place_text(where.object, where.offset, blocked.may_name),
            called_by=place_text(where.caller_object, where.caller_offset, blocked.may_name),
            least_seconds=message.seconds,
            most_seconds=message.seconds,
            message=message_text([message]),
            more_threads=len(rank.blocked) - 1,
        )

    def _doing(self, rank: RankNow, thread: Thread | None) -> Doing:
        """State of one rank; `thread`: the one that is meant, if it is in a call."""
        if thread is None and (blocked := rank.in_message()) is not None:
            return self._in_message(rank, blocked)
        inside = thread is not None and thread.inside
        shown = thread if inside else rank.last()
        state = "outside" if thread is None or not inside else _state_of(thread)
        seconds = shown.seconds if shown is not None else rank.run_seconds
        if not inside and (rank.gone or rank.ended):
            state = "gone" if rank.gone else "finalized"
        elif not inside and rank.tests:
            state = "tests"
        where = shown.where if shown is not None else Where()
        may_name = shown is not None and shown.may_name
        return Doing(
            ranks="",
            count=1,
            state=state,
            call=function_of(shown) if shown is not None else "",
            communicator=self._names.name(shown.communicator) if shown is not None else "",
            number=shown.key.number if shown is not None else 0,
            place=place_text(where.object, where.offset, may_name),
            called_by=place_text(where.caller_object, where.caller_offset, may_name),
            least_seconds=seconds,
            most_seconds=seconds,
            more_threads=len(rank.blocked) if state in ("outside", "tests") else 0,
        )

    def _merged(self, group: Sequence[tuple[int, Doing]]) -> Doing:
        ranks = [rank for rank, _ in group]
        message = group[0][1].message
        if any(one.message != message for _, one in group):
            message = message_text([self.ranks[rank].blocked[0].message for rank in ranks])
        return replace(
            group[0][1],
            ranks=ranges(ranks),
            count=len(group),
            least_seconds=min(one.least_seconds for _, one in group),
            most_seconds=max(one.most_seconds for _, one in group),
            message=message,
            more_threads=sum(one.more_threads for _, one in group),
        )

    def _group(self, doings: Iterable[tuple[int, Doing]]) -> list[Doing]:
        """Ranks with different messages share a text if there are many of them."""
        found: dict[tuple[object, ...], list[tuple[int, Doing]]] = defaultdict(list)
        for rank, one in doings:
            alike = (one.state, one.call, one.communicator, one.number, one.place, one.called_by)
            found[alike].append((rank, one))
        groups: list[list[tuple[int, Doing]]] = []
        for group in found.values():
            exact: dict[str, list[tuple[int, Doing]]] = defaultdict(list)
            for rank, one in group:
                exact[one.message].append((rank, one))
            groups += exact.values() if len(exact) <= _MOST_MESSAGES else [group]
        return sorted(map(self._merged, groups), key=lambda one: (-one.count, -one.most_seconds))

    def what_do(self, ranks: Iterable[int]) -> list[Doing]:
        """The most ranks first."""
        threads = ((rank, self._shown(self.ranks[rank])) for rank in ranks)
        return self._group((rank, self._doing(self.ranks[rank], thread)) for rank, thread in threads)

    @staticmethod
    def _shown(rank: RankNow) -> Thread | None:
        """A thread in a call, if the rank does nothing else."""
        busy = next(iter(rank.busy()), None)
        return busy if busy is not None or rank.in_message() else next(iter(rank.open()), None)

    def open_call(self, key: Key) -> OpenCall:
        """For people."""
        inside = self.inside[key]
        first = next(iter(inside.values()))
        members, unknown = members_of(first.communicator, self._world, self.ranks)
        absent = self.absent[key]
        others = {*inside, *absent}
        ended = [rank for rank in members if rank in self.ranks and rank not in others]
        return OpenCall(
            call=function_of(first),
            form=first.form,
            communicator=self._names.name(first.communicator),
            id=key.communicator,
            size=0 if key.communicator == MERGED else first.communicator.size,
            number=key.number,
            inside=self._group((rank, self._doing(self.ranks[rank], thread)) for rank, thread in inside.items()),
            absent=self.what_do(absent),
            ended=ranges(ended),
            unseen=ranges(rank for rank in members if rank not in self.ranks),
            unknown=unknown,
        )

    def longest(self, key: Key) -> float:
        """Seconds that a rank has been in this call."""
        return max(thread.seconds for thread in self.inside[key].values())

    def _next_keys(self, key: Key) -> list[Key]:
        """Calls in which ranks are that have not arrived at this one. A rank with several threads may still arrive."""
        found: dict[Key, None] = {}
        for rank in self.absent[key]:
            threads = self.ranks[rank].busy()
            if len(threads) == 1 and not (self.ranks[rank].has_threads() or self.ranks[rank].moved):
                found[threads[0].key] = None
        return list(found)

    def circle(self) -> list[Key]:
        """Calls of which each waits for ranks in the next; empty: there is none."""
        over: set[Key] = set()
        for start in self.inside:
            way: list[Key] = []
            left = [iter([start])]
            while left:
                key = next(left[-1], None)
                if key is None:
                    left.pop()
                    if way:
                        over.add(way.pop())
                elif key in way:
                    return way[way.index(key) :]
                elif key not in over:
                    way.append(key)
                    left.append(iter(self._next_keys(key)))
        return []

    def thread_in(self, key: Key) -> Thread:
        """One that is in this call."""
        return next(iter(self.inside[key].values()))

    def what_does(self, rank: int) -> Doing:
        """One rank."""
        return self.what_do([rank])[0]

    def in_messages(self) -> list[int]:
        """Ranks in calls with messages and in no collective, the longest first."""
        found = ((rank, one.in_message()) for rank, one in self.ranks.items())
        times = [(-blocked.message.seconds, rank) for rank, blocked in found if blocked is not None]
        return [rank for _, rank in sorted(times)]

    def waits(self) -> bool:
        """True if some rank is in such a call."""
        return bool(self.inside or self.in_messages())

    def called(self, key: Key) -> str:
        """MPI_Barrier on MPI_COMM_WORLD."""
        thread = self.thread_in(key)
        return f"{function_of(thread)} on {self._names.name(thread.communicator)}"
