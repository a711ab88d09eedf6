"""A trace has every call of the report, after any end of the job, and the service processes' work."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import in_perfetto
import pytest
from conftest import Mpi, Result, wait_until
from local_dpus import ONE_MPI, dpus

from outrigger import report
from outrigger.trace import collect, timeline, trace_events
from outrigger.trace.events import Kind, Part

RANKS = 3
ROUNDS = 3
NO_CORE = {"OUTRIGGER_DAEMON": "/bin/false"}
"""No keeper starts: the job runs natively."""
ANOTHER_CLOCK_S = 3600
# Rank 1 has its own clock, an hour ahead.
AHEAD = """
case "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" in
  1) exec unshare --time --monotonic %d --fork "$0" "$@" ;;
  *) exec "$0" "$@" ;;
esac
"""

pytestmark = pytest.mark.one_machine


def needs_time_namespaces() -> None:
    if subprocess.run(["unshare", "--time", "--fork", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no time namespaces here")


def traced(
    mpi: Mpi, tmp_path: Path, program: list[str], env: dict[str, str] | None = None
) -> tuple[Result, list[Part]]:
    path = tmp_path / "t.json"
    result = mpi.run(RANKS, program, env={"OUTRIGGER_TRACE": str(collect.events_path(path)), **(env or {})})
    return result, collect.read_written(path)


def calls_of(parts: list[Part]) -> Counter[str]:
    """Calls of all ranks, without those that make persistent requests, which are not in a report."""
    names = [(part.name("call", e.name), e.subject) for part in parts for e in part.events if e.kind is Kind.CALL]
    return Counter(name for name, request in names if request or not name.endswith("_init"))


def check_like_report(result: Result, parts: list[Part]) -> None:
    """The same calls of each kind, and bytes; except rejected calls."""
    assert result.report is not None
    found = report.parse(json.dumps(result.report))
    expected: Counter[str] = Counter()
    for entry in found.calls:
        if entry.communicator != "(other communicators)":
            expected[entry.call] += entry.calls
    assert calls_of(parts) == +expected
    traced_bytes = sum(e.bytes for part in parts for e in part.events if e.kind is Kind.CALL and e.group != (0, 0))
    assert traced_bytes >= sum(entry.bytes.sum for entry in found.calls)


def check_joined(made: timeline.Timeline, *, offloaded: bool) -> None:
    """Each request is collected once; each operation was taken and has ended before that."""
    requests = Counter((f.call.lane.number, f.call.args["request"]) for f in made.flows if "request" in f.call.args)
    assert requests and set(requests.values()) == {1}
    for flow in made.flows:
        if "request" in flow.call.args:
            assert flow.completion is not None and flow.completion.end >= flow.call.end
        if flow.call.args["offloaded"]:
            assert flow.operation is not None and "ended" not in flow.operation.args, flow.operation
            assert flow.call.begin <= flow.operation.begin
    assert any(flow.call.args["offloaded"] for flow in made.flows) == offloaded


@pytest.mark.any_mpi
@pytest.mark.parametrize("program", ["all", "persistent"])
def test_a_trace_has_what_the_report_has(offload: Mpi, tmp_path: Path, program: str) -> None:
    result, parts = traced(offload, tmp_path, ["counted", program, str(ROUNDS)])
    result.ok()
    assert [part.rank for part in parts] == list(range(RANKS)) and not list(tmp_path.glob("*.node-*"))
    check_like_report(result, parts)
    made = timeline.build(parts)
    if program == "all":
        check_joined(made, offloaded=True)
        # The report counts bytes received from others, by reach. Without reductions these are the moved bytes.
        assert result.report is not None
        moved = sum(one.args["bytes"] for one in made.slices if one.kind == "move")
        received = sum(
            sum(entry["bytes"][reach] for reach in ("mapped", "cma", "relay", "copier", "xpmem"))
            for entry in result.report["collectives"]
            if "reduce" not in entry["collective"] and "scan" not in entry["collective"]
        )
        assert moved >= received > 0
    assert trace_events.parse(trace_events.encode(made)[0], "t").lanes == made.lanes


@pytest.mark.parametrize("mpi", ("mpich",), indirect=True)
def test_perfetto_itself_finds_all_of_a_job(offload: Mpi, tmp_path: Path) -> None:
    result, parts = traced(offload, tmp_path, ["counted", "all", str(ROUNDS)])
    result.ok()
    made = timeline.build(parts)
    assert {one.kind for one in made.slices} >= {"call", "completion", "operation", "move"}
    in_perfetto.check(trace_events.encode(made)[0], made)


def phases_of(part: Part) -> Counter[tuple[str, int]]:
    """Number of entries of each phase, by nesting depth."""
    return Counter((part.name("phase", e.name), e.number) for e in part.events if e.kind is Kind.PHASE)


@pytest.mark.parametrize("mpi", ("mpich",), indirect=True)
def test_phases_are_in_it(offload: Mpi, tmp_path: Path) -> None:
    result, parts = traced(offload, tmp_path, ["api", "phases"])
    result.ok()
    assert len(parts) == RANKS
    for part in parts:
        found = phases_of(part)
        assert found["outer", 0] == found["inner", 1] == 3 and found["number 0", 0] == 1
        assert all(found["deep", depth] == 1 for depth in range(32)) and found.total() == 3 + 3 + 32 + 300 + 1
        assert len({name for name, _ in found}) == 257 and found["(other phases)", 0] == 300 - (256 - 3) + 1
        phases = [e for e in part.events if e.kind is Kind.PHASE]
        spans = {part.name("phase", e.name): (e.began, e.ended) for e in phases}
        outer, inner = spans["outer"], spans["inner"]
        assert outer[0] <= inner[0] <= inner[1] <= outer[1]


@pytest.mark.parametrize("mpi", ("mpich",), indirect=True)
def test_children_write_nothing_into_it(offload: Mpi, tmp_path: Path) -> None:
    result, parts = traced(offload, tmp_path, ["api", "forked"])
    result.ok()
    assert [phases_of(part) for part in parts] == [Counter({("parent's", 0): 1})] * RANKS


@pytest.mark.any_mpi
def test_a_native_job_has_its_calls(offload: Mpi, tmp_path: Path) -> None:
    result, parts = traced(offload, tmp_path, ["counted", "all", str(ROUNDS)], NO_CORE)
    check_like_report(result.ok(), parts)
    made = timeline.build(parts)
    check_joined(made, offloaded=False)
    assert "/bin/false" in made.about["native_because"] and all(lane.kind == "rank" for lane in made.lanes)


@pytest.mark.parametrize("mpi", ("mpich",), indirect=True)
@pytest.mark.parametrize("end", [("abort", "7"), ("signal",)])
def test_what_was_written_outlives_the_ranks(offload: Mpi, tmp_path: Path, end: tuple[str, ...]) -> None:
    """Two nodes: each keeper writes its own."""
    path = tmp_path / "t.json"
    env = {"OUTRIGGER_TRACE": str(collect.events_path(path)), "OUTRIGGER_PRETEND_NODES": "2"}
    offload.start(RANKS, ["counted", "end", *end], env=env).wait(40)
    offload.nothing_left()
    assert wait_until(lambda: len(list(tmp_path.glob("*.node-?"))) == 2, 10), list(tmp_path.iterdir())
    parts = collect.read_written(path)
    assert {part.rank for part in parts} == set(range(RANKS)) and {part.node for part in parts} == {0, 1}
    assert calls_of(parts)["MPI_Allreduce"] == 3 * RANKS
    assert "trace of 3 ranks" in collect.finish(path)


@pytest.mark.parametrize("mpi", ("mpich",), indirect=True)
def test_a_native_rank_that_aborts_writes_what_it_has(offload: Mpi, tmp_path: Path) -> None:
    _, parts = traced(offload, tmp_path, ["counted", "end", "abort", "7"], NO_CORE)
    assert [part.rank for part in parts] == [1] and calls_of(parts)["MPI_Allreduce"] == 3


@pytest.mark.parametrize("mpi", ("openmpi", "mpich"), indirect=True)
def test_another_clock_is_compared(offload: Mpi, tmp_path: Path) -> None:
    """By the MPI's own messages: rank 1 is on a node of its own, whose clock is an hour ahead."""
    needs_time_namespaces()
    script = AHEAD % ANOTHER_CLOCK_S
    env = {"OUTRIGGER_TRACE": str(tmp_path / "t.json.events"), "OUTRIGGER_PRETEND_NODES": "2"}
    program = ["/bin/bash", "-c", script, str(offload.programs / "counted"), "late"]
    offload.run(2, program, env=env).ok()
    parts = collect.read_written(tmp_path / "t.json")
    (other,) = (part for part in parts if part.rank == 1)
    for clock in other.clocks:
        assert 0 < clock.error < 50_000_000
        assert abs(clock.offset + ANOTHER_CLOCK_S * 1_000_000_000) <= clock.error
    made = timeline.build(parts)
    assert min(one.begin for one in made.slices) >= 0 and max(one.end for one in made.slices) < 60e9
    late = [mark for mark in made.marks if mark.kind == "late"]
    assert len(late) >= 9 and {mark.lane.number for mark in late} == {1}, "the program has rank 1 come late ten times"


@ONE_MPI
def test_what_a_dpu_does_is_in_it(offload: Mpi, tmp_path: Path) -> None:
    """Its clock is an hour ahead."""
    needs_time_namespaces()
    ahead = ("unshare", "--time", "--monotonic", str(ANOTHER_CLOCK_S), "--fork")
    with dpus(offload, services=2, under=ahead) as started:
        result, parts = traced(offload, tmp_path, ["counted", "all", str(ROUNDS)], started.told())
    check_like_report(result.ok(), parts)
    made = timeline.build(parts)
    check_joined(made, offloaded=True)
    services = [lane for lane in made.lanes if lane.kind == "service"]
    assert [lane.number for lane in services] == [0, 1] and all(lane.dpu for lane in services), services
    assert {one.args["reach"] for one in made.slices if one.kind == "move"} == {"rdma"}
    error_us = made.about["clock_error_us"]
    assert 0 < error_us < 50_000 and made.about["dropped_service_events"] == 0
    for flow in made.flows:
        if flow.operation is not None and flow.completion is not None:
            assert flow.operation.lane.dpu and flow.operation.end <= flow.completion.end + error_us * 1000
    in_perfetto.check(trace_events.encode(made)[0], made)
    offload.nothing_left()


@ONE_MPI
def test_what_a_dpu_did_outlives_its_service_process_and_the_ranks(offload: Mpi, tmp_path: Path) -> None:
    env = {"OUTRIGGER_TRACE": str(collect.events_path(tmp_path / "t.json"))}
    log = offload.directory / "services.log"
    with dpus(offload, environment={"OUTRIGGER_LOG": f"info:{log}"}) as started:
        job = offload.start(RANKS, ["steady", "operations", "60"], services=1, env=started.told() | env)
        job.wait_for("steady: under way")
        oldest = offload.serving()[0]  # a younger one stands by
        os.kill(oldest.pid, signal.SIGKILL)
        killed_ns = time.monotonic_ns()
        assert wait_until(lambda: "replaced another service process" in log.read_text(), 30), log.read_text()
        taken_ns = time.monotonic_ns()
        time.sleep(1)
        os.kill(job.rank_pids()[1], signal.SIGKILL)
        ended_ns = time.monotonic_ns()
        job.wait(30)
        offload.nothing_left()
    parts = collect.read_written(tmp_path / "t.json")
    assert {part.rank for part in parts} == set(range(RANKS)) and all(part.dpu for part in parts)
    for part in parts:
        moves = [event for event in part.service_events if event.kind is Kind.MOVE]
        assert sum(move.ended < killed_ns for move in moves) > 10, "before the service process has died"
        late = [move for move in moves if move.ended > taken_ns]
        assert len(late) > 10, "by the one in its place"
        assert max(move.ended for move in late) > ended_ns - 200_000_000, "what is not fetched yet is at the end"


@pytest.mark.parametrize("mpi", ("mpich",), indirect=True)
def test_the_command_writes_a_trace_and_draws_it(offload: Mpi, tmp_path: Path) -> None:
    program = [str(offload.programs / "counted"), "all", "2"]
    run = [sys.executable, "-m", "outrigger", "run", "--build", str(offload.build), "-n", "2", "--no-bind"]
    command = [*run, "--trace", "t.json.gz", "--", *program]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False)
    assert result.returncode == 0, result.stderr
    assert "trace of 2 ranks" in result.stderr and [file.name for file in tmp_path.iterdir()] == ["t.json.gz"]
    draw = [sys.executable, "-m", "outrigger", "lab", "replay", "t.json.gz", "-o", "t.svg"]
    result = subprocess.run(draw, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False)
    assert result.returncode == 0 and b"<svg" in (tmp_path / "t.svg").read_bytes(), result.stderr
