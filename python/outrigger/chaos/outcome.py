"""Result of a run with struck service processes: by its exit code, its output, its report and its log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

_LINE = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}) (\w+)\[(\d+)\] (\w+): (.*)$")
_TAKEN = re.compile(r"replaced another service process: takes (\d+) operations again")


@dataclass(frozen=True)
class Recovery:
    """From a kill until a replacement had taken over everything."""

    took_s: float
    operations: int
    """Outstanding operations."""


@dataclass(frozen=True)
class Outcome:
    """Result of one run."""

    seed: str
    kills: int
    stops: int
    cuts: int
    took_s: float
    recoveries: tuple[Recovery, ...]
    wrong: str | None
    """The error; None: no error."""


def takeovers(log: str) -> list[tuple[float, int]]:
    """Times of replacements (seconds since the epoch), with the numbers of operations."""
    found = []
    for line in log.splitlines():
        if (match := _LINE.match(line)) and (taken := _TAKEN.match(match[5])):
            moment = datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S.%f").timestamp()
            found.append((moment, int(taken[1])))
    return found


def recoveries(kills: Sequence[float], log: str) -> tuple[Recovery, ...]:
    """Each takeover belongs to the earliest unanswered kill before it."""
    left = sorted(kills)
    found = []
    for moment, operations in sorted(takeovers(log)):
        before = [kill for kill in left if kill <= moment]
        if not before:
            continue
        left.remove(before[0])
        found.append(Recovery(moment - before[0], operations))
    return tuple(found)


def asked_for(log: str) -> int:
    """How many service processes had others take their places because connections of theirs had broken."""
    return sum(" connection to service process " in line and "it is replaced" in line for line in log.splitlines())
