"""`outrigger stuck` on ranks that wait for messages: the wording, and that it claims nothing that is not known."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import pytest
from rich.console import Console

from outrigger.errors import UserError
from outrigger.live import messages, snapshot, standstill, stuck
from outrigger.live.snapshot import Call, Communicator, Message, Node, Place, Present, Rank
from outrigger.live.standstill import JobState

WORLD = Communicator("0" * 31 + "1", "MPI_COMM_WORLD", 4)
CALLS = (Call("MPI_Barrier", "blocking", "ibarrier"), Call("MPI_Allreduce", "blocking", "iallreduce"))
PLACES = (Place("/nowhere/solver", 0x100, "", 0), Place("/nowhere/solver", 0x200, "", 0))
BARRIER = "MPI_Barrier on MPI_COMM_WORLD"


def message(name: str = "MPI_Recv", **more: object) -> Message:
    """Received from rank 0, unless `more` says something else."""
    usual = Message(0, name, True, True, 5, 12.0, 0, "MPI_COMM_WORLD", 4, -1, 0, 0, 7, 1)
    return msgspec.structs.replace(usual, **more)


def receive(source: int, **more: object) -> Message:
    return message(source=source, **more)


@dataclass
class Does:
    """One rank: its last collective, and its threads with messages."""

    messages: Sequence[Message] = ()
    inside: bool = False
    call: int = 1
    seconds: float = 40.0
    gone: bool = False
    finalized: bool = False
    silent: bool = False
    more: tuple[Present, ...] = field(default=())


IDLE = Does()
IN_BARRIER = Does(inside=True, call=0, seconds=20.0)


def node(ranks: Mapping[int, Does], late: float, world: int, *, live: bool) -> Node:
    present: list[Present] = []
    found: list[Message] = []
    for at, does in enumerate(ranks.values()):
        if not does.silent:
            present.append(Present(at, does.call, 0, 1, does.inside, False, 5, does.seconds + late))
        present += [msgspec.structs.replace(one, rank=at, seconds=one.seconds + late) for one in does.more]
        found += [msgspec.structs.replace(one, rank=at, seconds=one.seconds + late) for one in does.messages]
    return Node(
        job="job-1", host="node0", keeper=100, uid=os.geteuid(), node=0, nodes=1, world=world, mpi="MPICH",
        at_ns=int((1000 + late) * 1e9), reaches=(), reasons=(), calls=CALLS,
        communicators=(msgspec.structs.replace(WORLD, size=world),),
        ranks=tuple(Rank(rank, 5000 + rank, 0, one.gone, 90 + late, 0.0, 0.0, one.finalized)
                    for rank, one in ranks.items()),
        rows=(), rows_left_out=0, services=(), wire=(), places=PLACES, present=tuple(present), messages=tuple(found),
        shows_messages=live,
    )  # fmt: skip


def state(*ranks: Does, world: int = 0, live: bool = True, looks: int = 2) -> JobState:
    known = dict(enumerate(ranks))
    nodes = [node(known, late, world or len(ranks), live=live) for late in (0.0, 1.0)]
    return standstill.state_of(nodes[1:], nodes[:1] if looks == 2 else ())


def shown(job: JobState) -> str:
    out = Console(width=150, file=io.StringIO())
    stuck.show(out, job)
    return out.file.getvalue()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize(
    ("one", "text"),
    (
        (receive(0), "from rank 0, tag 7, on MPI_COMM_WORLD"),
        (receive(-2, source_tag=-1), "from any rank, any tag, on MPI_COMM_WORLD"),
        (receive(-3), "from no rank (MPI_PROC_NULL), tag 7, on MPI_COMM_WORLD"),
        (receive(-4), "from a process of another MPI_COMM_WORLD, tag 7, on MPI_COMM_WORLD"),
        (receive(-9), "from a rank that is not known, tag 7, on MPI_COMM_WORLD"),
        (receive(0, communicator=None), "from rank 0, tag 7, on another communicator"),
        (receive(0, communicator="(unnamed)"), "from rank 0, tag 7, on a communicator of 4 ranks"),
        (message("MPI_Send", to=3, to_tag=1, source=-1), "to rank 3, tag 1, on MPI_COMM_WORLD"),
        (message("MPI_Sendrecv", to=3, to_tag=1), "to rank 3, tag 1 and from rank 0, tag 7, on MPI_COMM_WORLD"),
        (message("MPI_Wait", source=-1), "for 1 request"),
        (message("MPI_Waitall", source=-1, requests=1200), "for 1,200 requests"),
        (message("MPI_Mrecv", source=-1), ""),
    ),
)
def test_texts_of_one_call(one: Message, text: str) -> None:
    assert messages.message_text([one]) == text


def test_texts_of_several_calls() -> None:
    assert messages.message_text([receive(rank) for rank in (4, 1, 2)]) == "from ranks 1-2,4, tag 7, on MPI_COMM_WORLD"
    several = [receive(1), receive(-2, source_tag=8)]
    assert messages.message_text(several) == "from rank 1 or any rank, several tags, on MPI_COMM_WORLD"
    waits = [message("MPI_Waitall", source=-1, requests=requests) for requests in (9, 4)]
    assert messages.message_text(waits) == "for 4 to 9 requests"


def test_a_rank_that_waits_for_one_that_computes() -> None:
    job = state(Does([receive(1)]), IDLE)
    assert job.verdict == (
        "No rank is in a collective. Rank 0 has been in MPI_Recv from rank 1, tag 7, on MPI_COMM_WORLD, at "
        "solver+0x100 for 13 s. Rank 1 is in no such call: it has been in no collective for 41 s, since "
        "MPI_Allreduce at solver+0x200. It computes, or is in a call that is not shown, such as MPI_Win_fence."
    )
    assert job.stands_still and job.in_messages == 1 and job.still_seconds == 13.0
    assert job.look_at == ["rank 1: gdb -batch -p 5001 -ex bt     # on node0"]
    assert "in MPI_Recv from rank 1, tag 7, on MPI_COMM_WORLD  solver+0x100" in shown(job)


def test_a_rank_that_receives_instead_of_a_barrier() -> None:
    job = state(IN_BARRIER, Does([receive(0)]))
    assert job.verdict == (
        f"Rank 1 has not arrived at {BARRIER}. Rank 1 has been in MPI_Recv from rank 0, tag 7, on MPI_COMM_WORLD, at "
        f"solver+0x100 for 13 s. Rank 0 is in {BARRIER}, at solver+0x200. Rank 0 has been in {BARRIER} at "
        "solver+0x200 for 21 s."
    )
    assert [(one.ranks, one.state) for one in job.calls[0].absent] == [("1", "message")]


def test_some_absent_ranks_compute() -> None:
    job = state(IN_BARRIER, Does([receive(0)]), IDLE, IDLE)
    assert "Ranks 2-3 are in no such call: they have been in no collective for 41 s" in job.verdict


def test_a_circle_is_no_more_than_a_circle() -> None:
    job = state(*(Does([receive((rank + 1) % 4)]) for rank in range(4)))
    assert job.verdict.endswith("The calls of ranks 0-3 name one another in a circle.")
    assert "eadlock" not in job.verdict
    threads = (receive(1), message("MPI_Wait", source=-1, is_present=False, inside=False))
    job = state(Does(threads), *(Does([receive((rank + 1) % 4)]) for rank in (1, 2, 3)))
    assert "circle" not in job.verdict


@pytest.mark.parametrize(
    ("peer", "text"),
    (
        (Does(finalized=True), "Rank 1 has called MPI_Finalize."),
        (Does(gone=True), "Rank 1 has ended."),
        (Does([message("MPI_Waitall", source=-1, requests=3)]), "Rank 1 has been in MPI_Waitall for 3 requests at "),
        (Does([message("MPI_Probe", source=-2)]), "Rank 1 has been in MPI_Probe from any rank, tag 7, on MPI_COMM"),
        (Does([receive(0)], finalized=True), "Rank 1 has called MPI_Finalize."),
    ),
)
def test_the_other_rank(peer: Does, text: str) -> None:
    assert text in state(Does([receive(1, seconds=30.0)]), peer).verdict


def test_a_rank_of_another_node() -> None:
    text = "Rank 9 is on a node that was not asked: use --hosts or --from."
    assert text in state(Does([receive(9)]), IDLE, world=10).verdict


def test_long_chains_end() -> None:
    job = state(*(Does([receive(rank + 1)]) for rank in range(30)), IDLE)
    assert job.verdict.count("has been in MPI_Recv") == 7 and job.verdict.endswith("30 ranks are in such calls.")


def test_a_thread_with_messages_may_still_arrive() -> None:
    other = receive(0, is_present=False)
    job = state(IN_BARRIER, Does([other], inside=True, call=1))
    assert not job.verdict.startswith("Deadlock")
    assert state(IN_BARRIER, Does(inside=True, call=1)).verdict.startswith("Deadlock")


def test_several_threads_of_a_rank() -> None:
    job = state(Does([receive(1, is_present=False), receive(1, seconds=30.0)]), IDLE)
    assert job.outside[0].more_threads + job.outside[1].more_threads == 1
    assert "and 1 more thread in such calls" in shown(job)
    assert "for 31 s" in job.verdict


LISTENS = receive(-2, is_present=False)
LISTENING = Does([LISTENS])


def test_a_listening_thread_does_not_block_its_rank() -> None:
    job = state(LISTENING, LISTENING)
    assert job.verdict == (
        "No rank is in a collective: they have been in no collective for 41 s, since MPI_Allreduce at solver+0x200. "
        "They compute, or are in calls that are not shown, such as MPI_Win_fence."
    )
    assert not job.stands_still and job.in_messages == 0
    (one,) = job.outside
    assert (one.state, one.more_threads) == ("outside", 2)
    assert "in no collective, since MPI_Allreduce, with 2 threads in calls with messages  solver+0x200" in shown(job)
    assert job.look_at[0] == "rank 0: gdb -batch -p 5000 -ex 'thread apply all bt'     # on node0"


def test_a_listening_thread_beside_a_barrier() -> None:
    in_barrier = Does([LISTENS], inside=True, call=0, seconds=20.0)
    job = state(in_barrier, LISTENING)
    assert job.verdict == (
        f"Rank 1 has not arrived at {BARRIER}: it has been in no collective for 41 s, since MPI_Allreduce at "
        "solver+0x200. It computes, or is in a call that is not shown, such as MPI_Win_fence. Rank 0 has been in "
        f"{BARRIER} at solver+0x200 for 21 s."
    )


def test_a_rank_that_waits_for_one_that_listens() -> None:
    job = state(Does([receive(1)]), LISTENING, IDLE)
    assert job.verdict == (
        "No rank is in a collective. Rank 0 has been in MPI_Recv from rank 1, tag 7, on MPI_COMM_WORLD, at "
        "solver+0x100 for 13 s. Rank 1 is in such calls with some of its threads only: it has been in no collective "
        "for 41 s, since MPI_Allreduce at solver+0x200. It computes, or is in a call that is not shown, such as "
        "MPI_Win_fence. Rank 2 is in no such call: it has been in no collective for 41 s, since MPI_Allreduce at "
        "solver+0x200. It computes, or is in a call that is not shown, such as MPI_Win_fence."
    )


def test_more_threads_than_are_shown() -> None:
    threads = [receive(0, is_present=False, inside=False)] * 8
    job = state(Does([receive(1)]), Does(threads))
    assert job.verdict.endswith(
        "Rank 1 is in no such call that is known: it has been in no collective for 41 s, since MPI_Allreduce at "
        "solver+0x200. It computes, or is in a call that is not counted, such as MPI_Recv."
    )
    assert "in no such call: " in state(Does([receive(1)]), Does(threads[:7])).verdict


@pytest.mark.parametrize(
    ("to", "source", "needed"),
    ((2, -1, 2), (-1, 2, 2), (2, 2, 2), (-3, 2, 2), (2, -3, 2), (3, 2, None), (3, -2, None), (-1, -2, None),
     (-1, -1, None), (-3, -3, None), (-4, -1, None)),
)  # fmt: skip
def test_the_rank_that_a_call_needs(to: int, source: int, needed: int | None) -> None:
    assert messages.peer_of(message(to=to, source=source)) == needed


def test_a_call_to_one_rank_and_from_another_ends_the_chain() -> None:
    both = [message("MPI_Sendrecv", to=3, source=(rank + 1) % 3, seconds=20.0 - rank) for rank in range(3)]
    job = state(*(Does([one]) for one in both), IDLE)
    assert job.verdict == (
        "No rank is in a collective. Rank 0 has been in MPI_Sendrecv to rank 3, tag 0 and from rank 1, tag 7, on "
        "MPI_COMM_WORLD, at solver+0x100 for 21 s. Rank 3 is in no such call: it has been in no collective for 41 s, "
        "since MPI_Allreduce at solver+0x200. It computes, or is in a call that is not shown, such as MPI_Win_fence. "
        "3 ranks are in such calls."
    )


def test_many_ranks_at_one_place_share_a_line() -> None:
    few = state(*(Does([receive(0)]) if rank % 2 else Does([receive(2)]) for rank in range(8)))
    assert [(one.ranks, one.message.partition(",")[0]) for one in few.outside] == [
        ("0,2,4,6", "from rank 2"),
        ("1,3,5,7", "from rank 0"),
    ]
    (many,) = state(*(Does([receive((rank + 1) % 20)]) for rank in range(20))).outside
    assert (many.ranks, many.message) == ("0-19", "from ranks 0-19, tag 7, on MPI_COMM_WORLD")


def test_messages_move() -> None:
    before = node({0: Does([receive(1)]), 1: IDLE}, 0.0, 2, live=True)
    after = node({0: Does([receive(1, calls=6, seconds=0.0)]), 1: IDLE}, 1.0, 2, live=True)
    job = standstill.state_of([after], [before])
    assert job.moved == 1 and not job.stands_still
    assert job.verdict == "The job moves: 1 of 2 ranks entered or left a call within the last 1 s."


def test_a_message_that_has_ended_is_not_shown() -> None:
    job = state(Does([receive(1, inside=False)]), IDLE)
    assert job.in_messages == 0 and job.still_seconds == 13.0 and not job.stands_still
    assert "such as MPI_Win_fence" in job.verdict


def test_a_collective_comes_first() -> None:
    job = state(Does([receive(1)], inside=True, call=0), IDLE)
    assert job.in_messages == 0 and job.calls[0].inside[0].state == "call"


def test_without_live_data() -> None:
    assert "such as MPI_Recv" in state(IDLE, IDLE, live=False).verdict


def test_the_first_look_may_be_wrong() -> None:
    assert state(Does([receive(1)]), IDLE, looks=1).verdict.endswith("seen once only: they may be moving.")


@pytest.mark.parametrize(
    "change",
    ({"rank": 2}, {"place": 2}, {"place": -2}, {"seconds": -1.0}, {"calls": -1}, {"source": 1 << 40}, {"requests": -1}),
)
def test_numbers_are_checked(change: dict[str, float]) -> None:
    one = node({0: Does([receive(1)]), 1: IDLE}, 0.0, 2, live=True)
    snapshot.check(one, "it")
    with pytest.raises(UserError, match="a message call has a number out of range"):
        snapshot.check(
            msgspec.structs.replace(one, messages=(msgspec.structs.replace(one.messages[0], **change),)), "it"
        )


def test_a_keeper_without_messages_is_read() -> None:
    look: Callable[[], Node] = lambda: node({0: IDLE, 1: IDLE}, 0.0, 2, live=False)  # noqa: E731
    fields = msgspec.to_builtins(look())
    del fields["messages"], fields["shows_messages"]
    assert msgspec.convert(fields, Node).messages == ()
