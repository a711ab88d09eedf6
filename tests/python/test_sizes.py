"""Sizes as people write them."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrigger.errors import UserError
from outrigger.sizes import format_size, parse_size, parse_sizes


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("4096", 4096), ("16K", 16384), ("16k", 16384), ("1MiB", 1 << 20), ("2 G", 2 << 30)]
)
def test_parse_size(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "0K", "-1", "1.5K", "16T", "K", "16K:"])
def test_what_is_not_a_size_is_named(text: str) -> None:
    with pytest.raises(UserError, match="is not a size"):
        parse_size(text)


@given(st.integers(min_value=1, max_value=1 << 40))
def test_format_is_read_back(size: int) -> None:
    assert parse_size(format_size(size)) == size


@given(st.integers(1, 1 << 30), st.integers(1, 1 << 30))
def test_a_range_doubles_within_its_ends(first: int, last: int) -> None:
    if first > last:
        with pytest.raises(UserError, match="ends before it begins"):
            parse_sizes(f"{first}:{last}")
        return
    sizes = parse_sizes(f"{first}:{last}")
    assert sizes[0] == first
    assert all(b == 2 * a for a, b in itertools.pairwise(sizes))
    assert sizes[-1] <= last < 2 * sizes[-1]


def test_lists_are_sorted_and_without_doubles() -> None:
    assert parse_sizes("1M,16K:64K,32K") == [16384, 32768, 65536, 1 << 20]
