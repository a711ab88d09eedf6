"""Jobs that do not move: which ranks wait in which collective, and for whom."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from outrigger.live.names import CommunicatorNames
from outrigger.live.snapshot import Message, Node, Present
from outrigger.live.verdict import verdict
from outrigger.live.waits import Doing, OpenCall, Waits

STILL_SECONDS = 5.0
"""A job in which no rank has entered or left a call for so long stands still."""
_MOST_TO_LOOK_AT = 3


@dataclass
class JobState:
    """One job."""

    job: str
    mpi: str
    world: int
    ranks: int
    """Seen."""
    nodes: int
    run_seconds: float
    moved: int
    """Ranks that have entered or left a call between two looks."""
    interval_seconds: float
    still_seconds: float
    """Since a rank has entered or left a call."""
    in_messages: int
    """Ranks in calls with messages, and in no collective."""
    calls: list[OpenCall]
    """The longest first."""
    outside: list[Doing]
    """Ranks in none of these calls."""
    verdict: str
    look_at: list[str] = field(default_factory=list)
    """Processes whose stacks show more."""

    @property
    def stands_still(self) -> bool:
        """True if ranks wait and none moves."""
        return (
            bool((self.calls or self.in_messages) and self.interval_seconds)
            and not self.moved
            and self.still_seconds >= STILL_SECONDS
        )


def _to_look_at_one(number: int, waits: Waits) -> str:
    rank = waits.ranks[number]
    if waits.is_torch:
        return f"rank {number}: py-spy dump --pid {rank.pid}     # on {rank.host}; pip install py-spy"
    show = "'thread apply all bt'" if rank.has_threads() else "bt"
    return f"rank {number}: gdb -batch -p {rank.pid} -ex {show}     # on {rank.host}"


def _to_look_at(waits: Waits) -> list[str]:
    """Commands that show the stacks of ranks, or threads, outside of collectives which others wait for."""
    absent = {rank for ranks in waits.absent.values() for rank in ranks}
    wanted = {rank for rank in absent if len(waits.ranks[rank].busy()) < max(1, len(waits.ranks[rank].threads))}
    if not waits.inside:
        wanted = set(waits.ranks) - set(waits.in_messages()) or set(waits.ranks)
    shown = [rank for rank in sorted(wanted) if not waits.ranks[rank].gone]
    return [_to_look_at_one(rank, waits) for rank in shown[:_MOST_TO_LOOK_AT]]


def _threads(node: Node) -> Iterable[Present | Message]:
    return itertools.chain(node.present, node.messages)


def state_of(nodes: Sequence[Node], before: Iterable[Node] = (), names: CommunicatorNames | None = None) -> JobState:
    """State of a job: the nodes of one job, at least one, and what they said before."""
    names = names if names is not None else CommunicatorNames()
    names.learn(nodes)
    waits = Waits(nodes, {(node.host, node.keeper): node for node in before}, names)
    run_seconds = max((rank.run_seconds for rank in waits.ranks.values()), default=0.0)
    return JobState(
        job=nodes[0].job,
        mpi=nodes[0].mpi,
        world=nodes[0].world,
        ranks=len(waits.ranks),
        nodes=nodes[0].nodes,
        run_seconds=run_seconds,
        moved=sum(rank.moved for rank in waits.ranks.values()),
        interval_seconds=waits.interval,
        still_seconds=min((now.seconds for node in nodes for now in _threads(node)), default=run_seconds),
        in_messages=len(waits.in_messages()),
        calls=[waits.open_call(key) for key in sorted(waits.inside, key=waits.longest, reverse=True)],
        outside=waits.what_do(rank for rank, one in waits.ranks.items() if not one.open() or one.in_message()),
        verdict=verdict(waits),
        look_at=_to_look_at(waits),
    )


def may_stand_still(nodes: Sequence[Node]) -> bool:
    """A cheap test: ranks are in calls, and none has moved for a while."""
    youngest = min((now.seconds for node in nodes for now in _threads(node)), default=math.inf)
    return STILL_SECONDS <= youngest < math.inf and any(now.inside for node in nodes for now in _threads(node))
