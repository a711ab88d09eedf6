"""`outrigger stuck` says where programs hang that hang on purpose: who waits where, for whom, and since which call."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from conftest import Job, Mpi
from hanging import MARKS, WORLD, hanging, must_be_in_top, must_become, place_in

from outrigger import report
from outrigger.code_places import named

SOURCE = Path(__file__).parent / "programs" / "stuck.c"
RANKS = 4
ROUNDS = 3
pytestmark = MARKS


def place(name: str) -> str:
    return place_in(SOURCE, name)


def started(mpi: Mpi, way: str, env: dict[str, str]) -> AbstractContextManager[Job]:
    return hanging(mpi, RANKS, ["stuck", way, str(ROUNDS)], "stuck: there", env)


def hangs(mpi: Mpi, way: str, check: Callable[[dict[str, Any]], None], **env: str) -> None:
    with started(mpi, way, env) as job:
        must_become(job, check)


def calls(state: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {f"{call['call']} {call['communicator']}": call for call in state["calls"]}


def parts(doings: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Ranks, what they do, and where."""
    return [(one["ranks"], one["state"], one["place"].split(" in ")[0]) for one in doings]


@pytest.mark.parametrize(
    "env",
    (
        {},
        {"OUTRIGGER_INTRANODE": "always", "OUTRIGGER_ALGORITHM": "ibarrier=native"},
        {"OUTRIGGER_INTRANODE": "off", "OUTRIGGER_ALGORITHM": "ibarrier=native"},
    ),
    ids=("offloaded", "by ranks", "native"),
)
def test_a_rank_that_does_not_arrive(offload: Mpi, env: dict[str, str]) -> None:
    def check(state: dict[str, Any]) -> None:
        call = calls(state)[f"MPI_Barrier {WORLD}"]
        assert call["number"] == ROUNDS + 1 and call["size"] == RANKS
        assert parts(call["inside"]) == [("0-2", "call", place("barrier"))]
        assert parts(call["absent"]) == [("3", "outside", place("before"))]
        assert call["absent"][0]["call"] == "MPI_Allreduce" and not call["unseen"] and not call["unknown"]
        assert state["verdict"].startswith(f"Rank 3 has not arrived at MPI_Barrier on {WORLD}: it has been in no coll")
        assert place("barrier") in state["verdict"] and len(state["calls"]) == 1
        assert "rank 3: gdb -batch -p " in state["look_at"][0]

    hangs(offload, "barrier", check, **env)


def test_different_collectives(offload: Mpi) -> None:
    def check(state: dict[str, Any]) -> None:
        found = calls(state)
        barrier, allreduce = found[f"MPI_Barrier {WORLD}"], found[f"MPI_Allreduce {WORLD}"]
        assert parts(barrier["inside"]) == [("0-2", "call", place("one"))]
        assert parts(barrier["absent"]) == [("3", "call", place("other"))]
        assert parts(allreduce["inside"]) == [("3", "call", place("other"))]
        assert parts(allreduce["absent"]) == [("0-2", "call", place("one"))]
        assert state["verdict"].startswith("Deadlock: ") and "different collectives on the same" in state["verdict"]

    hangs(offload, "different", check)


@pytest.mark.parametrize(
    ("way", "off"), (("wait", "none"), ("wait", "ialltoall"), ("waitall", "none"), ("waitall", "ibarrier"))
)
def test_waits(offload: Mpi, way: str, off: str) -> None:
    """For operations of service processes, of the MPI, and for both together."""

    def check(state: dict[str, Any]) -> None:
        call = calls(state)[f"MPI_Ialltoall {WORLD}"]
        assert call["number"] == ROUNDS + 1
        assert parts(call["inside"]) == [("0-2", "wait", place(way))]
        assert [one["ranks"] for one in call["absent"]] == ["3"] and call["absent"][0]["state"] == "outside"

    hangs(offload, way, check, **({} if off == "none" else {"OUTRIGGER_ALGORITHM": f"{off}=native"}))


def test_part_of_the_ranks(offload: Mpi) -> None:
    """The others are not accused: the communicator's ranks are known."""

    def check(state: dict[str, Any]) -> None:
        (call,) = state["calls"]
        assert call["call"] == "MPI_Barrier" and call["size"] == 2 and call["unknown"] == 0
        assert parts(call["inside"]) == [("0", "call", place("part"))]
        assert parts(call["absent"]) == [("2", "outside", place("before"))]
        assert [one["ranks"] for one in state["outside"]] == ["1-3"]

    hangs(offload, "part", check)


def test_several_threads(offload: Mpi) -> None:
    """Rank 3's first thread and rank 0's second one are missing, in collectives of their own. That is no deadlock."""

    def check(state: dict[str, Any]) -> None:
        found = calls(state)
        assert len(state["calls"]) == 2 and not state["outside"]
        first, second = found[f"MPI_Barrier {WORLD}"], found["MPI_Barrier second"]
        assert parts(first["inside"]) == [("0-2", "call", place("first"))]
        assert parts(second["inside"]) == [("1-3", "call", place("second"))]
        assert first["number"] == ROUNDS + 2 and second["number"] == 2
        assert [one["ranks"] for one in first["absent"]] == ["3"] and [one["ranks"] for one in second["absent"]] == [
            "0"
        ]
        assert "absent, with threads in other collectives" in state["verdict"]
        looks = {look.partition(":")[0] for look in state["look_at"] if "'thread apply all bt'" in look}
        assert looks == {"rank 0", "rank 3"}
        assert "Deadlock" not in state["verdict"] and ("Rank 3" in state["verdict"] or "Rank 0" in state["verdict"])

    hangs(offload, "threads", check)


def test_messages(offload: Mpi) -> None:
    def check(state: dict[str, Any]) -> None:
        assert not state["calls"]
        assert sorted(parts(state["outside"])) == [(str(rank), "message", place("receive")) for rank in range(RANKS)]
        assert state["verdict"].startswith("No rank is in a collective. ") and "MPI_Recv" in state["verdict"]

    hangs(offload, "receive", check)


def test_a_persistent_collective(offload: Mpi) -> None:
    def check(state: dict[str, Any]) -> None:
        (call,) = state["calls"]
        assert call["call"] == "persistent MPI_Alltoall" and call["number"] == 5
        assert parts(call["inside"]) == [("0-2", "wait", place("started"))]
        assert [one["ranks"] for one in call["absent"]] == ["3"]

    hangs(offload, "started", check)


def test_to_make_a_persistent_collective_is_not_to_start_it(offload: Mpi) -> None:
    def check(state: dict[str, Any]) -> None:
        (call,) = state["calls"]
        assert call["call"] == "persistent MPI_Alltoall" and call["number"] == 1
        assert parts(call["inside"]) == [("0-2", "wait", place("started"))]
        assert parts(call["absent"]) == [("3", "outside", place("before"))]

    hangs(offload, "unstarted", check)


def test_a_rank_in_finalize(offload: Mpi) -> None:
    def check(state: dict[str, Any]) -> None:
        (call,) = state["calls"]
        assert parts(call["inside"]) == [("0-2", "call", place("finalize"))]
        assert [one["ranks"] for one in call["absent"]] == ["3"]
        assert state["verdict"].startswith(f"Rank 3 has ended without MPI_Barrier on {WORLD}.")

    hangs(offload, "finalize", check, OUTRIGGER_ALGORITHM="ibarrier=native", OUTRIGGER_INTRANODE="off")


@pytest.mark.any_mpi
def test_top_says_it(offload: Mpi) -> None:
    with started(offload, "barrier", {}) as job:
        must_be_in_top(job, "Rank 3 has not arrived")


@pytest.mark.parametrize("services", (0, 1))
def test_starts_of_persistent_collectives_have_places(offload: Mpi, tmp_path: Path, services: int) -> None:
    path = tmp_path / "report.json"
    offload.run(RANKS, ["stuck", "complete", str(ROUNDS)], services=services, env={"OUTRIGGER_REPORT": str(path)}).ok()
    data = report.read(path)
    sites = [site for site in data.sites if site.call == "MPI_Alltoall_init"]
    names = named(site.place for site in sites if site.place is not None)
    found = {(names[site.place].text.split(" in ")[0], site.waits): site.calls for site in sites if site.place}
    assert found[place("starts"), False] == found[place("starts_all"), False] == RANKS * ROUNDS
    assert found[place("started"), True] == RANKS * ROUNDS
    (call,) = (call for call in data.calls if call.call == "MPI_Alltoall_init")
    assert sum(site.calls for site in sites if not site.waits) == call.calls
    assert sum(site.offloaded for site in sites) == call.offloaded
