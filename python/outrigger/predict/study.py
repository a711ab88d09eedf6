"""The complete request: enough to repeat it with the same results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from outrigger import formats
from outrigger.errors import UserError
from outrigger.predict import clusters, patterns, rebuild
from outrigger.predict import figures as figuring
from outrigger.predict.clusters import ClusterFile
from outrigger.predict.figures import Figures, Job, Setup
from outrigger.predict.program import Program
from outrigger.predict.rebuild import Rebuilt

VERSION = 1
PLACEMENTS = ("none", "host_core", "dpu")
_REQUEST, _FIGURES = "study.json", "figures.json"


@dataclass(frozen=True)
class Study:
    """A request. Cluster files as read, without --set."""

    outrigger: str
    """Version that made it."""
    command: tuple[str, ...]
    clusters: tuple[ClusterFile, ...]
    pattern: str | None
    """Or a rebuilt trace."""
    trace: Rebuilt | None
    trace_name: str
    nodes: tuple[int, ...]
    ranks_per_node: int | None
    services: tuple[int, ...]
    placements: tuple[str, ...]
    sizes: tuple[int, ...]
    settings: tuple[str, ...]
    seeds: int
    steps: int
    strong: bool
    threads_per_rank: int | None
    native: tuple[str, ...]
    algorithms: tuple[str, ...]
    offload_blocking: bool
    test_every_us: float
    version: int = VERSION

    def changed_clusters(self) -> list[ClusterFile]:
        """With the values of --set."""
        return [clusters.with_settings(one, self.settings) for one in self.clusters]

    def title(self) -> str:
        """Title of the program."""
        if self.pattern is not None:
            return patterns.parse(self.pattern).title
        assert self.trace is not None
        return f"the trace {self.trace_name} of {self.trace.base.ranks} ranks"

    def told(self) -> list[str]:
        """Assumptions about the program."""
        if self.pattern is not None:
            pattern = patterns.parse(self.pattern)
            return [text for text in (pattern.assumes, pattern.scales) if text]
        assert self.trace is not None
        scaling = "all ranks together have the same work" if self.strong else "each rank has the same work"
        covered = f"{self.trace.repetitions} repetitions, {self.trace.covered} of {self.trace.events} events of a rank"
        return [covered, *self.trace.notes, f"on other numbers of ranks {scaling}"]

    def jobs(self) -> list[Job]:
        """All requested jobs."""
        first = self.changed_clusters()[0]
        nodes = self.nodes or (first.nodes,)
        per_node = self.ranks_per_node or self._ranks_per_node(first, nodes)
        sizes: Sequence[int | None] = self.sizes or (None,)
        return [Job(count, count * per_node, size) for count in nodes for size in sizes]

    def _ranks_per_node(self, cluster: ClusterFile, nodes: Sequence[int]) -> int:
        """For a single number of nodes, a trace's ranks divided by it; otherwise one rank per core."""
        if self.trace is not None and len(nodes) == 1 and self.trace.base.ranks % nodes[0] == 0:
            return self.trace.base.ranks // nodes[0]
        return cluster.cores

    def program(self, job: Job) -> Program:
        """For the job's number of ranks."""
        if self.pattern is None:
            assert self.trace is not None
            return rebuild.scaled(self.trace, job.ranks, strong=self.strong)
        text = self.pattern if job.size is None else patterns.with_size(self.pattern, job.size)
        return patterns.parse(text).make(job.ranks)

    def setups(self, job: Job) -> list[list[Setup]]:
        """Ways to run a job; those of one list differ only in the lane.

        By default as many service processes as in the file, or fewer, so that each has the same number of ranks.
        """
        per_node = job.ranks // job.nodes
        ways = [[Setup(lane) for lane in figuring.NATIVE]]
        for number, cluster in enumerate(self.changed_clusters()):
            if cluster.placement not in self.placements:
                continue
            fitting = max(count for count in range(1, cluster.services + 1) if per_node % count == 0)
            for services in self.services or (fitting,):
                lanes = [figuring.OFFLOADED]
                lanes += [figuring.THREADS] if cluster.placement == "host_core" else []
                ways.append([Setup(lane, cluster.placement, services, number) for lane in lanes])
        return ways

    def work_factor(self, job: Job, setup: Setup) -> float:
        """Factor of the work's time if service processes or threads take cores.

        The program uses all cores of a node, by its ranks or their threads, unless it states the threads per rank.
        """
        cluster = self.changed_clusters()[setup.cluster]
        if setup.lane in figuring.NATIVE or not cluster.own_core:
            return 1.0
        per_node = job.ranks // job.nodes
        used = per_node * (self.threads_per_rank or max(1, cluster.all_cores // per_node))
        left = cluster.all_cores - setup.services
        if left <= 0:
            raise UserError(f"{setup.services} service processes leave no core of {cluster.all_cores} to the program")
        return max(1.0, min(used, cluster.all_cores) / left)


def check(study: Study) -> None:
    """Checks before any run."""
    placements = {cluster.placement for cluster in study.changed_clusters()}
    for placement in study.placements:
        if placement not in PLACEMENTS:
            raise UserError(f"--placement {placement}: there are {', '.join(PLACEMENTS)}")
    lacking = set(study.placements) - placements - {"none"}
    for placement in sorted(lacking):
        files = ", ".join(cluster.path for cluster in study.clusters)
        raise UserError(
            f"--placement {placement}: {files} has no costs of service processes there; add a file that has, by "
            "another --cluster"
        )
    if study.sizes and study.pattern is None:
        raise UserError("--size is for patterns, not for a trace")
    for size in study.sizes:
        patterns.with_size(study.pattern or "", size)
    for cluster in study.changed_clusters():
        clusters.intervals(cluster)


def save(study: Study, figures: Figures, directory: Path) -> None:
    """Into a directory: the data for a repetition, and the results."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for number, cluster in enumerate(study.clusters):
            (directory / f"cluster-{number}.toml").write_text(cluster.text, encoding="ascii")
        about = {key: value for key, value in asdict(study).items() if key != "clusters"}
        about["cluster_paths"] = [cluster.path for cluster in study.clusters]
        (directory / _REQUEST).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
        written = json.dumps(figuring.as_written(figures), indent=1)
        (directory / _FIGURES).write_text(written + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"--save {directory}: {error.strerror}") from error


def load(directory: Path) -> tuple[Study, list[Any]]:
    """Study and results from save()."""
    try:
        text = (directory / _REQUEST).read_text(encoding="utf-8")
        figures = json.loads((directory / _FIGURES).read_text(encoding="utf-8"))
        about = json.loads(text)
        paths = about.pop("cluster_paths")
        about["clusters"] = [
            {"path": path, "text": (directory / f"cluster-{number}.toml").read_text(encoding="ascii")}
            for number, path in enumerate(paths)
        ]
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise UserError(f"--repeat {directory}: this is no study that --save has written: {error}") from error
    if about.get("version") != VERSION:
        raise UserError(f"--repeat {directory}: version {about.get('version')}, this command reads {VERSION}")
    found: Study = formats.convert(about, Study, f"--repeat {directory}: {_REQUEST}")
    return found, figures


def differences(before: Sequence[Any], now: Figures) -> Iterator[str]:
    """Differences between a repetition and the study."""
    after = json.loads(json.dumps(figuring.as_written(now)))
    for old, new in zip(before, after, strict=False):
        if old != new:
            yield f"{old['nodes']} nodes, {old['way']}: {old['step_us']:.3f} us before, {new['step_us']:.3f} us now"
    if len(before) != len(after):
        yield f"{len(before)} configurations before, {len(after)} now"
