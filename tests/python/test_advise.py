"""Tests of `outrigger advise`, from runs and reports: variants, ratios, sentences, options."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from test_overlap import placed, windows
from test_report import EXAMPLE

from outrigger import cores, report
from outrigger.advise import command, sentences, show, variants
from outrigger.advise.figures import Results, Row, Trial, ratio_of, seconds_in_collectives
from outrigger.advise.given import Given, added
from outrigger.advise.trials import Limits, ProgramFailed, Trials
from outrigger.advise.variants import Variant
from outrigger.artifacts import Artifacts
from outrigger.durations import parse_duration
from outrigger.errors import UserError
from outrigger.report_data import Report

GIVEN = Given(program=("./app", "big"), ranks=4)
RANKS = 4


def call(
    name: str, seconds: float, *, form: str = "nonblocking", offloaded: bool = True, **more: Any
) -> dict[str, Any]:
    """A row of calls, 100 of each rank, `seconds` of each rank in all."""
    calls = 100 * RANKS
    reason = more.pop("reason", "blocking form" if form == "blocking" else "your rule")
    prefix = "i" if form == "blocking" else ""
    row = {
        "call": f"MPI_{name.capitalize()}", "form": form, "collective": prefix + name, "communicator": "MPI_COMM_WORLD",
        "size": RANKS, "calls": calls, "offloaded": calls if offloaded else 0,
        "native": {} if offloaded else {reason: calls},
        "bytes": {"calls": calls, "sum": calls << 16, "min": 1 << 16, "max": 1 << 16},
        "seconds": {"sum": RANKS * seconds, "min": seconds, "max": seconds, "ranks": RANKS},
    }  # fmt: skip
    return row | more


def made(*calls: dict[str, Any], moved: dict[str, int] | None = None, **fields: Any) -> Report:
    """A report of 10 s with these calls; `moved`: bytes by reach."""
    spread = {"sum": 0.5, "min": 0.1, "max": 0.2}
    collectives = [
        EXAMPLE["collectives"][0]
        | {"collective": row["collective"], "offloaded": row["offloaded"], "bytes": moved or {"mapped": 1 << 30}}
        for row in calls
        if row["form"] == "nonblocking"
    ]
    data = {
        "run_seconds": {"sum": 40.0, "min": 10.0, "max": 10.0, "ranks": RANKS}, "calls": list(calls),
        "collectives": collectives, "rank_cpu_seconds": {"offloaded_calls": spread, "process": spread},
    }  # fmt: skip
    return report.parse(json.dumps(EXAMPLE | data | fields))


def row(key: str, seconds: list[float], given: Given = GIVEN, read: Report | None = None, **more: Any) -> Row:
    trials = tuple(Trial(number, taken, read) for number, taken in enumerate(seconds))
    return Row(Variant(key, key, given, **more), trials)


def results(*rows: Row) -> Results:
    return Results({one.variant.key: one for one in rows})


NATIVE = row(variants.NATIVE, [10.0, 10.1, 9.9], Given(program=("./app", "big"), ranks=4, native=True))


def texts(found: list[sentences.Advice]) -> str:
    return "\n".join(f"{one.text} {one.option}" for one in found)


def test_ratios_are_of_the_same_round() -> None:
    """The machine became twice as slow from round to round, for both."""
    one = [Trial(number, 8.0 * 2**number) for number in range(4)]
    other = [Trial(number, 10.0 * 2**number) for number in range(4)]
    found = ratio_of(one, other)
    assert found is not None and found.band.value == pytest.approx(0.8) and found.verdict == -1
    assert ratio_of(one, [Trial(9, 1.0)]) is None


@pytest.mark.parametrize(
    ("times", "verdict"),
    [
        ([8.0, 8.1, 7.9], -1),
        ([9.5, 11.0, 8.0], 0),
        ([9.99, 9.98, 9.97], 0),
        ([12.0, 12.5, 11.9], 1),
        ([9.5], 0),
        ([5.0, 5.0], 0),
    ],
)
def test_a_difference_inside_noise_is_none(times: list[float], verdict: int) -> None:
    found = ratio_of([Trial(i, t) for i, t in enumerate(times)], [Trial(i, 10.0) for i in range(len(times))])
    assert found is not None and found.verdict == verdict


def test_the_best_must_be_better_beyond_noise() -> None:
    noisy = results(NATIVE, row(variants.DEFAULT, [9.0, 10.5, 9.5]))
    assert noisy.best.variant.key == variants.NATIVE
    assert "no difference beyond noise" in sentences.headline(noisy).text
    clear = results(NATIVE, row(variants.DEFAULT, [8.0, 8.1, 7.9]))
    assert clear.best.variant.key == variants.DEFAULT
    assert "Outrigger pays here: 8 s" in sentences.headline(clear).text
    worse = results(NATIVE, row(variants.DEFAULT, [12.0, 12.1, 12.2]))
    assert "does not pay" in sentences.headline(worse).text and worse.best.variant.given.native


def test_plain_run_is_used_where_it_is_as_fast_as_the_fastest() -> None:
    fixed = row(variants.DEFAULT, [8.0, 8.1, 7.9], GIVEN)
    assert results(NATIVE, fixed, row(variants.PLAIN, [8.1, 8.0, 8.0])).best.variant.key == variants.PLAIN
    assert results(NATIVE, fixed, row(variants.PLAIN, [9.0, 9.1, 8.9])).best.variant.key == variants.DEFAULT
    assert [one.given.choice for one in variants.first(GIVEN)[1:3]] == ["fixed", None]


def test_few_runs_conclude_nothing() -> None:
    few = results(NATIVE, row(variants.DEFAULT, [5.0, 5.0]), row(variants.MORE, [4.0, 4.0]))
    assert not few.concluded and few.best is few.best_native
    assert "Too few runs to tell if Outrigger pays here: " in sentences.headline(few).text
    assert "service processes a node" not in texts(sentences.of_results(few))
    assert results(NATIVE, row(variants.DEFAULT, [5.0, 5.0, 5.0])).concluded
    again = command._again(GIVEN, Limits(20.0, 2))
    assert again == "outrigger advise -n 4 --budget=40s --runs=3 -- ./app big"


def test_natively_the_command_is_the_mpis_own() -> None:
    assert NATIVE.variant.given.typed() == "mpirun -n 4 ./app big"
    many = Given(program=("./app",), ranks=4, native=True, mpi="mpich")
    assert many.typed() == "outrigger run -n 4 --mpi mpich --native -- ./app" and GIVEN.typed() == GIVEN.command()


def test_ratios_are_to_the_better_native() -> None:
    everywhere = row(variants.ALL_CORES, [7.0, 7.1, 6.9], Given(program=("./app",), native=True, bind="none"))
    found = results(NATIVE, everywhere, row(variants.DEFAULT, [8.0, 8.1, 7.9]))
    assert found.best_native.variant.key == variants.ALL_CORES and found.best is found.best_native
    assert "the free core costs time" in texts(sentences.of_results(found))


def test_what_is_tried_first_depends_on_the_binding() -> None:
    keys = [one.key for one in variants.first(GIVEN)]
    assert keys == [
        variants.NATIVE, variants.DEFAULT, variants.PLAIN, variants.ALL_CORES, variants.NO_CORE, variants.COUNTED
    ]  # fmt: skip
    unbound = Given(program=("./app",), bind="none")
    assert [one.key for one in variants.first(unbound)] == [
        variants.NATIVE,
        variants.DEFAULT,
        variants.PLAIN,
        variants.COUNTED,
    ]


def test_what_is_tried_next_is_what_the_report_asks_for() -> None:
    assert variants.further(GIVEN, made(call("ialltoall", 1.0)), None) == []
    private = made(call("ialltoall", 1.0), moved={"mapped": 1, "copier": 1 << 30})
    assert [one.given.shared_heap for one in variants.further(GIVEN, private, None)] == ["on"]
    heap_is_on = {"shared_heap": {"allocations": 12, "bytes": 3 << 30, "refused": 2, "forks": 1}}  # by its variable
    moved = {"mapped": 1, "copier": 1 << 30}
    assert variants.further(GIVEN, made(call("ialltoall", 1.0), moved=moved, **heap_is_on), None) == []
    blocking = made(call("ialltoall", 1.0), call("alltoall", 2.0, form="blocking", offloaded=False))
    assert [one.given.blocking for one in variants.further(GIVEN, blocking, None)] == ["on"]
    pairs = {"sum": 0.06, "min": 0.03, "max": 0.03, "ranks": 2}  # 4 pairs of ranks, each of which takes 0.3%
    pair = call("alltoall", 0.0, form="blocking", offloaded=False) | {"size": 2, "seconds": pairs}
    assert variants.further(GIVEN, made(*[pair] * 4), None) == []
    small = {"calls": 400, "sum": 3200, "min": 8, "max": 8}
    reduced = made(call("ialltoall", 1.0), call("allreduce", 2.0, form="blocking", offloaded=False, bytes=small))
    assert variants.further(GIVEN, reduced, None) == []  # --blocking on would do nothing
    gathered = made(call("ialltoall", 1.0), call("allgather", 2.0, form="blocking", offloaded=False, bytes=small))
    assert variants.further(GIVEN, gathered, None) == []
    offloaded = made(call("ialltoall", 1.0), call("ibcast", 2.0))
    native = made(call("ialltoall", 3.0, offloaded=False), call("ibcast", 1.0, offloaded=False))
    (mixed,) = variants.further(GIVEN, offloaded, native)
    assert mixed.given.algorithms == ("ibcast=native",)
    settled = Given(program=("./app",), shared_heap="off", blocking="off", intranode="off")
    assert variants.further(settled, private, None) == variants.further(settled, blocking, None) == []


def with_services(processes: int, ranks: int, *, core_is_free: bool = True) -> Report:
    service = EXAMPLE["service"] | {"processes": processes, "core_is_free": core_is_free}
    return made(call("ialltoall", 1.0), service=service, ranks=ranks)


@pytest.mark.parametrize(
    ("read", "count"),
    [
        (with_services(1, 4), 2),
        (with_services(2, 16), 4),  # one for eight ranks
        (with_services(1, 1), None),
        (with_services(2, 3), 3),
        (with_services(50, 400), 64),
        (with_services(64, 512), None),
        (with_services(0, 4), None),
        (with_services(1, 4, core_is_free=False), None),
    ],
)
def test_twice_the_service_processes_are_tried(read: Report, count: int | None) -> None:
    assert [one.given.services for one in variants.more_services(GIVEN, read, 64)] == ([count] if count else [])
    for given in (replace(GIVEN, services=1), replace(GIVEN, bind="none")):
        assert variants.more_services(given, read, 64) == []


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        ([6.0, 6.1, 5.9], "pay: 6 s instead of 8 s, 0.75 (0.71-0.79). --services 4"),
        ([9.0, 9.1, 8.9], "cost time: 9 s instead of 8 s, 1.12 (1.09-1.16). Leave it at 2."),
    ],
)
def test_service_processes_are_told_by_their_numbers(seconds: list[float], words: str) -> None:
    usual = row(variants.DEFAULT, [8.0, 8.0, 8.0], read=with_services(2, 16))
    more = row(variants.MORE, seconds, replace(GIVEN, services=4))
    told = texts(sentences.of_results(results(NATIVE, usual, more)))
    assert f"4 service processes a node instead of 2 {words}" in told


def test_what_pays_alone_is_put_together() -> None:

    heap = Variant(variants.HEAP, "", replace(GIVEN, shared_heap="on"))
    mixed = Variant(variants.MIXED, "", replace(GIVEN, algorithms=("ibcast=native",)))
    both = variants.together(GIVEN, [heap, mixed]).given
    assert both.options() == ["--shared-heap", "on", "--algorithm", "ibcast=native"]


def test_collectives_to_leave_native_are_named_with_both_times() -> None:
    behind = {"before_wait": {"operations": 400, "seconds": 400 * 20e-6}}
    offloaded = made(call("ialltoall", 1.0), call("ibcast", 2.0, **behind))
    native = made(call("ialltoall", 3.0, offloaded=False), call("ibcast", 1.0, offloaded=False))
    found = results(
        NATIVE, row(variants.DEFAULT, [8.0, 8.1, 7.9], read=offloaded),
        row(variants.COUNTED, [10.0], read=native, judged=False),
    )  # fmt: skip
    text = texts(sentences.of_results(found))
    assert "Leave MPI_Ibcast native: a rank spends 2 s in it offloaded, 1 s natively." in text
    assert "--algorithm ibcast=native" in text and "MPI_Ialltoall native" not in text
    assert "Its wait begins 20 µs after its start: there is nothing to overlap." in text


def test_tests_can_go_only_where_it_is_offloaded() -> None:
    tests = {"tests": {"calls": 8000, "seconds": 2.0}}
    assert "MPI_Test calls can go: 8,000 calls tested MPI_Ialltoall, 500 ms of a rank, 5% of the run." in texts(
        sentences.of_report(made(call("ialltoall", 1.0, **tests)))
    )
    text = texts(sentences.of_report(made(call("ialltoall", 1.0, offloaded=False, **tests))))
    assert "Keep the MPI_Test calls for MPI_Ialltoall (8,000 calls)" in text and "can go" not in text


def test_times_of_a_rank_are_means_over_the_counted_ranks() -> None:
    """One of the four ranks was killed."""
    three = {"seconds": {"sum": 3.0, "min": 1.0, "max": 1.0, "ranks": 3}, "calls": 300, "offloaded": 300}
    tests = {"tests": {"calls": 8000, "seconds": 1.5}, "before_wait": {"operations": 300, "seconds": 0.0}}
    killed = made(call("ialltoall", 1.0, **tests) | three, counted_ranks=[[0, 1], [3, 3]])
    assert seconds_in_collectives(killed) == pytest.approx(1.0)
    assert "MPI_Ialltoall, 500 ms of a rank, 5% of the run" in texts(sentences.of_report(killed))
    native = made(call("ialltoall", 0.5, offloaded=False))
    assert variants.longer_offloaded(killed, native) == {"ialltoall": (pytest.approx(1.0), pytest.approx(0.5))}


def test_tests_are_kept_where_ranks_copy_in_them() -> None:
    service = EXAMPLE["service"] | {"core": -1, "core_is_free": False}
    read = made(call("ialltoall", 1.0, tests={"calls": 8000, "seconds": 2.0}), service=service)
    assert "Keep the MPI_Test calls (8,000)" in texts(sentences.of_report(read))


def test_a_comparison_has_the_times_of_the_rounds_it_is_of() -> None:
    """One variant has run in later rounds only, in which everything took twice as long."""
    later = Row(Variant("b", "b", GIVEN), tuple(Trial(number, 16.0) for number in (3, 4, 5)))
    native = row(variants.NATIVE, [10.0, 10.0, 10.0, 20.0, 20.0, 20.0], NATIVE.variant.given)
    found = results(native, row(variants.DEFAULT, [9.0] * 3), later)
    assert found.best.variant.key == "b"
    assert "16 s b, 20 s native: 0.80" in sentences.headline(found).text


def test_private_memory_is_named_with_what_to_do() -> None:
    moved = {"mapped": 1 << 30, "relay": 1 << 30, "copier": 2 << 30, "bounce": 9 << 30}
    found = sentences.of_report(made(call("ialltoall", 1.0), moved=moved))
    assert "3 GiB of 4 GiB received came from or went to memory of malloc, 1 GiB of them by two copies" in texts(found)
    assert any(one.option == "--shared-heap on" for one in found)
    heap_is_on = {"allocations": 12, "bytes": 3 << 30, "refused": 2, "forks": 1}
    on = texts(sentences.of_report(made(call("ialltoall", 1.0), moved=moved, shared_heap=heap_is_on)))
    assert "by two copies, not to the shared heap: take the buffers from MPI_Alloc_mem." in on
    assert "--shared-heap" not in on and "try the shared heap" not in on
    assert "MPI_Alloc_mem" not in texts(sentences.of_report(made(call("ialltoall", 1.0))))
    heap = results(
        NATIVE, row(variants.DEFAULT, [8.0] * 3, read=made(call("ialltoall", 1.0), moved=moved)),
        row(variants.HEAP, [8.0, 8.2, 7.8]),
    )  # fmt: skip
    assert "The shared heap makes no difference beyond noise" in texts(sentences.of_results(heap))


def test_reasons_come_with_remedies() -> None:
    row_of = call("ialltoall", 1.0, offloaded=False, reason="unknown communicator")
    assert "400 of 400 calls of MPI_Ialltoall went natively (unknown communicator): make its communicator" in texts(
        sentences.of_report(made(row_of))
    )
    most_by_ranks = row_of | {"by_ranks": 300, "native": {"order not learned": 100}, "form": "blocking"}
    assert "went natively" not in texts(sentences.of_report(made(most_by_ranks)))
    few_by_ranks = most_by_ranks | {"by_ranks": 20, "native": {"order not learned": 380}}
    assert "380 of 400 calls of MPI_Ialltoall went natively" in texts(sentences.of_report(made(few_by_ranks)))
    taken = made(
        call("ialltoall", 1.0), services=[{"node": 0, "number": 0, "core": 1, "core_is_free": True, "core_taken": 0.4}]
    )
    assert "had a service process's core for 40%" in texts(sentences.of_report(taken))
    whole = made(call("ialltoall", 1.0, offloaded=False, reason="native job"), native_because="no keeper")
    assert "The whole job ran natively: no keeper." in texts(sentences.of_report(whole))


def test_communicators_of_a_split_have_one_sentence() -> None:
    left = call("ialltoall", 1.0, offloaded=False, reason="unknown communicator", communicator="row")
    at_once = call("iallgather", 1.0, before_wait={"operations": 400, "seconds": 0.0}, communicator="row")
    text = texts(sentences.of_report(made(*[left] * 12, *[at_once] * 9)))
    assert text.count("went natively (unknown communicator)") == text.count("there is nothing to overlap") == 1
    assert "The same for 11 more such communicators." in text and "The same for 8 more such communicators." in text


def test_waits_that_follow_at_once_have_nothing_to_overlap() -> None:
    at_once = made(call("iallgather", 1.0, before_wait={"operations": 400, "seconds": 400 * 20e-6}))
    assert "MPI_Iallgather takes 10 ms and its wait begins 20 µs after its start" in texts(sentences.of_report(at_once))
    later = made(call("iallgather", 1.0, before_wait={"operations": 400, "seconds": 4.0}))
    assert "nothing to overlap" not in texts(sentences.of_report(later))


def test_the_command_is_what_was_measured() -> None:
    given = Given(
        program=("./app", "a b"), ranks=8, services=2, algorithms=("ibcast=native",), shared_heap="on", bind="none",
        variables=("A=1",),
    )  # fmt: skip
    assert given.command() == (
        "outrigger run -n 8 --services 2 --shared-heap on --bind none --algorithm ibcast=native -x A=1 -- ./app 'a b'"
    )
    assert added(Given(program=("./app",), services=2), given) == (
        "--shared-heap on --bind none --algorithm ibcast=native -x A=1"
    )


def test_table_and_json_have_every_variant() -> None:
    found = results(NATIVE, row(variants.DEFAULT, [8.0, 8.1, 7.9], read=made(call("ialltoall", 1.0))))
    console = Console(file=io.StringIO(), width=120)
    console.print(show.table(found, GIVEN))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "* offloaded" in text and "0.80 (0.79-0.81)" in text and "--native" in text and "1 s" in text
    data = show.as_data(found, sentences.of_results(found))
    assert data["best"] == variants.DEFAULT and data["command"] == GIVEN.command()
    assert [one["seconds"] for one in data["variants"]] == [[10.0, 10.1, 9.9], [8.0, 8.1, 7.9]]


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("5m", 300), ("1.5h", 5400), ("7", 7)])
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration("--budget", text) == seconds


@pytest.mark.parametrize("text", ["", "0", "5 days", "-3s", "m"])
def test_wrong_durations_are_named(text: str) -> None:
    with pytest.raises(UserError, match="--budget"):
        parse_duration("--budget", text)


class _Silent:
    def shows(self, what: str, spent_s: float, expected_s: float) -> None:
        assert what and spent_s <= expected_s


class _Planned(Trials):
    """Runs nothing: each variant takes what it is said to."""

    def __init__(self, tmp_path: Path, built: Artifacts, limits: Limits, takes: dict[str, float]) -> None:
        super().__init__(built, tmp_path, limits, _Silent())
        self.takes, self.clock, self.made = takes, 0.0, []  # type: ignore[var-annotated]
        self.reports: dict[str, Report] = {}
        self.windows_fail: Exception | None = None

    def _left(self) -> float:
        return self.limits.budget_s - self.clock

    def run(self, variant: Variant, number: int, planned_s: float) -> None:
        if variant.key == "stop":
            raise KeyboardInterrupt
        seconds = self.takes.get(variant.key, 1.0)
        self.clock += seconds
        self.made.append((number, variant.key))
        if variant.key == variants.WINDOWS and self.windows_fail is not None:
            raise self.windows_fail
        self._variants[variant.key] = variant
        self._trials.setdefault(variant.key, []).append(Trial(number, seconds, self.reports.get(variant.key)))


def test_rounds_are_interleaved_and_turned_round(tmp_path: Path, built: Artifacts) -> None:
    trials = _Planned(tmp_path, built, Limits(1000, 3), {})
    trials.measure(variants.first(GIVEN)[:2])
    one, other = variants.NATIVE, variants.DEFAULT
    assert trials.made == [(0, one), (0, other), (1, other), (1, one), (2, one), (2, other)]
    assert not trials.out_of_time


@pytest.mark.parametrize("count", [2, 3])
def test_more_services_need_a_third_core(
    tmp_path: Path, built: Artifacts, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(cores, "allowed_cores", lambda: [(number,) for number in range(count)])
    trials = _Planned(tmp_path, built, Limits(1000, 3), {})
    trials.reports[variants.DEFAULT] = with_services(1, 4)
    trials.measure(variants.first(GIVEN)[:2])
    assert trials.made.count((2, variants.MORE)) == (count > 2)


def test_what_there_is_no_time_for_is_not_begun(tmp_path: Path, built: Artifacts) -> None:
    """Three rounds of two variants take 24 of the 25 s."""
    trials = _Planned(tmp_path, built, Limits(25, 3), {variants.NATIVE: 4.0, variants.DEFAULT: 4.0})
    trials.measure(variants.first(GIVEN))
    assert {key for _, key in trials.made} == {variants.NATIVE, variants.DEFAULT}
    assert trials.clock <= 25


def test_an_interrupt_keeps_what_there_is(tmp_path: Path, built: Artifacts) -> None:
    trials = _Planned(tmp_path, built, Limits(1000, 3), {})
    trials.measure([*variants.first(GIVEN)[:2], Variant("stop", "", GIVEN)])
    assert trials.interrupted and set(trials.results.rows) == {variants.NATIVE, variants.DEFAULT}


def test_what_gains_alone_is_tried_together_beside_native(tmp_path: Path, built: Artifacts) -> None:
    takes = {variants.NATIVE: 4.0, variants.DEFAULT: 4.0, "a": 2.0, "b": 3.0}
    trials = _Planned(tmp_path, built, Limits(1000, 3), takes)
    trials.measure([*variants.first(GIVEN)[:2], Variant("a", "", GIVEN), Variant("b", "", GIVEN)])
    assert {key for number, key in trials.made if number >= 3} == {variants.NATIVE, "a", variants.TOGETHER}


def with_sites(tmp_path: Path, built: Artifacts, limits: Limits, windows_take_s: float = 1.0) -> _Planned:
    """Its counted run has a place that takes a notable part of the run."""
    trials = _Planned(tmp_path, built, limits, {variants.WINDOWS: windows_take_s})
    seconds = {"sum": 4.0, "min": 1.0, "max": 1.0, "ranks": RANKS}
    place = {"object": "/nowhere/app", "offset": 8}
    numbers = {"calls": 4, "sum": 32, "min": 8, "max": 8}
    one = {"call": "MPI_Bcast", "place": place, "calls": 4, "offloaded": 0, "bytes": numbers, "seconds": seconds}
    trials.reports[variants.COUNTED] = made(sites=[one])
    return trials


def test_first_uses_are_measured_last(tmp_path: Path, built: Artifacts) -> None:
    trials = with_sites(tmp_path, built, Limits(1000, 3), windows_take_s=500.0)
    trials.measure(variants.first(GIVEN))
    assert trials.made[-1] == (0, variants.WINDOWS) and len(trials.made) == 3 * 5 + 1 + 1
    assert not trials.out_of_time
    windows = trials._variants[variants.WINDOWS].given
    assert "OUTRIGGER_WINDOWS=on" in windows.variables and windows.intranode == "off"


def test_later_rounds_leave_time_for_first_uses(tmp_path: Path, built: Artifacts) -> None:
    trials = with_sites(tmp_path, built, Limits(22, 50))
    trials.measure(variants.first(GIVEN))
    assert trials.out_of_time and trials.made[-1] == (0, variants.WINDOWS)
    assert trials.clock <= 22


def test_first_uses_are_not_measured_without_notable_collectives(tmp_path: Path, built: Artifacts) -> None:
    trials = _Planned(tmp_path, built, Limits(1000, 3), {})
    trials.reports[variants.COUNTED] = made()
    trials.measure(variants.first(GIVEN))
    assert variants.WINDOWS not in {key for _, key in trials.made}


@pytest.mark.parametrize("kind", ("code", "time"))
def test_a_program_that_bears_no_guards_is_advised_without(tmp_path: Path, built: Artifacts, kind: str) -> None:
    trials = with_sites(tmp_path, built, Limits(1000, 3))
    output = tmp_path / "windows-1.out"
    output.write_text("bad address")
    failed = ProgramFailed(Variant(variants.WINDOWS, "", GIVEN), 139, output)
    trials.windows_fail = failed if kind == "code" else UserError("it took longer than 10 s")
    trials.measure(variants.first(GIVEN))
    (text,) = trials.notes
    assert ("exit code 139" if kind == "code" else "longer than 10 s") in text and str(output) in text
    assert trials.results.concluded and variants.WINDOWS not in trials.results.rows


def test_a_failing_program_is_told_with_the_end_of_its_output(tmp_path: Path) -> None:
    output = tmp_path / "native-1.out"
    output.write_text("\n".join(f"line {number}" for number in range(100)))
    text = str(ProgramFailed(Variant("native", "native", GIVEN), 3, output))
    assert "exit code 3" in text and "line 99" in text and "line 50" not in text and str(output) in text


def test_only_files_of_earlier_runs_are_removed(tmp_path: Path) -> None:
    (tmp_path / "native-7.json").mkdir()
    stale = {f"{key}-{number}.{end}" for key in variants.KEYS for number in (1, 12) for end in ("out", "json")}
    kept = {"job-1.out", "mesh-2026.json", "my-native-1.out", "native-1.output", "native-x.out", "native-1a.json"}
    for name in stale | kept:
        (tmp_path / name).touch()
    command._prepared(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == kept | {"native-7.json"}


def test_every_variant_is_known_by_its_files(built: Artifacts) -> None:
    every = [*variants.first(GIVEN), variants.together(GIVEN, [])]
    assert {one.key for one in every} <= set(variants.KEYS)


def outrigger(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "outrigger", "advise", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "name a program"),
        (("--from", "x.json", "--", "./app"), "give one of them"),
        (("--from", "nowhere.json"), "nowhere.json cannot be read"),
        (("--budget", "soon", "--", "true"), "--budget soon"),
        (("--services", "99", "--", "true"), "--services 99"),
        (("--", "./there-is-no-such-program"), "there-is-no-such-program"),
        (("-n", "0", "--", "true"), "-n 0"),
    ],
)
def test_what_cannot_be_is_said(
    words: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    done = outrigger(*words)
    assert done.returncode == 2 and message in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1 and "Traceback" not in done.stderr


def test_reports_of_earlier_runs_are_read(tmp_path: Path) -> None:
    spread = {"sum": 40.0, "min": 10.0, "max": 10.0, "ranks": RANKS}
    tests = {"tests": {"calls": 8000, "seconds": 2.0}}
    data = EXAMPLE | {"run_seconds": spread, "calls": [call("ialltoall", 1.0, **tests)]}
    path = tmp_path / "earlier.json"
    path.write_text(json.dumps(data))
    done = outrigger("--from", str(path), "--json", str(tmp_path / "advice.json"))
    assert done.returncode == 0, done.stderr
    assert "MPI_Test calls can go" in done.stdout and "10 s" in done.stdout
    (written,) = json.loads((tmp_path / "advice.json").read_text())
    assert any("MPI_Test" in one["text"] for one in written["advice"])


@pytest.mark.parametrize("windows_first", [True, False])
def test_times_of_a_run_with_windows_do_not_count(windows_first: bool, tmp_path: Path) -> None:
    """It is told from the undisturbed run, in any order."""
    spread = {"sum": 40.0, "min": 10.0, "max": 10.0, "ranks": RANKS}
    for name, sites in ("slow", [placed(windows=windows())]), ("usual", [placed(seconds=2.0)]):
        (tmp_path / name).write_text(json.dumps(EXAMPLE | {"collectives": [], "run_seconds": spread, "sites": sites}))
    names = ["slow", "usual"] if windows_first else ["usual", "slow"]
    console = Console(file=io.StringIO(), width=400)
    command._read_reports(console, [tmp_path / name for name in names], tmp_path / "advice.json")
    (told,) = json.loads((tmp_path / "advice.json").read_text())
    assert told["report"].endswith("slow")
    assert any("MPI_Bcast at solver+0x1234, 20% of the run: " in one["text"] for one in told["advice"])


def test_files_may_have_names_like_markup(tmp_path: Path, built: Artifacts) -> None:
    """Also two reports, whose names are titles then."""
    data = EXAMPLE | {"run_seconds": {"sum": 40.0, "min": 10.0, "max": 10.0, "ranks": RANKS}}
    place = tmp_path / "[red]a[" / "b]"
    place.mkdir(parents=True)
    names = [place / "[bold].json", place / "one.json"]
    for name in names:
        name.write_text(json.dumps(data | {"calls": [call("ialltoall", 1.0)]}))
    console = Console(file=io.StringIO(), width=400)
    command._read_reports(console, names, None)
    trials = _Planned(place, built, Limits(1000, 3), {})
    trials.measure(variants.first(GIVEN)[:2])
    command._tell(console, trials, GIVEN, place / "advice.json")
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert text.count(str(names[0])) == 2 and f"reports are in {place}\n" in text
    assert f"Figures: {place}/advice.json" in text
