"""Lists of CPUs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrigger.cores import format_cpu_list, parse_cpu_list
from outrigger.errors import UserError


@given(st.sets(st.integers(0, 200), min_size=1))
def test_cpu_lists_are_read_back(cpus: set[int]) -> None:
    assert parse_cpu_list(format_cpu_list(sorted(cpus))) == sorted(cpus)


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "1,,2", "0-x"])
def test_what_is_not_a_cpu_list_is_named(text: str) -> None:
    with pytest.raises(UserError, match="is not a list of CPUs"):
        parse_cpu_list(text)
