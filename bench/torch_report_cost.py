"""Prints what counting for the report, or a trace, adds to an operation of the PyTorch backend: CPU time in ns.

python bench/torch_report_cost.py
python bench/torch_report_cost.py --trace
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import timeit
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from outrigger.settings import REPORT, TRACE
from outrigger.torch import counting, observed
from outrigger.torch.process_group import OutriggerProcessGroup

IS_TRACED = "--trace" in sys.argv
CALLS = 5_000 if IS_TRACED else 100_000  # a trace has room for 262,144 events
ROUNDS = 7


def nothing() -> None:
    """An operation that takes no time."""


def returns(_: timedelta) -> bool:
    """A wait that takes no time."""
    return True


def do(job: Callable[[], None]) -> None:
    """As the queue of a group."""
    job()


def nanoseconds(call: Callable[[], object], calls: int = CALLS) -> float:
    """Least mean CPU time of a call: other programs do not count."""
    return min(timeit.repeat(call, timer=time.thread_time, number=calls, repeat=ROUNDS)) / calls * 1e9


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        os.environ[TRACE if IS_TRACED else REPORT] = directory
        counts = counting.for_group("name", "0", 0, 1, ())
        assert counts is not None and any(Path(directory).iterdir())
        tensors = [torch.ones(256)]

        def queued() -> None:
            watch = observed.Watch(counts, "all_reduce", tensors)
            watch.post(watch.shown(nothing))
            watch.completed(failed=False)
            watch.wait(returns, timedelta())

        blocking = nanoseconds(lambda: counts.blocking("all_reduce", tensors, do, nothing))
        print(f"blocking      {blocking - nanoseconds(lambda: do(nothing)):6.0f}")
        print(f"asynchronous  {nanoseconds(queued) - nanoseconds(nothing):6.0f}  (call, completion and wait)")
        print(f"in all_reduce {around_all_reduce():6.0f}")


def around_all_reduce() -> float:
    """Added to a blocking all_reduce of four elements."""
    group = OutriggerProcessGroup(dist.HashStore(), 0, 1, timedelta(minutes=1))
    tensors, options = [torch.ones(4)], dist.AllreduceOptions()
    options.asyncOp = False
    counts = group._counts
    each: dict[counting.GroupCounts | None, list[float]] = {}
    for _ in range(ROUNDS):  # in turns
        for used in (counts, None):
            group._counts = used
            each.setdefault(used, []).append(nanoseconds(lambda: group.allreduce(tensors, options), 2_000))
    group._counts = counts
    group.shutdown()
    return min(each[counts]) - min(each[None])


if __name__ == "__main__":
    main()
