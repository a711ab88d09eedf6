"""Each MPI at its best: settings so that it neither wastes cores nor leaves one unused."""

from __future__ import annotations

import os
from collections.abc import Mapping

from outrigger.mpis import INTEL, Mpi

# Settings that make ranks yield while they wait. MPICH 4 has none.
_YIELDING = {
    ("mpich", "5"): {
        "MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1",
        "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT": "10",
    },
    (INTEL, ""): {"I_MPI_THREAD_YIELD": "3"},
}


def _unless_set(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name not in os.environ}


def _yielding(mpi: Mpi) -> Mapping[str, str]:
    for (implementation, major), variables in _YIELDING.items():
        if mpi.implementation == implementation and mpi.version.startswith(major):
            return variables
    return {}


def crowded(mpi: Mpi) -> dict[str, str]:
    """For ranks that share cores. Open MPI's launcher detects itself if ranks of a machine outnumber its cores."""
    return _unless_set(_yielding(mpi))


def can_yield(mpi: Mpi) -> bool:
    """True if its ranks can yield to others on their core while they wait."""
    return mpi.implementation == "openmpi" or bool(_yielding(mpi))


def with_threads(mpi: Mpi, ranks: int, cpu: int) -> dict[str, str] | None:
    """A progress thread for each rank of this machine, all on one core; None: this MPI has none."""
    cores = ",".join([str(cpu)] * ranks)
    if mpi.implementation == INTEL:
        return {"I_MPI_ASYNC_PROGRESS": "1", "I_MPI_ASYNC_PROGRESS_PIN": cores}
    if mpi.implementation == "mpich":
        return {"MPIR_CVAR_ASYNC_PROGRESS": "1", "MPIR_CVAR_PROGRESS_THREAD_AFFINITY": cores}
    return None
