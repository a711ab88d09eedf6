"""Data-parallel training of a small neural network: each step's gradients are summed over all ranks, in buckets.

The backward pass starts with the gradients of the last layer. When a bucket of them is complete its MPI_Iallreduce is
posted, and earlier layers are computed meanwhile. The program does not use Outrigger's API.

    mpiexec -n 4 python training.py                       # the pipeline
    mpiexec -n 4 python training.py --mode blocking       # one MPI_Allreduce after the backward pass
    mpiexec -n 4 python training.py --mode testing        # the pipeline with MPI_Test calls between layers

Needs numpy and mpi4py.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import sys
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one core per rank

import numpy as np
from mpi4py import MPI

LEARNING_RATE = np.float32(0.05)
SEED = 20261126
# Sums of single-precision gradients in another order differ by some units in the last place; training amplifies that.
TOLERANCE = 2e-3

Array = np.ndarray


@dataclass
class Layer:
    """Its weights, with an additional row for the bias, and their gradients, in the model's single vector."""

    weights: Array
    gradients: Array
    inputs: Array = field(default_factory=lambda: np.empty(0, np.float32))
    outputs: Array = field(default_factory=lambda: np.empty(0, np.float32))


class Model:
    """Layers with a ReLU between them. Gradients are contiguous, in the order of the backward pass."""

    def __init__(self, widths: list[int], gradients: Array) -> None:
        random = np.random.default_rng(SEED)
        self.gradients = gradients
        self.layers: list[Layer] = []
        end = gradients.size
        for inputs, outputs in pairwise(widths):
            scale = np.sqrt(2.0 / inputs)
            weights = (random.standard_normal((inputs + 1, outputs)) * scale).astype(np.float32)
            weights[-1] = 0
            begin = end - weights.size
            self.layers.append(Layer(weights, gradients[begin:end].reshape(weights.shape)))
            end = begin

    @staticmethod
    def size(widths: list[int]) -> int:
        """Number of gradient elements."""
        return sum((inputs + 1) * outputs for inputs, outputs in pairwise(widths))

    def forward(self, inputs: Array) -> Array:
        """Keeps values for the backward pass."""
        values = inputs
        for layer in self.layers:
            layer.inputs = values
            layer.outputs = values @ layer.weights[:-1] + layer.weights[-1]
            values = layer.outputs if layer is self.layers[-1] else np.maximum(layer.outputs, 0)
        return values

    def backward_of(self, layer: Layer, upstream: Array) -> Array:
        """Stores the layer's gradients; returns the upstream gradients of the layer before it."""
        if layer is not self.layers[-1]:
            upstream = upstream * (layer.outputs > 0)
        np.matmul(layer.inputs.T, upstream, out=layer.gradients[:-1])
        np.sum(upstream, axis=0, out=layer.gradients[-1])
        before: Array = upstream @ layer.weights[:-1].T
        return before

    def update(self) -> None:
        """One step of gradient descent."""
        for layer in self.layers:
            layer.weights -= LEARNING_RATE * layer.gradients

    def digest(self) -> bytes:
        """Digest of all weights, bit by bit."""
        return hashlib.sha256(b"".join(layer.weights.tobytes() for layer in self.layers)).digest()


def batch(step: int, samples: int, widths: list[int]) -> tuple[Array, Array]:
    """The batch of all ranks together, equal on every rank: the target is a fixed function."""
    random = np.random.default_rng(SEED + 1 + step)
    inputs = random.standard_normal((samples, widths[0])).astype(np.float32)
    wanted = np.sin(inputs[:, : widths[-1]] * 2).astype(np.float32)
    return inputs, wanted


class Exchange:
    """Sums buckets of the gradient vector over all ranks. None is in flight after finish()."""

    def __init__(self, comm: MPI.Comm, gradients: Array, bucket_elements: int, mode: str) -> None:
        self.comm = comm
        self.gradients = gradients
        self.bucket_elements = bucket_elements
        self.mode = mode
        self.posted = 0  # elements
        self.requests: list[MPI.Request] = []
        self.waited_s = 0.0

    def computed(self, elements: int) -> None:
        """The first `elements` are computed: posts the complete buckets, or the rest."""
        if self.mode not in ("nonblocking", "testing"):
            return
        least = 1 if elements == self.gradients.size else self.bucket_elements
        while elements - self.posted >= least:
            end = min(self.posted + self.bucket_elements, elements)
            part = self.gradients[self.posted : end]
            self.requests.append(self.comm.Iallreduce(MPI.IN_PLACE, part, MPI.SUM))
            self.posted = end
        if self.mode == "testing":
            MPI.Request.Testall(self.requests)

    def finish(self) -> None:
        """Waits for all buckets."""
        began = MPI.Wtime()
        if self.mode == "blocking":
            self.comm.Allreduce(MPI.IN_PLACE, self.gradients, MPI.SUM)
        MPI.Request.Waitall(self.requests)
        self.requests.clear()
        self.posted = 0
        self.waited_s += MPI.Wtime() - began


def step_of(model: Model, inputs: Array, wanted: Array, samples: int, exchange: Exchange | None) -> float:
    """One step on this rank's part of the batch; `samples` is the size of the whole. Returns the part's share of the
    loss.
    """
    difference = model.forward(inputs) - wanted
    upstream = difference * np.float32(2.0 / (samples * wanted.shape[1]))
    computed = 0
    for layer in reversed(model.layers):
        upstream = model.backward_of(layer, upstream)
        computed += layer.gradients.size
        if exchange is not None:
            exchange.computed(computed)
    if exchange is not None:
        exchange.finish()
    model.update()
    loss: float = np.sum(difference * difference) / (samples * wanted.shape[1])
    return float(loss)


def part_of(comm: MPI.Comm, samples: int) -> slice:
    """This rank's samples: distributed evenly, up to one more."""
    first = samples * comm.rank // comm.size
    return slice(first, samples * (comm.rank + 1) // comm.size)


def vector(elements: int, memory: str) -> Array:
    """A vector of single-precision zeros; MPI's own memory stays until the process ends."""
    if memory == "malloc":
        return np.zeros(elements, np.float32)
    allocated: Any = MPI.Alloc_mem(elements * 4)
    found: Array = np.frombuffer(allocated, np.float32, elements)
    found[:] = 0
    return found


def differs_from_serial(model: Model, widths: list[int], steps: int, samples: int) -> float:
    """The largest difference from training with the whole batch on one rank."""
    serial = Model(widths, vector(Model.size(widths), "malloc"))
    for step in range(steps):
        inputs, wanted = batch(step, samples, widths)
        step_of(serial, inputs, wanted, samples, None)
    return max(float(np.max(np.abs(a.weights - b.weights))) for a, b in zip(model.layers, serial.layers, strict=True))


def train(comm: MPI.Comm, arguments: argparse.Namespace) -> dict[str, Any]:
    """The command's results, on every rank."""
    widths = [arguments.width] * arguments.layers + [min(arguments.width, 16)]
    model = Model(widths, vector(Model.size(widths), arguments.memory))
    bucket = max(1, arguments.bucket_kib * 1024 // 4)
    exchange = None if arguments.mode == "compute" else Exchange(comm, model.gradients, bucket, arguments.mode)
    part = part_of(comm, arguments.samples)
    took_s: list[float] = []
    losses: list[float] = []
    for step in range(arguments.steps):
        inputs, wanted = batch(step, arguments.samples, widths)
        comm.Barrier()
        began = MPI.Wtime()
        loss = step_of(model, inputs[part], wanted[part], arguments.samples, exchange)
        took_s.append(MPI.Wtime() - began)
        losses.append(loss)
    digests = comm.allgather(model.digest())
    found: dict[str, Any] = {
        "mode": arguments.mode,
        "ranks": comm.size,
        "gradient_bytes": model.gradients.nbytes,
        "step_ms": 1e3 * statistics.median(comm.allreduce(took_s, op=lambda a, b: list(map(max, a, b)))),
        "waited_ms": 1e3 * comm.allreduce(exchange.waited_s if exchange else 0.0) / (comm.size * arguments.steps),
        "first_loss": comm.allreduce(losses[0]),
        "last_loss": comm.allreduce(losses[-1]),
        "same_weights": arguments.mode == "compute" or len(set(digests)) == 1,
    }
    if arguments.check and arguments.mode != "compute":
        found["differs"] = differs_from_serial(model, widths, arguments.steps, arguments.samples)
    return found


def show(found: dict[str, Any]) -> None:
    """On rank 0."""
    print(f"{found['mode']}, {found['ranks']} ranks: {found['gradient_bytes'] / 2**20:.1f} MiB of gradients a step")
    print(f"  a step         {found['step_ms']:.2f} ms (median), of which a rank waits {found['waited_ms']:.2f} ms")
    print(f"  loss           {found['first_loss']:.4f} at first, {found['last_loss']:.4f} in the end")
    if found["mode"] != "compute":
        print(f"  weights        {'the same bits' if found['same_weights'] else 'DIFFERENT'} on all ranks")
    if "differs" in found:
        print(f"  serial         differs by {found['differs']:.1e} at most from training on one rank")


def report(found: dict[str, Any], file: Path | None) -> None:
    """On rank 0, for people and for programs."""
    if file == Path("-"):
        print(json.dumps(found), flush=True)
        return
    show(found)
    if file is not None:
        file.write_text(json.dumps(found, indent=2) + "\n")


def parse() -> argparse.Namespace:
    """Wrong arguments end the program with a line that names them, on each rank."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mode", choices=("nonblocking", "blocking", "testing", "compute"), default="nonblocking")
    parser.add_argument("--layers", type=int, metavar="N", default=6, help="hidden ones (default: 6)")
    parser.add_argument("--width", type=int, metavar="N", default=512, help="of each (default: 512)")
    parser.add_argument(
        "--samples", type=int, metavar="N", default=256, help="of a batch, over all ranks (default: 256)"
    )
    parser.add_argument("--steps", type=int, metavar="N", default=20, help="of training (default: 20)")
    parser.add_argument(
        "--bucket-kib", type=int, metavar="N", default=1024, help="of gradients, for an Iallreduce (default: 1024)"
    )
    parser.add_argument("--memory", choices=("malloc", "alloc_mem"), default="malloc", help="for the gradients")
    parser.add_argument("--check", action="store_true", help="compare with training on one rank")
    parser.add_argument("--json", type=Path, metavar="FILE", help="rank 0 writes the figures there; -: prints one line")
    arguments = parser.parse_args()
    for name in ("layers", "width", "samples", "steps", "bucket_kib"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name.replace('_', '-')} {getattr(arguments, name)}: at least 1")
    return arguments


def main() -> int:
    """0: all is correct."""
    arguments = parse()
    comm = MPI.COMM_WORLD
    found = train(comm, arguments)
    if comm.rank == 0:
        report(found, arguments.json)
    right = found["same_weights"] and found.get("differs", 0.0) <= TOLERANCE
    if not right and comm.rank == 0:
        print("training: the weights are not what they should be", file=sys.stderr)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
