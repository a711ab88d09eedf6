"""The order in which each MPI adds is learned from its results, and gives its bits (src/intranode/sums)."""

from __future__ import annotations

import re

import pytest
from conftest import Mpi

VECTORS = {2: 30_000, 3: 25_000, 4: 20_000, 5: 10_000, 6: 7_000, 7: 4_000, 8: 4_000}
"""By ranks: 100,000 for each MPI. Ranks that share cores take long."""


def yielding(mpi: Mpi) -> dict[str, str]:
    """MPICH 4.0's ranks never yield where they share cores: thousands of calls would take too long."""
    if mpi.installed.implementation != "mpich":
        return {}
    library = mpi.build / "tests" / "mpi" / "yield" / "libmpich4-yield.so"
    return {"LD_PRELOAD": f"{library}:libucp.so.0"}


def politely(mpi: Mpi) -> dict[str, str]:
    """MPICH 4.0's ranks never yield: native calls take long where ranks share cores."""
    wanted = yielding(mpi)
    if "LD_PRELOAD" in wanted:
        wanted["LD_PRELOAD"] = mpi.preloaded() + ":" + wanted["LD_PRELOAD"]
    return wanted


def learned_by(mpi: Mpi, ranks: int, vectors: int, most_elements: int) -> dict[str, int]:
    words = ["sum_orders", str(vectors), str(most_elements)]
    result = mpi.run(ranks, words, services=None, env=yielding(mpi), timeout_s=240).ok()
    print(result.out)
    assert "DIFFERS" not in result.out, result.out
    pattern = r"learned (\d+), refused (\d+), compared (\d+) vectors, differing (\d+)"
    found = re.search(pattern, result.out)
    assert found, result.out
    numbers = dict(zip(("learned", "refused", "compared", "differing"), map(int, found.groups()), strict=True))
    assert numbers["differing"] == 0 and numbers["compared"] >= vectors, result.out
    return numbers


def test_allreduce_of_few_elements(mpi: Mpi) -> None:
    """All of these are learned, whichever MPI it is."""
    numbers = learned_by(mpi, 4, 2000, 63)
    assert numbers["learned"] > 20 and numbers["refused"] == 0


@pytest.mark.slow
@pytest.mark.one_machine
@pytest.mark.parametrize("ranks", VECTORS)
def test_random_vectors(mpi: Mpi, ranks: int) -> None:
    numbers = learned_by(mpi, ranks, VECTORS[ranks], 65_536)
    assert numbers["learned"] > numbers["refused"]
