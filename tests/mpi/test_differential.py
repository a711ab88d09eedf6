"""Random operations, offloaded and native, must give the same bytes. At least 2,000 operations per MPI."""

import pytest
from conftest import with_copiers

COPIERS = with_copiers()
MIXED = {"OUTRIGGER_SERVICES": "2", "OUTRIGGER_ALGORITHM": "ialltoall=ring_pull,ialltoallv=scatter_dest"}

# ranks, operations, threads, environment of the ranks
CASES = [
    (1, 150, 1, {}),
    (2, 400, 1, COPIERS),
    (2, 150, 1, {"OUTRIGGER_ALGORITHM": "ialltoall=scatter_dest,ialltoallv=scatter_dest"}),
    (2, 150, 1, {"OUTRIGGER_REACH": "bounce"}),
    (2, 150, 1, {"OUTRIGGER_REACH": "mapped,bounce"}),
    (2, 150, 1, {"OUTRIGGER_SERVICES": "2"}),
    (3, 250, 1, {}),
    (
        3,
        150,
        1,
        COPIERS | {"OUTRIGGER_SERVICES": "2", "OUTRIGGER_ALGORITHM": "ialltoall=ring_pull,ialltoallv=scatter_dest"},
    ),
    (4, 200, 1, {"OUTRIGGER_ALGORITHM": "ialltoall=scatter_dest,ialltoallv=ring_pull"}),
    (4, 150, 1, {"OUTRIGGER_SERVICES": "2"}),
    (5, 100, 1, {"OUTRIGGER_ALGORITHM": "iallgatherv=node_pull,hierarchical", "OUTRIGGER_SERVICES": "2"}),
    (3, 150, 1, {"OUTRIGGER_SHARED_HEAP": "on"}),
    (7, 60, 1, {"OUTRIGGER_SERVICES": "3"}),
    (
        8,
        100,
        1,
        COPIERS | {"OUTRIGGER_ALGORITHM": "ialltoallw=scatter_dest,iallgather=node_pull,iallgatherv=node_pull"},
    ),
    (2, 200, 2, COPIERS),
    (3, 150, 2, {"OUTRIGGER_SERVICES": "2"}),
    (4, 100, 2, COPIERS | {"OUTRIGGER_ALGORITHM": "ialltoall=scatter_dest,ialltoallv=scatter_dest"}),
    (3, 100, 1, COPIERS | {"OUTRIGGER_WAIT_COPIES": "off"}),
    (3, 100, 2, COPIERS | {"OUTRIGGER_WAIT_COPIES": "on"}),
]


def name_of(case: tuple) -> str:
    ranks, _, threads, env = case
    settings = "-".join(value.replace("ialltoall", "") for value in env.values())
    return f"{ranks}ranks-{threads}threads-{settings or 'defaults'}"


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_no_difference(mpi, services, request, case):
    ranks, operations, threads, env = case
    seed = (request.config.getoption("--seed") or 1000) + CASES.index(case)
    program = ["differential", "--seed", str(seed), "--operations", str(operations), "--threads", str(threads)]
    if services is None:
        program += ["--careful", "1"]
    result = mpi.run(ranks, program, services=services, env=env, timeout_s=150).ok()
    assert "no difference" in result.out
    if services is not None and ranks > 1:
        # Half of the runs are native on purpose, and some communicators have one rank.
        assert result.offloaded() > operations // 10, result.report
        if mpi.pretend_nodes > 1 or mpi.hosts is not None:
            assert sum(entry["bytes"]["wire"] for entry in result.report["collectives"]) > 0, result.report


@pytest.mark.parametrize("ranks", (2, 4))
def test_blocking_forms(offload, ranks):
    """With blocking=on every operation is offloaded twice: posted, and by its blocking form."""
    offloaded = []
    program = ["differential", "--seed", "5", "--operations", "60"]
    env = {"OUTRIGGER_BLOCKING": "on", "OUTRIGGER_ALGORITHM": "iallgather=node_pull"}
    for forms in ([], ["--blocking", "1"]):
        result = offload.run(ranks, [*program, *forms], services=2, env=env, timeout_s=150).ok()
        assert "no difference" in result.out
        offloaded.append(result.offloaded())
    assert offloaded[1] == 2 * offloaded[0]


@pytest.mark.parametrize("ranks", (2, 4))
def test_persistent_forms(offload, ranks):
    """Every operation is made once and started four times."""
    program = ["differential", "--seed", "6", "--operations", "60"]
    posted = offload.run(ranks, program, services=2, timeout_s=150).ok().offloaded()
    result = offload.run(ranks, [*program, "--persistent", "3"], services=2, timeout_s=150).ok()
    assert "no difference" in result.out
    assert result.offloaded() == 4 * posted


def test_case_count():
    assert sum(operations for _, operations, _, _ in CASES) >= 2000


def test_a_difference_is_found(mpi, services):
    """Tests the comparison: a program that spoils one byte must report it and fail."""
    program = ["differential", "--seed", "3", "--operations", "40", "--spoil", "1"]
    result = mpi.run(2, program, services=services, env={}, timeout_s=60)
    assert result.returncode != 0
    assert "DIFFERENCE" in result.out and "replay: differential --seed 3" in result.out


def test_errors_of_the_native_mpi_are_told_apart(mpi, services):
    """The right bytes of every kind of operation follow from the seed: here those of native calls are spoiled."""
    program = ["differential", "--seed", "3", "--operations", "300", "--spoil", "2"]
    result = mpi.run(3, program, services=services, env={}, timeout_s=120).ok()
    assert "WRONG bytes of the native MPI" in result.out and "DIFFERENCE" not in result.out
    assert "no difference but for native errors" in result.out
