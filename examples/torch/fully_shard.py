"""FSDP2: each process has a part of all parameters, and trains with a part of each batch.

torchrun --nproc-per-node 2 examples/torch/fully_shard.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from small_model import BATCH, compare, make_model, train
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import outrigger.torch  # noqa: F401  torch 2.15 and later find the backend without this line


def main() -> None:
    dist.init_process_group("cpu:outrigger")
    rank, size = dist.get_rank(), dist.get_world_size()
    if BATCH % size != 0:
        raise SystemExit(f"{size} processes cannot have equal parts of a batch of {BATCH}: start 2, 4, 8 or {BATCH}")
    mesh = init_device_mesh("cpu", (size,))
    model = make_model()
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    losses = torch.tensor(train(model, rank * BATCH // size, (rank + 1) * BATCH // size))
    dist.all_reduce(losses, dist.ReduceOp.AVG)
    if rank == 0:
        compare(losses.tolist())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
