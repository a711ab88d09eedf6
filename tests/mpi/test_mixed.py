"""Some ranks have the library, some do not: nothing of it reaches the program, and one line says whom it lacks."""

from collections.abc import Iterator

import pytest
from conftest import Mpi, made
from hosts import Hosts
from installed import SYSTEM_MPIS

INIT_TIMEOUT_MS = 2000
WITHIN_S = 15.0
"""Of which half as long again as the time limit is for finding out."""
HAVING = ["NYYY", "YNYY", "YYYN", "YNYN", "NNYY", "NYN", "YN"]
"""Which ranks have it. Each of them is a child of others' in the tree of the agreement."""


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with made(Hosts(2)) as cluster:
        yield cluster


def limit(milliseconds: int) -> dict[str, str]:
    return {"OUTRIGGER_INIT_TIMEOUT_MS": str(milliseconds)}


def line_said(mpi: Mpi, ranks: str, having: dict[str, dict[str, str]]) -> str:
    """The only one of the library's. The program has got what it should."""
    result = mpi.start_mixed(ranks, "mixed", having).wait(WITHIN_S)
    mpi.nothing_left()
    assert f"mixed: {len(ranks)} ranks received their own" in result.ok().out
    (said,) = [line for line in result.out.splitlines() if "outrigger: " in line]
    return said


def must_run_natively(mpi: Mpi, having: str) -> None:
    """The line names the lowest rank that is missed by the one that says it."""
    said = line_said(mpi, having, {"Y": limit(INIT_TIMEOUT_MS)})
    assert "running natively: rank " in said and "is the library preloaded there?" in said, said
    missed = int(said.partition("rank ")[2].split()[0])
    assert having[missed] == "N", said


@pytest.mark.parametrize("having", HAVING)
def test_nothing_reaches_the_program(offload: Mpi, having: str) -> None:
    must_run_natively(offload, having)


@pytest.mark.one_machine
@pytest.mark.parametrize("having", ["NYYY", "YYNY", "NYN"])
def test_on_pretended_nodes(offload: Mpi, having: str) -> None:
    offload.pretend_nodes = 2
    must_run_natively(offload, having)


@pytest.mark.one_machine
@SYSTEM_MPIS  # MPICH 5 hangs there natively
@pytest.mark.parametrize("having", ["NNYY", "YYNN", "NYYN"])
def test_on_hosts(offload: Mpi, hosts: Hosts, having: str) -> None:
    """One host without it, either; and one rank of each."""
    offload.hosts = hosts
    must_run_natively(offload, having)


def test_late_ranks_are_told(offload: Mpi) -> None:
    """For whom rank 0 did not wait find the decision, and wait for nothing."""
    assert "running natively: " in line_said(offload, "LYYY", {"L": limit(1), "Y": limit(INIT_TIMEOUT_MS)})


@pytest.mark.parametrize("ranks", ["DYYY", "YYYD"])
def test_settings_differ(offload: Mpi, ranks: str) -> None:
    other = {"OUTRIGGER_REACH": "mapped,bounce"}
    said = line_said(offload, ranks, {"D": other, "Y": {}})
    assert "ranks have different OUTRIGGER_* settings" in said


def test_settings_are_wrong(offload: Mpi) -> None:
    """Of a rank that the others hear from."""
    said = line_said(offload, "YYW", {"W": {"OUTRIGGER_SERVICES": "many"}, "Y": {}})
    assert "OUTRIGGER_SERVICES=many is not valid" in said
