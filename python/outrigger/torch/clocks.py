"""Compares the clocks of a group's machines with that of its rank 0, for a trace.

    rank 0     question  ->
    rank r               ->  when the question came, and when this answer left
    rank 0     ...
    rank 0     result    ->  the fastest one of several such round trips

Rank r is the first one on its machine. The ranks do that when the group is made, and after operations in which all
ranks meet, so that none waits long for another one. A trace makes no operation fail: ranks that do not answer in time,
or that have ended, are left out from then on.
"""

from __future__ import annotations

import os
import socket
import time
import weakref
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch

from outrigger.torch_layout import MEETING
from outrigger.trace.events import Clock

Record = Callable[[Clock], None]

_ROUNDS = 12
_FIRST_TAG = -(1 << 62)
"""Programs have no negative tags, and barriers only small ones."""
_FIRST_LATER = 16
_DISTANCE = 1024
_LIMIT = timedelta(seconds=2)
_LIMIT_OF_FIRST = timedelta(seconds=5)
"""Rank 0 may wait for ranks of other machines before."""
_IN_TURN = MEETING - {"monitored_barrier"}
"""All ranks have the same order of these."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")

_now_ns = time.monotonic_ns


def own_clock() -> str:
    """A name of the monotonic clock, which processes of the machine share if they are in one time namespace."""
    try:
        machine = _BOOT.read_text().strip()
    except OSError:
        machine = socket.gethostname()
    try:
        return f"{machine} {os.readlink('/proc/self/ns/time')}"
    except OSError:
        return machine


class Comparison:
    """The part of rank 0, or of a rank that is compared with it."""

    def __init__(self, message: Callable[..., Any], rank: int, compared: list[int], record: Record) -> None:
        """`message`: the method by which the group makes a message. `record`: for results of a rank other than 0."""
        self._message = weakref.WeakMethod(message)
        self._rank = rank
        self._others = compared if rank == 0 else [0]
        self._record = record
        self._operations = 0
        self._due = 0
        self._compare(0)

    def note(self, operation: str) -> None:
        """The group begins this operation."""
        if operation not in _IN_TURN:
            return
        self._operations = number = self._operations + 1
        if (number >= _FIRST_LATER and number & (number - 1) == 0) or number % _DISTANCE == 0:
            self._due = number

    def compare_if_due(self) -> None:
        """After an operation, by the thread that has done it."""
        number, self._due = self._due, 0
        if number:
            self._compare(number)

    def _compare(self, number: int) -> None:
        """`number`: of the operation. It is in the tag, as answers may come too late."""
        ask = self._ask if self._rank == 0 else self._answer
        self._others = [other for other in self._others if ask(other, _FIRST_TAG - number)]

    def _ask(self, other: int, tag: int) -> bool:
        """False: this does not work."""
        try:
            found = [self._round_trip(other, tag) for _ in range(_ROUNDS)]
            best = min(found, key=lambda clock: clock.error)
            self._send(other, tag, 1, best.at, best.offset, best.error)
        except Exception:  # the other rank has ended, or the group was destroyed
            return False
        return True

    def _round_trip(self, other: int, tag: int) -> Clock:
        answer = _numbers(0, 0)
        receive = self._make("irecv", answer, other, tag)
        asked = _now_ns()
        self._send(other, tag, 0, 0, 0, 0)
        receive.wait(_LIMIT)
        ended = _now_ns()
        came, left = answer.tolist()
        return Clock(came, (asked - came + ended - left) // 2, (ended - asked - (left - came)) // 2 + 1)

    def _answer(self, other: int, tag: int) -> bool:
        limit = _LIMIT_OF_FIRST
        try:
            while True:
                question = _numbers(0, 0, 0, 0)
                self._make("irecv", question, other, tag).wait(limit)
                came = _now_ns()
                is_result, *result = question.tolist()
                if is_result:
                    self._record(Clock(*result))
                    return True
                self._send(other, tag, came, _now_ns())
                limit = _LIMIT
        except Exception:  # as in _ask()
            return False

    def _send(self, other: int, tag: int, *numbers: int) -> None:
        self._make("isend", _numbers(*numbers), other, tag).wait(_LIMIT)

    def _make(self, function: str, numbers: Any, other: int, tag: int) -> Any:
        message = self._message()
        assert message is not None
        return message(function, numbers, other, tag)


def _numbers(*numbers: int) -> Any:
    return torch.tensor(numbers, dtype=torch.int64, device="cpu")
