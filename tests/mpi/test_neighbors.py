"""Random neighbor collectives, offloaded and native, must give the same bytes."""

from __future__ import annotations

import pytest
from conftest import Mpi, Result, with_copiers

ALL = {"OUTRIGGER_ALGORITHM": "all=on", "OUTRIGGER_BLOCKING": "on"}
"""Forms that block, too."""

CALLS = ("alltoall", "alltoallv", "alltoallw", "allgather", "allgatherv")

# ranks, operations, service processes, environment of the ranks
CASES = [
    (2, 200, 1, with_copiers()),
    (2, 150, 1, {"OUTRIGGER_REACH": "bounce"}),
    (2, 150, 1, {"OUTRIGGER_REACH": "mapped,bounce"}),
    (3, 150, 2, {}),
    (3, 120, 1, {"OUTRIGGER_SHARED_HEAP": "on"}),
    (4, 150, 2, with_copiers()),
    (5, 120, 1, {}),
    (7, 60, 3, {}),
    (8, 60, 2, {}),
]


def name_of(case: tuple) -> str:
    ranks, _, services, env = case
    return f"{ranks}ranks-{services}services-{'-'.join(env.values()) or 'defaults'}"


def run(mpi: Mpi, ranks: int, words: list[str], services: int | None, **options) -> Result:
    result = mpi.run(ranks, ["neighbors", *words], services=services, timeout_s=150, **options).ok()
    if "no persistent forms" in result.out:
        pytest.skip(f"{mpi.installed} has no persistent collectives")
    assert "no difference" in result.out
    return result


def offloaded(result: Result, call: str) -> int:
    assert result.report is not None
    return sum(entry["offloaded"] for entry in result.report["calls"] if entry["call"] == call)


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_no_difference(mpi: Mpi, services: int | None, request: pytest.FixtureRequest, case: tuple) -> None:
    ranks, operations, some_services, env = case
    seed = (request.config.getoption("--seed") or 3000) + CASES.index(case)
    words = ["--seed", str(seed), "--operations", str(operations)]
    if services is None:
        run(mpi, ranks, [*words, "--careful", "1"], None)
        return
    result = run(mpi, ranks, words, some_services, env=env | ALL)
    for name in CALLS:
        assert offloaded(result, f"MPI_Ineighbor_{name}") > operations // 10, result.report


@pytest.mark.parametrize("nodes", (2, 3))
@pytest.mark.parametrize("services", (1, 2))
def test_between_nodes(offload: Mpi, nodes: int, services: int) -> None:
    offload.pretend_nodes = nodes
    words = ["--seed", str(nodes + services), "--operations", "100"]
    result = run(offload, 2 * nodes, words, services, env=ALL)
    assert sum(entry["bytes"]["wire"] for entry in result.report["collectives"]) > 0, result.report


@pytest.mark.parametrize("ranks", (2, 4))
def test_blocking_forms(offload: Mpi, ranks: int) -> None:
    words = ["--seed", "5", "--operations", "100", "--blocking", "1"]
    result = run(offload, ranks, words, 2, env=ALL)
    for name in CALLS:
        assert offloaded(result, f"MPI_Neighbor_{name}") > 10, result.report


@pytest.mark.parametrize("ranks", (2, 4))
def test_persistent_forms(offload: Mpi, ranks: int) -> None:
    words = ["--seed", "6", "--operations", "80", "--persistent", "3"]
    result = run(offload, ranks, words, 2, env=ALL)
    for name in CALLS:
        starts = offloaded(result, f"MPI_Neighbor_{name}_init")
        assert starts > 20 and starts % 4 == 0, result.report


def test_by_default(offload: Mpi) -> None:
    """All are offloaded until all blocks have been small for a while: no rank knows all neighbors."""
    env = {"OUTRIGGER_ALGORITHM": "all=auto", "OUTRIGGER_CHOICE": "fixed"}
    result = run(offload, 3, ["--seed", "7", "--operations", "200", "--careful", "1"], 1, env=env)
    assert sum(offloaded(result, f"MPI_Ineighbor_{name}") for name in CALLS) > 200, result.report


def test_a_choice_for_each_call(offload: Mpi) -> None:
    offload.measured_choice = True
    run(offload, 2, ["--seed", "8", "--operations", "600", "--max-bytes", "65536", "--careful", "1"], 1)


def test_a_difference_is_found(mpi: Mpi, services: int | None) -> None:
    result = mpi.run(2, ["neighbors", "--seed", "3", "--operations", "40", "--spoil", "1"], services=services, env={})
    assert result.returncode != 0
    assert "DIFFERENCE" in result.out
