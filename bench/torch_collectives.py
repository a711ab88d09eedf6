"""Times collectives of torch.distributed on this machine: Outrigger's backend against gloo, in turns in one run.

    python bench/torch_collectives.py --ranks 2

On several hosts, torchrun starts the ranks, and --ranks does not count:

    torchrun --nnodes 2 --nproc-per-node 1 --master-addr n0 --node-rank 0 bench/torch_collectives.py

With --overlap it times asynchronous calls behind computation, without a service process and with one on these CPUs:

    taskset -c 0 python bench/torch_collectives.py --ranks 2 --overlap 1 --sizes 4194304

OUTRIGGER_PRETEND_NODE=a,b puts two ranks on nodes of their own.

Prints for each size the median time of a call on the slowest rank, in microseconds; with --overlap, the median of the
rounds' means. Needs torch. Other programs on the
machine disturb both alike, but not equally: use a quiet one.
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist

import outrigger.torch  # noqa: F401

SIZES = [1 << 10, 1 << 14, 1 << 18, 1 << 22, 1 << 24]
ROUND_S = 0.15
MOST_CALLS = 200

Call = Callable[[], object]


def all_reduce(elements: int, dtype: torch.dtype, group: object, is_async: bool = False) -> Call:
    tensor = torch.zeros(elements, dtype=dtype)
    return lambda: dist.all_reduce(tensor, group=group, async_op=is_async)


def broadcast(elements: int, dtype: torch.dtype, group: object, is_async: bool = False) -> Call:
    tensor = torch.zeros(elements, dtype=dtype)
    return lambda: dist.broadcast(tensor, 0, group=group, async_op=is_async)


def all_gather_into_tensor(
    elements: int, dtype: torch.dtype, group: object, is_async: bool = False
) -> Callable[[], object]:
    tensor = torch.zeros(elements, dtype=dtype)
    into = torch.zeros(elements * dist.get_world_size(), dtype=dtype)
    return lambda: dist.all_gather_into_tensor(into, tensor, group=group, async_op=is_async)


def reduce_scatter_tensor(
    elements: int, dtype: torch.dtype, group: object, is_async: bool = False
) -> Callable[[], object]:
    tensor = torch.zeros(elements * dist.get_world_size(), dtype=dtype)
    into = torch.zeros(elements, dtype=dtype)
    return lambda: dist.reduce_scatter_tensor(into, tensor, group=group, async_op=is_async)


def all_to_all_single(elements: int, dtype: torch.dtype, group: object, is_async: bool = False) -> Call:
    size = dist.get_world_size()
    tensor = torch.zeros(elements // size * size, dtype=dtype)
    into = torch.zeros_like(tensor)
    return lambda: dist.all_to_all_single(into, tensor, group=group, async_op=is_async)


CALLS = {
    call.__name__: call
    for call in (all_reduce, broadcast, all_gather_into_tensor, reduce_scatter_tensor, all_to_all_single)
}


def calls_for(call: Callable[[], object]) -> int:
    """So many calls take about ROUND_S; the same on all ranks."""
    start = time.perf_counter()
    for _ in range(3):
        call()
    count = torch.tensor([ROUND_S / max((time.perf_counter() - start) / 3, 1e-6)])
    dist.broadcast(count, 0)
    return max(3, min(MOST_CALLS, int(count.item())))


def median_us(call: Callable[[], object], calls: int) -> float:
    """The median of one round on this rank."""
    dist.barrier()
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def slowest(times: list[float]) -> float:
    """The median of the rounds, on the slowest rank."""
    worst = torch.tensor([statistics.median(times)])
    dist.all_reduce(worst, dist.ReduceOp.MAX)
    return float(worst.item())


class Work:
    """A fixed amount of computation."""

    def __init__(self, milliseconds: float) -> None:
        """So much as takes about this time, with all ranks at work; the same on all ranks."""
        self._matrix = torch.full((128, 128), 1 / 128)
        self._steps = 100
        dist.barrier()
        start = time.perf_counter()
        self()
        steps = torch.tensor([self._steps * milliseconds / 1e3 / (time.perf_counter() - start)])
        dist.broadcast(steps, 0)
        self._steps = int(steps.item())

    def __call__(self) -> None:
        """Does it."""
        for _ in range(self._steps):
            self._matrix @ self._matrix


def group_with_service(cpus: str) -> object:
    """A group that has a service process on these CPUs."""
    os.environ["OUTRIGGER_SERVICE_CPUS"] = cpus
    try:
        return dist.new_group(backend="outrigger")
    finally:
        del os.environ["OUTRIGGER_SERVICE_CPUS"]


def mean_us(call: Callable[[], object], calls: int) -> float:
    """The mean of one round: ranks that share a core take turns, so times of single calls say little."""
    dist.barrier()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    dist.barrier()
    return (time.perf_counter() - start) / calls * 1e6


def measure_overlap(arguments: argparse.Namespace) -> None:
    """Asynchronous calls with computation between the call and the wait."""
    rank = dist.get_rank()
    groups = {
        "gloo": dist.group.WORLD,
        "thread": dist.new_group(backend="outrigger"),
        "service": group_with_service(arguments.overlap),
    }
    dtype = getattr(torch, arguments.dtype)
    work = Work(arguments.work_ms)
    if rank == 0:
        print(f"torch {torch.__version__}, {dist.get_world_size()} ranks, {os.cpu_count()} CPUs, {arguments.dtype}")
        print(
            f"{'call':24}{'bytes':>10}{'by':>9}{'alone us':>11}{'work us':>11}{'both us':>11}{'exposed':>9}", flush=True
        )
    for name in arguments.calls:
        for size in arguments.sizes:
            posts = {by: CALLS[name](size // dtype.itemsize, dtype, group, True) for by, group in groups.items()}
            times: dict[str, list[float]] = {"work": [], **{what: [] for what in overlapped(posts, work)}}
            for _ in range(arguments.rounds):
                times["work"].append(mean_us(work, arguments.overlap_calls))
                for by, post in posts.items():
                    times[f"{by} alone"].append(mean_us(functools.partial(waited, post), arguments.overlap_calls))
                    times[f"{by} both"].append(mean_us(functools.partial(waited, post, work), arguments.overlap_calls))
            print_overlap(name, size, list(groups), {what: slowest(ones) for what, ones in times.items()})


def overlapped(posts: dict[str, Call], work: Call) -> dict[str, Call]:
    """Each call alone, and with the work."""
    alone: dict[str, Call] = {f"{by} alone": functools.partial(waited, post) for by, post in posts.items()}
    return alone | {f"{by} both": functools.partial(waited, post, work) for by, post in posts.items()}


def waited(post: Callable[[], object], work: Callable[[], object] = lambda: None) -> None:
    """A call, work, and the wait."""
    handle = post()
    work()
    handle.wait()  # type: ignore[attr-defined]


def print_overlap(name: str, size: int, groups: list[str], times: dict[str, float]) -> None:
    """Exposed: the part of the time alone that work and call take together beyond the work."""
    if dist.get_rank() != 0:
        return
    for by in groups:
        alone, both = times[f"{by} alone"], times[f"{by} both"]
        exposed = (both - times["work"]) / alone
        print(f"{name:24}{size:>10}{by:>9}{alone:>11.1f}{times['work']:>11.1f}{both:>11.1f}{exposed:>9.0%}", flush=True)


def measure(arguments: argparse.Namespace) -> None:
    """In gloo's group, which there is."""
    torch.set_num_threads(1)
    if arguments.overlap:
        return measure_overlap(arguments)
    rank, size = dist.get_rank(), dist.get_world_size()
    groups = {"gloo": dist.group.WORLD, "outrigger": dist.new_group(backend="outrigger")}
    dtype = getattr(torch, arguments.dtype)
    if rank == 0:
        print(f"torch {torch.__version__}, {size} ranks, {os.cpu_count()} CPUs, {arguments.dtype}")
        print(f"{'call':24}{'bytes':>10}{'gloo us':>12}{'outrigger us':>14}{'ratio':>8}", flush=True)
    for name in arguments.calls:
        for size in arguments.sizes:
            calls = {backend: CALLS[name](size // dtype.itemsize, dtype, group) for backend, group in groups.items()}
            counts = {backend: calls_for(call) for backend, call in calls.items()}
            times: dict[str, list[float]] = {backend: [] for backend in groups}
            for _ in range(arguments.rounds):
                for backend, call in calls.items():
                    times[backend].append(median_us(call, counts[backend]))
            gloo, ours = slowest(times["gloo"]), slowest(times["outrigger"])
            if rank == 0:
                print(f"{name:24}{size:>10}{gloo:>12.1f}{ours:>14.1f}{gloo / ours:>8.1f}", flush=True)


def run_ranks(ranks: int, measure: Callable[[], None]) -> int:
    """Runs it on so many processes of this machine, in a group of gloo's. Returns the largest exit code."""
    with tempfile.TemporaryDirectory() as directory:
        children = []
        for rank in range(ranks):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    files = dist.FileStore(str(Path(directory) / "store"), ranks)
                    dist.init_process_group("gloo", store=files, rank=rank, world_size=ranks)
                    measure()
                    code = 0
                except BaseException:
                    traceback.print_exc()
                finally:
                    sys.stdout.flush()
                    os._exit(code)
            children.append(child)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return max(map(abs, codes))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7, help="of each backend, in turns")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--calls", nargs="+", choices=list(CALLS), default=["all_reduce"])
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, help="bytes")
    parser.add_argument("--overlap", metavar="CPUS", help="times asynchronous calls; a service process on these CPUs")
    parser.add_argument("--overlap-calls", type=int, default=20, help="of each kind and round, with --overlap")
    parser.add_argument("--work-ms", type=float, default=30, help="computation during a call, with --overlap")
    arguments = parser.parse_args()
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
        measure(arguments)
        dist.destroy_process_group()
        return 0
    return run_ranks(arguments.ranks, lambda: measure(arguments))


if __name__ == "__main__":
    sys.exit(main())
