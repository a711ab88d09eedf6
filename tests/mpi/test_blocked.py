"""`outrigger stuck` says which call with messages a rank is in, with which rank, and where: programs that hang there on
purpose.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Mpi
from hanging import MARKS, WORLD, hanging, must_be_in_stuck, must_be_in_top, must_become, place_in

HERE = Path(__file__).parent
C = HERE / "programs" / "blocked.c"
FORTRAN = HERE / "languages" / "blocked.F90"
RANKS = 3
READY = "blocked: there"
pytestmark = MARKS


def place(name: str, source: Path = C) -> str:
    return place_in(source, name)


def hangs(mpi: Mpi, words: list[str], check: Callable[[dict[str, Any]], None], **env: str) -> None:
    with hanging(mpi, RANKS, words, READY, env) as job:
        must_become(job, check)


def what_it_does(state: dict[str, Any], ranks: str = "0") -> tuple[str, str, str]:
    (one,) = (one for one in state["outside"] if one["ranks"] == ranks)
    return one["state"], f"{one['call']} {one['message']}", one["place"].split(" in ")[0]


@pytest.mark.parametrize(
    ("way", "text", "where"),
    (
        ("send", f"MPI_Send to rank 1, tag 3, on {WORLD}", "send"),
        ("ssend", f"MPI_Ssend to rank 2, tag 4, on {WORLD}", "ssend"),
        ("recv", f"MPI_Recv from rank 1, tag 7, on {WORLD}", "receive"),
        ("any", f"MPI_Recv from any rank, any tag, on {WORLD}", "receive"),
        ("sendrecv", f"MPI_Sendrecv to rank 1, tag 5 and from rank 2, any tag, on {WORLD}", "sendrecv"),
        (
            "replace",
            f"MPI_Sendrecv_replace to no rank (MPI_PROC_NULL), tag 5 and from rank 1, tag 6, on {WORLD}",
            "replace",
        ),
        ("probe", f"MPI_Probe from rank 1, tag 9, on {WORLD}", "probe"),
        ("mprobe", f"MPI_Mprobe from rank 1, tag 9, on {WORLD}", "mprobe"),
        ("wait", "MPI_Wait for 1 request", "wait"),
        ("waitall", "MPI_Waitall for 3 requests", "waitall"),
        ("waitany", "MPI_Waitany for 2 requests", "waitany"),
        ("waitsome", "MPI_Waitsome for 2 requests", "waitsome"),
        ("reversed", "MPI_Recv from rank 2, tag 7, on reversed", "receive"),
        ("unnamed", "MPI_Recv from rank 2, tag 7, on a communicator of 3 ranks", "receive"),
        ("between", "MPI_Recv from rank 2, tag 7, on another communicator", "receive"),
        ("alone", "MPI_Recv from rank 0, tag 7, on another communicator", "receive"),
        ("freed", "MPI_Wait for 1 request", "freed"),
        ("nested", f"MPI_Recv from rank 1, tag -77, on {WORLD}", "receive"),
        ("jumped", f"MPI_Recv from rank 1, tag 7, on {WORLD}", "receive"),
    ),
)
def test_calls(offload: Mpi, way: str, text: str, where: str) -> None:
    def check(state: dict[str, Any]) -> None:
        assert what_it_does(state) == ("message", text, place(where)) and not state["calls"]
        others = {(one["ranks"], one["state"]) for one in state["outside"] if one["ranks"] != "0"}
        assert others in ({("1-2", "outside")}, {("1", "outside"), ("2", "outside")})
        begin = f"No rank is in a collective. Rank 0 has been in {text}"
        assert state["verdict"].startswith(begin) and "eadlock" not in state["verdict"]
        assert place(where) in state["verdict"]

    hangs(offload, ["blocked", way], check)


def test_a_chain(offload: Mpi) -> None:
    def check(state: dict[str, Any]) -> None:
        begin = rf"No rank is in a collective\. Rank 0 has been in MPI_Recv from rank 1, tag 7, on {WORLD}, at "
        end = (
            rf"\. Rank 1 has been in MPI_Recv from rank 2, tag 7, on {WORLD}, at .*\. Rank 2 is in no such call: it has"
        )
        reversed_begin = begin.replace(
            "Rank 0 has been in MPI_Recv from rank 1", "Rank 1 has been in MPI_Recv from rank 2"
        )
        assert re.match(begin + ".*" + end, state["verdict"]) or re.match(reversed_begin, state["verdict"])
        assert what_it_does(state, "0")[1].startswith("MPI_Recv from rank 1") and place("receive") in state["verdict"]
        assert what_it_does(state, "1")[1].startswith("MPI_Recv from rank 2") and "circle" not in state["verdict"]
        assert [look.partition(":")[0] for look in state["look_at"]] == ["rank 2"]

    hangs(offload, ["blocked", "chain"], check)


def test_a_circle(offload: Mpi) -> None:
    def check(state: dict[str, Any]) -> None:
        assert state["in_messages"] == RANKS
        assert state["verdict"].endswith("The calls of ranks 0-2 name one another in a circle.")

    hangs(offload, ["blocked", "circle"], check)


def test_a_rank_that_receives_instead_of_a_barrier(offload: Mpi) -> None:
    def check(state: dict[str, Any]) -> None:
        (call,) = state["calls"]
        assert [(one["ranks"], one["state"], one["call"]) for one in call["absent"]] == [("2", "message", "MPI_Recv")]
        begin = f"Rank 2 has not arrived at MPI_Barrier on {WORLD}. Rank 2 has been in MPI_Recv from rank 0, tag 7, on "
        assert state["verdict"].startswith(f"{begin}{WORLD}, at {place('receive')} in ")
        assert f"Rank 0 is in MPI_Barrier on {WORLD}, at {place('barrier')} in " in state["verdict"]

    hangs(offload, ["blocked", "barrier"], check)


def test_two_threads(offload: Mpi) -> None:
    def check(state: dict[str, Any]) -> None:
        (one,) = (one for one in state["outside"] if one["ranks"] == "0")
        assert one["state"] == "message" and one["more_threads"] == 1
        assert one["place"].split(" in ")[0] in (place("receive"), place("thread"))
        assert "'thread apply all bt'" in "".join(state["look_at"]) or state["look_at"]

    hangs(offload, ["blocked", "two"], check)


def test_a_thread_beside_a_collective(offload: Mpi) -> None:
    def check(state: dict[str, Any]) -> None:
        (call,) = state["calls"]
        assert [(one["ranks"], one["state"]) for one in call["inside"]] == [("0-1", "call")]
        assert [(one["ranks"], one["state"]) for one in call["absent"]] == [("2", "outside")]

    hangs(offload, ["blocked", "late"], check)


def test_a_call_that_was_left_by_a_jump(offload: Mpi) -> None:
    """The next call says that the rank is elsewhere."""

    def check(state: dict[str, Any]) -> None:
        assert not state["calls"] and state["in_messages"] == 0
        assert [(one["ranks"], one["state"], one["call"]) for one in state["outside"]] == [
            ("0-2", "outside", "MPI_Barrier")
        ]

    hangs(offload, ["blocked", "gone"], check)


def test_a_communicator_that_gets_its_name_after_messages(offload: Mpi) -> None:
    def check(state: dict[str, Any]) -> None:
        (call,) = state["calls"]
        assert call["communicator"] == "renamed" and [one["ranks"] for one in call["absent"]] == ["0"]

    hangs(offload, ["blocked", "renamed"], check)


def test_messages_move(offload: Mpi) -> None:
    def check(state: dict[str, Any]) -> None:
        assert state["moved"] == 2 and state["verdict"].startswith(
            "The job moves: 2 of 3 ranks entered or left a call "
        )

    hangs(offload, ["blocked", "moving"], check)


@pytest.mark.any_mpi
def test_both_commands_say_it(offload: Mpi) -> None:
    with hanging(offload, RANKS, ["blocked", "circle"], READY, {}) as job:
        must_be_in_stuck(job, "name one another in a circle")
        must_be_in_top(job, "name one another in a circle")


def test_a_report_alone_does_not_show_messages(offload: Mpi, tmp_path: Path) -> None:
    def check(state: dict[str, Any]) -> None:
        assert state["in_messages"] == 0 and {one["state"] for one in state["outside"]} == {"outside"}
        assert "calls that are not counted, such as MPI_Recv" in state["verdict"]

    hangs(offload, ["blocked", "recv"], check, OUTRIGGER_LIVE="off", OUTRIGGER_REPORT=str(tmp_path / "report.json"))


@pytest.mark.parametrize("where", ("first", "second"))
@pytest.mark.parametrize("binding", ("mpif", "usempi", "f08"))
def test_fortran(offload: Mpi, binding: str, where: str) -> None:
    """Both calls come by the same binding, from the same procedure."""
    program = offload.programs / f"blocked_{binding}"
    if not program.exists():
        pytest.skip("the MPI has no such binding, or there is no Fortran compiler")

    def check(state: dict[str, Any]) -> None:
        found = state["calls"][0]["absent"] if state["calls"] else state["outside"]
        (one,) = (one for one in found if one["ranks"] == "0")
        assert one["message"] == f"from rank 1, tag 7, on {WORLD}" and one["call"] == "MPI_Recv"
        assert one["place"].split(" in ")[0] == place(where, FORTRAN)

    hangs(offload, [program.name, where], check)
