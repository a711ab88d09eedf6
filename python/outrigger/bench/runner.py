"""Runs orbench under each MPI."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from outrigger import launch, report
from outrigger.artifacts import Artifacts
from outrigger.bench.figures import AllCores, Configuration, Measurement, read_line, read_rows
from outrigger.cores import Core
from outrigger.errors import UserError
from outrigger.mpis import Mpi
from outrigger.settings import Settings


@dataclass(frozen=True)
class Request:
    """What is to be measured."""

    collectives: tuple[str, ...]
    memories: tuple[str, ...]
    sizes: tuple[int, ...]
    ranks: int
    iterations: int
    seconds: int
    """At most, for each configuration."""
    settings: Settings = field(default_factory=Settings)

    @property
    def configurations(self) -> int:
        """How many lines the benchmark will print."""
        return len(self.collectives) * len(self.memories) * len(self.sizes)

    def arguments(self) -> list[str]:
        """The command line of the benchmark programs."""
        return [
            *("--collectives", ",".join(self.collectives)),
            *("--memory", ",".join(self.memories)),
            *("--sizes", ",".join(map(str, self.sizes))),
            *("--iterations", str(self.iterations)),
            *("--seconds", str(self.seconds)),
        ]


def time_limit_s(request: Request) -> float:
    """Generous: trial rounds and validation come on top of the seconds asked for."""
    return 60.0 + 5.0 * request.configurations * request.seconds


def why_native(request: Request, mpi: Mpi, artifacts: Artifacts, cores: Sequence[Core]) -> str:
    """Empty when the library offloads the benchmark's collectives; else why not.

    A short run of its own, because counting for the report costs time inside the calls that are to be measured.
    """
    short = replace(request, sizes=request.sizes[-1:], iterations=1, seconds=1)
    with tempfile.TemporaryDirectory(prefix="outrigger-") as directory:
        written = Path(directory) / "report.json"
        _run(short, mpi, artifacts, cores, written)
        if not written.exists():
            return "the library wrote no report; it says why on stderr"
        return report.offload_verdict(report.read(written), request.collectives)


def _run(
    request: Request, mpi: Mpi, artifacts: Artifacts, cores: Sequence[Core], report_to: Path | None
) -> tuple[str, str]:
    """The command of a run of orbench, and its output."""
    program = (str(artifacts.benchmark(mpi.family, "orbench")), *request.arguments())
    job = launch.Job(program, request.ranks, mpi, request.settings, report=report_to)
    return _start(job, request, artifacts, cores)


def _start(job: launch.Job, request: Request, artifacts: Artifacts, cores: Sequence[Core]) -> tuple[str, str]:
    plan = launch.make_plan(job, artifacts)
    command = shlex.join(plan.command)
    code, output = launch.run(plan, capture=True, timeout_s=time_limit_s(request))
    if code != 0:
        raise UserError(f"the benchmark under {job.mpi.title} ended with exit code {code}: {command}")
    return command, output


def _native_on_all_cores(
    request: Request, mpi: Mpi, artifacts: Artifacts, cores: Sequence[Core], configurations: Sequence[Configuration]
) -> list[AllCores]:
    """A native run on all cores, with the work of each configuration."""
    work = ",".join(str(configuration.work_iterations) for configuration in configurations)
    program = (str(artifacts.benchmark(mpi.family, "alltoall_bench")), *request.arguments(), "--work", work)
    job = launch.Job(program, request.ranks, mpi, native=True, bind=False)
    command, output = _start(job, request, artifacts, cores)
    rows = read_rows(output)
    if [(row.collective, row.bytes) for row in rows] != [(c.collective, c.bytes) for c in configurations]:
        raise UserError(f"the benchmark under {mpi.title} gave other lines than asked for: {command}")
    return [row.all_cores for row in rows]


def measure(request: Request, mpi: Mpi, artifacts: Artifacts, cores: Sequence[Core]) -> Measurement:
    """One run of orbench, native and offloaded in turn; then native on all cores."""
    verdict = why_native(request, mpi, artifacts, cores)
    command, output = _run(request, mpi, artifacts, cores, None)
    configurations = tuple(found for line in output.splitlines() if (found := read_line(line)) is not None)
    if len(configurations) != request.configurations:
        raise UserError(f"the benchmark under {mpi.title} gave {len(configurations)} of {request.configurations} lines")
    everywhere = _native_on_all_cores(request, mpi, artifacts, cores, configurations)
    return Measurement(
        mpi.family, mpi.title, command, verdict == "", verdict,
        tuple(replace(c, native_all_cores=figures) for c, figures in zip(configurations, everywhere, strict=True)),
    )  # fmt: skip
