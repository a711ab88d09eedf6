"""Runs an example in every lane under one MPI."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from outrigger import artifacts, cores, itself, report, scratch
from outrigger.bar import Bar
from outrigger.bench import jobs
from outrigger.bench.example_figures import COMPARED_WITH, LANES, OFFLOADED, Lane, LaneFigures, Run, summarize
from outrigger.bench.examples import Example
from outrigger.errors import UserError
from outrigger.mpis import Mpi


@dataclass(frozen=True)
class Request:
    """The program to run, and the launcher's options."""

    example: Example
    ranks: int
    rounds: int
    launch: tuple[str, ...] = ()
    """Options of `outrigger run` for all lanes: hosts and their launch agent."""
    offload: tuple[str, ...] = ()
    """Options of `outrigger run` for the offloaded lane."""
    binds: bool = True
    """Otherwise all lanes have all cores, and the lanes of that name are left out."""
    time_limit_s: int = 300
    """Time limit of one run."""

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """The distinct lanes."""
        return tuple(lane for lane in LANES if self.binds or not lane.all_cores)


class Bench:
    """Runs the lanes under one MPI."""

    def __init__(self, request: Request, mpi: Mpi, found: artifacts.Artifacts) -> None:
        self.request = request
        self.mpi = mpi
        self.found = found
        self.program = request.example.command(found, mpi)
        self.all_ended = True
        self.interrupted = False
        self.rounds = 0
        """Rounds of all lanes."""

    def command(self, lane: Lane, trace: Path | None, extra: Sequence[str] = ()) -> list[str]:
        """The `outrigger run` of a lane."""
        words = ["run", "-n", str(self.request.ranks), "--mpi", self.mpi.family, "--build", str(self.found.root)]
        words += [*self.request.launch, *extra]
        words += ["--native"] if lane.native else self.request.offload
        words += ["--no-bind"] if lane.all_cores else []
        return [*words, "--", *self.program, *self.request.example.words(lane, trace)]

    def run(self, lane: Lane, trace: Path | None = None, extra: Sequence[str] = ()) -> Run:
        """One run, in its own launcher: each lane has its own placement and environment."""
        command = self.command(lane, trace, extra)
        shown = f"outrigger {shlex.join(command)}"
        ended = jobs.run_command(
            [*itself.command(), *command],
            self._environment(lane),
            jobs.has_json_line,
            self.request.time_limit_s,
        )
        self.all_ended &= ended.by_itself
        if ended.code != 0:
            raise UserError(f"{lane.title} under {self.mpi.title} ended with exit code {ended.code}: {shown}")
        return self.request.example.read(ended.output)

    def _environment(self, lane: Lane) -> dict[str, str]:
        """Unbound ranks need the setting to yield: the launcher does not know how many share a core."""
        crowded = self.request.ranks > len(cores.allowed_cores()) or "--hostfile" in self.request.launch
        unbound = lane.all_cores or not self.request.binds
        yields = {"OMPI_MCA_mpi_yield_when_idle": "1"} if unbound and crowded else {}
        one_thread = {"OMP_NUM_THREADS": "1"}  # each rank has at most a core, which numpy's libraries do not know
        return {**one_thread, **os.environ, **yields}

    def why_native(self) -> str:
        """Empty if the library offloads; a separate run, because counting for the report costs time."""
        with scratch.directory() as directory:
            written = directory / "report.json"
            self.run(OFFLOADED, extra=("--report-to", str(written)))
            if not written.exists():
                return "the library wrote no report here; it says why on stderr"
            return report.offload_verdict(report.read(written), self.request.example.collectives)

    def _runs(self) -> Iterator[tuple[int, Lane]]:
        """All lanes in turn, round after round; every second round in reverse order."""
        lanes = self.request.lanes
        for number in range(self.request.rounds):
            yield from ((number, lane) for lane in (lanes if number % 2 == 0 else reversed(lanes)))

    def measure(self, console: Console, traces: Path | None) -> dict[str, LaneFigures]:
        """After a Ctrl-C the lanes with at least one run; re-raises it if a reference lane has none."""
        runs: dict[str, list[Run]] = {lane.key: [] for lane in self.request.lanes}
        of = len(runs) * self.request.rounds
        with Bar(console, draws_itself=True) as bar:
            for done, (number, lane) in enumerate(self._runs()):
                bar.counts(f"{self.mpi.title}: round {number + 1} of {self.request.rounds}, {lane.title}", done, of)
                trace = traces / f"{self.mpi.family}-{lane.key}.json" if traces else None
                try:
                    runs[lane.key].append(self.run(lane, trace))
                except KeyboardInterrupt:
                    if not all(runs[key] for key in COMPARED_WITH):
                        raise
                    self.interrupted = True
                    break
        measured = {key: found for key, found in runs.items() if found}
        self.rounds = min(map(len, measured.values()))
        return {key: summarize(found) for key, found in measured.items()}
