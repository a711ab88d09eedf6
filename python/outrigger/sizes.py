"""Parses sizes in bytes: 16K, 1M, 4096, and ranges of powers of two, 16K:1M."""

from __future__ import annotations

import re

from outrigger.errors import UserError

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_SIZE = re.compile(r"(\d+)\s*([KMG]?)(?:i?B)?", re.IGNORECASE)


def parse_size(text: str) -> int:
    """Number of bytes; 1K is 1024."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or int(match[1]) == 0:
        raise UserError(f"'{text}' is not a size; write a positive number of bytes, with K, M or G if you like: 64K")
    return int(match[1]) * _UNITS[match[2].upper()]


def format_size(size: int) -> str:
    """Shortest exact form of `size`: 65536 is 64K."""
    for unit in ("G", "M", "K"):
        if size and size % _UNITS[unit] == 0:
            return f"{size // _UNITS[unit]}{unit}"
    return str(size)


def parse_sizes(text: str) -> list[int]:
    """A list of sizes and ranges, 4K,16K:1M: a range doubles from its first to its last size."""
    sizes: list[int] = []
    for item in text.split(","):
        first, colon, last = item.partition(":")
        if not colon:
            sizes.append(parse_size(item))
            continue
        size, end = parse_size(first), parse_size(last)
        if size > end:
            raise UserError(f"the range of sizes '{item}' ends before it begins")
        while size <= end:
            sizes.append(size)
            size *= 2
    return sorted(set(sizes))
