"""Every collective with random arguments, against gloo in the same processes, and against what it must give.

gloo gets contiguous tensors: it takes the memory of others as if they had no gaps.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from conftest import Ranks

import outrigger.torch  # noqa: F401

SIZES = [2, 3, 4]
# torch has one group for both backends of the second: calls of CPU tensors come from its C++ code.
SERVED = "outrigger with a service process"
BACKENDS = ["outrigger", "cpu:outrigger,cuda:gloo"]
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]
TYPES = [*FLOATS, *INTEGERS, torch.bool]
SHAPES = [(), (0,), (1,), (7,), (3, 5), (1000,), (17, 129), (40_000,)]
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12, torch.float16: 4e-3, torch.bfloat16: 3e-2}
OPERATIONS = [dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX]
BITS = [dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR]


Call = Callable[[Any, bool], list[torch.Tensor]]


class Cases:
    """Random arguments: the same on all ranks, which also know what the others pass."""

    def __init__(self, seed: int, rank: int, size: int, backend: str) -> None:
        self.random = random.Random(seed)
        self.rank = rank
        self.size = size
        if backend == SERVED:
            os.environ["OUTRIGGER_SERVICE_CPUS"] = str(max(os.sched_getaffinity(0)))
        self.ours = dist.new_group(list(range(size)), backend="outrigger" if backend == SERVED else backend)
        self.gloo = dist.group.WORLD

    def tensors(self, shape: tuple[int, ...], dtype: torch.dtype) -> list[torch.Tensor]:
        """Each rank's tensor."""
        made = []
        for _ in range(self.size):
            generator = torch.Generator().manual_seed(self.random.randrange(1 << 30))
            if dtype.is_floating_point:
                made.append((torch.rand(shape, generator=generator) * 2 - 1).to(dtype))
            else:
                made.append(torch.randint(0, 2 if dtype == torch.bool else 100, shape, generator=generator).to(dtype))
        return made

    def laid_out(self, tensor: torch.Tensor) -> torch.Tensor:
        """The same values in the same layout on all ranks: contiguous, transposed, or with gaps."""
        way = self.random.randrange(3)
        if way == 1 and tensor.dim() == 2:
            return tensor.t().contiguous().t()
        if way == 2 and tensor.dim() == 1:
            gaps = torch.zeros(2 * tensor.numel(), dtype=tensor.dtype)
            gaps[::2] = tensor
            return gaps[::2]
        return tensor.clone()

    def ours_only(self, call: Call, expected: list[torch.Tensor]) -> list[torch.Tensor]:
        """Makes a call, asynchronously or not, and compares the results."""
        given = call(self.ours, self.random.random() < 0.5)
        for one, other in zip(given, expected, strict=True):
            same(one, other)
        return given

    def both(self, call: Call, expected: list[torch.Tensor]) -> None:
        """The same, and compares with gloo."""
        given = self.ours_only(call, expected)
        try:
            theirs = call(self.gloo, False)
        except (RuntimeError, ValueError):
            return  # what gloo does not do
        for one, other in zip(given, theirs, strict=True):
            same(one, other)


def same(given: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal, up to rounding where a sum was rounded."""
    assert given.dtype == expected.dtype and given.shape == expected.shape
    if given.dtype in TOLERANCE:
        limit = TOLERANCE[given.dtype]
        torch.testing.assert_close(given, expected, rtol=limit, atol=limit)
    else:
        assert torch.equal(given, expected)


def reduced(tensors: list[torch.Tensor], operation: Any) -> torch.Tensor:
    """The reduction as the backend promises it."""
    dtype = tensors[0].dtype
    if dtype == torch.bool:
        stacked = torch.stack(tensors)
        if operation == dist.ReduceOp.BXOR:
            return stacked.sum(0) % 2 == 1
        union = operation in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.BOR)
        return stacked.any(0) if union else stacked.all(0)
    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    result = tensors[0].to(wide)
    combine = {
        dist.ReduceOp.SUM: torch.add,
        dist.ReduceOp.AVG: torch.add,
        dist.ReduceOp.PRODUCT: torch.mul,
        dist.ReduceOp.MIN: torch.minimum,
        dist.ReduceOp.MAX: torch.maximum,
        dist.ReduceOp.BAND: torch.bitwise_and,
        dist.ReduceOp.BOR: torch.bitwise_or,
        dist.ReduceOp.BXOR: torch.bitwise_xor,
    }[operation]
    for tensor in tensors[1:]:
        result = combine(result, tensor.to(wide))
    if operation == dist.ReduceOp.AVG:
        result = result / len(tensors)
    return result.to(dtype)


def finish(work: Any) -> None:
    """Waits for an asynchronous call."""
    if work is not None:
        work.wait()


def operations_of(cases: Cases, dtype: torch.dtype) -> Any:
    """A random operation that is defined for the type."""
    known = [*OPERATIONS, dist.ReduceOp.AVG] if dtype.is_floating_point else [*OPERATIONS, *BITS]
    return cases.random.choice(known)


def all_reduce(cases: Cases, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    operation, tensors = operations_of(cases, dtype), cases.tensors(shape, dtype)
    layout = cases.laid_out(tensors[cases.rank])

    def call(group: Any, later: bool) -> list[torch.Tensor]:
        mine = tensors[cases.rank].clone() if group is cases.gloo else layout
        finish(dist.all_reduce(mine, operation, group=group, async_op=later))
        return [mine]

    expected = reduced(tensors, operation)
    cases.both(call, [expected])
    if dtype.is_floating_point:  # the order of ranks gives the very bits
        assert torch.equal(layout, expected), operation


def coalesced(cases: Cases, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    first, second = cases.tensors(shape, dtype), cases.tensors((5,), dtype)

    def call(group: Any, _later: bool) -> list[torch.Tensor]:
        mine = [first[cases.rank].clone(), second[cases.rank].clone()]
        dist.all_reduce_coalesced(mine, dist.ReduceOp.MAX, group=group)
        return mine

    cases.both(call, [reduced(first, dist.ReduceOp.MAX), reduced(second, dist.ReduceOp.MAX)])


def broadcast(cases: Cases, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    root, tensors = cases.random.randrange(cases.size), cases.tensors(shape, dtype)
    layout = cases.laid_out(tensors[cases.rank])

    def call(group: Any, later: bool) -> list[torch.Tensor]:
        mine = tensors[cases.rank].clone() if group is cases.gloo else layout
        finish(dist.broadcast(mine, root, group=group, async_op=later))
        return [mine]

    cases.both(call, [tensors[root]])


def reduce(cases: Cases, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    root, operation, tensors = (
        cases.random.randrange(cases.size),
        operations_of(cases, dtype),
        cases.tensors(shape, dtype),
    )

    def call(group: Any, later: bool) -> list[torch.Tensor]:
        mine = tensors[cases.rank].clone()
        finish(dist.reduce(mine, root, operation, group=group, async_op=later))
        return [mine] if cases.rank == root else []

    cases.both(call, [reduced(tensors, operation)] if cases.rank == root else [])


def all_gather(cases: Cases, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    tensors = cases.tensors(shape, dtype)
    layout = cases.laid_out(tensors[cases.rank])
    gaps = cases.random.random() < 0.5

    def call(group: Any, later: bool) -> list[torch.Tensor]:
        into = [torch.zeros(2, *shape, dtype=dtype)[1] for _ in tensors]
        if gaps and shape:
            into = [torch.zeros(*shape, 2, dtype=dtype)[..., 0] for _ in tensors]
        mine = layout.contiguous() if group is cases.gloo else layout
        finish(dist.all_gather(into, mine, group=group, async_op=later))
        return into

    cases.both(call, tensors)


def all_gather_into_tensor(cases: Cases, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    tensors = cases.tensors((*shape, 2), dtype)

    def call(group: Any, later: bool) -> list[torch.Tensor]:
        into = torch.zeros(cases.size, *shape, 2, dtype=dtype)
        finish(dist.all_gather_into_tensor(into, tensors[cases.rank], group=group, async_op=later))
        return [into]

    cases.both(call, [torch.stack(tensors)])


def gather(cases: Cases, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    root, tensors = cases.random.randrange(cases.size), cases.tensors(shape, dtype)
    layout = cases.laid_out(tensors[cases.rank])

    def call(group: Any, later: bool) -> list[torch.Tensor]:
        into = [torch.zeros(shape, dtype=dtype) for _ in tensors] if cases.rank == root else None
        mine = layout.contiguous() if group is cases.gloo else layout
        finish(dist.gather(mine, into, root, group=group, async_op=later))
        return into or []

    cases.both(call, tensors if cases.rank == root else [])


def scatter(cases: Cases, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    root, tensors = cases.random.randrange(cases.size), cases.tensors(shape, dtype)
    layouts = [cases.laid_out(tensor) for tensor in tensors]

    def call(group: Any, later: bool) -> list[torch.Tensor]:
        into = torch.zeros(shape, dtype=dtype)
        given = [one.contiguous() if group is cases.gloo else one for one in layouts]
        finish(dist.scatter(into, given if cases.rank == root else None, root, group=group, async_op=later))
        return [into]

    cases.both(call, [tensors[cases.rank]])


def reduce_scatter(cases: Cases, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    operation = operations_of(cases, dtype)
    blocks = [cases.tensors(shape, dtype) for _ in range(cases.size)]  # by destination
    layouts = [cases.laid_out(block[cases.rank]) for block in blocks]

    def call(group: Any, later: bool) -> list[torch.Tensor]:
        into = torch.zeros(shape, dtype=dtype)
        mine = [one.contiguous() if group is cases.gloo else one for one in layouts]
        finish(dist.reduce_scatter(into, mine, operation, group=group, async_op=later))
        return [into]

    cases.both(call, [reduced(blocks[cases.rank], operation)])


def reduce_scatter_tensor(cases: Cases, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    operation = operations_of(cases, dtype)
    tensors = cases.tensors((cases.size, *shape, 3), dtype)

    def call(group: Any, later: bool) -> list[torch.Tensor]:
        into = torch.zeros((*shape, 3), dtype=dtype)
        finish(dist.reduce_scatter_tensor(into, tensors[cases.rank], operation, group=group, async_op=later))
        return [into]

    cases.both(call, [reduced([one[cases.rank] for one in tensors], operation)])


def all_to_all(cases: Cases, _shape: tuple[int, ...], dtype: torch.dtype) -> None:
    lengths = [[cases.random.choice([0, 1, 9, 5000]) for _ in range(cases.size)] for _ in range(cases.size)]
    blocks = [[cases.tensors((length,), dtype)[0] for length in row] for row in lengths]  # by source

    def call(group: Any, later: bool) -> list[torch.Tensor]:
        into = [torch.zeros(row[cases.rank], dtype=dtype) for row in lengths]
        finish(dist.all_to_all(into, blocks[cases.rank], group=group, async_op=later))
        return into

    # gloo fails on some ranks alone, and others then wait, if a block is empty.
    cases.ours_only(call, [row[cases.rank] for row in blocks])


def all_to_all_single(cases: Cases, _shape: tuple[int, ...], dtype: torch.dtype) -> None:
    equal = cases.random.random() < 0.5
    lengths = [
        [3 if equal else cases.random.choice([0, 1, 9, 900]) for _ in range(cases.size)] for _ in range(cases.size)
    ]
    blocks = [[cases.tensors((length, 4), dtype)[0] for length in row] for row in lengths]
    gives, takes = lengths[cases.rank], [row[cases.rank] for row in lengths]

    def call(group: Any, later: bool) -> list[torch.Tensor]:
        into = torch.zeros(sum(takes), 4, dtype=dtype)
        splits = () if equal else (takes, gives)
        finish(dist.all_to_all_single(into, torch.cat(blocks[cases.rank]), *splits, group=group, async_op=later))
        return [into]

    cases.both(call, [torch.cat([row[cases.rank] for row in blocks])])


CALLS = [
    all_reduce, coalesced, broadcast, reduce, all_gather, all_gather_into_tensor, gather, scatter, reduce_scatter,
    reduce_scatter_tensor, all_to_all, all_to_all_single,
]  # fmt: skip


@pytest.mark.parametrize(
    ("size", "backend"), [(2, BACKENDS[1]), (2, SERVED), (3, SERVED), *((size, BACKENDS[0]) for size in SIZES)]
)
def test_random_collectives_give_what_they_must(ranks: Ranks, size: int, backend: str) -> None:
    def program(rank: int, size: int) -> None:
        cases = Cases(size, rank, size, backend)
        for call in CALLS:
            for dtype in TYPES:
                for shape in cases.random.sample(SHAPES, 4):
                    print(call.__name__, shape, dtype, flush=True)
                    call(cases, shape, dtype)

    ranks.run(size, program)


@pytest.mark.parametrize("nodes", ["ab", "aab", "aabb", "abac", "abcc"])
def test_random_collectives_across_nodes_give_what_they_must(
    ranks: Ranks, nodes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A letter for each rank: the node on which it pretends to be."""
    monkeypatch.setenv("OUTRIGGER_PRETEND_NODE", ",".join(nodes))

    def program(rank: int, size: int) -> None:
        cases = Cases(len(nodes), rank, size, BACKENDS[0])
        for call in CALLS:
            for dtype in TYPES:
                for shape in cases.random.sample([*SHAPES, (300_000,)], 4):
                    print(call.__name__, shape, dtype, flush=True)
                    call(cases, shape, dtype)

    ranks.run(len(nodes), program)


def test_sums_are_scaled_before(ranks: Ranks) -> None:
    def program(rank: int, size: int) -> None:
        ours = dist.new_group(backend="outrigger")
        tensor = torch.full((10,), rank + 1.0)
        dist.all_reduce(tensor, dist._make_nccl_premul_sum(0.5), group=ours)
        assert torch.equal(tensor, torch.full((10,), 0.5 * size * (size + 1) / 2))

    ranks.run(2, program)


@pytest.mark.parametrize("backend", BACKENDS)
def test_sparse_tensors_are_added(ranks: Ranks, backend: str) -> None:
    def program(rank: int, size: int) -> None:
        ours = dist.new_group(backend=backend)
        for count in (0, 1, 50):
            generator = torch.Generator().manual_seed(rank)
            indices = torch.randint(0, 9, (2, count * rank), generator=generator)
            values = torch.rand(count * rank, 3, generator=generator, dtype=torch.float64)
            tensors = [torch.sparse_coo_tensor(indices, values, (9, 9, 3)).clone() for _ in range(2)]
            finish(dist.all_reduce(tensors[0], group=ours, async_op=count == 1))
            dist.all_reduce(tensors[1])  # of gloo
            torch.testing.assert_close(tensors[0].to_dense(), tensors[1].to_dense())

    ranks.run(3, program)


def test_futures_have_the_values_of_gloo(ranks: Ranks) -> None:
    def program(rank: int, size: int) -> None:
        ours = dist.new_group(backend="outrigger")
        one, part, whole = torch.ones(3), torch.ones(2), torch.ones(2 * size)

        def many() -> list[torch.Tensor]:
            return [torch.ones(2) for _ in range(size)]

        calls = [
            lambda group: dist.broadcast(one, 0, group=group, async_op=True),
            lambda group: dist.all_reduce(one, group=group, async_op=True),
            lambda group: dist.all_reduce_coalesced([one, part], group=group, async_op=True),
            lambda group: dist.reduce(one, 0, group=group, async_op=True),
            lambda group: dist.all_gather(many(), part, group=group, async_op=True),
            lambda group: dist.all_gather_coalesced([[part, one]] * size, [part, one], group=group, async_op=True),
            lambda group: dist.all_gather_coalesced([[part]] * size, [part], group=group, async_op=True),
            lambda group: dist.gather(part, many() if rank == 0 else None, group=group, async_op=True),
            lambda group: dist.scatter(part, many() if rank == 0 else None, group=group, async_op=True),
            lambda group: dist.all_to_all_single(whole.clone(), whole, group=group, async_op=True),
            lambda group: dist.barrier(group=group, async_op=True),
        ]
        for number, call in enumerate(calls):
            given, expected = (lengths(future_of(call(group)).wait()) for group in (ours, None))
            assert given == expected, number

    ranks.run(2, program)


def future_of(work: Any) -> Any:
    """Coalesced calls return one."""
    return work.get_future() if isinstance(work, dist.Work) else work


def lengths(value: Any) -> Any:
    """Lists of tensors as lists of their lengths."""
    return len(value) if isinstance(value, torch.Tensor) else [lengths(one) for one in value]


def test_splits_of_one_rank_meet_none_of_another(ranks: Ranks) -> None:
    """Rank 1 gives nothing and gets nothing in the second call."""

    def program(rank: int, size: int) -> None:
        ours = dist.new_group(backend="outrigger")
        into = torch.zeros(2)
        splits = [1, 1] if rank == 0 else None
        dist.all_to_all_single(into, torch.arange(2.0) + 10 * rank, splits, splits, group=ours)
        assert into.tolist() == [rank, 10 + rank]
        into, given = (torch.zeros(2), torch.ones(2)) if rank == 0 else (torch.zeros(0), torch.ones(0))
        splits = [2, 0] if rank == 0 else None
        dist.all_to_all_single(into, given, splits, splits, group=ours)
        assert into.tolist() == [1] * (2 if rank == 0 else 0)
        dist.barrier(ours)

    ranks.run(2, program)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_default_device_does_not_count(ranks: Ranks, backend: str) -> None:
    """As in programs that make their models on a GPU. "meta" tensors have no memory."""

    def program(rank: int, size: int) -> None:
        ours = dist.new_group(backend=backend)
        torch.set_default_device("meta")
        tensor = torch.full((3, 2), float(rank + 1), device="cpu").t()
        dist.all_reduce(tensor, group=ours)
        assert tensor.tolist() == [[3.0] * 3] * 2
        into = [torch.zeros(2, 2, device="cpu").t() for _ in range(size)]
        dist.all_gather(into, torch.full((2, 2), float(rank), device="cpu"), group=ours)
        assert [one[0, 0].item() for one in into] == [0, 1]
        sparse = torch.full((3,), float(rank + 1), device="cpu").to_sparse()
        dist.all_reduce(sparse, group=ours)
        assert sparse.to_dense().tolist() == [3.0] * 3
        dist.monitored_barrier(ours)

    ranks.run(2, program)


def test_several_tensors_are_gathered_in_lists_of_ranks(ranks: Ranks) -> None:
    def program(rank: int, size: int) -> None:
        ours = dist.new_group(backend="outrigger")
        mine = [torch.full((length,), float(rank)) for length in (3, 5, 1)]
        into = [[torch.zeros_like(one) for one in mine] for _ in range(size)]
        dist.all_gather_coalesced(into, mine, group=ours)
        assert [[one.tolist() for one in ones] for ones in into] == [
            [[float(source)] * length for length in (3, 5, 1)] for source in range(size)
        ]

    ranks.run(2, program)


def test_operations_without_meaning_are_refused(ranks: Ranks) -> None:
    def program(rank: int, _size: int) -> None:
        ours = dist.new_group(backend="outrigger")
        with pytest.raises(RuntimeError, match="not defined"):
            dist.all_reduce(torch.ones(3), dist.ReduceOp.BAND, group=ours)
        with pytest.raises(RuntimeError, match="cannot reduce"):
            dist.all_reduce(torch.ones(3).to(torch.float8_e5m2), group=ours)
        with pytest.raises(RuntimeError, match="dense"):
            dist.broadcast(torch.ones(3).to_sparse(), 0, group=ours)
        with pytest.raises(RuntimeError, match="only by SUM"):
            dist.all_reduce(torch.ones(3).to_sparse(), dist.ReduceOp.MAX, group=ours)
        with pytest.raises(RuntimeError, match="only by SUM"):
            dist.all_reduce(torch.ones(3).to_sparse(), dist._make_nccl_premul_sum(0.5), group=ours)
        with pytest.raises(RuntimeError, match="differ between ranks"):
            dist.all_reduce(torch.ones(3 + rank).to_sparse(), group=ours)
        with pytest.raises(RuntimeError, match=r"torch\.int32 by PREMUL_SUM"):
            dist.all_reduce(torch.ones(3, dtype=torch.int32), dist._make_nccl_premul_sum(0.5), group=ours)
        with pytest.raises(RuntimeError, match=r"torch\.int64 by PREMUL_SUM"):
            dist.reduce(torch.ones(3, dtype=torch.int64), 0, dist._make_nccl_premul_sum(0.5), group=ours)
        with pytest.raises(RuntimeError, match=r"torch\.int8 by PREMUL_SUM"):
            into, given = torch.ones(3, dtype=torch.int8), torch.ones(6, dtype=torch.int8)
            dist.reduce_scatter_tensor(into, given, dist._make_nccl_premul_sum(0.5), group=ours)
        for outputs in (1, 3):
            with pytest.raises(ValueError, match=f"{outputs} outputs"):
                dist.all_gather([torch.ones(4) for _ in range(outputs)], torch.ones(4), group=ours)
        with pytest.raises(ValueError, match="4 elements"):
            dist.all_gather_into_tensor(torch.ones(4), torch.ones(4), group=ours)
        dist.barrier(group=ours)

    ranks.run(2, program)
