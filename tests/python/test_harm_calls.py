"""The calls of a program that offloads nothing: reading, comparing, judging, the table."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from outrigger.bench import harm_calls
from outrigger.errors import UserError


def line(barrier: float = 100.0, comm_dup: float = 50_000.0, ranks: int = 2) -> str:
    costs = {"barrier": barrier, "comm_dup": comm_dup}
    return json.dumps({"ranks": ranks, "init_ms": 60.0, "descriptors": 20, "resident_kib": 20480, "costs_ns": costs})


def run(barrier: float = 100.0, comm_dup: float = 50_000.0) -> harm_calls.Run:
    return harm_calls.read_run(line(barrier, comm_dup), 2)


def test_a_run_is_read_among_other_lines() -> None:
    found = harm_calls.read_run(f"a message of the MPI\n{line()}\n", 2)
    assert (found.descriptors, found.costs_ns["barrier"]) == (20, 100.0)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("", "no figures"),
        ('{"ranks": 2}', "cannot be read"),
        (line(barrier=0), "cannot be"),
        (line(ranks=3), "3 ranks"),
    ],
)
def test_other_output_is_refused(output: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        harm_calls.read_run(output, 2)


def test_runs_of_other_calls_are_refused() -> None:
    other = harm_calls.read_run(line().replace("barrier", "bcast"), 2)
    with pytest.raises(UserError, match="different calls"):
        harm_calls.compare([(run(), other)])


@pytest.mark.parametrize(
    ("barrier", "comm_dup", "slower"),
    [
        (149, 50_900, []),  # within 50 ns, within 2 %
        (151, 50_900, ["barrier"]),
        (149, 51_100, ["comm_dup"]),
        (20, 20_000, []),
    ],
)
def test_a_call_may_cost_2_percent_or_50_ns_more(barrier: float, comm_dup: float, slower: list[str]) -> None:
    found = harm_calls.compare([(run(), run(barrier, comm_dup))] * 6)
    assert [call.call for call in found if call.is_slower] == slower


def test_noise_alone_is_not_slower() -> None:
    """The interval of the pairs' differences reaches below the limit."""
    pairs = [(run(), run(90)), (run(), run(300)), (run(), run(300))]
    (barrier, _) = harm_calls.compare(pairs)
    assert (barrier.more_ns, barrier.low_ns, barrier.is_slower) == (200, -10, False)


def test_the_table_names_calls_and_the_start() -> None:
    start = harm_calls.Start(60, 20, 20480)
    calls = harm_calls.Calls("MPICH 4.0", 2, 6, "mpirun", start, start, harm_calls.compare([(run(), run(175))] * 6))
    text = io.StringIO()
    console = Console(file=text, width=120)
    console.print(harm_calls.table(calls))
    console.print(harm_calls.legend(calls))
    for word in (
        "Comm_dup, free",
        "75 ns",
        "50.0 us",
        "60.0 ms",
        "20 descriptors",
        "20.0 MiB",
        "6 pairs",
        "95 %",
        "beyond noise: Barrier.",
    ):
        assert word in text.getvalue()
