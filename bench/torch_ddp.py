"""Times training steps of DistributedDataParallel on this machine: how much of the reduction of gradients is exposed?

    taskset -c 0 python bench/torch_ddp.py --ranks 2 --cpus 1

Backends take turns: gloo, Outrigger without a service process, and Outrigger with one on --cpus. Prints the median time
of a step, and of one without the reduction (no_sync()), in milliseconds on the slowest rank. Needs torch.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch_collectives import group_with_service, run_ranks, slowest  # type: ignore[import-not-found]  # beside this script

import outrigger.torch  # noqa: F401


def step_s(model: DistributedDataParallel, rows: torch.Tensor, is_synchronous: bool) -> float:
    """Forward and backward."""
    with contextlib.nullcontext() if is_synchronous else model.no_sync():
        start = time.perf_counter()
        model(rows).square().mean().backward()
        return time.perf_counter() - start


def measure(arguments: argparse.Namespace) -> None:
    """In gloo's group, which there is."""
    torch.set_num_threads(1)
    groups = {
        "gloo": dist.group.WORLD,
        "thread": dist.new_group(backend="outrigger"),
        "service": group_with_service(arguments.cpus),
    }
    layers = [torch.nn.Linear(arguments.width, arguments.width) for _ in range(arguments.layers)]
    models = {
        by: DistributedDataParallel(
            torch.nn.Sequential(*layers),
            process_group=group,
            bucket_cap_mb=arguments.bucket_mb,
            gradient_as_bucket_view=True,
        )
        for by, group in groups.items()
    }
    rows = torch.randn(arguments.rows, arguments.width)
    times: dict[tuple[str, bool], list[float]] = {(by, kind): [] for by in models for kind in (True, False)}
    for step in range(arguments.steps + 3):
        for by, model in models.items():
            for kind in (True, False):
                dist.barrier()
                took = step_s(model, rows, kind)
                if step >= 3:  # DDP makes its buckets anew after the first one
                    times[by, kind].append(took)
    for by in models:
        whole, alone = slowest(times[by, True]) * 1e3, slowest(times[by, False]) * 1e3
        if dist.get_rank() == 0:
            print(
                f"{by:9} step {whole:8.2f} ms, without the reduction {alone:8.2f} ms, exposed {whole - alone:7.2f} ms"
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--cpus", default="1", help="of the service process")
    parser.add_argument("--steps", type=int, default=20, help="of each kind and backend")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=512, help="of a layer: it has so many parameters, squared")
    parser.add_argument("--rows", type=int, default=128, help="of a rank's batch")
    parser.add_argument("--bucket-mb", type=float, default=2)
    arguments = parser.parse_args()
    return int(run_ranks(arguments.ranks, lambda: measure(arguments)))


if __name__ == "__main__":
    sys.exit(main())
