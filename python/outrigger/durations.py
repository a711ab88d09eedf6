"""Parses times: 90s, 5m, 1h."""

from __future__ import annotations

import re

from outrigger.errors import UserError

_UNITS_S = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smh]?)", re.IGNORECASE)


def parse_duration(option: str, text: str) -> float:
    """In seconds, also without a unit. `option` is named in errors."""
    match = _DURATION.fullmatch(text.strip())
    if match is None or float(match[1]) <= 0:
        raise UserError(f"{option} {text}: write a positive time like 90s, 5m or 1h")
    return float(match[1]) * _UNITS_S[match[2].lower()]
