"""The `outrigger bench` command behind its options."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from outrigger.artifacts import Artifacts
from outrigger.bench import plot as plotting
from outrigger.bench import runner, table
from outrigger.bench.figures import as_json
from outrigger.cores import allowed_cores
from outrigger.errors import UserError
from outrigger.mpis import FAMILIES, Mpi, find_mpis
from outrigger.settings import COLLECTIVES

MEMORIES = ("alloc_mem", "malloc")


def _of(words: Sequence[str], known: Sequence[str], what: str) -> tuple[str, ...]:
    for word in words:
        if word not in known:
            raise UserError(f"{what} '{word}': there are {', '.join(known)}")
    return tuple(dict.fromkeys(words))


def parse_collectives(words: Sequence[str]) -> tuple[str, ...]:
    """Checked names; none means all."""
    return _of(words or COLLECTIVES, COLLECTIVES, "collective")


def parse_memories(text: str) -> tuple[str, ...]:
    """Checked kinds of memory."""
    return _of([word.strip() for word in text.split(",")], MEMORIES, "--memory")


def choose_mpis(wanted: str) -> list[Mpi]:
    """The MPI asked for, or each that is found."""
    found = find_mpis()
    if wanted == "auto":
        if not found:
            raise UserError("no MPI was found: neither mpirun of Open MPI nor of MPICH is on PATH")
        return found
    _of([wanted], ("auto", *FAMILIES), "--mpi")
    chosen = [mpi for mpi in found if mpi.family == wanted]
    if not chosen:
        raise UserError(f"--mpi {wanted}: its mpirun is not on PATH")
    return chosen


def run(
    console: Console,
    request: runner.Request,
    mpis: Sequence[Mpi],
    artifacts: Artifacts,
    json: Path | None,
    plot: Path | None,
) -> None:
    """Measures under each MPI and shows the figures."""
    measurements = []
    for mpi in mpis:
        with console.status(f"{mpi.title}: {request.configurations} configurations, {request.ranks} ranks"):
            measurement = runner.measure(request, mpi, artifacts, allowed_cores())
        measurements.append(measurement)
        table.print_measurement(console, measurement)
        console.print()
    console.print(table.legend(), style="dim")
    if json is not None:
        try:
            json.write_text(as_json(measurements) + "\n", encoding="utf-8")
        except OSError as error:
            raise UserError(f"cannot write --json {json}: {error.strerror}") from error
        console.print(f"Figures: [bold]{json}[/]", soft_wrap=True)
    if plot is not None:
        plotting.save(measurements, plot, f"All-to-all on {request.ranks} ranks, native and offloaded")
        console.print(f"Plot: [bold]{plot}[/]", soft_wrap=True)
