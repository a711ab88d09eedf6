"""Jobs of a native and an offloaded side that are run in pairs, and statistics of their results."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

from rich.console import Console

from outrigger import artifacts, launch, report, scratch
from outrigger.bar import Bar
from outrigger.bench import jobs
from outrigger.errors import UserError

R = TypeVar("R")


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Two of the values that enclose the median of all such values with a probability of 95 %, if possible.

    Each value is below or above the median with equal probability, for any distribution.
    """
    ordered = sorted(values)
    count = len(ordered)
    left_out, tail, term = 0, 0.0, 0.5**count
    while left_out < count // 2:
        tail += term
        if 2 * tail > 0.05:
            break
        term *= (count - left_out) / (left_out + 1)
        left_out += 1
    outermost = max(left_out - 1, 0)
    return ordered[outermost], ordered[count - 1 - outermost]


def interval_title(count: int) -> str:
    """Title of a column of such intervals: few values have no interval of 95 %."""
    return "95 % interval" if 2 * 0.5**count <= 0.05 else "lowest to highest"


class Pairs(Generic[R]):
    """Runs one program under one MPI; `read` parses its output."""

    def __init__(
        self, job: launch.Job, found: artifacts.Artifacts, time_limit_s: float, read: Callable[[str], R]
    ) -> None:
        self.job = job
        """The offloaded job."""
        self._found = found
        self._time_limit_s = time_limit_s
        self._read = read
        self.all_ended = True
        """True if all jobs ended by themselves."""
        self.interrupted = False

    def command(self) -> str:
        """The offloaded job's command."""
        return shlex.join(launch.make_plan(self.job, self._found).command)

    def _run(self, job: launch.Job) -> R:
        plan = launch.make_plan(job, self._found)
        ended = jobs.run(plan, jobs.has_json_line, self._time_limit_s)
        self.all_ended &= ended.by_itself
        if ended.code != 0:
            raise UserError(
                f"the benchmark under {job.mpi.title} ended with exit code {ended.code}: {shlex.join(plan.command)}"
            )
        return self._read(ended.output)

    def why_native(self, program: Sequence[str], collectives: Sequence[str]) -> str:
        """Empty if the library offloads; a separate run, because counting for the report costs time."""
        with scratch.directory() as directory:
            written = directory / "report.json"
            self._run(replace(self.job, program=tuple(program), report=written))
            if not written.exists():
                return "the library wrote no report; it says why on stderr"
            return report.offload_verdict(report.read(written), collectives)

    def _pair(self, number: int) -> tuple[R, R]:
        """Native and offloaded in sequence; every second time in reverse order."""
        native = replace(self.job, native=True)
        if number % 2 == 0:
            first = self._run(native)
            return first, self._run(self.job)
        second = self._run(self.job)
        return self._run(native), second

    def measure(self, console: Console, count: int) -> list[tuple[R, R]]:
        """Native first in each pair of results. After a Ctrl-C the pairs so far; re-raises it if there are none."""
        made: list[tuple[R, R]] = []
        with Bar(console, draws_itself=True) as bar:
            for number in range(count):
                bar.counts(f"{self.job.mpi.title}: pair {number + 1} of {count}", number, count)
                try:
                    made.append(self._pair(number))
                except KeyboardInterrupt:
                    self.interrupted = True
                    if not made:
                        raise
                    break
        return made
