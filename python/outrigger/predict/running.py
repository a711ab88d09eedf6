"""Runs the model for each configuration of a study."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from outrigger import formats
from outrigger.artifacts import Artifacts
from outrigger.bar import Bar
from outrigger.errors import UserError
from outrigger.predict import clusters
from outrigger.predict.figures import Figures, Job, Setup, Times
from outrigger.predict.study import Study


class Runner:
    """For one study; results are stored at once, so that an interrupted one keeps those until then."""

    def __init__(self, found: Artifacts, study: Study, directory: Path) -> None:
        self._program = found.programs / "outrigger-sim"
        if not self._program.exists():
            raise found.missing(self._program)
        self._study = study
        self._clusters = study.changed_clusters()
        self._directory = directory
        self._files: dict[tuple[int, int], Path] = {}
        self.figures = Figures()

    def run(self, bar: Bar) -> None:
        """All configurations."""
        todo = [(job, ways) for job in self._study.jobs() for ways in self._study.setups(job)]
        seeds = self._study.seeds
        for place, (job, ways) in enumerate(todo):
            program = self._directory / f"program-{place}.json"
            program.write_text(self._study.program(job).text(self._study.steps), encoding="ascii")
            gathered: dict[Setup, list[Times]] = {way: [] for way in ways}
            for seed in range(1, seeds + 1):
                bar.counts(f"{job.nodes} nodes, {ways[0].title}", place * seeds + seed - 1, len(todo) * seeds)
                times = self._run(job, ways, program, seed)
                if times is None:
                    break
                for way, one in zip(ways, times, strict=True):
                    gathered[way].append(one)
            else:
                for way, found in gathered.items():
                    self.figures.times[job, way] = found
                    self.figures.factors[job, way] = self._study.work_factor(job, way)

    def _cluster(self, number: int, seed: int) -> Path:
        if (number, seed) not in self._files:
            path = self._directory / f"cluster-{number}-{seed}.toml"
            path.write_text(clusters.drawn(self._clusters[number], seed).text, encoding="ascii")
            self._files[number, seed] = path
        return self._files[number, seed]

    def _command(self, job: Job, ways: list[Setup], program: Path, seed: int) -> list[str]:
        study, first = self._study, ways[0]
        words = [str(self._program), "program", "--json", "--cluster", str(self._cluster(first.cluster, seed))]
        words += ["--program", str(program), "--nodes", str(job.nodes), "--seed", str(seed)]
        words += ["--test-every", f"{clusters.decimal(study.test_every_us)} us"]
        words += ["--services", str(first.services or 1)]
        words += ["--work-factor", f"{study.work_factor(job, first):.6f}"]
        words += [word for way in ways for word in ("--lane", way.lane)]
        words += [word for rule in study.native for word in ("--native", rule)]
        words += [word for rule in study.algorithms for word in ("--algorithm", rule)]
        return [*words, "--offload-blocking"] if study.offload_blocking else words

    def _run(self, job: Job, ways: list[Setup], program: Path, seed: int) -> list[Times] | None:
        """None: impossible, which is recorded."""
        done = subprocess.run(
            self._command(job, ways, program, seed), capture_output=True, text=True, errors="replace", check=False
        )
        if done.returncode < 0:
            raise UserError(f"{self._program} ended with signal {-done.returncode}: {done.stderr.strip()}")
        if done.returncode != 0:
            why = done.stderr.strip().removeprefix("outrigger-sim: ").replace(str(program), "the program")
            self.figures.refused.append(f"{job.nodes} nodes, {ways[0].title}: {why}")
            return None
        return [formats.parse(line, Times, f"what {self._program} printed") for line in done.stdout.splitlines()]


def scratch() -> tempfile.TemporaryDirectory[str]:
    """For files that the model reads."""
    return tempfile.TemporaryDirectory(prefix="outrigger-predict-")
