"""Live data of running jobs: `outrigger top` and `stuck`. One rank looks at the others while these wait."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from conftest import LIMIT_S, Ranks

import outrigger.torch  # noqa: F401
from outrigger import torch_layout
from outrigger.live import standstill, torch_jobs
from outrigger.live.snapshot import Node
from outrigger.live.tracker import Tracker
from outrigger.torch import counting

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def live(monkeypatch: pytest.MonkeyPatch) -> None:
    """This test's jobs are shown."""
    monkeypatch.setenv("OUTRIGGER_LIVE", "on")


def own_node() -> Node | None:
    """That of the job of this process."""
    return next((one for one in torch_jobs.read().nodes if any(rank.pid == os.getpid() for rank in one.ranks)), None)


def node_when(is_there: Callable[[Node], bool]) -> Node:
    """As soon as this holds."""
    while (node := own_node()) is None or not is_there(node):
        time.sleep(0.01)
    return node


def is_inside(node: Node, rank: int, call: str) -> bool:
    """True if the rank is in such a call."""
    worlds = [one.world for one in node.ranks]
    return any(
        one.inside and worlds[one.rank] == rank and node.calls[one.call].name == call for one in node.present
    ) or any(one.inside and worlds[one.rank] == rank and one.name == call for one in node.messages)


def test_a_rank_that_has_not_arrived_is_named(ranks: Ranks) -> None:
    def program(rank: int, _size: int) -> None:
        ours = dist.new_group(backend="outrigger")
        for _ in range(3):
            dist.all_reduce(torch.ones(10), group=ours)
        if rank == 1:
            node = node_when(lambda node: is_inside(node, 0, "barrier") and is_inside(node, 2, "barrier"))
            state = standstill.state_of([node], [node])
            (call,) = state.calls
            assert (call.call, call.number, call.size) == ("barrier", 1, 3)
            assert [one.ranks for one in call.inside] == ["0,2"]
            assert [(one.ranks, one.state, one.call) for one in call.absent] == [("1", "outside", "all_reduce")]
            assert state.verdict.startswith("Rank 1 has not arrived at barrier on group ")
            assert "Ranks 0,2 have been in barrier" in state.verdict
            assert state.look_at[0].startswith(f"rank 1: py-spy dump --pid {os.getpid()} ")
        dist.barrier(group=ours)

    ranks.run(3, program)


def test_top_has_calls_bytes_and_time_of_operations_that_have_not_ended(ranks: Ranks) -> None:
    def program(rank: int, _size: int) -> None:
        ours = dist.new_group(backend="outrigger")
        for length in (10, 1000, 10):
            dist.all_reduce(torch.ones(length), group=ours)
        dist.all_reduce(torch.ones(10), group=ours, async_op=True).wait()
        if rank == 0:
            tracker = Tracker()
            first = node_when(lambda node: is_inside(node, 1, "barrier"))
            tracker.update([first], 1.0)
            later = node_when(lambda node: node.at_ns > first.at_ns)
            (job,) = tracker.update([later], 2.0).jobs
            calls = {call.call: call for call in job.calls}
            reduced = calls["all_reduce"]
            assert (reduced.calls, reduced.least_bytes, reduced.most_bytes) == (8, 40, 4000)
            assert reduced.bytes == 2 * (3 * 40 + 4000)
            assert (reduced.by_ranks, reduced.offloaded, reduced.native) == (8, 0, {})
            assert calls["barrier"].exposed == pytest.approx(0.5)  # one of two ranks is in it all the time
            assert (job.job[:6], job.mpi, job.world) == ("torch-", f"torch {torch.__version__}", 2)
        dist.barrier(group=ours)

    ranks.run(2, program)


def test_an_operation_in_the_background_is_told_from_a_wait(ranks: Ranks) -> None:
    def program(rank: int, _size: int) -> None:
        ours = dist.new_group(backend="outrigger")
        if rank == 0:
            work = dist.all_reduce(torch.ones(10), group=ours, async_op=True)
            dist.barrier()
            work.wait()
            return
        node = node_when(lambda node: is_inside(node, 0, "all_reduce"))
        (doing,) = standstill.state_of([node], [node]).calls[0].inside
        assert doing.state == "background"
        dist.barrier()
        node = node_when(lambda node: any(one.waits for one in node.present))
        (doing,) = standstill.state_of([node], [node]).calls[0].inside
        assert doing.state == "wait"
        blocked = sum(row.exposed_ns for row in node.rows)
        node_when(lambda node: sum(row.exposed_ns for row in node.rows) > blocked)  # grows before the wait has ended
        dist.all_reduce(torch.ones(10), group=ours)

    ranks.run(2, program)


def test_a_wait_for_a_message_names_the_other_rank_and_the_tag(ranks: Ranks) -> None:
    def program(rank: int, _size: int) -> None:
        ours = dist.new_group([0, 2], backend="outrigger")
        if rank == 0:
            dist.recv(torch.ones(10), 2, group=ours, tag=7)
        elif rank == 2:
            node = node_when(lambda node: is_inside(node, 0, "recv"))
            state = standstill.state_of([node], [node])
            assert state.in_messages == 1
            assert [(one.ranks, one.call) for one in state.outside if one.state == "message"] == [("0", "recv")]
            assert "Rank 0 has been in recv from rank 2, tag 7, on group " in state.verdict
            dist.send(torch.ones(10), 0, group=ours, tag=7)

    ranks.run(3, program)


def test_a_thread_that_listens_does_not_stand_for_the_program(ranks: Ranks) -> None:
    def program(rank: int, _size: int) -> None:
        from threading import Thread

        ours = dist.new_group(backend="outrigger")
        dist.all_reduce(torch.ones(10), group=ours)
        if rank == 0:
            listener = Thread(target=lambda: dist.recv(torch.ones(10), 1, group=ours))
            listener.start()
            listener.join()
            return
        node = node_when(lambda node: is_inside(node, 0, "recv"))
        assert standstill.state_of([node], [node]).in_messages == 0
        dist.send(torch.ones(10), 0, group=ours)

    ranks.run(2, program)


def test_groups_in_different_orders_are_a_deadlock(ranks: Ranks) -> None:
    def program(rank: int, _size: int) -> None:
        one, other = (dist.new_group([0, 1], backend="outrigger") for _ in range(2))
        watching = dist.new_group([2], backend="outrigger")
        if rank == 2:
            dist.barrier(group=watching)
            node = node_when(lambda node: is_inside(node, 0, "barrier") and is_inside(node, 1, "barrier"))
            verdict = standstill.state_of([node], [node]).verdict
            for process in node.ranks:
                if process.world != 2:
                    os.kill(process.pid, signal.SIGKILL)
            assert verdict.startswith("Deadlock: "), verdict
            assert "different orders" in verdict
        else:
            dist.barrier(group=one if rank == 0 else other)

    ranks.run(3, program, killed=(0, 1))


def test_a_service_process_is_shown(ranks: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = max(os.sched_getaffinity(0))
    monkeypatch.setenv("OUTRIGGER_SERVICE_CPUS", str(cpu))

    def program(rank: int, _size: int) -> None:
        ours = dist.new_group(backend="outrigger")
        for _ in range(5):
            dist.all_reduce(torch.ones(100_000), group=ours, async_op=True).wait()
        dist.barrier(group=ours)
        if rank == 0:
            node = own_node()
            assert node is not None
            (service,) = node.services
            assert (service.cpu, service.warning) == (cpu, "")
            assert service.ran_ns > 0
            assert sum(row.offloaded for row in node.rows) == 10
            os.kill(service.pid, signal.SIGKILL)
            node_when(lambda node: "ended" in node.services[0].warning)
        dist.barrier()

    ranks.run(2, program)


def test_ranks_that_have_ended_their_groups_are_not_absent(ranks: Ranks) -> None:
    def program(rank: int, _size: int) -> None:
        ours = dist.new_group(backend="outrigger")
        dist.barrier(group=ours)
        if rank == 1:
            dist.destroy_process_group(ours)
        dist.barrier()
        if rank == 0:
            node = own_node()
            assert node is not None
            assert [one.ended for one in node.ranks] == [False, True]
        dist.barrier()

    ranks.run(2, program)


def test_only_counts_are_read(tmp_path: Path) -> None:
    """Any process can use such a name for any of its files."""
    before, wrong = own_node(), tmp_path / "wrong"  # this process may have counted in other tests
    wrong.write_bytes(b"{}" + bytes(torch_layout.FILE_BYTES - 2))
    pipe, _ = os.pipe()
    with wrong.open() as opened, socket.socket(socket.AF_UNIX) as first, socket.socket(socket.AF_UNIX) as second:
        for sign, descriptor in ((first, opened.fileno()), (second, pipe)):
            sign.bind(f"\0{torch_layout.LIVE_NAME}:{os.getpid()}:{descriptor}".encode())
        after = own_node()
        assert (after and after.job) == (before and before.job)
        assert (after and after.ranks[0].world) == (before and before.ranks[0].world)


def test_wrong_counts_break_no_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIGGER_REPORT", f"{tmp_path}/")
    monkeypatch.setattr(counting, "_current", None)  # other tests have none of its counts
    counts = counting.for_group("name", "0", 0, 4, (0, 2))
    assert counts is not None
    counts.blocking("all_reduce", [torch.ones(4)], lambda job: job(), lambda: None)
    counts.leave_message(counts.enter_message(counts.begin(counting.MESSAGE, "recv", [])[0], 1, 7))
    (path,) = tmp_path.iterdir()
    right = path.read_bytes()
    numbers = random.Random(1)
    opened = os.memfd_create("wrong")
    with socket.socket(socket.AF_UNIX) as sign:
        sign.bind(f"\0{torch_layout.LIVE_NAME}:{os.getpid()}:{opened}".encode())
        for _ in range(300):
            wrong = bytearray(right)
            for _ in range(numbers.choice((1, 10, 1000))):
                at = 8 * numbers.randrange(len(wrong) // 8)
                wrong[at : at + 8] = numbers.randrange(-(2 ** numbers.choice((3, 40, 63))), 2**62).to_bytes(
                    8, "little", signed=True
                )
            os.pwrite(opened, wrong, 0)
            for node in torch_jobs.read().nodes:
                standstill.state_of([node], [node])
                Tracker().update([node], 1.0)
    counts.ended()
    os.close(opened)


TRAIN = """
import sys, time
from pathlib import Path
import torch, torch.distributed as dist
import outrigger.torch
dist.init_process_group("outrigger")
dist.all_reduce(torch.ones(10))
if dist.get_rank() == 1:
    while not Path(sys.argv[1]).exists():
        time.sleep(0.01)
dist.barrier()
dist.destroy_process_group()
"""


def test_the_command_shows_a_job_of_torchrun(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "160"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT / "python"), os.environ.get("PYTHONPATH")]))
    environment.pop("OUTRIGGER_LIVE")
    command = [sys.executable, "-m", "outrigger"]
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    running = subprocess.Popen(
        [*command, "run", "--live", "--", *launch, tmp_path / "train.py", tmp_path / "go"], env=environment
    )
    try:
        while not any(node.world == 2 and is_inside(node, 0, "barrier") for node in torch_jobs.read().nodes):
            assert running.poll() is None
            time.sleep(0.05)
        (node,) = [node for node in torch_jobs.read().nodes if is_inside(node, 0, "barrier")]
        done = subprocess.run(
            [*command, "stuck", node.job], env=environment, capture_output=True, text=True, timeout=LIMIT_S
        )
        assert "Rank 1 has not arrived at barrier on all ranks" in " ".join(done.stdout.split())
        assert "since the first group" in done.stdout
    finally:
        (tmp_path / "go").touch()
        assert running.wait(LIMIT_S) == 0
