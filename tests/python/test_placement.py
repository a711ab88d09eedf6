"""Tests of outriggerd's placement of ranks, for machines of many shapes. Needs a build with outriggerd."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from outrigger import artifacts, binding
from outrigger.binding import NodeBinding
from outrigger.errors import UserError


@pytest.fixture(scope="module")
def daemon() -> Path:
    try:
        return artifacts.find().daemon
    except UserError as error:
        pytest.skip(str(error))


def place(
    daemon: Path,
    machine: str,
    ranks: int,
    bind: str = "bunch",
    services: int | None = None,
    nodes: int = 1,
    *,
    keep: Sequence[str] = (),
) -> NodeBinding:
    """Asks as if the node were `machine`, in hwloc's words."""
    command = binding.place_command(daemon, bind, services, ranks, nodes, keep=keep)
    return binding.ask(["env", f"HWLOC_SYNTHETIC={machine}", *command])


TWO_BY_EIGHT = "numa:2 core:8 pu:1"


def test_consecutive_cores_and_the_last_is_kept(daemon: Path) -> None:
    node = place(daemon, "numa:1 core:4 pu:2", 3)
    assert [rank.cpus for rank in node.ranks] == [(0, 1), (2, 3), (4, 5)]
    assert node.service_cpus == (6,)
    assert not node.oversubscribed


def test_domains_in_turn_and_services_of_the_same_domain(daemon: Path) -> None:
    node = place(daemon, TWO_BY_EIGHT, 4, "scatter", 2)
    assert [rank.cpus for rank in node.ranks] == [(0,), (8,), (1,), (9,)]
    assert node.service_cpus == (7, 15)
    assert [rank.service for rank in node.ranks] == [0, 1, 0, 1]


def test_ranks_keep_off_the_cpus_of_copiers(daemon: Path) -> None:
    node = place(daemon, "numa:1 core:4 pu:2", 3, keep=[binding.KEEP_NO_CORE, "--copy-cpus", "3"])
    assert [rank.cpus for rank in node.ranks] == [(0, 1), (4, 5), (6, 7)]
    assert node.service_cpus == ()
    with pytest.raises(UserError, match=r"cpu 8 for copies \(OUTRIGGER_COPY_CPUS\) does not exist"):
        place(daemon, "numa:1 core:4 pu:2", 3, keep=[binding.KEEP_NO_CORE, "--copy-cpus", "8"])


def test_copiers_may_share_their_cpus_with_other_jobs(daemon: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep = [binding.KEEP_NO_CORE, "--copy-cpus", "7", "--others-ranks", "0-1,7"]
    assert [rank.cpus for rank in place(daemon, "numa:1 core:8 pu:1", 3, keep=keep).ranks] == [(2,), (3,), (4,)]
    monkeypatch.setenv("OUTRIGGER_COPY_CPUS", "9")  # without DPUs there are no copiers
    assert place(daemon, "numa:1 core:2 pu:1", 1).service_cpus == (1,)


def test_blocks_of_cores_for_threads(daemon: Path) -> None:
    node = place(daemon, TWO_BY_EIGHT, 2, "hybrid", 2)
    assert [rank.cpus for rank in node.ranks] == [tuple(range(7)), tuple(range(8, 15))]
    assert [rank.cores for rank in node.ranks] == [7, 7]


def test_lists_are_taken_as_given_and_leave_the_rest(daemon: Path) -> None:
    node = place(daemon, TWO_BY_EIGHT, 2, "14,15")
    assert [rank.cpus for rank in node.ranks] == [(14,), (15,)]
    assert node.service_cpus == (13,)
    node = place(daemon, TWO_BY_EIGHT, 2, "0-3:4-15")
    assert [len(rank.cpus) for rank in node.ranks] == [4, 12]
    assert node.service_cpus == ()


@pytest.mark.parametrize(
    ("bind", "message"),
    [
        ("0,1", "places 2 of the 4 ranks of this node"),
        ("0,1,2,99", "cpu 99 does not exist"),
        ("0-1:2-3:4:", "places 3 of the 4 ranks"),
    ],
)
def test_lists_that_do_not_fit_are_refused(daemon: Path, bind: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        place(daemon, TWO_BY_EIGHT, 4, bind)


def test_more_ranks_than_cores_share_those_of_their_domain(daemon: Path) -> None:
    node = place(daemon, "numa:2 core:2 pu:1", 4, services=2)
    assert [rank.cpus for rank in node.ranks] == [(0,), (0,), (2,), (2,)]
    assert node.oversubscribed
    assert [rank.service for rank in node.ranks] == [0, 0, 1, 1]


def test_a_core_that_ranks_need_is_not_kept_where_only_spare_ones_are(daemon: Path) -> None:
    node = place(daemon, "numa:2 core:2 pu:1", 4, services=2, keep=[binding.KEEP_SPARE_ONLY])
    assert [rank.cpus for rank in node.ranks] == [(0,), (1,), (2,), (3,)]
    assert not node.service_cpus
    node = place(daemon, "numa:2 core:2 pu:1", 3, services=2, keep=[binding.KEEP_SPARE_ONLY])
    assert [rank.cpus for rank in node.ranks] == [(0,), (1,), (2,)]
    assert node.service_cpus == (3,)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(
    st.integers(1, 4), st.integers(1, 12), st.integers(1, 2), st.integers(1, 40),
    st.sampled_from(["bunch", "scatter", "hybrid"]), st.none() | st.integers(1, 9), st.integers(1, 4),
)  # fmt: skip
def test_any_node(
    daemon: Path, domains: int, cores: int, threads: int, ranks: int, bind: str, services: int | None, nodes: int
) -> None:
    nodes = min(nodes, ranks)
    node = place(daemon, f"numa:{domains} core:{cores} pu:{threads}", ranks, bind, services, nodes)
    every = {core for domain in node.domains for core in domain}
    kept = {core for core in every if set(core) & set(node.service_cpus)}
    # Ranks have whole cores that are not kept, one core at least is left for them.
    assert len(kept) < len(every) and len(kept) == len(node.service_cpus)
    assert len(node.ranks) == ranks
    for rank in node.ranks:
        mine = {core for core in every if set(core) & set(rank.cpus)}
        assert {cpu for core in mine for cpu in core} == set(rank.cpus)
        assert len(mine) == rank.cores >= 1
        assert not mine & kept
        # All in one domain.
        assert any(mine <= set(domain) for domain in node.domains)
    # They share exactly when there are too few cores.
    assert node.oversubscribed == (ranks > len(every) - len(kept))
    if not node.oversubscribed:
        assert len({cpu for rank in node.ranks for cpu in rank.cpus}) == sum(len(rank.cpus) for rank in node.ranks)
    # As many cores are kept as were asked for, or one for eight ranks, as far as there are enough.
    of_each = -(-ranks // nodes)
    assert len(kept) == min((services or -(-of_each // 8)) * nodes, ranks, len(every) - 1)
    # Each service process has ranks of one node only, about equally many in each node.
    for number in range(nodes):
        served = [rank.service for rank in node.ranks if rank.node == number]
        loads = [served.count(service) for service in set(served)]
        assert loads and max(loads) - min(loads) <= 1
    assert {rank.service for rank in node.ranks} == set(range(len(node.services)))


def drawing(node: NodeBinding, width: int = 100, dpu: str = "") -> list[str]:
    text = io.StringIO()
    binding.draw(Console(file=text, width=width, highlight=False), "n0", node, 32, dpu)
    return text.getvalue().splitlines()


def test_the_drawing_fits_and_names_everybody(daemon: Path) -> None:
    for width in (60, 100, 130):
        lines = drawing(place(daemon, "numa:2 core:24 pu:2", 32), width)
        assert max(map(len, lines)) <= width
        text = "\n".join(lines)
        for rank in range(32, 64):
            assert f" {rank} " in text
        assert all(f"SP{service} on CPU" in text for service in range(4))
        assert "32 ranks (32-63), 4 service processes, 48 cores" in text


def test_with_a_dpu_the_host_has_ranks_only(daemon: Path) -> None:
    text = "\n".join(
        drawing(place(daemon, "numa:1 core:4 pu:1", 4, keep=[binding.KEEP_NO_CORE]), dpu="DPU bf1: 1 service process")
    )
    assert "4 ranks (32-35), 4 cores" in text and "DPU bf1: 1 service process" in text
    assert "SP0" not in text and "each rank has 1 core" in text


def test_ranks_that_share_are_drawn_so(daemon: Path) -> None:
    text = "\n".join(drawing(place(daemon, "numa:1 core:2 pu:1", 4)))
    assert "32-35" in text
    assert "ranks share cores" in text
    assert "ranks are not bound" in "\n".join(drawing(place(daemon, "numa:1 core:2 pu:1", 4, "none")))


def test_an_older_outriggerd_is_named(tmp_path: Path) -> None:
    old = tmp_path / "outriggerd"
    old.write_text("#!/bin/sh\necho 'The following arguments were not expected: place' >&2\nexit 109\n")
    old.chmod(0o755)
    with pytest.raises(UserError, match=r"is older than this command.*\./dev build"):
        binding.ask(binding.place_command(old, "bunch", None, 1))
    old.write_text("#!/bin/sh\necho '{\"version\": 2}'\n")
    with pytest.raises(UserError, match="has version 2, this command reads version 1"):
        binding.ask(binding.place_command(old, "bunch", None, 1))


@pytest.mark.parametrize("text", ["bunch", "scatter", "hybrid", "none", "0,2,4-7", "0-1:2-3", "3"])
def test_ways_to_bind(text: str) -> None:
    assert binding.parse_bind(text) == text


@pytest.mark.parametrize("text", ["", "bunches", "0,x", "0::1", "0-"])
def test_what_is_no_way_to_bind_is_named(text: str) -> None:
    with pytest.raises(UserError, match=f"--bind {text}: write bunch, scatter"):
        binding.parse_bind(text)
