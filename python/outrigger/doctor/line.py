"""What is said of one thing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Line:
    """One thing that was looked at."""

    topic: str
    name: str
    state: State
    """warn: it works, but less well; fail: nothing is offloaded."""
    value: str
    remedy: str = ""
    """What to do, in words; empty where all is well."""


def count(lines: Sequence[Line], state: State) -> int:
    """How many are so."""
    return sum(line.state == state for line in lines)
