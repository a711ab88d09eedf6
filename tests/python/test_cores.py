"""Lists of CPUs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrigger.cores import format_cpu_list, parse_cpu_list, without_spare
from outrigger.errors import UserError


@given(st.sets(st.integers(0, 200), min_size=1))
def test_cpu_lists_are_read_back(cpus: set[int]) -> None:
    assert parse_cpu_list(format_cpu_list(sorted(cpus))) == sorted(cpus)


def test_ranks_that_leave_no_core_are_said() -> None:
    assert without_spare(3, 4) == ""
    assert without_spare(2, 2).startswith("No spare core: 2 ranks, 2 cores.")
    assert without_spare(2, 2).endswith("a spare core needs 3 cores.")


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "1,,2", "0-x"])
def test_what_is_not_a_cpu_list_is_named(text: str) -> None:
    with pytest.raises(UserError, match="is not a list of CPUs"):
        parse_cpu_list(text)
