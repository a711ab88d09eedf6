"""Traces of PyTorch jobs, and cores that are kept for their service processes."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from conftest import LIMIT_S, Ranks

import outrigger.torch  # noqa: F401
from outrigger import run_torch, torch_events
from outrigger.cores import parse_cpu_list
from outrigger.errors import UserError
from outrigger.settings import TRACE
from outrigger.torch import clocks, counting, recording
from outrigger.torch.process_group import OutriggerProcessGroup
from outrigger.torch_events import Kind
from outrigger.trace import command, torch_ranks, torch_timeline, trace_events
from outrigger.trace.events import Clock
from outrigger.trace.timeline import Slice, Timeline
from outrigger.trace.torch_ranks import Compared, Recorded

ROOT = Path(__file__).resolve().parents[2]
SECOND = 1_000_000_000

BEGIN = """
import os, signal
import torch, torch.distributed as dist
import outrigger.torch
dist.init_process_group("outrigger")
rank, attempt = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
"""

TRACED = """
dist.all_reduce(torch.ones(1000))
works = [dist.all_reduce(torch.ones(50, dtype=torch.int64), async_op=True) for _ in range(3)]
for work in works[:2]:
    work.wait()
works[2].get_future().wait()
alone = [dist.new_group([one]) for one in range(2)][rank]
dist.broadcast(torch.ones(5), rank, group=alone)
if rank == 0:
    dist.send(torch.ones(6), 1, tag=7)
else:
    dist.recv(torch.ones(6), 0, tag=7)
    dist.irecv(torch.ones(6)).wait()
if rank == 0:
    dist.isend(torch.ones(6), 1).wait()
dist.barrier()
dist.destroy_process_group()
"""


def outrigger_run(
    directory: Path, text: str, *options: str, ranks: int = 2, torchrun: tuple[str, ...] = (), **variables: str
) -> subprocess.CompletedProcess[str]:
    """The program under `outrigger run` with these options."""
    program = directory / "train.py"
    program.write_text(BEGIN + text)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", **variables}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT / "python"), os.environ.get("PYTHONPATH")]))
    started = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), *torchrun, str(program)]
    return subprocess.run(
        [sys.executable, "-m", "outrigger", "run", *options, "--", sys.executable, *started],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip


def of_rank(made: Timeline, rank: int, kind: str) -> list[Slice]:
    return [one for one in made.slices if one.lane.kind == "rank" and one.lane.number == rank and one.kind == kind]


def names(slices: list[Slice]) -> list[str]:
    return [one.name for one in slices]


def check_tracks(text: str) -> None:
    """As Perfetto demands: slices of a track do not overlap, and the steps of a flow are in slices and in order."""
    tracks: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    flows: dict[int, list[tuple[float, tuple[int, int]]]] = defaultdict(list)
    for one in json.loads(text)["traceEvents"]:
        if one["ph"] in "stf":
            flows[one["id"]].append((one["ts"], (one["pid"], one["tid"])))
        if one["ph"] == "X":
            tracks[one["pid"], one["tid"]].append((one["ts"], one["ts"] + one["dur"]))
    for spans in tracks.values():
        for (_, end), (begin, _) in zip(sorted(spans), sorted(spans)[1:], strict=False):
            assert begin >= end - 1e-9
    assert flows
    for steps in flows.values():
        assert steps == sorted(steps, key=lambda step: step[0]) and len(steps) > 1
        assert all(any(begin <= at <= end for begin, end in tracks[track]) for at, track in steps)


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ranks that this test starts record their events in this directory."""
    directory = tmp_path / "events"
    directory.mkdir()
    monkeypatch.setenv(TRACE, f"{directory}/")
    return directory


def test_each_call_is_in_the_trace(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    done = outrigger_run(tmp_path, TRACED, "--trace", str(path))
    assert done.returncode == 0 and f"trace of 2 ranks in {path}" in done.stdout, done.stdout
    check_tracks(path.read_text())
    made = command.read(path)
    assert made.about["ranks"] == 2 and made.about["killed_ranks"] == [] and len(made.about["ended_us"]) == 2
    calls = of_rank(made, 0, "call")
    assert names(calls) == [
        "all_reduce", *["all_reduce (async)"] * 3, "broadcast", "send (async)", "send (async)", "barrier"
    ]  # fmt: skip
    first = calls[0].args
    assert (first["bytes"], first["type"], first["size"], first["communicator"]) == (4000, "float32", 2, "all ranks")
    assert calls[1].args["bytes"] == 400 and calls[4].args["size"] == 1 and calls[4].args["communicator"] != "all ranks"
    assert names(of_rank(made, 0, "completion")) == [*["wait for all_reduce"] * 2, *["wait for send"] * 2]
    operations = of_rank(made, 0, "operation")
    assert [one.args["operation"] for one in operations] == [2, 3, 4] and names(operations) == ["all_reduce"] * 3
    assert names(of_rank(made, 0, "message")) == ["send to 1"] * 2
    received = of_rank(made, 1, "message")
    assert names(received) == ["recv from 0", "recv from any"]
    assert [one.args["tag"] for one in received] == [7, 0] and received[0].args["bytes"] == 24
    assert all(one.begin <= one.end and one.args.get("ended", True) for one in made.slices)


def test_the_steps_of_an_operation_are_joined(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    assert outrigger_run(tmp_path, TRACED, "--trace", str(path)).returncode == 0
    flows = [flow for flow in command.read(path).flows if flow.call.name == "all_reduce (async)"]
    assert len(flows) == 6
    for flow in flows:
        assert flow.operation is not None and flow.operation.kind == "operation"
        assert flow.call.args["request"] == flow.operation.args["request"]
        assert flow.call.begin <= flow.operation.begin
    waited = [flow for flow in flows if flow.completion is not None]
    assert len(waited) == 4  # the future is not seen
    for flow in waited:
        assert flow.completion is not None and flow.completion.args["collected"] == [flow.call.args["request"]]


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert outrigger_run(tmp_path, TRACED, "--trace", str(tmp_path / "t.json")).returncode == 0
    command.replay(tmp_path / "t.json", tmp_path / "t.png", 0.0, None, None)
    assert (tmp_path / "t.png").read_bytes().startswith(b"\x89PNG")


def test_a_killed_rank_has_its_events_and_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    killed = """
dist.all_reduce(torch.ones(3))
dist.barrier()
if rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    dist.all_reduce(torch.ones(4))
except RuntimeError:
    dist.destroy_process_group()
    os._exit(1)
"""
    done = outrigger_run(tmp_path, killed, "--trace", str(path))
    assert done.returncode != 0 and path.exists(), done.stdout
    made = command.read(path)
    assert 1 in made.about["killed_ranks"] and "no end is known of rank" in " ".join(done.stdout.split())
    assert names(of_rank(made, 1, "call")) == ["all_reduce", "barrier"]
    last = of_rank(made, 0, "call")[-1]
    assert last.args["bytes"] == 16 and (last.args.get("failed") or last.args.get("ended") is False)


def test_the_last_start_of_restarted_ranks_is_traced(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    restarted = """
for _ in range(2 + attempt):
    dist.all_reduce(torch.ones(3))
if rank == 1 and attempt == 0:
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = outrigger_run(tmp_path, restarted, "--trace", str(path), torchrun=("--max-restarts", "1"))
    assert done.returncode == 0 and "1 earlier start of the ranks is left out" in " ".join(done.stdout.split()), (
        done.stdout
    )
    made = command.read(path)
    assert made.about["earlier_starts"] == 1 and made.about["killed_ranks"] == []
    assert [names(of_rank(made, rank, "call")) for rank in range(2)] == [["all_reduce"] * 3] * 2


def test_a_job_without_groups_says_so(tmp_path: Path) -> None:
    program = tmp_path / "none.py"
    program.touch()
    done = outrigger_run(tmp_path, "", "--trace", str(tmp_path / "t.json"), torchrun=(str(program),))
    assert done.returncode == 0 and "no rank has made a process group" in " ".join(done.stdout.split())


def test_ranks_record_without_outrigger_run(
    ranks: Ranks, tmp_path: Path, events: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Operations of a group with a service process are in the lane of this."""
    monkeypatch.setenv("OUTRIGGER_SERVICE_CPUS", str(max(os.sched_getaffinity(0))))

    def program(rank: int, _size: int) -> None:
        ours = dist.new_group(backend="outrigger")
        dist.all_reduce(torch.ones(3), group=ours, async_op=True).wait()
        dist.destroy_process_group(ours)

    ranks.run(2, program)
    made = command.read(events)
    assert [lane.title for lane in made.lanes] == ["rank 0", "rank 1", "service 0 of node 0"]
    (service,) = [lane for lane in made.lanes if lane.kind == "service"]
    served = [one for one in made.slices if one.lane == service]
    assert sorted(names(served)) == ["all_reduce of rank 0", "all_reduce of rank 1"]
    trace_events.write(made, tmp_path / "t.json")
    check_tracks((tmp_path / "t.json").read_text())


def one_rank(directory: Path, monkeypatch: pytest.MonkeyPatch) -> counting.GroupCounts:
    """Counts that are recorded in the directory."""
    monkeypatch.setenv(TRACE, f"{directory}/")
    monkeypatch.setattr(counting, "_current", None)
    counts = counting.for_group("name", "0", 0, 2, ())
    assert counts is not None
    return counts


def nothing() -> None:
    """An operation."""


def do(job: counting.Job) -> None:
    """As the queue of a group."""
    job()


def recorded(directory: Path) -> Recorded:
    ((one,),) = torch_ranks.read_all(directory)
    return one


def test_a_call_that_has_not_ended_is_drawn_to_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = one_rank(tmp_path, monkeypatch)
    begun, end = threading.Event(), threading.Event()

    def hangs() -> None:
        begun.set()
        end.wait()

    thread = threading.Thread(target=lambda: counts.blocking("barrier", [], do, hangs))
    thread.start()
    begun.wait()
    counts.blocking("all_reduce", [torch.ones(4)], do, nothing)
    made = torch_timeline.build(torch_ranks.read_all(tmp_path))
    end.set()
    thread.join()
    barrier, other = (next(one for one in made.slices if one.name == name) for name in ("barrier", "all_reduce"))
    assert barrier.args["ended"] is False and barrier.end >= other.end and "ended" not in other.args
    assert made.about["killed_ranks"] == [0]
    assert [event.ended is None for event in recorded(tmp_path).events] == [False, False]


def test_failed_calls_are_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = one_rank(tmp_path, monkeypatch)

    def fails() -> None:
        raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        counts.blocking("barrier", [], do, fails)
    counts.blocking("barrier", [], do, nothing)
    assert [(event.kind, event.failed) for event in recorded(tmp_path).events] == [
        (Kind.CALL, True),
        (Kind.CALL, False),
    ]


@pytest.mark.parametrize("full", [False, True])
def test_further_events_are_dropped_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool) -> None:
    """Beyond the limit, or where the file system is full."""
    room = recording._CHUNK_EVENTS
    monkeypatch.setattr(torch_events, "MOST_EVENTS", 2 * room if full else room)
    counts = one_rank(tmp_path, monkeypatch)
    counts.blocking("barrier", [], do, nothing)

    def fails(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if full:
        monkeypatch.setattr(os, "posix_fallocate", fails)
    for _ in range(room + 4):
        counts.blocking("barrier", [], do, nothing)
    found = recorded(tmp_path)
    assert (len(found.events), found.dropped) == (room, 5)


@pytest.mark.parametrize("place", ["missing/", "full/"])
def test_a_directory_that_cannot_be_written_fails_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (tmp_path / "full").mkdir()
    monkeypatch.setenv(TRACE, f"{tmp_path}/{place}")
    monkeypatch.setattr(counting, "_current", None)
    fallocate = os.posix_fallocate

    def full(descriptor: int, at: int, length: int) -> None:
        if str(tmp_path) in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fallocate(descriptor, at, length)

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.warns(UserWarning, match="no trace: OUTRIGGER_TRACE=.*cannot write there"):
        group = OutriggerProcessGroup(dist.HashStore(), 0, 1, timedelta(minutes=1))
    group.allreduce([torch.ones(3)]).wait()
    group.shutdown()
    assert list((tmp_path / "full").iterdir()) == []


def test_a_file_is_for_mpi_jobs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(TRACE, str(tmp_path / "t.json.gz"))
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    with pytest.warns(UserWarning, match="no trace: OUTRIGGER_TRACE=.* must name a directory for PyTorch"):
        assert counting.for_group("name", "0", 0, 1, ()) is None


def test_machines_have_clocks_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = one_rank(tmp_path, monkeypatch)
    counts.blocking("barrier", [], do, nothing)
    first = recorded(tmp_path)
    process = replace(first.process, rank=1, host="other", node=1)
    head = replace(first.head, process=process, clock="other", wall_offset=first.head.wall_offset + 5_000_000)
    made = torch_timeline.build([[first, replace(first, head=head)]])
    assert [lane.node for lane in made.lanes] == [0, 1] and made.about["clock_error_us"] is None
    one, other = made.slices
    assert other.begin - one.begin == 5_000_000 and other.args["late"] is True
    assert [mark.kind for mark in made.marks] == ["late"]


def other_machine(of: Recorded, rank: int, *compared: Compared) -> Recorded:
    """A rank with a clock of its own."""
    head = replace(
        of.head, process=replace(of.process, rank=rank, host=f"host{rank}", node=rank), clock=f"clock {rank}"
    )
    return replace(of, head=head, compared=compared)


def begins(made: Timeline) -> dict[int, int]:
    return {one.lane.number: one.begin for one in made.slices}


def test_compared_machines_have_one_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 1 is ahead by an hour. Its clock is slower by a thousandth."""
    counts = one_rank(tmp_path, monkeypatch)
    counts.blocking("barrier", [], do, nothing)
    first = recorded(tmp_path)
    (event,) = first.events
    at = event.began + 3600 * SECOND
    measured = [Clock(at, -3599_999_000_000, 900), Clock(at - SECOND, -3600 * SECOND, 700), Clock(at - 5, 0, 10**9)]
    other = other_machine(first, 1, *(Compared(0, clock) for clock in measured))
    other = replace(other, events=(replace(event, began=at - SECOND // 2, ended=at),), began=at - SECOND)
    made = torch_timeline.build([[first, other]])
    assert made.about["clock_error_us"] == 0.9
    found = begins(made)
    assert found[0] - found[1] == SECOND // 2 - 500_000
    assert made.slices[-1].args["late"] is True and made.slices[-1].lane.number == 0


def test_clocks_are_compared_over_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 2 was compared with rank 1, rank 3 with rank 1 and rank 4 with rank 9, of which nothing is there."""
    counts = one_rank(tmp_path, monkeypatch)
    counts.blocking("barrier", [], do, nothing)
    first = recorded(tmp_path)
    at = first.began
    job = [
        other_machine(first, 1, Compared(0, Clock(at, 5 * SECOND, 100))),
        other_machine(first, 2, Compared(1, Clock(at, 2 * SECOND, 30))),
        other_machine(first, 3, Compared(1, Clock(at, -SECOND, 20))),
    ]
    made = torch_timeline.build([[first, *job]])
    found = begins(made)
    assert [found[rank] - found[0] for rank in range(4)] == [0, 5 * SECOND, 7 * SECOND, 4 * SECOND]
    assert made.about["clock_error_us"] == 0.13
    # From a rank 1 that was compared with others only, and for machines whose comparison was with a lost one.
    found = begins(torch_timeline.build([job]))
    assert [found[rank] - found[1] for rank in (2, 3)] == [2 * SECOND, -SECOND]
    alone = [other_machine(first, rank, Compared(9, Clock(at, rank * SECOND, 50))) for rank in (4, 5)]
    made = torch_timeline.build([alone])
    assert begins(made)[5] - begins(made)[4] == SECOND and made.about["clock_error_us"] == 0.1
    assert torch_timeline.build([[first, *job, *alone]]).about["clock_error_us"] is None


def own_clocks(monkeypatch: pytest.MonkeyPatch, rank: int, names: str) -> None:
    """Pretends that ranks have these clocks, a letter for each."""
    monkeypatch.setattr(recording, "own_clock", lambda: names[rank])
    monkeypatch.setattr(counting, "own_clock", lambda: names[rank])


def compared_in(directory: Path) -> dict[int, list[Compared]]:
    (job,) = torch_ranks.read_all(directory)
    return {one.process.rank: list(one.compared) for one in job}


def test_clocks_of_machines_are_compared(ranks: Ranks, events: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two machines with two ranks each, whose clocks are really the same one."""
    monkeypatch.setenv("OUTRIGGER_PRETEND_NODE", "a,a,b,b")
    monkeypatch.setattr(clocks, "_LIMIT", timedelta(seconds=LIMIT_S))
    monkeypatch.setattr(clocks, "_LIMIT_OF_FIRST", timedelta(seconds=LIMIT_S))

    def program(rank: int, _size: int) -> None:
        own_clocks(monkeypatch, rank, "aabb")
        ours, smaller = dist.new_group(backend="outrigger"), dist.new_group([1, 3], backend="outrigger")
        for step in range(20):
            tensor = torch.ones(3)
            work = dist.all_reduce(tensor, group=ours, async_op=step % 2 == rank % 2)
            if work is not None:
                work.wait()
            assert tensor.tolist() == [4, 4, 4]
            dist.broadcast(tensor, 0, group=ours)  # in which the ranks do not meet
        if smaller is not dist.GroupMember.NON_GROUP_MEMBER:
            dist.barrier(smaller)
        dist.destroy_process_group(ours)
        again = dist.new_group(backend="outrigger")
        dist.barrier(again)

    ranks.run(4, program)
    found = compared_in(events)
    assert [len(found[rank]) for rank in range(4)] == [0, 0, 3, 0]
    for one in found[2]:
        assert one.rank == 0 and abs(one.clock.offset) <= one.clock.error
    assert command.read(events).about["clock_error_us"] in {one.clock.error / 1000 for one in found[2]}


@pytest.mark.parametrize("traced", [0, 1])
def test_machines_without_a_trace_are_not_compared(
    ranks: Ranks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, traced: int
) -> None:
    events = tmp_path / "events"
    events.mkdir()
    monkeypatch.setenv("OUTRIGGER_PRETEND_NODE", "a,b")

    def program(rank: int, _size: int) -> None:
        own_clocks(monkeypatch, rank, "ab")
        if rank == traced:
            os.environ[TRACE] = f"{events}/"
        ours = dist.new_group(backend="outrigger")
        dist.barrier(ours)

    ranks.run(2, program)
    assert compared_in(events) == {traced: []}


@pytest.mark.parametrize("silent", [0, 1])
def test_a_rank_that_does_not_compare_holds_nobody_up(
    ranks: Ranks, events: Path, monkeypatch: pytest.MonkeyPatch, silent: int
) -> None:
    monkeypatch.setenv("OUTRIGGER_PRETEND_NODE", "a,b")
    for limit in ("_LIMIT", "_LIMIT_OF_FIRST"):
        monkeypatch.setattr(clocks, limit, timedelta(milliseconds=50))

    def program(rank: int, _size: int) -> None:
        own_clocks(monkeypatch, rank, "ab")
        if rank == silent:
            monkeypatch.setattr(clocks.Comparison, "_compare", lambda _self, _number: None)
        ours = dist.new_group(backend="outrigger")
        for _ in range(20):
            dist.barrier(ours)
        word = torch.ones(1)
        dist.send(word, 1, group=ours) if rank == 0 else dist.recv(word, 0, group=ours)

    ranks.run(2, program)
    assert compared_in(events) == {0: [], 1: []} and command.read(events).about["clock_error_us"] is None


@pytest.mark.parametrize("killed", [0, 1])
def test_a_rank_may_die_while_clocks_are_compared(
    ranks: Ranks, events: Path, monkeypatch: pytest.MonkeyPatch, killed: int
) -> None:
    monkeypatch.setenv("OUTRIGGER_PRETEND_NODE", "a,b")

    def program(rank: int, _size: int) -> None:
        own_clocks(monkeypatch, rank, "ab")
        if rank == killed:
            monkeypatch.setattr(clocks.Comparison, "_send", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        ours = dist.new_group(backend="outrigger")
        with pytest.raises(dist.DistBackendError, match=f"rank {killed} .*has ended"):
            dist.barrier(ours)

    ranks.run(2, program, killed=(killed,))
    assert compared_in(events) == {0: [], 1: []}


def test_another_clock_is_compared(tmp_path: Path) -> None:
    """Rank 1 is on a machine of its own, whose clock is an hour ahead."""
    if subprocess.run(["unshare", "--time", "--fork", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no time namespaces here")
    events, program = tmp_path / "events", tmp_path / "train.py"
    events.mkdir()
    program.write_text(f"""
import sys
import torch.distributed as dist
import outrigger.torch
from datetime import timedelta
from outrigger.torch import clocks
clocks._LIMIT = clocks._LIMIT_OF_FIRST = timedelta(seconds={LIMIT_S})
rank = int(sys.argv[1])
dist.init_process_group("outrigger", init_method="file://{tmp_path}/store", rank=rank, world_size=2)
for _ in range(20):
    dist.barrier()
dist.destroy_process_group()
""")
    environment = {**os.environ, TRACE: f"{events}/", "OUTRIGGER_PRETEND_NODE": "a,b", "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT / "python"), os.environ.get("PYTHONPATH")]))
    ahead = ["unshare", "--time", "--monotonic", "3600", "--fork", "--kill-child"]
    started = [
        subprocess.Popen([*under, sys.executable, str(program), str(rank)], env=environment)
        for rank, under in enumerate(([], ahead))
    ]
    assert [one.wait(LIMIT_S) for one in started] == [0, 0]
    found = compared_in(events)
    assert [len(found[rank]) for rank in range(2)] == [0, 2]
    for one in found[1]:
        assert abs(one.clock.offset + 3600 * SECOND) <= one.clock.error
    made = command.read(events)
    assert made.about["clock_error_us"] > 0 and max(one.end for one in made.slices) < LIMIT_S * SECOND
    calls = {(one.lane.number, one.args["operation"]): one for one in made.slices if one.kind == "call"}
    for number in range(1, 21):  # no rank leaves before the other one has come
        one, other = calls[0, number], calls[1, number]
        error_ns = made.about["clock_error_us"] * 1000
        assert one.begin <= other.end + error_ns and other.begin <= one.end + error_ns


def test_what_is_no_trace_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="has no events of PyTorch ranks"):
        command.read(tmp_path)
    one_rank(tmp_path, monkeypatch)
    (path,) = tmp_path.iterdir()
    data = path.read_bytes()
    path.write_bytes(data[:100])
    with pytest.raises(UserError, match="has no events"):
        command.read(tmp_path)
    path.write_bytes(data.replace(b'"version": 2', b'"version": 9'))
    with pytest.raises(UserError, match="has version 9"):
        command.read(tmp_path)


def test_cores_are_kept_for_service_processes(tmp_path: Path) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        pytest.skip("one CPU")
    seen = f"""
open({str(tmp_path)!r} + f"/cpus{{rank}}", "w").write(f"{{os.environ['OUTRIGGER_SERVICE_CPUS']}} "
    + ",".join(map(str, sorted(os.sched_getaffinity(0)))))
"""
    done = outrigger_run(tmp_path, seen, "--services", "1")
    assert done.returncode == 0, done.stdout
    for rank in range(2):
        service, own = (parse_cpu_list(text) for text in (tmp_path / f"cpus{rank}").read_text().split())
        assert len(service) == 1 and own and not set(own) & set(service) and set(own) | set(service) <= set(allowed)


def test_a_dry_run_shows_the_cores(tmp_path: Path) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU")
    done = outrigger_run(tmp_path, "", "--services", "1", "--dry-run")
    assert done.returncode == 0 and "OUTRIGGER_SERVICE_CPUS=" in done.stdout and "taskset -c" in done.stdout
    done = outrigger_run(tmp_path, "", "--services", "0", "--dry-run")
    assert "OUTRIGGER_SERVICES=0" in done.stdout and "taskset" not in done.stdout


def test_the_last_cores_are_kept_and_some_must_be_left() -> None:
    cores = [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert run_torch.split_cores(1, cores) == (cores[3:], cores[:3])
    assert run_torch.split_cores(3, cores) == (cores[1:], cores[:1])
    with pytest.raises(UserError, match=r"--services 4: there is no core to spare\. 4 cores"):
        run_torch.split_cores(4, cores)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--nproc-per-node", "3"], 3),
        (["--nproc_per_node=4"], 4),
        (["--nproc-per-node", "auto"], None),
        (["--nproc-per-node"], None),
        ([], None),
    ],
)
def test_ranks_in_options_of_torchrun(words: list[str], expected: Any) -> None:
    assert run_torch.ranks_of(["torchrun", *words]) == expected
