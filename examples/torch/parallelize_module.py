"""Tensor parallelism: each process has a part of each layer, and all train with the whole of each batch.

torchrun --nproc-per-node 2 examples/torch/parallelize_module.py
"""

from __future__ import annotations

import torch.distributed as dist
from small_model import Block, compare, make_model, train
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import outrigger.torch  # noqa: F401  torch 2.15 and later find the backend without this line


def main() -> None:
    dist.init_process_group("cpu:outrigger")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = make_model()
    for layer in model:
        if isinstance(layer, Block):
            parallelize_module(layer, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    losses = train(model)
    if dist.get_rank() == 0:
        compare(losses)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
