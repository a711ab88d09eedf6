"""Messages, queues, subgroups, training and failures of the PyTorch backend."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from conftest import Ranks
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

import outrigger.torch  # noqa: F401
from outrigger.torch import library
from outrigger.torch.device_backend import DeviceBackend
from outrigger.torch.process_group import OutriggerProcessGroup
from outrigger.torch.works import QueuedWork, WorkQueue


def test_the_library_is_found_by_its_soname(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages without files for development have no other name of it."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "liboutrigger_group.so.1").symlink_to(library.load()._library._name)
    monkeypatch.setenv("OUTRIGGER_BUILD", str(tmp_path))
    assert library.load.__wrapped__()._library._name == str(tmp_path / "lib" / "liboutrigger_group.so.1")


# A letter for each rank: the node on which it pretends to be. "": they share memory.
across_nodes = pytest.mark.parametrize("nodes", ["", "aab", "abc"])


def pretend(nodes: str, rank: int) -> None:
    """For groups that the process makes from now on."""
    os.environ["OUTRIGGER_PRETEND_NODE"] = nodes[rank] if nodes else ""


@across_nodes
def test_messages_cross(ranks: Ranks, nodes: str) -> None:
    """Long ones both ways in one batch, from any rank, by tags in another order, and not contiguous."""

    def program(rank: int, size: int) -> None:
        pretend(nodes, rank)
        ours = dist.new_group(backend="outrigger")
        right, left = (rank + 1) % size, (rank - 1) % size
        mine, got = torch.full((300_000,), float(rank)), torch.zeros(300_000)
        batch = [dist.P2POp(dist.isend, mine, right, ours), dist.P2POp(dist.irecv, got, left, ours)]
        for work in dist.batch_isend_irecv(batch):
            work.wait()
        assert torch.equal(got, torch.full((300_000,), float(left)))
        sends = [dist.isend(torch.tensor([rank, tag]), right, group=ours, tag=tag) for tag in range(3)]
        for tag in (2, 0, 1):
            pair = torch.zeros(2, 2, dtype=torch.int64)[:, 0]
            dist.recv(pair, left, group=ours, tag=tag)
            assert pair.tolist() == [left, tag]
        for work in sends:
            work.wait()
        if rank == 0:
            word = torch.zeros(1)
            sources = {dist.recv(word, group=ours, tag=9) for _ in range(size - 1)}
            assert sources == set(range(1, size))
        else:
            dist.send(torch.ones(1), 0, group=ours, tag=9)
        future = dist.irecv(got[:1], left, group=ours, tag=4).get_future()
        dist.send(torch.tensor([7.0]), right, group=ours, tag=4)
        future.wait()
        assert got[0] == 7
        dist.barrier(ours)

    ranks.run(3, program)


def test_messages_and_collectives_do_not_wait_for_each_other(ranks: Ranks) -> None:
    def program(rank: int, _size: int) -> None:
        ours = dist.new_group(backend="outrigger")
        big, got = torch.ones(1_000_000), torch.zeros(1_000_000)
        if rank == 0:
            send = dist.isend(big, 1, group=ours)
            dist.barrier(ours)
            send.wait()
        else:
            dist.recv(got, 0, group=ours)
            dist.barrier(ours)
            assert torch.equal(got, big)
        # A queued operation whose partner comes only after a message.
        first = dist.all_reduce(torch.ones(10), group=ours, async_op=True) if rank == 0 else None
        dist.send(big, 1, group=ours) if rank == 0 else dist.recv(got, 0, group=ours)
        if first is None:
            first = dist.all_reduce(torch.ones(10), group=ours, async_op=True)
        first.wait()

    ranks.run(2, program)


def test_groups_do_not_wait_for_each_other(ranks: Ranks) -> None:
    """Two groups of the same ranks, used in opposite orders."""

    def program(rank: int, size: int) -> None:
        groups = [dist.new_group(backend="outrigger") for _ in range(2)]
        order = [0, 1] if rank == 0 else [1, 0]
        tensors = [torch.full((5000,), float(which + 1)) for which in range(2)]
        works = [dist.all_reduce(tensors[which], group=groups[which], async_op=True) for which in order]
        for work in works:
            work.wait()
        assert [tensor[0].item() for tensor in tensors] == [size, 2 * size]

    ranks.run(2, program)


def test_results_of_queued_operations_come_in_order(ranks: Ranks) -> None:
    def program(_rank: int, size: int) -> None:
        ours = dist.new_group(backend="outrigger")
        tensor = torch.ones(1000)
        works = [dist.all_reduce(tensor, group=ours, async_op=True) for _ in range(5)]
        dist.all_reduce(tensor, group=ours)  # after those before
        assert all(work.is_completed() and work.is_success() for work in works)
        assert torch.equal(tensor, torch.full((1000,), float(size**6)))
        assert torch.equal(works[0].get_future().wait()[0], tensor)
        dist.destroy_process_group(ours)

    ranks.run(3, program)


@pytest.mark.parametrize("nodes", ["", "aabb", "abab", "abbc"])
def test_subgroups_have_ranks_of_their_own(ranks: Ranks, nodes: str) -> None:
    def program(rank: int, size: int) -> None:
        pretend(nodes, rank)
        pairs = [dist.new_group([first, first + 1], backend="outrigger") for first in (0, 2)]
        mine = pairs[rank // 2]
        tensor = torch.tensor([float(rank)])
        dist.all_reduce(tensor, group=mine)
        assert tensor.item() == 4 * (rank // 2) + 1
        dist.broadcast(tensor, 2 * (rank // 2) + 1, group=mine)
        gathered: list[object] = [None, None]
        dist.all_gather_object(gathered, {"rank": rank}, group=mine)
        assert gathered == [{"rank": 2 * (rank // 2) + one} for one in range(2)]
        dist.destroy_process_group(mine)
        assert size == 4

    ranks.run(4, program)


def losses(group: object, rank: int, size: int, compressed: bool = False) -> list[float]:
    """The losses of a few steps of training a small model, with different data on each rank."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    model = DistributedDataParallel(model, process_group=group, bucket_cap_mb=0.005)
    if compressed:
        state = powerSGD_hook.PowerSGDState(group, start_powerSGD_iter=2)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(rank)
    history = []
    for _ in range(10):
        data = torch.randn(16, 20, generator=generator)
        loss = (model(data) - data.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        history.append(total.item() / size)
    return history


@pytest.mark.parametrize("nodes", ["", "ab"])
def test_training_agrees_with_gloo(ranks: Ranks, nodes: str) -> None:
    def program(rank: int, size: int) -> None:
        pretend(nodes, rank)
        ours = losses(dist.new_group(backend="outrigger"), rank, size)
        again = losses(dist.new_group(backend="outrigger"), rank, size)
        theirs = losses(dist.group.WORLD, rank, size)
        assert ours == again
        assert ours == pytest.approx(theirs, rel=1e-5)
        assert ours[-1] < ours[0]

    ranks.run(2, program)


def test_training_with_hooks_that_call_operations(ranks: Ranks) -> None:
    def program(rank: int, size: int) -> None:
        ours = losses(dist.new_group(backend="outrigger"), rank, size, compressed=True)
        again = losses(dist.new_group(backend="outrigger"), rank, size, compressed=True)
        assert ours == again
        assert ours[-1] < ours[0]

    ranks.run(2, program)


@across_nodes
def test_a_killed_rank_is_named(ranks: Ranks, nodes: str) -> None:
    before = set(os.listdir("/dev/shm"))

    def program(rank: int, _size: int) -> None:
        pretend(nodes, rank)
        ours = dist.new_group(backend="outrigger")
        pids: list[int | None] = [None] * 3
        dist.all_gather_object(pids, os.getpid())
        for step in range(10_000):
            if rank == 1 and step == 100:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                dist.all_reduce(torch.ones(50_000), group=ours, async_op=step % 2 == 1 or None)
            except RuntimeError as error:
                assert f"rank 1 (process {pids[1]}) has ended" in str(error)
                return
        raise AssertionError("nobody noticed")

    ranks.run(3, program, killed=(1,))
    assert set(os.listdir("/dev/shm")) <= before


@pytest.mark.parametrize("nodes", ["", "ab"])
def test_a_late_rank_is_named(ranks: Ranks, tmp_path: Path, nodes: str) -> None:
    def program(rank: int, _size: int) -> None:
        pretend(nodes, rank)
        ours = dist.new_group(backend="outrigger", timeout=timedelta(seconds=1))
        if rank == 0:
            with pytest.raises(RuntimeError, match=r"rank 1 .* has not come within 1 s"):
                dist.all_reduce(torch.ones(10), group=ours)
            (tmp_path / "done").touch()
        else:
            while not (tmp_path / "done").exists():
                time.sleep(0.01)

    ranks.run(2, program)


@across_nodes
def test_monitored_barrier_names_all_that_are_missing(ranks: Ranks, nodes: str) -> None:
    def program(rank: int, _size: int) -> None:
        pretend(nodes, rank)
        ours = dist.new_group(backend="outrigger")
        dist.monitored_barrier(ours)
        if rank == 0:
            with pytest.raises(RuntimeError, match="ranks 1, 2 failed to pass"):
                dist.monitored_barrier(ours, timedelta(seconds=1), wait_all_ranks=True)
        dist.barrier()  # of gloo
        dist.barrier(ours)

    ranks.run(3, program)


def test_abort_ends_the_operations_of_others(ranks: Ranks) -> None:
    def program(rank: int, _size: int) -> None:
        ours = dist.new_group(backend="outrigger")
        if rank == 1:
            ours.abort()
            assert ours._handle is None  # its memory is freed
            return
        with pytest.raises(RuntimeError, match="rank 1 has aborted"):
            dist.barrier(ours)

    ranks.run(2, program)


def test_callbacks_may_call_operations(ranks: Ranks) -> None:
    """Rank 0 has its callbacks before rank 1 comes, so they run in the thread of the queue."""

    def program(rank: int, size: int) -> None:
        ours = dist.new_group(backend="outrigger")
        tensors = [torch.ones(1000) for _ in range(4)]

        def more(_future: object) -> list[torch.Tensor]:
            dist.all_reduce(tensors[1], group=ours)
            dist.all_reduce(tensors[2], group=ours, async_op=True).get_future().wait()
            return dist.all_reduce(tensors[3], group=ours, async_op=True).get_future().wait()

        if rank == 1:
            dist.barrier()  # of gloo
        future = dist.all_reduce(tensors[0], group=ours, async_op=True).get_future().then(more)
        if rank == 1:
            future.wait()
        last = dist.broadcast(torch.ones(1), 0, group=ours, async_op=True)  # after those of the callback
        if rank == 0:
            dist.barrier()
        last.wait()
        assert torch.equal(future.wait()[0], torch.full((1000,), float(size)))
        assert all(torch.equal(one, tensors[0]) for one in tensors)
        dist.destroy_process_group(ours)

    ranks.run(2, program)


@pytest.mark.parametrize("is_late", [False, True])
def test_operations_of_callbacks_have_one_order(ranks: Ranks, is_late: bool) -> None:
    """The callback is added behind a second operation. The first has ended on rank 0, and has not begun on rank 1."""

    def program(rank: int, size: int) -> None:
        ours = dist.new_group(backend="outrigger")
        first, second, third = torch.ones(4), torch.full((4,), 10.0), torch.full((4,), 100.0)
        if rank == 0:
            dist.barrier()  # of gloo: rank 1 has added its callback
        work = dist.all_reduce(first, group=ours, async_op=True)
        early = work.get_future()
        last = dist.all_reduce(second, group=ours, async_op=True)
        if rank == 0:
            work.wait()
        future = early if is_late else work.get_future()
        future = future.then(lambda _: dist.all_reduce(third, group=ours))
        if rank == 1:
            dist.barrier()
        future.wait()
        last.wait()
        assert torch.equal(second, torch.full((4,), 10.0 * size))
        assert torch.equal(third, torch.full((4,), 100.0 * size))
        dist.destroy_process_group(ours)
        assert torch.equal(work.get_future().wait()[0], first)

    ranks.run(2, program)


@pytest.mark.parametrize("wait", [lambda work: work.wait(), lambda work: work.get_future().wait()])
def test_a_callback_may_wait_for_a_later_operation(wait: Callable[[object], object]) -> None:
    queue = WorkQueue("test")
    works = [QueuedWork([], queue) for _ in range(3)]
    go = threading.Event()
    queue.put(go.wait, works[0])
    future = works[0].get_future().then(lambda _: wait(works[1]))
    for work in works[1:]:
        queue.put(lambda: None, work)
    go.set()
    waits = threading.Thread(target=future.wait, daemon=True)
    waits.start()
    waits.join(60)
    assert not waits.is_alive()
    assert works[1].is_success()
    queue.close(lambda: None)


def test_blocking_operations_of_two_threads_take_turns() -> None:
    queue = WorkQueue("test")
    inside, go = threading.Event(), threading.Event()
    threads = [
        threading.Thread(target=queue.do, args=(lambda: (inside.set(), go.wait()),), daemon=True),
        threading.Thread(target=queue.do, args=(lambda: None,), daemon=True),
    ]
    threads[0].start()
    inside.wait()
    threads[1].start()
    while not queue._changed._waiters:
        time.sleep(0.001)
    go.set()
    threads[1].join(60)
    assert not threads[1].is_alive()


def test_a_queue_ends_after_a_running_call() -> None:
    queue = WorkQueue("test")
    inside, go, ended = threading.Event(), threading.Event(), threading.Event()
    thread = threading.Thread(target=queue.do, args=(lambda: (inside.set(), go.wait(), time.sleep(0.1), ended.set()),))
    thread.start()
    inside.wait()
    queue.close(go.set)
    assert ended.is_set()
    thread.join()
    with pytest.raises(RuntimeError, match="destroyed"):
        queue.do(lambda: None)


@pytest.mark.parametrize("nodes", ["", "ab"])
def test_destroying_a_group_ends_the_calls_of_other_threads(ranks: Ranks, nodes: str) -> None:
    def program(rank: int, _size: int) -> None:
        pretend(nodes, rank)
        ours = dist.new_group(backend="outrigger")
        if rank == 0:
            errors = []

            def call(function: object) -> None:
                with pytest.raises(RuntimeError) as raised:
                    function()
                errors.append(str(raised.value))

            calls = [
                lambda: dist.recv(torch.zeros(1), 1, group=ours),
                lambda: dist.all_reduce(torch.ones(9), group=ours),
            ]
            threads = [threading.Thread(target=call, args=(one,)) for one in calls]
            for thread in threads:
                thread.start()
            while not (ours._messages and ours._queue._busy):
                time.sleep(0.001)
            ours.shutdown()
            for thread in threads:
                thread.join()
            assert len(errors) == 2
        dist.barrier()  # of gloo

    ranks.run(2, program)


def test_a_message_whose_copy_fails_has_ended(ranks: Ranks) -> None:
    def program(rank: int, _size: int) -> None:
        ours = dist.new_group(backend="outrigger")
        if rank == 1:
            dist.send(torch.ones(1), 0, group=ours)
        else:
            work = dist.irecv(torch.zeros(1), 1, group=ours)

            def fail() -> None:
                raise MemoryError("no copy")

            if not work.is_completed():
                work._finish = fail
                with pytest.raises(MemoryError, match="no copy"):
                    work.wait()
            assert work.is_completed()
        dist.barrier(ours)
        dist.destroy_process_group(ours)

    ranks.run(2, program)


def test_messages_that_have_ended_keep_no_tensors(ranks: Ranks) -> None:
    def program(rank: int, _size: int) -> None:
        ours = dist.new_group(backend="outrigger")
        tensor = torch.ones(4, 2).t()  # with a copy
        work = dist.isend(tensor, 1, group=ours) if rank == 0 else dist.irecv(tensor, 0, group=ours)
        work.wait()
        dist.barrier(ours)
        references = [weakref.ref(one) for one in work.result()]
        del tensor, work
        gc.collect()
        assert [one() for one in references] == [None] * len(references)
        dist.destroy_process_group(ours)

    ranks.run(2, program)


def test_the_timeout_of_a_group_counts_for_messages(ranks: Ranks) -> None:
    def program(rank: int, _size: int) -> None:
        ours = dist.new_group(backend="outrigger")
        if rank == 0:
            ours.set_timeout(timedelta(milliseconds=50))
            with pytest.raises(RuntimeError, match="no message has come from rank 1 in time"):
                dist.recv(torch.zeros(1), 1, group=ours)
            with pytest.raises(RuntimeError, match="no message has come from rank 1 in time"):
                dist.irecv(torch.zeros(1), 1, group=ours).get_future().wait()
        dist.barrier()  # of gloo
        dist.destroy_process_group(ours)

    ranks.run(2, program)


def test_monitored_barrier_names_a_rank_that_has_died(ranks: Ranks) -> None:
    def program(rank: int, _size: int) -> None:
        ours = dist.new_group(backend="outrigger")
        if rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        with pytest.raises(RuntimeError) as raised:
            dist.monitored_barrier(ours, wait_all_ranks=True)
        if rank == 0:
            assert "rank 2 (process" in str(raised.value)
            assert "has ended" in str(raised.value)

    ranks.run(3, program, killed=(2,))


def test_a_monitored_barrier_that_failed_leaves_nothing_to_the_next(ranks: Ranks) -> None:
    def program(rank: int, _size: int) -> None:
        ours = dist.new_group(backend="outrigger")
        for _ in range(2):
            if rank == 1:
                dist.barrier()  # of gloo
            with pytest.raises(RuntimeError, match="failed to pass"):
                dist.monitored_barrier(ours, timedelta(milliseconds=50))
            if rank == 0:
                dist.barrier()
        dist.monitored_barrier(ours)
        dist.destroy_process_group(ours)

    ranks.run(2, program)


def test_a_group_is_made_as_the_default_one(ranks: Ranks) -> None:
    def program(rank: int, size: int) -> None:
        store = dist.distributed_c10d._get_default_store()
        dist.barrier()  # gloo fails on ranks that still connect to one that has gone
        dist.destroy_process_group()
        dist.init_process_group("cpu:outrigger", store=dist.PrefixStore("again", store), rank=rank, world_size=size)
        tensor = torch.ones(3)
        dist.all_reduce(tensor)
        assert tensor.tolist() == [size] * 3
        pair = dist.new_group([0, 1])
        dist.all_reduce(tensor, group=pair)
        dist.destroy_process_group()
        assert not dist.is_initialized()

    ranks.run(2, program)


def test_a_group_serves_cpu_tensors_beside_a_gpu_backend(ranks: Ranks) -> None:
    """Beside a GPU backend, C++ code of torch calls the backend: this differs from a group of Outrigger alone."""

    def program(rank: int, size: int) -> None:
        store = dist.distributed_c10d._get_default_store()
        dist.barrier()  # gloo fails on ranks that still connect to one that has gone
        dist.destroy_process_group()
        dist.init_process_group(
            "cpu:outrigger,cuda:gloo", store=dist.PrefixStore("again", store), rank=rank, world_size=size
        )
        assert type(dist.group.WORLD) is dist.ProcessGroup
        assert isinstance(dist.group.WORLD._get_backend(torch.device("cpu")), DeviceBackend)
        pair = dist.new_group([0, 1])
        gc.collect()
        objects = [None] * size
        dist.all_gather_object(objects, rank, group=pair)
        assert objects == list(range(size))
        tensor = torch.ones(3)
        future = dist.all_reduce(tensor, group=pair, async_op=True).get_future()
        assert torch.equal(future.wait()[0], torch.full((3,), float(size)))
        if rank == 0:
            dist.batch_isend_irecv([dist.P2POp(dist.isend, tensor, 1)])[0].wait()
            with pytest.raises(RuntimeError, match="rank 1 failed to pass monitored_barrier"):
                dist.monitored_barrier(timeout=timedelta(milliseconds=50))
        else:
            with pytest.raises(RuntimeError, match="needs a source rank"):
                dist.recv(tensor)
            assert dist.recv(tensor, 0) == 0
        with pytest.raises(RuntimeError, match="not defined"):
            dist.all_reduce(tensor, dist.ReduceOp.BAND)
        dist.barrier(group=pair)  # a rank that has gone is another error than one that is late
        dist.destroy_process_group()
        assert "outrigger group" not in [thread.name for thread in threading.enumerate()]

    ranks.run(2, program)


def test_keys_of_earlier_groups_do_not_count(ranks: Ranks, tmp_path: Path) -> None:
    """As after a restart by torchrun, which keeps its store."""

    def program(rank: int, size: int) -> None:
        store = dist.FileStore(str(tmp_path / "store"), size)
        store.set("hello/1", "the token of a process that has ended")
        dist.barrier()  # of gloo
        for _ in range(3):
            group = OutriggerProcessGroup(store, rank, size, timedelta(minutes=5))
            group.barrier().wait()
            group.shutdown()

    ranks.run(3, program)


def test_ranks_that_do_not_come_to_a_group_are_named(ranks: Ranks, tmp_path: Path) -> None:
    def program(rank: int, size: int) -> None:
        dist.barrier()  # of gloo: so that ranks 0 and 2 meet in time
        if rank != 1:
            store = dist.FileStore(str(tmp_path / "store"), size)
            with pytest.raises(RuntimeError, match=r"rank 1 has not come to create the group within 5 s"):
                OutriggerProcessGroup(store, rank, size, timedelta(seconds=5))
        dist.barrier()  # of gloo

    ranks.run(3, program)


@across_nodes
def test_a_forked_child_is_told_that_it_has_no_group(ranks: Ranks, nodes: str) -> None:
    """In the middle of operations: the child has not the threads that do them, and some of their locks for ever."""

    def child_of(ours: dist.ProcessGroup, works: list[dist.Work]) -> None:
        values = torch.ones(4)
        calls: list[Callable[[], object]] = [
            lambda: dist.all_reduce(values, group=ours),
            lambda: dist.all_reduce(values, group=ours, async_op=True),
            lambda: dist.isend(values, 0, group=ours),
            lambda: ours.monitored_barrier(),
            *(work.wait for work in works),
            works[0].get_future,
        ]
        for call in calls:
            with pytest.raises(RuntimeError, match=f"forked from process {os.getppid()}, whose Outrigger"):
                call()
        assert not any(work.is_completed() for work in works)
        ours.abort()
        dist.destroy_process_group(ours)

    def program(rank: int, size: int) -> None:
        pretend(nodes, rank)
        ours = dist.new_group(backend="outrigger")
        values, word = torch.ones(4), torch.zeros(1)
        if rank == 0:
            works = [dist.all_reduce(values, group=ours, async_op=True), dist.irecv(word, 1, group=ours)]
            waiting = threading.Thread(target=works[1].wait)
            waiting.start()
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    child_of(ours, works)
                    code = 0
                finally:
                    os._exit(code)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        dist.barrier()
        if rank != 0:
            works = [dist.all_reduce(values, group=ours, async_op=True)]
        if rank == 1:
            dist.send(torch.tensor([7.0]), 0, group=ours)
        works[0].wait()
        if rank == 0:
            waiting.join()
            assert word.item() == 7
        assert torch.equal(values, torch.full((4,), float(size)))
        dist.destroy_process_group(ours)

    ranks.run(3, program)


def test_the_longest_timeouts_are_long(ranks: Ranks) -> None:
    """Clocks count nanoseconds, which have no room for them."""

    def program(rank: int, size: int) -> None:
        ours = dist.new_group(backend="outrigger")
        ours.set_timeout(timedelta.max)
        values = torch.full((4,), rank + 1.0)
        if rank == 0:
            work = dist.all_reduce(values, group=ours, async_op=True)
            with pytest.raises(RuntimeError, match="is not complete after"):
                work.wait(timedelta(seconds=0.3))  # it has looked for the other rank
        dist.barrier()
        if rank == 1:
            work = dist.all_reduce(values, group=ours, async_op=True)
        work.wait(timedelta.max)
        assert torch.equal(values, torch.full((4,), 3.0))

    ranks.run(2, program)


def test_a_dropped_group_is_freed(ranks: Ranks, tmp_path: Path) -> None:
    def mappings() -> int:
        return Path("/proc/self/maps").read_text().count("/memfd:")

    def program(rank: int, size: int) -> None:
        store = dist.FileStore(str(tmp_path / "store"), size)
        before = mappings()
        group = OutriggerProcessGroup(store, rank, size, timedelta(minutes=5))
        assert mappings() > before
        options = dist.AllreduceOptions()
        options.asyncOp = True
        group.allreduce([torch.ones(9)], options).wait()
        word = torch.zeros(1)
        work = group.send([torch.ones(1)], 1, 0) if rank == 0 else group.recv([word], 0, 0)
        del group
        work.wait()  # although the program has no group any more
        assert word.item() == rank
        del work
        gc.collect()
        while "outrigger group" in [thread.name for thread in threading.enumerate()]:
            time.sleep(0.001)  # if it was in this thread that the last reference ended
        assert mappings() == before

    ranks.run(2, program)
