"""Where `outrigger bench never-slower` runs its jobs: placements, and what each MPI is told there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from outrigger import binding, cores, launch, mpis
from outrigger.artifacts import Artifacts
from outrigger.bench import natives
from outrigger.bench.jobs import Site
from outrigger.errors import UserError
from outrigger.mpis import INTEL, Mpi
from outrigger.settings import Settings

EXTRA, EQUAL, SHARED, ALONE, NODES, THREADS = "extra", "equal", "shared", "alone", "nodes", "threads"
PLACEMENTS = {
    EXTRA: "a core extra for service processes, native on the ranks' cores only",
    EQUAL: "native's ranks may use all cores, the service processes' too",
    SHARED: "ranks on all cores, service processes on theirs",
    ALONE: "ranks on all cores, no service processes",
    NODES: "two pretended nodes, TCP between them",
    THREADS: "native with progress threads on the service processes' core",
}
_WITHOUT_THREADS = (EXTRA, EQUAL, SHARED, ALONE, NODES)
_NEED_A_CORE = (EXTRA, EQUAL, THREADS)

# Pretended nodes are one for the MPI: these settings keep it from their common memory.
_OVER_TCP = {
    "openmpi": {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,self"},
    "mpich": {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self", "FI_PROVIDER": "tcp"},
    INTEL: {"I_MPI_FABRICS": "ofi", "FI_PROVIDER": "tcp"},
}


@dataclass(frozen=True)
class Group:
    """The cells of one placement under one MPI."""

    mpi: Mpi
    placement: str
    offloaded: launch.Job
    native: launch.Job | None = None
    """None: the offloaded job also has native operations on the same cores, for comparison."""

    @property
    def jobs(self) -> int:
        """Launches per result of each cell."""
        return 1 if self.native is None else 2


def parse_placements(text: str | None) -> tuple[str, ...] | None:
    """Checked; None: all possible ones."""
    if text is None:
        return None
    words = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
    for word in words:
        if word not in PLACEMENTS:
            raise UserError(f"--placement '{word}': there are {', '.join(PLACEMENTS)}")
    return words


def _one_each(usable: Sequence[cores.Core], ranks: int) -> str:
    return ",".join(str(usable[rank % len(usable)][0]) for rank in range(ranks))


@dataclass(frozen=True)
class Sites:
    """The placements of a number of ranks on these cores."""

    ranks: int
    cores: tuple[cores.Core, ...]
    settings: Settings = field(default_factory=Settings)

    @staticmethod
    def make(ranks: int | None, chosen: Settings | None = None) -> Sites:
        """As many ranks as any measurement has unless told."""
        return Sites(cores.measured_ranks(ranks), tuple(cores.allowed_cores()), chosen or Settings())

    def check(self, placements: Sequence[str]) -> None:
        """Each requested one must be possible."""
        for name in placements:
            if name in _NEED_A_CORE and len(self.cores) < 2:
                raise UserError(
                    f"--placement {name}: service processes need a core beside the ranks', but only one core may be "
                    "used here; ask for shared, alone or nodes, or give the command more cores (taskset, cgroup)"
                )

    def default(self) -> tuple[tuple[str, ...], list[str]]:
        """The possible ones, and the ones left out."""
        if len(self.cores) >= 2:
            return _WITHOUT_THREADS, []
        left = tuple(name for name in _WITHOUT_THREADS if name not in _NEED_A_CORE)
        return left, ["Only one core may be used here: the placements extra and equal are left out."]

    def ranks_of(self, placement: str) -> int:
        """No core is free only if there are as many ranks."""
        return max(self.ranks, len(self.cores)) if placement in (SHARED, ALONE) else self.ranks

    def _on_all_cores(self, ranks: int) -> str:
        return _one_each(self.cores, ranks)

    def _leaving_a_core(self, ranks: int) -> str:
        return _one_each(self.cores[:-1], ranks)

    def _threads(self, job: launch.Job, found: Artifacts) -> dict[str, str] | None:
        cpus = launch.make_plan(job, found).placement.service_cpus
        return natives.with_threads(job.mpi, job.ranks, cpus[0]) if cpus else None

    def group(self, mpi: Mpi, placement: str, program: Sequence[str], found: Artifacts) -> Group | None:
        """None: this MPI does not support it."""
        ranks = self.ranks_of(placement)

        def job_at(bind: str = binding.BUNCH) -> launch.Job:
            return _with(Site(bind=bind).job(program, ranks, mpi, self.settings), _NOTHING_LEARNED)

        if placement == SHARED:
            return Group(mpi, placement, job_at(self._on_all_cores(ranks)))
        if placement == ALONE:
            job = job_at(self._on_all_cores(ranks))
            return Group(mpi, placement, replace(job, settings=replace(job.settings, services=0)))
        usual = job_at()
        if placement == EQUAL:
            return Group(mpi, placement, usual, replace(job_at(binding.NONE), native=True))
        if placement == NODES:
            told = {name: value for name, value in _OVER_TCP[mpi.implementation].items() if name not in os.environ}
            return Group(mpi, placement, replace(_with(usual, told), pretend_nodes=2))
        job = job_at(self._leaving_a_core(ranks))
        if placement == THREADS:
            threads = self._threads(job, found)
            return None if threads is None else Group(mpi, placement, job, replace(_with(job, threads), native=True))
        return Group(mpi, placement, job)


_NOTHING_LEARNED = {"XDG_CACHE_HOME": "/dev/null"}
"""Each launch is a program's first: the user's learned choices are neither used nor changed."""


def _with(job: launch.Job, told: dict[str, str]) -> launch.Job:
    return replace(job, variables=launch.Variables({**job.variables.values, **told}))


NO_INTEL = (
    "Intel MPI was not found, on PATH or in build/mpis/intel: its progress threads have no panel. ./dev mpis --intel "
    "installs it."
)


def intel(found: Artifacts) -> Mpi | None:
    """Intel MPI, if it is installed: its progress threads use the same extra core."""
    place = found.root.parent / "mpis" / "intel"
    there = [*mpis.find_all_mpis(), *(mpis.at(place) if place.is_dir() else [])]
    return next((mpi for mpi in there if mpi.implementation == INTEL), None)
