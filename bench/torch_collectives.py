"""Times collectives of torch.distributed on this machine: Outrigger's backend against gloo, in turns in one run.

    python bench/torch_collectives.py --ranks 2

On several hosts, torchrun starts the ranks, and --ranks does not count:

    torchrun --nnodes 2 --nproc-per-node 1 --master-addr n0 --node-rank 0 bench/torch_collectives.py

Prints for each size the median time of a call on the slowest rank, in microseconds. Needs torch. Other programs on the
machine disturb both alike, but not equally: use a quiet one.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist

import outrigger.torch  # noqa: F401

SIZES = [1 << 10, 1 << 14, 1 << 18, 1 << 22, 1 << 24]
ROUND_S = 0.15
MOST_CALLS = 200


def all_reduce(elements: int, dtype: torch.dtype, group: object) -> Callable[[], object]:
    tensor = torch.zeros(elements, dtype=dtype)
    return lambda: dist.all_reduce(tensor, group=group)


def broadcast(elements: int, dtype: torch.dtype, group: object) -> Callable[[], object]:
    tensor = torch.zeros(elements, dtype=dtype)
    return lambda: dist.broadcast(tensor, 0, group=group)


def all_gather_into_tensor(elements: int, dtype: torch.dtype, group: object) -> Callable[[], object]:
    tensor = torch.zeros(elements, dtype=dtype)
    into = torch.zeros(elements * dist.get_world_size(), dtype=dtype)
    return lambda: dist.all_gather_into_tensor(into, tensor, group=group)


def reduce_scatter_tensor(elements: int, dtype: torch.dtype, group: object) -> Callable[[], object]:
    tensor = torch.zeros(elements * dist.get_world_size(), dtype=dtype)
    into = torch.zeros(elements, dtype=dtype)
    return lambda: dist.reduce_scatter_tensor(into, tensor, group=group)


def all_to_all_single(elements: int, dtype: torch.dtype, group: object) -> Callable[[], object]:
    size = dist.get_world_size()
    tensor = torch.zeros(elements // size * size, dtype=dtype)
    into = torch.zeros_like(tensor)
    return lambda: dist.all_to_all_single(into, tensor, group=group)


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


def measure(arguments: argparse.Namespace) -> None:
    """In gloo's group, which there is."""
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7, help="of each backend, in turns")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--calls", nargs="+", choices=list(CALLS), default=["all_reduce"])
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, help="bytes")
    arguments = parser.parse_args()
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
        measure(arguments)
        dist.destroy_process_group()
        return 0
    with tempfile.TemporaryDirectory() as directory:
        children = []
        for rank in range(arguments.ranks):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    files = dist.FileStore(str(Path(directory) / "store"), arguments.ranks)
                    dist.init_process_group("gloo", store=files, rank=rank, world_size=arguments.ranks)
                    measure(arguments)
                    code = 0
                finally:
                    sys.stdout.flush()
                    os._exit(code)
            children.append(child)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return max(map(abs, codes))


if __name__ == "__main__":
    sys.exit(main())
