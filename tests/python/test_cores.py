"""Lists of CPUs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrigger import binding, cores
from outrigger.cores import format_cpu_list, parse_cpu_list, without_spare
from outrigger.errors import UserError


@given(st.sets(st.integers(0, 200), min_size=1))
def test_cpu_lists_are_read_back(cpus: set[int]) -> None:
    assert parse_cpu_list(format_cpu_list(sorted(cpus))) == sorted(cpus)


def test_ranks_that_leave_no_core_are_said() -> None:
    assert without_spare(3, 4) == ""
    assert without_spare(2, 2).startswith("No spare core: 2 ranks, 2 cores.")
    assert without_spare(2, 2).endswith("a spare core needs 3 cores.")


@pytest.mark.parametrize(("count", "ranks"), [(1, 2), (2, 2), (4, 3), (64, 4)])
def test_a_measurement_leaves_a_core(monkeypatch: pytest.MonkeyPatch, count: int, ranks: int) -> None:
    monkeypatch.setattr(cores, "allowed_cores", lambda: [(cpu,) for cpu in range(count)])
    assert cores.measured_ranks(None) == ranks
    assert cores.measured_ranks(9) == 9 and cores.measured_ranks(1, fewest=1) == 1
    with pytest.raises(UserError, match="-n 1: at least 2 ranks are needed"):
        cores.measured_ranks(1)


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "1,,2", "0-x"])
def test_what_is_not_a_cpu_list_is_named(text: str) -> None:
    with pytest.raises(UserError, match="is not a list of CPUs"):
        parse_cpu_list(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [("5-2", "the range '5-2' ends before it begins"), ("0-99999999999", "no machine has a CPU 999999")],
)
def test_impossible_cpus_are_named(text: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        parse_cpu_list(text)
    with pytest.raises(UserError, match=f"--bind {text}: {why}"):
        binding.parse_bind(text)
