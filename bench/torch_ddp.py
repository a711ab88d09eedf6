"""Times training steps of DistributedDataParallel on this machine: how much of the reduction of gradients is exposed?

    taskset -c 0 python bench/torch_ddp.py --ranks 2 --cpus 1

Backends take turns: gloo, Outrigger without a service process, and Outrigger with one on --cpus. "none" is the same
step with gradients that are averaged but not exchanged. Prints the median time of a step and of the reductions alone,
and the exposed part of these: the median of what a step takes longer than the one without exchange in its turn.
Losses of gloo and Outrigger are compared. Needs torch, and a quiet machine.
"""

import argparse
import itertools
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch_collectives import group_with_service, run_ranks, slowest  # type: ignore[import-not-found]  # beside this script

import outrigger.torch  # noqa: F401

WARM_UP = 3  # DDP makes its buckets anew after the first step


class Block(nn.Module):  # type: ignore[misc]
    """Two convolutions around which the input passes."""

    def __init__(self, into: int, out: int, stride: int) -> None:
        """With normalization, as in a ResNet."""
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(into, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU(),
            nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip
        self.past = nn.Conv2d(into, out, 1, stride, bias=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Both ways, added."""
        return torch.relu(self.path(images) + self.past(images))


def resnet() -> tuple[nn.Module, torch.Tensor]:
    """18 layers, 11 million parameters, and images of 32 x 32."""
    widths = [64, 64, 64, 128, 128, 256, 256, 512, 512]
    blocks = [Block(a, b, 1 if a == b else 2) for a, b in itertools.pairwise(widths)]
    model = nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))
    return model, torch.randn(4, 3, 32, 32)


def transformer() -> tuple[nn.Module, torch.Tensor]:
    """Six layers, 5 million parameters, and sequences of 64."""
    layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0, batch_first=True)
    return nn.TransformerEncoder(layer, 6, enable_nested_tensor=False), torch.randn(8, 64, 256)


MODELS = {"transformer": transformer, "resnet": resnet}


class Trained:
    """A model under DDP, and what its steps took."""

    def __init__(self, name: str, group: object, bucket_mb: float, *, exchanges: bool) -> None:
        """The same parameters on all ranks and for all groups, and a batch of each rank's own."""
        torch.manual_seed(1)
        model, _ = MODELS[name]()
        torch.manual_seed(2 + dist.get_rank())
        self.batch = MODELS[name]()[1]
        self.model = DistributedDataParallel(
            model, process_group=group, bucket_cap_mb=bucket_mb, gradient_as_bucket_view=True
        )
        self.optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        self.buckets: dict[int, int] = {}
        self.times: list[float] = []
        self.losses: list[float] = []
        if not exchanges:
            self.model.register_comm_hook(None, self.average)

    def average(self, _: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """All that DDP does without the exchange."""
        self.buckets[bucket.index()] = bucket.buffer().numel()
        done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        done.set_result(bucket.buffer().div_(dist.get_world_size()))
        return done

    def step(self) -> None:
        """One step, until the last rank ends it: ranks that share a core take turns."""
        dist.barrier()
        start = time.perf_counter()
        self.optimizer.zero_grad()
        loss = self.model(self.batch).square().mean()
        loss.backward()
        self.optimizer.step()
        self.losses.append(float(loss.item()))
        dist.barrier()
        self.times.append(time.perf_counter() - start)


def reduced_s(buckets: list[torch.Tensor], group: object) -> float:
    """The same reductions without a step."""
    dist.barrier()
    start = time.perf_counter()
    for work in [dist.all_reduce(bucket, group=group, async_op=True) for bucket in buckets]:
        work.wait()
    dist.barrier()
    return time.perf_counter() - start


def measure(arguments: argparse.Namespace) -> None:
    """In gloo's group, which there is."""
    torch.set_num_threads(1)
    groups = {
        "gloo": dist.group.WORLD,
        "thread": dist.new_group(backend="outrigger"),
        "service": group_with_service(arguments.cpus),
    }
    if dist.get_rank() == 0:
        print(f"torch {torch.__version__}, {dist.get_world_size()} ranks; milliseconds")
        print(f"{'model':12}{'by':>8}{'step':>9}{'none':>9}{'reductions alone':>18}{'exposed':>16}", flush=True)
    for name in arguments.models:
        none = Trained(name, dist.group.WORLD, arguments.bucket_mb, exchanges=False)
        by_group = {by: Trained(name, group, arguments.bucket_mb, exchanges=True) for by, group in groups.items()}
        alone: dict[str, list[float]] = {by: [] for by in groups}
        for _ in range(arguments.steps + WARM_UP):
            for trained in (none, *by_group.values()):
                trained.step()
            buckets = [torch.zeros(elements) for elements in none.buckets.values()]
        for _ in range(arguments.steps):
            for by, group in groups.items():
                alone[by].append(reduced_s(buckets, group))
        without = slowest(none.times[WARM_UP:]) * 1e3
        for by, trained in by_group.items():
            step, reductions = slowest(trained.times[WARM_UP:]) * 1e3, slowest(alone[by][WARM_UP:]) * 1e3
            # Steps of one turn follow each other, so a change of the machine's speed counts little.
            longer = [a - b for a, b in zip(trained.times, none.times, strict=True)]
            exposed = slowest(longer[WARM_UP:]) * 1e3
            torch.testing.assert_close(trained.losses, by_group["gloo"].losses)
            if dist.get_rank() == 0:
                print(
                    f"{name:12}{by:>8}{step:>9.2f}{without:>9.2f}{reductions:>18.2f}"
                    f"{exposed:>9.2f}{exposed / reductions:>7.0%}",
                    flush=True,
                )
        if dist.get_rank() == 0:
            sizes = [round(elements * 4 / 2**20, 1) for _, elements in sorted(none.buckets.items())]
            print(f"{name}: losses agree; buckets of {sizes} MiB, loss {statistics.mean(none.losses):.3g}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--cpus", default="1", help="of the service process")
    parser.add_argument("--steps", type=int, default=20, help="with each backend")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--bucket-mb", type=float, default=2, help="DDP reduces buckets of gradients of this size")
    arguments = parser.parse_args()
    return int(run_ranks(arguments.ranks, lambda: measure(arguments)))


if __name__ == "__main__":
    sys.exit(main())
