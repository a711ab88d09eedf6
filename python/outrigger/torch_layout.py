"""The file in which a process of a PyTorch job counts its operations: written by the process, read by others.

The process maps the file, so its counts survive however it ends. With live data alone the file has no name. Numbers are
64 bits long.

    head      HEAD_BYTES: what is known of the process, as JSON with zeros behind it
    slots     SLOTS numbers of the process
    groups    MOST_GROUPS times GROUP_BYTES: a process group, as JSON
    present   MOST_GROUPS times PRESENT_NUMBERS numbers: what each group does now
    waits     MOST_WAITS times WAIT_NUMBERS numbers: threads that wait for messages
    rows      MOST_ROWS times ROW_NUMBERS numbers
    names     MOST_ROWS times NAME_BYTES: operation and type of a row, with a space between them
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from enum import IntEnum

VERSION = 2
SUFFIX = ".counts"

HEAD_BYTES = 4096
SLOTS = 8
MOST_GROUPS = 64
"""Further groups share the last entry."""
GROUP_BYTES = 1024
PRESENT_NUMBERS = 8
MOST_WAITS = 8
"""Further threads are not shown."""
WAIT_NUMBERS = 8
MOST_ROWS = 1024
"""Further kinds of calls share the last row."""
ROW_NUMBERS = 16
NAME_BYTES = 64
NUMBER_BYTES = 8

MEETING = frozenset({
    "all_reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor", "all_to_all",
    "all_to_all_single", "barrier", "monitored_barrier",
})  # fmt: skip
"""Operations that no rank leaves before the last one has come."""

SEVERAL = -1
"""In place of a group's number, in a row that several groups share."""

SLOTS_AT = HEAD_BYTES // NUMBER_BYTES
"""As ROWS_AT, the index of a number."""
GROUPS_AT_BYTE = HEAD_BYTES + SLOTS * NUMBER_BYTES
PRESENT_AT = (GROUPS_AT_BYTE + MOST_GROUPS * GROUP_BYTES) // NUMBER_BYTES
WAITS_AT = PRESENT_AT + MOST_GROUPS * PRESENT_NUMBERS
ROWS_AT = WAITS_AT + MOST_WAITS * WAIT_NUMBERS
NAMES_AT_BYTE = (ROWS_AT + MOST_ROWS * ROW_NUMBERS) * NUMBER_BYTES
FILE_BYTES = NAMES_AT_BYTE + MOST_ROWS * NAME_BYTES

LIVE_NAME = "outrigger-torch"
"""A process with such a file has an abstract socket LIVE_NAME:PID:DESCRIPTOR, by which others find it."""


class Slot(IntEnum):
    """Numbers of a process. Times are nanoseconds of the monotonic clock."""

    STATE = 0
    BEGAN = 1
    LAST = 2
    """End of the last call."""
    ENDED = 3
    GROUPS = 4
    ROWS = 5
    CURRENT = 6
    """Index of the row of the blocking call in which the process is, or which has failed; 0: none."""
    THREADS = 7
    """Threads of the program that have called operations."""


class Present(IntEnum):
    """Numbers of what a group does, one operation at a time."""

    ROW = 0
    """Index of the operation's row; 0: none so far."""
    STATE = 1
    """Twice the position among the operations of this name in this group, from 1. One more: it has not ended."""
    SINCE = 2
    """Time of its begin, or of its end."""
    WAITS = 3
    """Threads in wait() of an asynchronous operation of the group."""
    SERVICE = 4
    """Its service process; 0: none."""
    WAIT_SINCE = 5
    """Time of the begin of the last of these waits."""


class Wait(IntEnum):
    """Numbers of a thread that waits for a message."""

    ROW = 0
    STATE = 1
    """Twice the number of waits so far. One more: the last one has not ended."""
    SINCE = 2
    PEER = 3
    """Rank in the group; ANY_PEER: any."""
    TAG = 4


ANY_PEER = -1


class State(IntEnum):
    """How far a process has come."""

    RUNNING = 0
    DESTROYED = 1
    """It has destroyed all its groups."""
    EXITED = 2
    """Python has ended it."""


class Form(IntEnum):
    """How an operation is called."""

    BLOCKING = 0
    ASYNC = 1
    MESSAGE = 2


class Number(IntEnum):
    """Numbers of a row. Times are sums in nanoseconds."""

    FORM = 0
    GROUP = 1
    LEAST_BYTES = 2
    MOST_BYTES = 3
    CALLS = 4
    BYTES = 5
    CALL_NS = 6
    """In the calls, to their returns."""
    FAILED = 7
    COMPLETED = 8
    """Asynchronous ones only, as all that follow."""
    FLIGHT_NS = 9
    """From the call to the completion."""
    WAITED = 10
    """Completed ones for which the program has called wait()."""
    WAITED_FLIGHT_NS = 11
    WAIT_NS = 12
    """Blocked in wait()."""
    HIDDEN_NS = 13
    """Part of WAITED_FLIGHT_NS in which the calling thread was in no call and in no wait()."""
    FUTURES = 14
    """Those whose future was taken. Waits for a future are not seen."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Process:
    """The head of a file."""

    version: int
    rank: int
    """In the job, as those of a group."""
    world_size: int
    host: str
    pid: int
    local_rank: int | None
    local_world_size: int | None
    restarts: int | None
    """How often torchrun had restarted the ranks. None: not under torchrun."""
    attempt: str
    """A name that all ranks of an attempt share."""
    started: float
    """Seconds since 1970."""
    program: str
    outrigger: str
    torch: str
    python: str
    node: int = 0
    """Number of this node under torchrun."""
    nodes: int = 1


Run = tuple[int, int, int]
"""Numbers with one distance: the first, the last and the distance."""


def runs(numbers: Iterable[int]) -> tuple[Run, ...]:
    """Few of them for the groups that programs make: neighbours, or each n-th rank."""
    found: list[Run] = []
    for number in sorted(numbers):
        if found:
            first, last, step = found[-1]
            if first == last or number - last == step:
                found[-1] = (first, number, number - last)
                continue
        found.append((number, number, 1))
    return tuple(found)


def numbers_of(found: Sequence[Run]) -> list[int]:
    """The numbers in runs."""
    return [number for first, last, step in found for number in range(first, last + 1, step)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Group:
    """A process group."""

    name: str
    """The same on all its ranks, and on no others."""
    label: str
    """As torch calls it."""
    size: int
    ranks: tuple[Run, ...]
    """Ranks of the job. Empty: all if `size` is that of the job, or else unknown."""


def size_class(count: int) -> int:
    """A number for sizes that share a row: 0, 1 to 3, 4 to 15, 16 to 63 bytes, and so on."""
    return (count.bit_length() + 1) >> 1
