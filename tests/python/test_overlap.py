"""Sentences on how much a moved call would hide."""

from __future__ import annotations

from typing import Any

from test_report import EXAMPLE
from test_report_page import read, spread
from test_report_sites import site

from outrigger.advise import overlap
from outrigger.report_data import Report

PLACE = {"object": "/nowhere/solver", "offset": 0x1234}
CALLS = 400
SPENT_S = 2.0
"""In all calls, as `placed` has it."""


def windows(share: float = 0.9, **more: Any) -> dict[str, Any]:
    """Each is as long as this share of its call."""
    ends = {"used": CALLS, "mpi_call": 0, "system_call": 0}
    hidden_s = share * SPENT_S
    figures = {"unused_seconds": hidden_s, "spent_seconds": SPENT_S, "hidden_seconds": hidden_s}
    return {"calls": CALLS, "ends": ends, "without": {}} | figures | more


def placed(name: str = "MPI_Bcast", offset: int = 0x1234, seconds: float = SPENT_S / 2, **more: Any) -> dict[str, Any]:
    """A place with this time of each of two ranks."""
    return site(name, PLACE | {"offset": offset}, seconds, seconds, **({"calls": CALLS} | more))


def run(*sites: dict[str, Any]) -> Report:
    return read(EXAMPLE | {"run_seconds": spread(10, 10), "sites": list(sites)})


def told(**more: Any) -> list[str]:
    return list(overlap.sentences(run(placed(**more)), run(placed(more.get("name", "MPI_Bcast")))))


def test_a_use_that_comes_later() -> None:
    assert told(windows=windows()) == [
        "MPI_Bcast at solver+0x1234, 10% of the run: MPI_Ibcast there, and its MPI_Wait 4.5 ms later, right before its "
        "data are first used, would hide 90% of it, if it moves meanwhile."
    ]


def test_a_wait_is_moved_itself() -> None:
    sites = [placed("MPI_Ibcast", waits=True, windows=windows())]
    (text,) = overlap.sentences(run(*sites), run(*sites))
    assert text.startswith("The wait for MPI_Ibcast at solver+0x1234, 10% of the run: its MPI_Wait 4.5 ms later, ")


def test_a_whole_call_is_hidden() -> None:
    assert "would hide all of it" in told(windows=windows(1.2))[0]
    ends = {"used": CALLS // 2, "mpi_call": CALLS // 2, "system_call": 0}
    assert "would hide all of it" in told(windows=windows(1.2, ends=ends))[0]


def test_a_use_at_once() -> None:
    (text,) = told(windows=windows(0.001))
    assert "its data are used at once (after 5 µs), nothing to gain" in text


def test_an_open_end_is_a_lower_bound() -> None:
    ends = {"used": CALLS // 2, "mpi_call": CALLS // 2, "system_call": 0}
    assert "at least 4.5 ms later" in told(windows=windows(ends=ends))[0]
    (text,) = told(windows=windows(0.01, ends=ends))
    assert "no use of its data was seen until the next MPI or system call" in text


def test_few_open_ends_do_not_count() -> None:
    """The last call of a program has no use of its data."""
    ends = {"used": CALLS - 2, "mpi_call": 2, "system_call": 0}
    assert "at least" not in told(windows=windows(ends=ends))[0]


def test_times_are_those_of_the_undisturbed_run() -> None:
    """Guards made the calls take twice as long. They do not change when the data are used."""
    slow = run(placed(seconds=SPENT_S, windows=windows(0.25, spent_seconds=2 * SPENT_S)))
    (text,) = overlap.sentences(slow, run(placed()))
    assert ", 10% of the run: " in text and "hide 25% of it" in text
    (alone,) = overlap.sentences(slow)
    assert ", 20% of this slow run: " in alone and "hide 12% of it" in alone


def test_some_long_windows_do_not_hide_the_other_calls() -> None:
    (text,) = told(windows=windows(0.5, unused_seconds=100.0))
    assert "hide 50% of it" in text


def test_few_measured_calls_are_named() -> None:
    assert ", measured in" not in told(windows=windows(without={"layout": CALLS}))[0]
    assert ", 10% of the run, measured in 400 of 1,200 calls: " in told(windows=windows(without={"layout": 800}))[0]


def test_without_a_window_it_says_why() -> None:
    (text,) = told(windows=windows(calls=0, without={"threads": 4, "layout": 1}))
    assert text.endswith(f"not measured when its data are used: {overlap.REASONS['threads']}.")


def test_measured_places_come_first() -> None:
    none = windows(calls=0, without={"layout": CALLS})
    sites = [placed(offset=i, seconds=3.0, windows=none) for i in (1, 2)] + [
        placed(offset=i, seconds=0.5 + i / 10, windows=windows()) for i in (3, 4, 5, 6)
    ]
    texts = list(overlap.sentences(run(*sites), run(*sites)))
    assert ["not measured" in text for text in texts] == [False, False, False, True]
    assert [text.split()[2] for text in texts] == ["solver+0x6,", "solver+0x5,", "solver+0x4,", "solver+0x1,"]


def test_short_calls_and_barriers_are_not_worth_a_run() -> None:
    assert overlap.is_worth_measuring(run(placed()))
    assert not overlap.is_worth_measuring(run(placed(seconds=0.05), placed("MPI_Barrier")))


def test_nothing_without_measurements() -> None:
    assert told() == []
