"""Asynchronous operations by a service process: results, order, and its death."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from conftest import Ranks

import outrigger.torch  # noqa: F401
from outrigger.torch import counting, process_group

LENGTH = 300_000


@pytest.fixture(autouse=True)
def kept_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """A core for service processes of this test's groups."""
    monkeypatch.setenv("OUTRIGGER_SERVICE_CPUS", str(max(os.sched_getaffinity(0))))


def services() -> list[int]:
    """Service processes on this node of groups to which this process belongs."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended
        members = words[words.index(b"--pids") + 1].split(b",") if b"--pids" in words else []
        if b"group" in words and str(os.getpid()).encode() in members:
            found.append(int(process.name))
    return found


def has_ended(process: int) -> bool:
    """Also if nothing has waited for it."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def filled(rank: int, step: int) -> torch.Tensor:
    """Sums of these have no rounding."""
    return torch.arange(LENGTH, dtype=torch.float32) % 1000 + rank + step


def expected(size: int, step: int) -> torch.Tensor:
    """The sum of all ranks' tensors."""
    return torch.stack([filled(rank, step) for rank in range(size)]).sum(0)


@pytest.mark.parametrize("nodes", ["", "a,b"])
@pytest.mark.parametrize("size", [2, 3])
def test_asynchronous_and_blocking_operations_meet(
    ranks: Ranks, size: int, nodes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rank that comes first decides; between nodes, all must have decided for the service processes."""
    monkeypatch.setenv("OUTRIGGER_PRETEND_NODE", nodes)

    def program(rank: int, size: int) -> None:
        ours = dist.new_group(backend="outrigger")
        assert len(services()) == 1
        for step in range(12):
            tensors = [filled(rank, step + one) for one in range(3)]
            works = [
                dist.all_reduce(tensor, group=ours, async_op=(step + one + rank) % 3 != 0)
                for one, tensor in enumerate(tensors)
            ]
            for work in works:
                if work is not None:
                    work.wait()
            for one, tensor in enumerate(tensors):
                assert torch.equal(tensor, expected(size, step + one))

    ranks.run(size, program)


def test_the_thread_of_a_group_may_leave_the_computing_core(ranks: Ranks) -> None:
    """It posts and completes asynchronous operations."""
    kept = max(os.sched_getaffinity(0))

    def program(rank: int, size: int) -> None:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        ours = dist.new_group(backend="outrigger")
        before = set(threading.enumerate())
        dist.all_reduce(filled(rank, 0), group=ours, async_op=True).wait()
        (thread,) = set(threading.enumerate()) - before
        assert thread.native_id is not None
        assert os.sched_getaffinity(thread.native_id) == os.sched_getaffinity(0) | {kept}
        assert kept not in os.sched_getaffinity(0)

    ranks.run(2, program)


def test_no_node_has_one_if_one_keeps_no_core(ranks: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIGGER_PRETEND_NODE", "a,b")

    def program(rank: int, size: int) -> None:
        if rank == 1:
            del os.environ["OUTRIGGER_SERVICE_CPUS"]
        ours = dist.new_group(backend="outrigger")
        tensor = filled(rank, 0)
        dist.all_reduce(tensor, group=ours, async_op=True).wait()
        assert torch.equal(tensor, expected(size, 0))
        assert services() == []

    ranks.run(2, program)


def test_no_process_is_left_of_a_destroyed_group(ranks: Ranks) -> None:
    def program(rank: int, size: int) -> None:
        ours = dist.new_group(backend="outrigger")
        found = services()
        dist.barrier(ours)
        dist.destroy_process_group(ours)
        while not all(has_ended(process) for process in found):
            time.sleep(0.01)

    ranks.run(2, program)


@pytest.mark.parametrize("nodes", ["", "a,b"])
def test_gradients_are_those_of_one_process(ranks: Ranks, nodes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """DDP waits for futures, whose callbacks run in the group's thread."""
    monkeypatch.setenv("OUTRIGGER_PRETEND_NODE", nodes)

    def program(rank: int, size: int) -> None:
        ours = dist.new_group(backend="outrigger")
        torch.manual_seed(1)
        model = torch.nn.Sequential(*(torch.nn.Linear(200, 200) for _ in range(4)))
        single = [torch.zeros_like(one) for one in model.parameters()]
        for other in range(size):
            model.zero_grad()
            model(torch.full((4, 200), other / 8)).square().mean().backward()
            for one, parameter in zip(single, model.parameters(), strict=True):
                assert parameter.grad is not None
                one += parameter.grad / size
        model.zero_grad()
        parallel = torch.nn.parallel.DistributedDataParallel(model, process_group=ours, bucket_cap_mb=1)
        parallel(torch.full((4, 200), rank / 8)).square().mean().backward()
        for one, parameter in zip(single, model.parameters(), strict=True):
            torch.testing.assert_close(parameter.grad, one)

    ranks.run(2, program)


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_ranks_go_on_from_a_killed_service_process(ranks: Ranks, sent: Any) -> None:
    def program(rank: int, size: int) -> None:
        ours = dist.new_group(backend="outrigger")
        for step in range(20):
            tensors = [filled(rank, step + one) for one in range(4)]
            works = [dist.all_reduce(tensor, group=ours, async_op=True) for tensor in tensors]
            if step == 5 and rank == 0:
                for process in services():
                    os.kill(process, sent)
            for work in works:
                work.wait()
            for one, tensor in enumerate(tensors):
                assert torch.equal(tensor, expected(size, step + one))

    ranks.run(2, program)


def test_a_killed_service_process_of_a_node_is_named(ranks: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIGGER_PRETEND_NODE", "a,b")

    def program(rank: int, size: int) -> None:
        ours = dist.new_group(backend="outrigger")
        with pytest.raises(RuntimeError, match=r"the service process of rank 1's node \(process \d+\) has ended"):
            for step in range(100):
                if step == 5 and rank == 1:
                    os.kill(services()[0], signal.SIGKILL)
                dist.all_reduce(filled(rank, step), group=ours, async_op=True).wait()

    ranks.run(2, program)


@pytest.mark.parametrize("nodes", ["", "a,b"])
def test_a_killed_rank_is_named(ranks: Ranks, nodes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIGGER_PRETEND_NODE", nodes)

    def program(rank: int, size: int) -> None:
        ours = dist.new_group(backend="outrigger")
        with pytest.raises(RuntimeError, match=r"rank 1 .* has ended"):
            for step in range(100):
                if rank == 1 and step == 5:
                    os.kill(os.getpid(), signal.SIGKILL)
                dist.all_reduce(filled(rank, step), group=ours, async_op=True).wait()

    ranks.run(2, program, killed=(1,))


def test_a_rank_that_is_killed_while_the_group_is_made_is_named(ranks: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIGGER_SERVICE_CPUS", str(max(os.sched_getaffinity(0))))

    class Deadly(dist.Store):  # type: ignore[misc]
        """Kills its process before it says that it has attached."""

        def __init__(self, store: Any) -> None:
            super().__init__()
            self._store = store

        def set(self, key: str, value: Any) -> None:
            if key == "attached/0":
                os.kill(os.getpid(), signal.SIGKILL)
            self._store.set(key, value)

    def program(rank: int, size: int) -> None:
        store = dist.PrefixStore("ours", dist.distributed_c10d._get_default_store())
        meet = process_group.meet

        def met(*arguments: Any) -> tuple[str, Any, list[int]]:
            name, own, compared = meet(*arguments)
            return name, Deadly(own) if rank == 0 else own, compared

        monkeypatch.setattr(process_group, "meet", met)
        with pytest.raises(RuntimeError, match=r"rank 0 \(process \d+\) has ended"):
            process_group.OutriggerProcessGroup(store, rank, size, timedelta(hours=1))

    ranks.run(3, program, killed=(0,))


def test_nothing_is_counted_for_a_group_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also no descriptor is left."""
    monkeypatch.setenv("OUTRIGGER_REPORT", f"{tmp_path}/")
    monkeypatch.setenv("OUTRIGGER_SERVICE_CPUS", "100000")
    monkeypatch.setattr(counting, "_current", None)  # other tests have none of its counts
    store = dist.HashStore()
    counts = counting.for_group("other", "1", 0, 1, ())
    assert counts is not None
    before = len(os.listdir("/proc/self/fd"))
    with ThreadPoolExecutor(2) as pool:
        errors = list(pool.map(lambda rank: error_of(store, rank), range(2)))
    assert "no service process for the group" in errors[0] and "rank 0 could not join the group" in errors[1]
    assert len(os.listdir("/proc/self/fd")) == before
    assert counts._process._live_groups == 1
    counts.ended()


def error_of(store: Any, rank: int) -> str:
    """The error of a group that cannot be made."""
    with pytest.raises(RuntimeError) as caught:
        process_group.OutriggerProcessGroup(store, rank, 2, timedelta(hours=1))
    return str(caught.value)
