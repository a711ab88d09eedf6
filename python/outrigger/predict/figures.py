"""Results of the model for each configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

BLOCKING, NONBLOCKING, TESTING, THREADS, OFFLOADED = "blocking", "nonblocking", "testing", "threads", "offloaded"
NATIVE = (BLOCKING, NONBLOCKING, TESTING)
"""These need only the program and its MPI."""
LANES = (*NATIVE, THREADS, OFFLOADED)
TITLES = {
    BLOCKING: "native, blocking",
    NONBLOCKING: "native, nonblocking",
    TESTING: "native, MPI_Test",
    THREADS: "native, progress threads",
    OFFLOADED: "offloaded",
}


@dataclass(frozen=True)
class Times:
    """Times of one repetition with one seed, in microseconds."""

    lane: str
    seed: int
    step_us: float
    work_us: float
    exposed_us: float
    in_mpi_us: float


@dataclass(frozen=True)
class Job:
    """A program of some size on a number of nodes."""

    nodes: int
    ranks: int
    size: int | None = None
    """Block size, if several were requested."""


@dataclass(frozen=True)
class Setup:
    """A way to run a job."""

    lane: str
    placement: str = ""
    """host_core or dpu, with service processes."""
    services: int = 0
    """Per node; for progress threads: their cores."""
    cluster: int = 0
    """Index of the file."""

    @property
    def title(self) -> str:
        """To print."""
        if self.lane == OFFLOADED:
            where = "DPU" if self.placement == "dpu" else "host cores"
            return f"offloaded, {self.services} on {where}"
        if self.lane == THREADS:
            return f"{TITLES[THREADS]} on {self.services} core{'s' if self.services > 1 else ''}"
        return TITLES[self.lane]


@dataclass
class Figures:
    """All results of a study so far."""

    times: dict[tuple[Job, Setup], list[Times]] = field(default_factory=dict)
    factors: dict[tuple[Job, Setup], float] = field(default_factory=dict)
    """Factor of the work's time when cores are given away."""
    refused: list[str] = field(default_factory=list)
    """Impossible configurations, with reasons."""

    def jobs(self) -> list[Job]:
        """In the requested order."""
        return list(dict.fromkeys(job for job, _ in self.times))

    def setups(self, job: Job) -> list[Setup]:
        """In the requested order."""
        return [setup for there, setup in self.times if there == job]

    def step_us(self, job: Job, setup: Setup) -> float:
        """Median of the seeds."""
        return median(one.step_us for one in self.times[job, setup])

    def best(self, job: Job, lanes: Iterable[str]) -> Setup | None:
        """The fastest; the first of equally fast ones."""
        chosen = [setup for setup in self.setups(job) if setup.lane in lanes]
        return min(chosen, key=lambda setup: self.step_us(job, setup), default=None)

    def gains(self, job: Job, setup: Setup, against: Setup) -> list[float]:
        """Saved fraction of the time, for each seed that both have."""
        other = {one.seed: one.step_us for one in self.times[job, against]}
        return [1 - one.step_us / other[one.seed] for one in self.times[job, setup] if one.seed in other]


def middle(values: Sequence[float]) -> tuple[float, float, float]:
    """Median, least and most."""
    return median(values), min(values), max(values)


def as_written(figures: Figures) -> list[Mapping[str, object]]:
    """For --json."""
    return [
        {
            "nodes": job.nodes, "ranks": job.ranks, "bytes": job.size, "way": setup.lane,
            "placement": setup.placement or None, "services": setup.services or None, "cluster": setup.cluster,
            "work_factor": figures.factors[job, setup],
            "step_us": figures.step_us(job, setup),
            "seeds": [vars(one) for one in times],
        }
        for (job, setup), times in figures.times.items()
    ]  # fmt: skip
