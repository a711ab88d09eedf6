"""Runs orbench under each MPI."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from outrigger import binding, launch, report, scratch
from outrigger.artifacts import Artifacts
from outrigger.bench import jobs, natives
from outrigger.bench.figures import (
    CONTIGUOUS,
    Configuration,
    Measurement,
    OtherNative,
    Row,
    nonblocking,
    read_line,
    read_rows,
)
from outrigger.bench.jobs import Site
from outrigger.errors import UserError
from outrigger.hosts import report_directory
from outrigger.mpis import Mpi
from outrigger.settings import Settings


@dataclass(frozen=True)
class Request:
    """The measurement's options."""

    collectives: tuple[str, ...]
    memories: tuple[str, ...]
    sizes: tuple[int, ...]
    ranks: int
    iterations: int
    seconds: int
    """Maximum for each configuration."""
    settings: Settings = field(default_factory=Settings)
    order: str = CONTIGUOUS
    """Order of the ranks; strided: round-robin over the nodes."""

    @property
    def configurations(self) -> int:
        """Number of lines that the benchmark will print."""
        return len(self.collectives) * len(self.memories) * len(self.sizes)

    def arguments(self, work: Sequence[int] = ()) -> list[str]:
        """The command line of the benchmark programs; `work` is one amount for each configuration."""
        words = [
            *("--collectives", ",".join(self.collectives)),
            *("--memory", ",".join(self.memories)),
            *("--sizes", ",".join(map(str, self.sizes))),
            *("--iterations", str(self.iterations)),
            *("--seconds", str(self.seconds)),
        ]
        if self.order != CONTIGUOUS:
            words += ["--order", self.order]
        return [*words, "--work", ",".join(map(str, work))] if work else words


def time_limit_s(request: Request) -> float:
    """Includes trial rounds and validation besides the requested seconds."""
    return 90.0 + 10.0 * request.configurations * request.seconds


def _lines_in(output: str) -> list[Configuration]:
    return [found for line in output.splitlines(keepends=True) if line.endswith("\n") and (found := read_line(line))]


class Runner:
    """Runs the benchmark programs under one MPI."""

    def __init__(self, request: Request, mpi: Mpi, artifacts: Artifacts, site: Site) -> None:
        self.request = request
        self.mpi = mpi
        self.artifacts = artifacts
        self.site = site
        self.shows: Callable[[int], None] = lambda _done: None
        """Called with the number of measured configurations."""
        self.interrupted = False
        self._all_ended = True
        self._printed = ""

    def _job(self, program: str, arguments: Sequence[str]) -> launch.Job:
        path = self.artifacts.benchmark(self.mpi.family, program)
        return self.site.job((str(path), *arguments), self.request.ranks, self.mpi, self.request.settings)

    def _start(self, job: launch.Job, complete: Callable[[str], bool], limit_s: float = math.inf) -> tuple[str, str]:
        plan = launch.make_plan(job, self.artifacts)
        command = shlex.join(plan.command)
        ended = jobs.run(plan, complete, min(limit_s, time_limit_s(self.request)))
        self._all_ended &= ended.by_itself
        if ended.code != 0:
            raise UserError(f"the benchmark under {self.mpi.title} ended with exit code {ended.code}: {command}")
        return command, ended.output

    def _native_rows(self, job: launch.Job, configurations: int) -> list[Row]:
        """Output of alltoall_bench, native."""

        def rows(output: str) -> list[Row]:
            return read_rows(output[: output.rfind("\n") + 1])

        command, output = self._start(replace(job, native=True), lambda text: len(rows(text)) == configurations)
        request = self.request
        asked = [(name, size) for name in request.collectives for _ in request.memories for size in request.sizes]
        found = rows(output)
        if [(row.collective, row.bytes) for row in found] != asked:
            raise UserError(f"the benchmark under {self.mpi.title} gave other lines than asked for: {command}")
        return found

    def why_native(self) -> str:
        """Empty if the library offloads the benchmark's collectives; else the reason.

        A separate short run, because counting for the report costs time inside the measured calls.
        """
        short = replace(self.request, sizes=self.request.sizes[-1:], iterations=1, seconds=1)
        job = self._job("orbench", short.arguments())
        with scratch.directory(report_directory(job.where)) as directory:
            written = directory / "report.json"
            self._start(replace(job, report=written), lambda text: len(_lines_in(text)) == short.configurations)
            if not written.exists():
                return "the library wrote no report; it says why on stderr"
            names = [nonblocking(name) for name in self.request.collectives]
            return report.offload_verdict(report.read(written), names)

    def native_latency(self) -> list[Row]:
        """A short native run: the time of each configuration, and its work."""
        job = self._job("alltoall_bench", replace(self.request, seconds=1).arguments())
        return self._native_rows(job, self.request.configurations)

    def _native_beside(self, configurations: Sequence[Configuration], **different: Any) -> list[OtherNative]:
        """A native run with the work of each configuration, of a modified job."""
        work = [configuration.work_iterations for configuration in configurations]
        job = replace(self._job("alltoall_bench", self.request.arguments(work)), **different)
        return [row.other_native for row in self._native_rows(job, len(configurations))]

    def _threads(self, job: launch.Job) -> dict[str, str] | None:
        """Settings for native progress threads; None: it has none, or there is no core for them."""
        cpus = launch.make_plan(job, self.artifacts).placement.service_cpus
        if self.site.many or not cpus:
            return None
        return natives.with_threads(self.mpi, self.request.ranks, cpus[0])

    def _with_other_natives(self, job: launch.Job, configurations: Sequence[Configuration]) -> list[Configuration]:
        everywhere = self._native_beside(configurations, bind=binding.NONE)
        threads = self._threads(job)
        if threads is None:
            return [replace(c, native_all_cores=on_all) for c, on_all in zip(configurations, everywhere, strict=True)]
        helped = self._native_beside(configurations, variables=launch.Variables({**job.variables.values, **threads}))
        return [
            replace(c, native_all_cores=on_all, native_threads=with_threads)
            for c, on_all, with_threads in zip(configurations, everywhere, helped, strict=True)
        ]

    def _both_sides(self, job: launch.Job, limit_s: float = math.inf) -> tuple[str, list[Configuration]]:
        expected = self.request.configurations

        def complete(text: str) -> bool:
            self._printed = text
            done = len(_lines_in(text))
            self.shows(done)
            return done == expected

        command, output = self._start(job, complete, limit_s)
        configurations = _lines_in(output)
        if len(configurations) != expected:
            raise UserError(f"the benchmark under {self.mpi.title} gave {len(configurations)} of {expected} lines")
        return command, configurations

    def both_sides(self, limit_s: float) -> list[Configuration]:
        """One run of orbench, native and offloaded in turn. UserError: it takes longer than the limit."""
        return self._both_sides(self._job("orbench", self.request.arguments()), limit_s)[1]

    def measure(self, work: Sequence[int] = ()) -> Measurement:
        """One run of orbench, native and offloaded in turn; then native in its other ways.

        After a Ctrl-C the measured configurations; re-raises it if there are none.
        """
        verdict = self.why_native()
        job = self._job("orbench", self.request.arguments(work))
        command = shlex.join(launch.make_plan(job, self.artifacts).command)
        self._printed = ""
        try:
            command, configurations = self._both_sides(job)
            if self.site.binds:
                configurations = self._with_other_natives(job, configurations)
        except KeyboardInterrupt:
            configurations = _lines_in(self._printed)
            if not configurations:
                raise
            self.interrupted = True
        notes = () if self._all_ended else (jobs.unended(self.mpi),)
        return Measurement(
            self.mpi.family, self.mpi.title, command, verdict == "", verdict, tuple(configurations), notes
        )


def least_work(rows: Sequence[Sequence[Row]]) -> list[int]:
    """For each configuration, work that takes as long as the fastest of some native runs."""
    return [min(same, key=lambda row: row.pure_us).work_iterations for same in zip(*rows, strict=True)]
