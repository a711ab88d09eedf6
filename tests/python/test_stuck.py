"""`outrigger stuck` and `top` say which ranks wait where and for whom: jobs of 1,000 ranks that do not move."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
from rich.console import Console
from typed import typed

from outrigger.errors import UserError
from outrigger.live import answer, keepers, present, snapshot, sources, standstill, stuck
from outrigger.live.answer import Told
from outrigger.live.snapshot import Call, Communicator, Node, Place, Present, Rank, Row
from outrigger.live.standstill import JobState
from outrigger.live.top import render
from outrigger.live.tracker import Tracker
from outrigger.live.waits import ranges

RANKS, PER_NODE = 1000, 64
LONG = 40.0
"""Seconds that a rank has been in its call."""
CALLS = (
    Call("MPI_Barrier", "blocking", "ibarrier"),
    Call("MPI_Allreduce", "blocking", "iallreduce"),
    Call("MPI_Ialltoall", "nonblocking", "ialltoall"),
    Call("MPI_Bcast_init", "persistent", "ibcast"),
)
BARRIER, ALLREDUCE, ALLTOALL, BCAST = range(4)
WORLD = Communicator("0" * 31 + "1", "MPI_COMM_WORLD", RANKS)
EVEN = Communicator("0" * 31 + "2", "even", RANKS // 2, 0, 2)
ODD = Communicator("0" * 31 + "3", "odd", RANKS // 2, 1, 2)
ROUGH = Communicator("0" * 31 + "4", "rough", 100)
OTHERS = Communicator("0" * 32, "(other communicators)", 0)
SELF = Communicator("0" * 31 + "5", "(groups of one rank)", 1)
COMMUNICATORS = (WORLD, EVEN, ODD, ROUGH, OTHERS, SELF)
PLACES = (Place("/nowhere/solver", 0x100, "", 0), Place("/nowhere/libfft.so", 0x8, "/nowhere/solver", 0x200))


@dataclass
class Doing:
    """One rank: its last call, and how often it has ended each, by function and communicator."""

    call: int = BARRIER
    on: Communicator = WORLD
    number: int = 5
    inside: bool = True
    waits: bool = False
    seconds: float = LONG
    place: int = 0
    ended: dict[tuple[int, Communicator], int] = field(default_factory=dict)
    finalized: bool = False
    gone: bool = False
    more: tuple[Present, ...] = ()
    exposed_ns: int = 7
    silent: bool = False
    """It has made no call."""


def node_of(number: int, ranks: Sequence[tuple[int, Doing]], late: float, left_out: int) -> Node:
    present_calls: list[Present] = []
    rows: list[Row] = []
    for at, (_, does) in enumerate(ranks):
        if not does.silent:
            where = COMMUNICATORS.index(does.on)
            seconds = does.seconds + late
            present_calls.append(
                Present(at, does.call, where, does.place, does.inside, does.waits, does.number, seconds)
            )
        present_calls += [msgspec.structs.replace(more, rank=at, seconds=more.seconds + late) for more in does.more]
        rows += [
            Row(at, call, COMMUNICATORS.index(on), count, 0, 0, 0, 0, does.exposed_ns, 0, 0, 0, 0, (), ())
            for (call, on), count in does.ended.items()
        ]
    return Node(
        job="job-1", host=f"node{number}", keeper=100 + number, uid=os.geteuid(), node=number,
        nodes=-(-RANKS // PER_NODE), world=RANKS, mpi="MPICH", at_ns=int((1000 + late) * 1e9), reaches=(), reasons=(),
        calls=CALLS, communicators=COMMUNICATORS,
        ranks=tuple(Rank(rank, 5000 + rank, 0, does.gone, 90 + late, 0.0, 0.0, does.finalized) for rank, does in ranks),
        rows=tuple(rows), rows_left_out=left_out, services=(), wire=(), places=PLACES, present=tuple(present_calls),
    )  # fmt: skip


def nodes_of(
    does: Callable[[int], Doing], late: float = 0.0, left_out: int = 0, nodes: int | None = None
) -> list[Node]:
    ranks = [(rank, does(rank)) for rank in range(RANKS)]
    parts = [ranks[first : first + PER_NODE] for first in range(0, RANKS, PER_NODE)]
    return [node_of(number, part, late, left_out) for number, part in enumerate(parts[:nodes])]


def state(does: Callable[[int], Doing], **more: int) -> JobState:
    return standstill.state_of(nodes_of(does, 1.0, **more), nodes_of(does, **more))


def outside(call: int = ALLREDUCE, number: int = 9, seconds: float = LONG + 2, **more: object) -> Doing:
    return Doing(call, number=number, inside=False, seconds=seconds, place=1, **more)  # type: ignore[arg-type]


def shown(job: JobState, width: int = 130) -> str:
    out = Console(width=width, file=io.StringIO())
    stuck.show(out, job)
    return out.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_ranges_are_short() -> None:
    assert ranges([7, 0, 1, 2, 3, 4, 5, 5]) == "0-5,7"
    assert ranges([]) == "" and ranges([3]) == "3"
    assert ranges(range(0, 40, 2), 3) == "0,2,4 and 17 more"


def test_a_rank_that_does_not_arrive_is_named() -> None:
    job = state(lambda rank: outside() if rank == 2 else Doing())
    (call,) = job.calls
    assert (call.call, call.communicator, call.number, call.size) == ("MPI_Barrier", "MPI_COMM_WORLD", 5, RANKS)
    (inside,), (absent,) = call.inside, call.absent
    assert (inside.ranks, inside.count, inside.state) == ("0-1,3-999", 999, "call")
    assert inside.place == "solver+0x100" and inside.most_seconds == LONG + 1
    assert (absent.ranks, absent.state, absent.call) == ("2", "outside", "MPI_Allreduce")
    assert (absent.place, absent.called_by) == ("libfft.so+0x8", "solver+0x200")
    assert job.moved == 0 and job.stands_still and job.still_seconds == LONG + 1
    assert job.verdict == (
        "Rank 2 has not arrived at MPI_Barrier on MPI_COMM_WORLD: it has been in no collective for 43 s, since "
        "MPI_Allreduce at libfft.so+0x8. It computes, or is in a call that is not counted, such as MPI_Recv. "
        "Ranks 0-1,3-999 have been in MPI_Barrier on MPI_COMM_WORLD at solver+0x100 for 41 s."
    )
    assert job.look_at == ["rank 2: gdb -batch -p 5002 -ex bt     # on node0"]
    text = shown(job)
    assert "MPI_Barrier on MPI_COMM_WORLD, call 5: 999 of 1,000 ranks are in it, 1 absent" in text
    assert "0-1,3-999" in text and "in no collective, since MPI_Allreduce" in text


def test_a_rank_that_has_ended_the_call_has_arrived() -> None:
    """The root of a broadcast may have left it."""
    job = state(lambda rank: outside(ended={(BARRIER, WORLD): 5}) if rank < 2 else outside() if rank == 2 else Doing())
    (call,) = job.calls
    assert call.ended == "0-1" and [one.ranks for one in call.absent] == ["2"]


def test_different_collectives_are_a_deadlock() -> None:
    job = state(lambda rank: Doing(ALLREDUCE, number=3, place=1) if rank == 999 else Doing())
    assert job.verdict == (
        "Deadlock: ranks 0-998 are in MPI_Barrier on MPI_COMM_WORLD at solver+0x100, without rank 999; "
        "rank 999 is in MPI_Allreduce on MPI_COMM_WORLD at libfft.so+0x8, without ranks 0-998. The ranks "
        "call different collectives on the same communicator."
    )
    assert job.stands_still and not job.outside and not job.look_at


def test_collectives_in_different_orders_are_a_deadlock() -> None:
    job = state(lambda rank: Doing(on=EVEN) if rank % 2 == 0 and rank < 500 else Doing(ALLREDUCE, number=1))
    assert job.verdict.startswith("Deadlock: ") and job.verdict.endswith(
        "The ranks call collectives on these communicators in different orders."
    )


def test_a_chain_leads_to_the_rank_at_its_end() -> None:
    """The odd ranks wait for rank 7; all others wait for the odd ranks."""

    def does(rank: int) -> Doing:
        if rank == 7:
            return outside()
        return Doing(on=ODD, seconds=LONG - 9) if rank % 2 else Doing()

    job = state(does)
    assert len(job.calls) == 2 and job.verdict.startswith("Rank 7 has not arrived at MPI_Barrier on ")
    odd = next(call for call in job.calls if call.communicator == "odd")
    assert [one.ranks for one in odd.absent] == ["7"] and odd.unknown == 0 and not odd.unseen


def test_waits_for_nonblocking_and_persistent_collectives() -> None:
    """A rank has arrived once it has started the operation, whatever it does then."""
    job = state(
        lambda rank: (
            outside(call=ALLTOALL, number=11, ended={(ALLTOALL, WORLD): 11})
            if rank == 4
            else Doing(ALLTOALL, number=12, waits=True, ended={(ALLTOALL, WORLD): 12})
        )
    )
    (call,) = job.calls
    assert [one.ranks for one in call.absent] == ["4"] and call.inside[0].state == "wait"
    assert "have been waiting for MPI_Ialltoall on MPI_COMM_WORLD" in job.verdict
    job = state(lambda rank: outside() if rank == 4 else Doing(BCAST, waits=True))
    assert "persistent MPI_Bcast on MPI_COMM_WORLD" in job.verdict


def test_a_rank_that_ended_in_its_call_is_not_in_it() -> None:
    """Its last call is what its memory still has."""
    job = state(lambda rank: Doing(gone=rank == 3))
    assert job.verdict.startswith("Rank 3 has ended without MPI_Barrier on MPI_COMM_WORLD. Ranks 0-2,4-999 have been")
    assert [(one.ranks, one.state) for one in job.calls[0].absent] == [("3", "gone")]


def test_a_chain_may_end_in_a_complete_collective() -> None:
    """The even ranks wait for the odd ones, which are all in a collective of their own."""
    job = state(lambda rank: Doing(ALLREDUCE, ODD, seconds=LONG - 9) if rank % 2 else Doing())
    assert job.verdict.startswith("Ranks 1,3,5,7,9,11,13,15 and 492 more have been in MPI_Allreduce on odd")
    assert job.verdict.endswith("All its ranks have arrived: the collective itself does not go on.")


def test_counts_of_several_communicators_accuse_nobody() -> None:
    merged = state(lambda rank: outside(ended={(BARRIER, OTHERS): 3}) if rank == 2 else Doing())
    assert not merged.calls[0].absent
    job = state(lambda rank: Doing(on=SELF, number=1 + rank % 3) if rank < 9 else outside(ended={(BARRIER, SELF): 0}))
    assert len(job.calls) == 3 and not any(call.absent for call in job.calls)


def test_ranks_are_outside_at_least_for_so_long() -> None:
    job = state(lambda rank: outside(seconds=LONG + rank, number=rank) if rank in (5, 6) else Doing(seconds=9))
    assert "Ranks 5-6 have not arrived" in job.verdict and "in no collective for 46 s" in job.verdict


def test_waits_may_be_for_other_requests() -> None:
    job = state(lambda rank: Doing(ALLTOALL, number=12, waits=True, ended={(ALLTOALL, WORLD): 12}))
    assert job.verdict.endswith("does not go on, or they wait for another request of the same call.")


def test_nothing_is_claimed_of_nodes_that_say_nothing_new() -> None:
    nodes = nodes_of(lambda rank: outside() if rank == 2 else Doing())
    for before in ([], nodes[1:], nodes):
        job = standstill.state_of(nodes, before)
        assert not job.stands_still and job.verdict.endswith("have been seen once only: they may be moving.")


def test_a_rank_that_ends_calls_moves() -> None:
    """Starts of persistent collectives are no present calls."""
    before, after = (
        nodes_of(lambda rank, ended=ended: outside(ended={(BCAST, WORLD): ended}), late)  # type: ignore[misc]
        for ended, late in ((7, 0.0), (8, 1.0))
    )
    assert standstill.state_of(after, before).moved == RANKS


def test_no_rank_in_a_collective() -> None:
    job = state(lambda rank: outside(seconds=LONG + rank % 7))
    assert not job.calls and not job.stands_still and len(job.look_at) == 3
    assert job.verdict.startswith("No rank is in a collective: they have been in no collective for 41 s, since ")
    assert "MPI_Recv" in job.verdict and sum(one.count for one in job.outside) == RANKS
    silent = state(lambda rank: Doing(silent=True))
    assert "have been in no collective for 91 s. They" in silent.verdict and "none so far" in shown(silent)


def test_ranks_that_have_ended() -> None:
    job = state(lambda rank: outside(finalized=True) if rank < 3 else Doing())
    assert job.verdict.startswith("Ranks 0-2 have ended without MPI_Barrier on MPI_COMM_WORLD.")
    assert "have called MPI_Finalize" in shown(job)
    assert state(lambda rank: outside(gone=True)).verdict == "All ranks have called MPI_Finalize, or have ended."


def test_ranks_that_test_requests() -> None:
    def does(exposed: int) -> Callable[[int], Doing]:
        return lambda rank: outside(ended={(ALLREDUCE, WORLD): 9}, exposed_ns=exposed) if rank == 6 else Doing()

    job = standstill.state_of(nodes_of(does(8), 1.0), nodes_of(does(7)))
    assert job.calls[0].absent[0].state == "tests" and "it has tested requests" in job.verdict


def test_all_have_arrived() -> None:
    assert state(lambda rank: Doing()).verdict.endswith(
        "All its ranks have arrived: the collective itself does not go on."
    )


def test_nodes_that_were_not_asked() -> None:
    job = state(lambda rank: Doing(), nodes=2)
    assert job.calls[0].unseen == "128-999" and "nodes that were not asked: use --hosts or --from" in job.verdict
    assert "(128 ranks here)" in shown(job)


def test_communicators_whose_ranks_are_not_known() -> None:
    job = state(
        lambda rank: Doing(on=ROUGH) if rank < 60 else outside(ended={(BARRIER, ROUGH): 4} if rank < 90 else {})
    )
    (call,) = job.calls
    assert call.absent[0].count == 30 and call.unknown == 10
    job = state(lambda rank: Doing(on=ROUGH) if rank < 60 else outside())
    assert job.verdict.endswith("40 ranks may be missing: which ranks it has is not known.")
    job = state(lambda rank: Doing(on=OTHERS) if rank < 60 else outside())
    assert not job.calls[0].absent and job.calls[0].size == 0 and "some ranks may be missing" in job.verdict


def test_no_rank_is_accused_by_rows_that_were_left_out() -> None:
    """They may be of calls that it has made."""
    job = state(lambda rank: outside() if rank == 2 else Doing(), left_out=1)
    assert not job.calls[0].absent


def test_a_rank_with_several_threads_may_still_arrive() -> None:
    """Another thread of rank 999 may call the barrier: no deadlock is claimed."""
    idle = Present(0, BARRIER, 0, 0, False, False, 4, 50.0)
    job = state(lambda rank: Doing(ALLREDUCE, number=3, more=(idle,)) if rank == 999 else Doing())
    assert not job.verdict.startswith("Deadlock")


def test_a_job_that_moves() -> None:
    before = nodes_of(lambda rank: Doing(seconds=0.5))
    after = nodes_of(lambda rank: Doing(number=6, seconds=-0.9) if rank < 10 else Doing(seconds=0.5), 1.0)
    job = standstill.state_of(after, before)
    assert job.moved == 10 and not job.stands_still
    assert job.verdict == "The job moves: 10 of 1,000 ranks entered or left a collective within the last 1 s."


def test_the_first_look_claims_nothing() -> None:
    assert not standstill.state_of(nodes_of(lambda rank: Doing())).stands_still


def test_top_says_it() -> None:
    tracker = Tracker()

    def does(rank: int) -> Doing:
        return outside() if rank == 2 else Doing()

    (job,) = tracker.update(nodes_of(does), 0.0).jobs
    assert not job.standstill
    view = tracker.update(nodes_of(does, 1.0), 1.0)
    assert view.jobs[0].standstill.startswith("Rank 2 has not arrived at MPI_Barrier")
    out = Console(width=100, height=40, file=io.StringIO())
    out.print(render(view, 100, 40))
    text = " ".join(out.file.getvalue().split())  # type: ignore[attr-defined]
    assert "Rank 2 has not arrived" in text and "`outrigger stuck job-1` shows more" in text
    soon = [
        msgspec.structs.replace(one, at_ns=one.at_ns + 2 * 10**9) for one in nodes_of(lambda rank: Doing(seconds=1))
    ]
    assert not tracker.update(soon, 2.0).jobs[0].standstill


def test_long_lists_are_cut() -> None:
    job = state(lambda rank: outside(seconds=LONG + rank) if rank % 3 == 0 else Doing(place=rank % 2))
    text = shown(job, 100)
    assert "…" in text and max(map(len, text.splitlines())) <= 100
    assert "0,3,6,9,12,15,18,21 and 326 more" in job.verdict


def said_by(told: Iterable[Sequence[Node]], monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], object]:
    answers = iter([Told(tuple(nodes)) for nodes in told])
    monkeypatch.setattr(sources, "local", lambda: next(answers))
    monkeypatch.setattr(stuck.time, "sleep", lambda seconds: None)
    return lambda words: typed(["stuck", *words])


def test_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def does(rank: int) -> Doing:
        return outside() if rank == 2 else Doing()

    looks = [nodes_of(does), nodes_of(does, 1.0)]
    said = said_by(looks, monkeypatch)(["job-1", "--json"])
    found = json.loads(said.output)  # type: ignore[attr-defined]
    assert said.exit_code == 0 and found["version"] == 1  # type: ignore[attr-defined]
    assert found["jobs"][0]["calls"][0]["absent"][0]["ranks"] == "2"
    said = said_by(looks, monkeypatch)([])
    assert "Rank 2 has not arrived" in " ".join(said.output.split())  # type: ignore[attr-defined]
    said = said_by(looks, monkeypatch)(["job-2"])
    assert said.exit_code == 1 and "outrigger run --live" in said.output  # type: ignore[attr-defined]


def test_a_job_that_ends_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that there never was, for which one look is enough."""
    look = nodes_of(lambda rank: Doing())
    said = said_by([look, []], monkeypatch)(["job-1"])
    assert said.exit_code == 1 and said.output == "job-1 has ended meanwhile.\n"  # type: ignore[attr-defined]
    said = said_by([look, []], monkeypatch)(["--json"])
    assert json.loads(said.output)["ended"] == ["job-1"]  # type: ignore[attr-defined]
    said = said_by([look], monkeypatch)(["job-2"])
    assert said.exit_code == 1 and "No running job job-2" in said.output  # type: ignore[attr-defined]


def test_what_other_machines_say_is_read() -> None:
    nodes = tuple(nodes_of(lambda rank: Doing(), nodes=2))
    assert answer.decode(answer.encode(Told(nodes)), "it").nodes == nodes


@pytest.mark.parametrize(
    "change", ({"rank": 64}, {"call": -1}, {"communicator": 9}, {"place": -2}, {"place": 2}, {"seconds": -1.0})
)
def test_present_calls_name_only_what_there_is(change: dict[str, float]) -> None:
    node = nodes_of(lambda rank: Doing(), nodes=1)[0]
    calls = (msgspec.structs.replace(node.present[0], **change),)
    with pytest.raises(UserError, match="a present call has an index out of range"):
        snapshot.check(msgspec.structs.replace(node, present=calls), "it")


@pytest.mark.parametrize("change", ({"size": 1 << 32}, {"first": -1}, {"stride": 1 << 40}))
def test_communicators_have_numbers_of_ranks(change: dict[str, int]) -> None:
    node = nodes_of(lambda rank: Doing(), nodes=1)[0]
    communicators = (msgspec.structs.replace(WORLD, **change), *COMMUNICATORS[1:])
    with pytest.raises(UserError, match="a number of ranks is out of range"):
        snapshot.check(msgspec.structs.replace(node, communicators=communicators), "it")


def test_files_of_other_users_are_not_analyzed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = []
    monkeypatch.setattr(present.code_places, "named", lambda places: asked.append(list(places)) or {})
    node = msgspec.structs.replace(nodes_of(lambda rank: Doing(), nodes=1)[0], uid=os.geteuid() + 1)
    present.learn_places([node])
    assert standstill.state_of([node]).calls[0].inside[0].place == "solver+0x100"
    assert not any(asked)


def test_keepers_without_calls_are_read() -> None:
    """An earlier version sends no present calls."""
    assert keepers.find("") == []
    node = msgspec.structs.replace(nodes_of(lambda rank: Doing(), nodes=1)[0], present=(), places=())
    assert standstill.state_of([node]).verdict.startswith("No rank is in a collective")
