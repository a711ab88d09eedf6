"""examples/halo: equal numbers on any number of ranks, native and offloaded."""

from __future__ import annotations

import re

import pytest
from conftest import Mpi, Result

pytestmark = pytest.mark.any_mpi

SMALL = ("--grid", "101,83", "--fields", "3", "--steps", "6")
STEPS = 7
"""One is not timed."""


def halo(mpi: Mpi, ranks: int, *arguments: str, services: int | None, rules: str = "") -> Result:
    path = mpi.build / "examples" / mpi.name / "halo"
    if not path.exists():
        pytest.skip(f"{path} is not built")
    env = {"OUTRIGGER_ALGORITHM": rules, "OUTRIGGER_BLOCKING": "on"} if rules else {}
    return mpi.run(ranks, [str(path), *SMALL, *arguments], services=services, env=env)


def checksum(result: Result) -> str:
    found = re.search(r"checksum +([0-9a-f]{16})", result.out)
    assert found is not None, result.out
    return found[1]


@pytest.mark.parametrize(
    "ranks, mode, memory",
    (
        (2, "nonblocking", "malloc"),
        (3, "nonblocking", "alloc_mem"),
        (4, "testing", "malloc"),
        (6, "nonblocking", "malloc"),
        (4, "blocking", "alloc_mem"),
    ),
)
def test_offloaded(offload: Mpi, ranks: int, mode: str, memory: str) -> None:
    options = ("--mode", mode, "--memory", memory, "--check")
    result = halo(offload, ranks, *options, services=2, rules="all=on").ok()
    assert "the same as on one rank" in result.out
    assert result.report is not None
    (exchanges,) = (entry for entry in result.report["calls"] if entry["collective"] == "ineighbor_alltoallw")
    assert exchanges["offloaded"] == exchanges["calls"] == STEPS * ranks, exchanges


@pytest.mark.parametrize("mode", ("blocking", "nonblocking", "testing"))
def test_native(mpi: Mpi, mode: str) -> None:
    assert "the same as on one rank" in halo(mpi, 4, "--mode", mode, "--check", services=None).ok().out


def test_the_checksum_is_of_the_numbers_alone(offload: Mpi) -> None:
    """Independent of the tiles; other numbers have another checksum."""
    tiles = [("1,4", 4), ("4,1", 4), ("2,2", 4), ("1,1", 1), ("3,1", 3)]
    found = {checksum(halo(offload, ranks, "--process-grid", shape, services=1).ok()) for shape, ranks in tiles}
    assert len(found) == 1
    assert checksum(halo(offload, 2, "--steps", "5", services=1).ok()) not in found


def test_wrong_arguments_are_named(mpi: Mpi) -> None:
    result = halo(mpi, 1, "--mode", "fast", services=None)
    assert result.returncode != 0
    assert "--mode: 'fast' is none of blocking, nonblocking, testing, compute" in result.out


def test_tiles_are_no_smaller_than_the_stencil_reaches(mpi: Mpi) -> None:
    result = halo(mpi, 2, "--grid", "7,3", services=None)
    assert result.returncode != 0
    assert "tiles are smaller than the stencil reaches" in result.out
