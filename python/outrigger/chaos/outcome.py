"""How a run has fared whose service processes were struck: by its exit code, its output, its report and its log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

_LINE = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}) (\w+)\[(\d+)\] (\w+): (.*)$")
_TAKEN = re.compile(r"replaced another service process: takes (\d+) operations again")


@dataclass(frozen=True)
class Recovery:
    """From a kill to the moment at which another service process had taken over everything."""

    took_s: float
    operations: int
    """That were under way."""


@dataclass(frozen=True)
class Outcome:
    """Of one run."""

    seed: str
    kills: int
    stops: int
    cuts: int
    took_s: float
    recoveries: tuple[Recovery, ...]
    wrong: str | None
    """Why it is not as it should be; None: it is."""


def takeovers(log: str) -> list[tuple[float, int]]:
    """When a service process had taken another's place (seconds since the epoch), and with how many operations."""
    found = []
    for line in log.splitlines():
        if (match := _LINE.match(line)) and (taken := _TAKEN.match(match[5])):
            moment = datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S.%f").timestamp()
            found.append((moment, int(taken[1])))
    return found


def recoveries(kills: Sequence[float], log: str) -> tuple[Recovery, ...]:
    """Each takeover belongs to the earliest kill before it that has none yet."""
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
