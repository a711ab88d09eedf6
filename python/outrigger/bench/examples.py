"""The programs in examples/ that `outrigger bench` times: their places, arguments and output."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from outrigger import formats
from outrigger.artifacts import Artifacts
from outrigger.bench.example_figures import Lane, Run
from outrigger.errors import UserError
from outrigger.mpis import Mpi


@dataclass(frozen=True)
class Example:
    """An example, with its arguments in every lane."""

    name: str
    title: str
    """The program and its problem size."""
    step: str
    """The timed step."""
    arguments: tuple[str, ...]
    collectives: tuple[str, ...]
    """The collectives that overlap with the computation."""
    command: Callable[[Artifacts, Mpi], list[str]]
    printed: type[_Fft3d | _Halo | _Training]
    """The line of JSON that it prints."""
    pieces: int | None = None
    """Pieces of the computation, between which MPI_Test is called, if that can be chosen."""

    def words(self, lane: Lane, trace: Path | None) -> list[str]:
        """Its arguments."""
        words = ["--mode", lane.mode, *self.arguments]
        words += ["--pieces", str(self.pieces)] if lane.mode == "testing" and self.pieces is not None else []
        return [*words, "--trace", str(trace)] if trace else words

    def read(self, output: str) -> Run:
        """Its line among other output."""
        line = formats.json_line(output, self.name)
        return formats.parse(line, self.printed, f"what {self.name} printed, {line},").run()


def _built(name: str, needs: str = "") -> Callable[[Artifacts, Mpi], list[str]]:
    def command(found: Artifacts, mpi: Mpi) -> list[str]:
        program = found.example(mpi.family, name)
        if not program.exists():
            raise UserError(f"{found.missing(program)}{needs}")
        return [str(program)]

    return command


def _script(name: str) -> Callable[[Artifacts, Mpi], list[str]]:
    def command(found: Artifacts, _mpi: Mpi) -> list[str]:
        path = found.script(name)
        if not path.exists():
            raise UserError(f"{path} is missing: this command needs the sources")
        return [sys.executable, str(path)]

    return command


@dataclass(frozen=True)
class _Fft3d:
    median_ms: float
    compute_ms: float
    post_ms: float
    wait_ms: float

    def run(self) -> Run:
        return Run(self.median_ms, self.wait_ms, self.compute_ms, self.post_ms)


@dataclass(frozen=True)
class _Halo:
    """It does not distinguish posting from waiting."""

    step_ms: float
    mpi_ms: float

    def run(self) -> Run:
        return Run(self.step_ms, self.mpi_ms)


@dataclass(frozen=True)
class _Training:
    """It does not distinguish posting from computing."""

    step_ms: float
    waited_ms: float

    def run(self) -> Run:
        return Run(self.step_ms, self.waited_ms)


def fft3d(grid: str, variables: int, iterations: int, memory: str, pieces: int) -> Example:
    """A pipelined 3D FFT."""
    return Example(
        name="fft3d",
        title=f"{grid} points, {variables} variables, {memory}",
        step="iteration",
        arguments=(
            "--grid", grid, "--variables", str(variables), "--json",
            "--iterations", str(iterations), "--memory", memory,
        ),
        collectives=("ialltoallv",),
        command=_built("fft3d", " (it needs FFTW)"),
        printed=_Fft3d,
        pieces=pieces,
    )  # fmt: skip


def halo(grid: str, fields: int, steps: int, memory: str, pieces: int) -> Example:
    """A stencil and its halo."""
    return Example(
        name="halo",
        title=f"{grid} points, {fields} fields, {memory}",
        step="step",
        arguments=("--grid", grid, "--fields", str(fields), "--steps", str(steps), "--memory", memory, "--json"),
        collectives=("ineighbor_alltoallw",),
        command=_built("halo"),
        printed=_Halo,
        pieces=pieces,
    )


def training(layers: int, width: int, samples: int, steps: int, bucket_kib: int, memory: str) -> Example:
    """A training step whose gradients are summed in buckets."""
    numbers = {"layers": layers, "width": width, "samples": samples, "steps": steps, "bucket-kib": bucket_kib}
    return Example(
        name="training",
        title=f"{layers} layers of {width}, {samples} samples, buckets of {bucket_kib} KiB, {memory}",
        step="step",
        arguments=(
            *(word for name, number in numbers.items() for word in (f"--{name}", str(number))),
            "--memory", memory, "--json", "-",
        ),
        collectives=("iallreduce",),
        command=_script("training/training.py"),
        printed=_Training,
    )  # fmt: skip
