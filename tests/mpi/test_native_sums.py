"""Floating-point reductions by the ranks themselves have the bits of the MPI, or of the user's choice."""

from __future__ import annotations

import re

import pytest
from conftest import Mpi, Result
from test_intranode import ALWAYS, by_ranks
from test_sum_orders import politely

ANY = {"OUTRIGGER_SUMS": "any"}


def native_calls(result: Result, reason: str) -> int:
    assert result.report is not None, result.out
    return sum(call["native"].get(reason, 0) for call in result.report["calls"])


def sums(lengths: int, calls: int) -> list[str]:
    return ["native_sums", "--lengths", str(lengths), "--kinds", "0", "--calls", str(calls)]


@pytest.mark.parametrize("seed", (1, 2))
@pytest.mark.parametrize("ranks", (2, 3, 4, 5))
def test_bits_are_natives(offload: Mpi, ranks: int, seed: int) -> None:
    kinds = {2: 60, 3: 40, 4: 30, 5: 20}[ranks]
    program = ["native_sums", "--seed", str(10 * ranks + seed), "--kinds", str(kinds)]
    result = offload.run(ranks, program, services=0, env=ALWAYS | politely(offload), timeout_s=150).ok()
    assert "no difference" in result.out
    calls = kinds * 6 * ranks
    assert by_ranks(result) > 0.4 * calls
    assert native_calls(result, "nan results") > 0
    assert native_calls(result, "order not found") < 0.3 * calls


@pytest.mark.parametrize(("ranks", "together"), ((9, 3), (12, 4), (16, 8)))
def test_bits_are_natives_in_two_levels(offload: Mpi, ranks: int, together: int) -> None:
    """Short vectors, in branches of ranks that pretend to share a cache, or in the subtrees of the MPI's order."""
    env = ALWAYS | politely(offload) | {"OUTRIGGER_PRETEND_CACHES": str(together)}
    program = ["native_sums", "--seed", str(ranks), "--kinds", "8", "--elements", "200"]
    result = offload.run(ranks, program, services=0, env=env, timeout_s=150).ok()
    assert "no difference" in result.out
    assert by_ranks(result) > 0.3 * 8 * 6 * ranks


@pytest.mark.parametrize(("ranks", "nodes"), ((3, 2), (4, 2), (5, 3), (8, 3)))
def test_bits_are_natives_on_several_nodes(offload: Mpi, ranks: int, nodes: int) -> None:
    """Short allreduces. Ranks of a node are not neighbors where there are three nodes."""
    env = ALWAYS | politely(offload) | {"OUTRIGGER_PRETEND_NODES": str(nodes)}
    program = ["native_sums", "--seed", str(ranks + nodes), "--kinds", "40", "--elements", "60"]
    result = offload.run(ranks, program, services=0, env=env, timeout_s=150).ok()
    assert "no difference" in result.out
    assert result.report is not None
    assert {call["call"] for call in result.report["calls"] if call["by_ranks"]} == {"MPI_Allreduce"}
    assert by_ranks(result) > 0.8 * 40 * ranks
    assert native_calls(result, "nan results") > 0


@pytest.mark.parametrize(("ranks", "nodes", "most"), ((4, 2, 1200), (6, 3, 1200), (16, 4, 250), (12, 5, 250)))
def test_bits_are_natives_in_levels(offload: Mpi, ranks: int, nodes: int, most: int) -> None:
    """Allreduces that are too long for each rank to combine all contributions. Twelve ranks are on nodes of two and
    three, so these MPIs, which know of one node, do not add the numbers of a node first."""
    env = ALWAYS | politely(offload) | {"OUTRIGGER_PRETEND_NODES": str(nodes)}
    program = ["native_sums", "--seed", str(ranks), "--kinds", "60", "--calls", "8", "--elements", str(most)]
    result = offload.run(ranks, program, services=0, env=env, timeout_s=150).ok()
    assert "no difference" in result.out
    (file,) = (offload.directory / "cache" / "outrigger").glob("sums-*.txt")
    lines = [line.split() for line in file.read_text().splitlines() if "@levels" in line]
    assert lines
    learned = [line for line in lines if line[-2] != "native"]
    assert bool(learned) == (ranks != 12), lines
    assert (native_calls(result, "order not found") > 0) == (len(learned) < len(lines))


@pytest.mark.parametrize(("ranks", "nodes"), ((4, 1), (4, 2), (8, 4)))
def test_ranks_may_have_different_modes(offload: Mpi, ranks: int, nodes: int) -> None:
    """All ranks of an allreduce must come to the same, whatever each of them computes."""
    env = ALWAYS | politely(offload) | {"OUTRIGGER_PRETEND_NODES": str(nodes)}
    result = offload.run(ranks, ["native_sums", "--modes", "1"], services=0, env=env, timeout_s=60).ok()
    assert "no difference" in result.out
    assert by_ranks(result) >= 4 * ranks


@pytest.mark.parametrize("ranks", (2, 3))
def test_edges(offload: Mpi, ranks: int) -> None:
    """Ranks with nothing to get, and numbers that are in no result."""
    program = ["native_sums", "--edges", "1"]
    result = offload.run(ranks, program, services=0, env=ALWAYS | politely(offload), timeout_s=60).ok()
    assert "no difference" in result.out
    assert by_ranks(result) >= (130 if offload.name == "openmpi" else 30) * ranks


def test_learns_when_calls_repay_it(offload: Mpi) -> None:
    """Few calls of a kind teach nothing; many do."""
    env = {"OUTRIGGER_INTRANODE": "on"} | politely(offload)
    result = offload.run(2, sums(lengths=2, calls=60), services=0, env=env, timeout_s=100).ok()
    assert "no difference" in result.out
    assert by_ranks(result) == 0 and native_calls(result, "order not learned") > 2 * 2 * 40
    result = offload.run(2, sums(lengths=1, calls=1500), services=0, env=env, timeout_s=150).ok()
    assert "no difference" in result.out
    assert native_calls(result, "order not learned") < 2 * 1000


def test_orders_beyond_the_limit_are_learned_again(offload: Mpi) -> None:
    """More lengths than a communicator keeps, twice."""
    program = ["native_sums", "--lengths", "140", "--kinds", "280", "--calls", "2"]
    result = offload.run(2, program, services=0, env=ALWAYS | politely(offload), timeout_s=150).ok()
    assert "no difference" in result.out
    assert by_ranks(result) == 2 * (280 * 2 + 1)


def test_orders_are_kept_and_verified(offload: Mpi) -> None:
    """The second job reads what the first one has learned, the third one finds that it is wrong."""
    program = sums(lengths=20, calls=3)
    learned = ""
    for expected in ("learned", "kept", "verified"):
        result = offload.run(4, program, services=0, env=ALWAYS | politely(offload), timeout_s=100).ok()
        assert "no difference" in result.out
        assert by_ranks(result) == 4 * (20 * 3 + 1), expected
        (file,) = (offload.directory / "cache" / "outrigger").glob("sums-*.txt")
        text = file.read_text()
        assert text.count("MPI_Allreduce") == 20
        if expected == "kept":
            assert text == learned
            file.write_text(re.sub(r"\(\(.*\)\)", "(((3,1),2),0)", text))
        elif expected == "learned":
            learned = text
    assert "((0,1),(2,3))" in text or "(((0,1),2),3)" in text


def orders_in(text: str) -> dict[str, str]:
    """By the words of their keys, without dates."""
    lines = [line.rsplit(" ", 2) for line in text.splitlines()[4:]]
    return {key: value for key, value, _ in lines}


def test_orders_of_each_rank_are_kept(offload: Mpi) -> None:
    """A scan has another order on each rank. Wrong ones in the file are found, and learned again."""
    program = ["native_sums", "--seed", "3", "--kinds", "60"]
    kept = []
    for _ in range(2):
        result = offload.run(3, program, services=0, env=ALWAYS | politely(offload), timeout_s=150).ok()
        assert "no difference" in result.out
        (file,) = (offload.directory / "cache" / "outrigger").glob("sums-*.txt")
        text = file.read_text()
        kept.append(orders_in(text))
        wrong = re.sub(r"\(\(0,1\),2\)|\(0,\(1,2\)\)", "((0,2),1)", text)
        assert wrong != text
        file.write_text(wrong)
    assert kept[0] == kept[1]
    for call in ("MPI_Scan", "MPI_Exscan", "MPI_Reduce_scatter_block"):
        orders = [order for key, order in kept[0].items() if key.startswith(call + "#") and order != "native"]
        assert orders and all(order.count("|") == 2 for order in orders), call


def digest(mpi: Mpi, ranks: int, env: dict[str, str], longest: int = 100_000) -> str:
    program = ["native_sums", "--own-order", "1", "--elements", str(longest)]
    result = mpi.run(ranks, program, services=0, env=env | politely(mpi), timeout_s=100).ok()
    assert by_ranks(result) >= (80 if longest < 1000 else 160) * ranks
    found = re.search(r"digest (\w+)", result.out)
    assert found, result.out
    return found[1]


OWN_ORDER: dict[int, str] = {}
"""Digests by ranks, of whichever MPI was first."""


@pytest.mark.parametrize("ranks", (2, 3, 4))
@pytest.mark.parametrize("way", ("on", "always"))
def test_own_order_is_the_same_everywhere(offload: Mpi, ranks: int, way: str) -> None:
    """All MPIs, and all runs, whether there are trials or not."""
    found = digest(offload, ranks, ANY | {"OUTRIGGER_INTRANODE": way})
    assert found == OWN_ORDER.setdefault(ranks, found)


@pytest.mark.parametrize("nodes", (2, 3))
def test_own_order_of_short_vectors_is_the_same_on_several_nodes(offload: Mpi, nodes: int) -> None:
    on_one = digest(offload, 4, ANY, longest=5)
    assert digest(offload, 4, ANY | {"OUTRIGGER_PRETEND_NODES": str(nodes)}, longest=5) == on_one


@pytest.mark.parametrize("mpi", ("openmpi",), indirect=True)
@pytest.mark.parametrize("ranks", (2, 3))
def test_both_buffers_may_be_one(offload: Mpi, ranks: int) -> None:
    """Ranks agree about the native call, and it finds the contributions as the program gave them."""
    env = ALWAYS | politely(offload)
    result = offload.run(ranks, ["aliased_sums"], services=0, env=env, timeout_s=100).ok()
    assert "all right" in result.out
    assert by_ranks(result) > 50 and native_calls(result, "nan results") > 0
