"""One finding of the doctor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Line:
    """A finding."""

    topic: str
    name: str
    state: State
    """warn: it works, but less well; fail: nothing is offloaded."""
    value: str
    remedy: str = ""
    """Remedy in words; empty if all is well."""


def count(lines: Sequence[Line], state: State) -> int:
    """Number of lines in a state."""
    return sum(line.state == state for line in lines)
