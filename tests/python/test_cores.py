"""Which cores are kept, and where ranks run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrigger.cores import Core, format_cpu_list, parse_cpu_list, place
from outrigger.errors import UserError


@given(st.sets(st.integers(0, 200), min_size=1))
def test_cpu_lists_are_read_back(cpus: set[int]) -> None:
    assert parse_cpu_list(format_cpu_list(sorted(cpus))) == sorted(cpus)


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "1,,2", "0-x"])
def test_what_is_not_a_cpu_list_is_named(text: str) -> None:
    with pytest.raises(UserError, match="is not a list of CPUs"):
        parse_cpu_list(text)


@st.composite
def machines(draw: st.DrawFn) -> list[Core]:
    """Cores of one or two hardware threads."""
    count, threads = draw(st.integers(1, 16)), draw(st.integers(1, 2))
    return [tuple(core + thread * count for thread in range(threads)) for core in range(count)]


@given(machines(), st.integers(1, 64), st.none() | st.integers(1, 64))
def test_placement(cores: list[Core], ranks: int, services: int | None) -> None:
    placement = place(cores, ranks, services)
    kept = [core for core in cores if core[0] in placement.service_cpus]
    # Every core belongs to the ranks or is kept, none to both.
    assert set(placement.rank_cpus).isdisjoint(cpu for core in kept for cpu in core)
    assert len(placement.rank_cpus) + sum(map(len, kept)) == sum(map(len, cores))
    assert placement.rank_cpus
    # The last ones are kept: as many as there are services, but never all.
    assert kept == cores[len(cores) - len(kept) :]
    assert len(kept) == min(services or 1, len(cores) - 1)
    # Ranks have cores of their own exactly when there are enough.
    rank_cores = len(cores) - len(kept)
    assert len(placement.core_of_rank) == (ranks if ranks <= rank_cores else 0)
    assert len(set(placement.core_of_rank)) == len(placement.core_of_rank)
    assert all(set(core) <= set(placement.rank_cpus) for core in placement.core_of_rank)


@given(machines(), st.integers(1, 64))
def test_without_binding_everything_is_the_ranks(cores: list[Core], ranks: int) -> None:
    placement = place(cores, ranks, None, bind=False)
    assert placement.service_cpus == ()
    assert sorted(placement.rank_cpus) == sorted(cpu for core in cores for cpu in core)
    assert placement.core_of_rank == ()
