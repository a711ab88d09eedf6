"""Persistent collectives: each start is offloaded by itself, with the MPI's own request.

Not run natively: MPICH 4.0 waits for ever for an inactive one, and returns a finished one twice (MPI_Waitsome); Open
MPI 4.1 does not free an active one, and uses freed datatypes.
"""

from __future__ import annotations

import pytest
from conftest import Mpi, Result, with_copiers

ROUNDS = 60
BINDINGS = ("mpif", "usempi", "f08")


def run(mpi: Mpi, ranks: int, words: list[str], services: int, **options) -> Result:
    result = mpi.run(ranks, ["persistent", *words], services=services, **options).ok()
    if "persistent: none" in result.out:
        pytest.skip(f"{mpi.installed} has no persistent collectives")
    assert "persistent: well" in result.out
    return result


def started(result: Result) -> tuple[int, int]:
    """Offloaded starts, and all starts."""
    assert result.report is not None
    calls = [entry for entry in result.report["calls"] if entry["form"] == "persistent" and entry["collective"]]
    assert calls, result.report["calls"]
    for entry in calls:
        assert entry["offloaded"] + sum(entry["native"].values()) == entry["calls"], entry
        assert entry["bytes"]["calls"] == entry["calls"], entry
    return sum(entry["offloaded"] for entry in calls), sum(entry["calls"] for entry in calls)


@pytest.mark.parametrize("seed", (1, 2, 3))
@pytest.mark.parametrize("ranks", (2, 3, 4))
def test_started_in_any_order(offload: Mpi, ranks: int, seed: int) -> None:
    """Each rank has its own order; messages and other collectives come in between."""
    result = run(offload, ranks, ["rounds", str(ROUNDS), str(seed)], 1 + seed % 2, timeout_s=120)
    offloaded, all_starts = started(result)
    assert offloaded == all_starts > 8 * ROUNDS * ranks


@pytest.mark.parametrize(
    "env",
    (
        with_copiers(),
        {"OUTRIGGER_REACH": "bounce"},
        {"OUTRIGGER_SHARED_HEAP": "on"},
        {"OUTRIGGER_ALGORITHM": "ialltoall=scatter_dest,ialltoallv=scatter_dest,iallgather=node_pull"},
    ),
    ids=("copiers", "bounce", "heap", "algorithms"),
)
@pytest.mark.parametrize("nodes", (1, 2))
def test_every_reach(offload: Mpi, nodes: int, env: dict[str, str]) -> None:
    offload.pretend_nodes = nodes
    offloaded, all_starts = started(run(offload, 3, ["rounds", "30", "4"], 1, env=env, timeout_s=120))
    assert offloaded == all_starts


@pytest.mark.parametrize("size", ("64", "65536"))
def test_started_thousands_of_times(offload: Mpi, size: str) -> None:
    assert started(run(offload, 2, ["reuse", "5000", size], 1, timeout_s=120)) == (10_000, 10_000)


def test_many_come_and_go(offload: Mpi) -> None:
    """More than there are entries for dispatch plans."""
    assert started(run(offload, 2, ["churn", "2500"], 1, timeout_s=120)) == (5000, 5000)


@pytest.mark.parametrize("mode", ("inactive", "frees"))
@pytest.mark.parametrize("ranks", (2, 3))
def test_requests_that_are_not_active(offload: Mpi, ranks: int, mode: str) -> None:
    run(offload, ranks, [mode, "types"], 1)


def test_a_choice_for_each_start(offload: Mpi) -> None:
    """Trials alternate both ways for the starts of one request, which does not change; all bytes are correct."""
    offload.measured_choice = True
    offloaded, all_starts = started(run(offload, 2, ["reuse", "6000", "65536"], 1, timeout_s=180))
    assert all_starts == 12_000
    assert 0 < offloaded < all_starts, f"{offloaded} of {all_starts} were offloaded"


def test_what_is_native_says_why(offload: Mpi) -> None:
    env = {"OUTRIGGER_ALGORITHM": "ialltoall=native"}
    result = run(offload, 2, ["reuse", "20", "65536"], 1, env=env)
    assert result.report is not None
    (entry,) = (entry for entry in result.report["calls"] if entry["call"] == "MPI_Alltoall_init")
    assert entry["native"] == {"your rule": 40} and entry["offloaded"] == 0


@pytest.mark.parametrize("binding", BINDINGS)
def test_fortran(offload: Mpi, binding: str) -> None:
    program = f"persistent_{binding}"
    if not (offload.programs / program).exists():
        pytest.skip(f"{program} was not built: no Fortran compiler")
    if not offload.installed.has_fortran():
        pytest.skip(f"{offload.installed} has no Fortran libraries")
    result = offload.run(3, [program]).ok()
    assert "persistent: well" in result.out
    assert started(result) == (600, 600)
