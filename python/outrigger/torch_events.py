"""The file in which a process of a PyTorch job records its operations for a trace: written by the process, read by
others.

The process maps the file, so its events survive however it ends. Numbers are 64 bits long.

    head      HEAD_BYTES: what is known of the process, as JSON with zeros behind it
    slots     SLOTS numbers of the process
    groups    MOST_GROUPS times GROUP_BYTES: a process group, as JSON
    names     MOST_ROWS times NAME_BYTES: operation and type of a row of its counts (torch_layout.py)
    events    MOST_EVENTS times EVENT_NUMBERS numbers, with holes where none has been written
"""

from __future__ import annotations

import dataclasses
from enum import IntEnum

from outrigger.torch_layout import GROUP_BYTES, HEAD_BYTES, MOST_GROUPS, MOST_ROWS, NAME_BYTES, NUMBER_BYTES, Process

VERSION = 2
SUFFIX = ".events"

SLOTS = 8
EVENT_NUMBERS = 8
EVENT_BYTES = EVENT_NUMBERS * NUMBER_BYTES
MOST_EVENTS = 1 << 18
"""Further events are dropped and counted."""

GROUPS_AT_BYTE = HEAD_BYTES + SLOTS * NUMBER_BYTES
NAMES_AT_BYTE = GROUPS_AT_BYTE + MOST_GROUPS * GROUP_BYTES
EVENTS_AT_BYTE = NAMES_AT_BYTE + MOST_ROWS * NAME_BYTES
FILE_BYTES = EVENTS_AT_BYTE + MOST_EVENTS * EVENT_BYTES


class Slot(IntEnum):
    """Numbers of a process. Times are nanoseconds of the monotonic clock."""

    BEGAN = 0
    """Time of its first group."""
    ENDED = 1
    """Time when it had destroyed all groups, or when Python ended it. 0: neither."""
    DROPPED = 2
    """Events for which there was no room."""


class Kind(IntEnum):
    """Kinds of events."""

    CALL = 1
    """A blocking call."""
    POST = 2
    """The call of an asynchronous operation."""
    WAIT = 3
    OPERATION = 4
    """An asynchronous operation, from its begin in the group's turn to its end."""
    MESSAGE = 5
    """From the call to the first wait or test that sees its end."""
    SERVED = 6
    """The group has a service process, whose number is in place of the bytes."""
    CLOCK = 7
    """At its begin, the clock of the group's rank 0 was ahead of this one by what is in place of the bytes. The largest
    error is in that of the position."""


class Field(IntEnum):
    """Numbers of an event."""

    BEGAN = 0
    ENDED = 1
    """0: it has not ended."""
    BYTES = 2
    REQUEST = 3
    """Number of the asynchronous operation or message in the process, from 1. 0: a blocking call."""
    PLACE = 4
    """Position among the group's operations of this name, from 1; 0: not begun. For a message its tag."""
    PEER = 5
    """For a message: rank in the group, or ANY_PEER."""
    ROW = 6
    """Number of the row, and from bit GROUP_SHIFT on the group's number."""
    KIND = 7
    """Written last. 0: nothing, or the process ended while it wrote."""


GROUP_SHIFT = 16
FAILED = 1 << 8
"""Added to the kind."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recorder:
    """The head of a file."""

    version: int
    process: Process
    clock: str
    """A name of the monotonic clock, which all processes have that share it."""
    wall_offset: int
    """Nanoseconds to add for the time since 1970."""
