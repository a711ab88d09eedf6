"""Only some ranks have the library: the program does not see it, and one line names a missing rank."""

from collections.abc import Iterator

import pytest
from conftest import Mpi, made
from hosts import Hosts
from installed import SYSTEM_MPIS

INIT_TIMEOUT_MS = 2000
WITHIN_S = 15.0
"""One and a half time limits of it are for finding out."""
HAVING = ["NYYY", "YNYY", "YYYN", "YNYN", "NNYY", "NYN", "YN"]
"""The ranks that have it. Each is another one's child in the tree of the agreement."""


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with made(Hosts(2)) as cluster:
        yield cluster


def limit(milliseconds: int) -> dict[str, str]:
    return {"OUTRIGGER_INIT_TIMEOUT_MS": str(milliseconds)}


def line_said(mpi: Mpi, ranks: str, having: dict[str, dict[str, str]]) -> str:
    """The library's only line. The program has received the right messages."""
    result = mpi.start_mixed(ranks, "mixed", having).wait(WITHIN_S)
    mpi.nothing_left()
    assert f"mixed: {len(ranks)} ranks received their own" in result.ok().out
    (said,) = [line for line in result.out.splitlines() if "outrigger: " in line]
    return said


def must_run_natively(mpi: Mpi, having: str) -> None:
    """The line names the lowest rank without the library."""
    said = line_said(mpi, having, {"Y": limit(INIT_TIMEOUT_MS)})
    assert "running natively: rank " in said and "is the library preloaded there?" in said, said
    missed = int(said.partition("rank ")[2].split()[0])
    assert having[missed] == "N", said


@pytest.mark.any_mpi
@pytest.mark.parametrize("having", HAVING)
def test_nothing_reaches_the_program(offload: Mpi, having: str) -> None:
    must_run_natively(offload, having)


@pytest.mark.one_machine
@pytest.mark.any_mpi
@pytest.mark.parametrize("having", ["NYYY", "YYNY", "NYN"])
def test_on_pretended_nodes(offload: Mpi, having: str) -> None:
    offload.pretend_nodes = 2
    must_run_natively(offload, having)


@pytest.mark.one_machine
@SYSTEM_MPIS  # MPICH 5 hangs there natively
@pytest.mark.parametrize("having", ["NNYY", "YYNN", "NYYN"])
def test_on_hosts(offload: Mpi, hosts: Hosts, having: str) -> None:
    """One host without it, too; and one rank of each."""
    offload.hosts = hosts
    must_run_natively(offload, having)


def test_late_ranks_are_told(offload: Mpi) -> None:
    """Ranks that rank 0 did not wait for find the decision, and wait for nothing."""
    assert "running natively: " in line_said(offload, "LYYY", {"L": limit(1), "Y": limit(INIT_TIMEOUT_MS)})


@pytest.mark.parametrize("ranks", ["DYYY", "YYYD"])
def test_settings_differ(offload: Mpi, ranks: str) -> None:
    other = {"OUTRIGGER_REACH": "mapped,bounce"}
    said = line_said(offload, ranks, {"D": other, "Y": {}})
    assert "ranks have different OUTRIGGER_* settings" in said


def test_settings_are_wrong(offload: Mpi) -> None:
    """On a rank that the others receive from."""
    said = line_said(offload, "YYW", {"W": {"OUTRIGGER_SERVICES": "many"}, "Y": {}})
    assert "OUTRIGGER_SERVICES=many is not valid" in said
