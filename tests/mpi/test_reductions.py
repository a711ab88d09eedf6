"""Random reductions, offloaded, equal a reduction in the order of ranks: to the last bit, on all ranks."""

from __future__ import annotations

from collections import Counter

import pytest
from conftest import Mpi, Result, with_copiers

ALL = {"OUTRIGGER_ALGORITHM": "all=on", "OUTRIGGER_BLOCKING": "on"}
"""Small ones, too, and forms that block."""

CALLS = ("allreduce", "reduce", "reduce_scatter_block", "reduce_scatter", "scan", "exscan")

# ranks, operations, service processes, environment of the ranks
CASES = [
    (2, 300, 1, with_copiers()),
    (2, 150, 1, {"OUTRIGGER_REACH": "bounce"}),
    (2, 150, 1, {"OUTRIGGER_REACH": "mapped,bounce"}),
    (3, 200, 2, {}),
    (3, 150, 1, {"OUTRIGGER_SHARED_HEAP": "on"}),
    (4, 200, 2, with_copiers()),
    (5, 120, 1, {}),
    (7, 80, 3, {}),
]


def name_of(case: tuple) -> str:
    ranks, _, services, env = case
    return f"{ranks}ranks-{services}services-{'-'.join(env.values()) or 'defaults'}"


def run(mpi: Mpi, ranks: int, words: list[str], services: int | None, **options) -> Result:
    result = mpi.run(ranks, ["reductions", *words], services=services, timeout_s=150, **options).ok()
    if "no persistent forms" in result.out:
        pytest.skip(f"{mpi.installed} has no persistent collectives")
    assert "no difference" in result.out
    return result


def offloaded(result: Result, call: str) -> int:
    assert result.report is not None
    return sum(entry["offloaded"] for entry in result.report["calls"] if entry["call"] == call)


def native(result: Result, call: str) -> Counter[str]:
    """Reasons of native calls, with their numbers."""
    assert result.report is not None
    reasons: Counter[str] = Counter()
    for entry in result.report["calls"]:
        reasons.update(entry["native"] if entry["call"] == call else {})
    return reasons


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_no_difference(mpi: Mpi, services: int | None, request: pytest.FixtureRequest, case: tuple) -> None:
    ranks, operations, some_services, env = case
    seed = (request.config.getoption("--seed") or 2000) + CASES.index(case)
    words = ["--seed", str(seed), "--operations", str(operations)]
    if services is None:
        run(mpi, ranks, words, None)
        return
    env = env | ALL
    result = run(mpi, ranks, [*words, "--ordered", "1"], some_services, env=env)
    for name in CALLS:
        assert offloaded(result, f"MPI_I{name}") > operations // 20, result.report


@pytest.mark.parametrize("nodes", (2, 3))
@pytest.mark.parametrize("services", (1, 2))
def test_between_nodes(offload: Mpi, nodes: int, services: int) -> None:
    offload.pretend_nodes = nodes
    words = ["--seed", str(nodes + services), "--operations", "150", "--ordered", "1"]
    result = run(offload, 2 * nodes, words, services, env=ALL)
    assert sum(entry["bytes"]["wire"] for entry in result.report["collectives"]) > 0, result.report


def test_short_allreduces_are_rooted_over_tcp(offload: Mpi) -> None:
    offload.pretend_nodes = 2
    env = ALL | {"OUTRIGGER_UCX_TLS": "tcp"}
    words = ["--seed", "4", "--operations", "150", "--ordered", "1", "--max-bytes", "32768"]
    result = run(offload, 2, words, 1, env=env)
    entries = [entry for entry in result.report["collectives"] if entry["collective"] == "iallreduce"]
    assert {name for entry in entries for name in entry["algorithms"]} == {"rooted"}, entries


def test_longer_vectors_are_staged_between_nodes(offload: Mpi) -> None:
    """Each of their pieces would take the service process a system call."""
    words = ["--seed", "9", "--operations", "150", "--ordered", "1", "--max-bytes", "65536"]
    staged = []
    for offload.pretend_nodes in (1, 2):
        result = run(offload, 2, words, 1, env=ALL)
        staged.append(sum(entry["bytes"]["bounce"] for entry in result.report["collectives"]))
    assert staged[1] > 2 * staged[0] > 0, staged


@pytest.mark.parametrize("ranks", (2, 4))
def test_blocking_forms(offload: Mpi, ranks: int) -> None:
    words = ["--seed", "5", "--operations", "80", "--ordered", "1", "--blocking", "1"]
    result = run(offload, ranks, words, 2, env=ALL)
    for name in CALLS:
        assert offloaded(result, f"MPI_{name.capitalize()}") == offloaded(result, f"MPI_I{name}") > 0, result.report


@pytest.mark.parametrize("ranks", (2, 3))
def test_persistent_forms(offload: Mpi, ranks: int) -> None:
    words = ["--seed", "6", "--operations", "160", "--ordered", "1", "--persistent", "3"]
    result = run(offload, ranks, words, 2, env=ALL)
    for name in CALLS:
        starts = offloaded(result, f"MPI_{name.capitalize()}_init")
        assert starts > 20 * ranks and starts % 4 == 0, result.report


def test_by_default(offload: Mpi) -> None:
    """Small ones are native, and native ones have a reason."""
    env = {**with_copiers(), "OUTRIGGER_ALGORITHM": "all=auto", "OUTRIGGER_CHOICE": "fixed"}
    result = run(offload, 3, ["--seed", "7", "--operations", "400", "--max-bytes", "1000000"], 1, env=env)
    reasons = native(result, "MPI_Iallreduce")
    assert offloaded(result, "MPI_Iallreduce") > 0
    expected = {"small blocks", "other operation or datatype", "rounding"}
    assert all(reasons[reason] > 0 for reason in expected), reasons
    assert set(reasons) <= expected | {"group of one", "switched off"}, reasons


def test_a_choice_for_each_call(offload: Mpi) -> None:
    """Trials alternate both ways."""
    offload.measured_choice = True
    run(offload, 2, ["--seed", "8", "--operations", "1500", "--max-bytes", "65536"], 1)
