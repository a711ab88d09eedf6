"""Prints what counting for the report adds to an operation of the PyTorch backend: CPU time in nanoseconds.

python bench/torch_report_cost.py
"""

from __future__ import annotations

import os
import tempfile
import time
import timeit
from collections.abc import Callable
from pathlib import Path

import torch

from outrigger.settings import REPORT
from outrigger.torch import counting, observed

CALLS = 100_000
ROUNDS = 7


def nothing() -> None:
    """An operation that takes no time."""


def nanoseconds(call: Callable[[], object]) -> float:
    """Least mean CPU time of a call: other programs do not count."""
    return min(timeit.repeat(call, timer=time.thread_time, number=CALLS, repeat=ROUNDS)) / CALLS * 1e9


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        os.environ[REPORT] = directory
        counts = counting.for_group("name", "0", 0, 1, ())
        assert counts is not None and any(Path(directory).iterdir())
        tensors = [torch.ones(256)]

        def queued() -> None:
            watch = observed.Watch(counts, "all_reduce", tensors)
            watch.post(nothing)
            watch.completed(failed=False)
            watch.waited(counting.now_ns())

        blocking = nanoseconds(lambda: counts.blocking("all_reduce", tensors, nothing))
        print(f"blocking      {blocking - nanoseconds(nothing):6.0f}")
        print(f"asynchronous  {nanoseconds(queued) - nanoseconds(nothing):6.0f}  (call, completion and wait)")


if __name__ == "__main__":
    main()
