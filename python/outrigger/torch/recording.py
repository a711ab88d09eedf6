"""Records the operations of this process for a trace, in a file that survives it (torch_events.py).

A trace never makes an operation fail: what cannot be written is dropped.
"""

from __future__ import annotations

import itertools
import json
import mmap
import os
import struct
import threading
import time
import uuid
import warnings
from dataclasses import asdict, replace
from pathlib import Path

from outrigger import torch_events
from outrigger.settings import TRACE
from outrigger.torch.clocks import own_clock
from outrigger.torch_events import EVENT_BYTES, EVENTS_AT_BYTE, FAILED, Field, Kind, Recorder, Slot
from outrigger.torch_layout import GROUP_BYTES, HEAD_BYTES, NAME_BYTES, NUMBER_BYTES, Group, Process

CALL, POST, WAIT, OPERATION, MESSAGE, SERVED, CLOCK = map(int, Kind)

_EVENT = struct.Struct("=8q")
_ENDED, _PLACE, _KIND = int(Field.ENDED), int(Field.PLACE), int(Field.KIND)
_SLOTS_AT = HEAD_BYTES // NUMBER_BYTES
_CHUNK_EVENTS = 1 << 12
"""Space is reserved for so many at a time, as a write to a mapped hole of a full file system kills the process."""


class Events:
    """Events of this process."""

    def __init__(self, directory: Path, process: Process) -> None:
        """Raises OSError."""
        self._path = directory / f"rank{process.rank}-{uuid.uuid4().hex}{torch_events.SUFFIX}"
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(self._descriptor, 0, EVENTS_AT_BYTE)
            os.ftruncate(self._descriptor, torch_events.FILE_BYTES)
            self._file = mmap.mmap(self._descriptor, torch_events.FILE_BYTES)
        except OSError:
            self._path.unlink(missing_ok=True)
            os.close(self._descriptor)
            raise
        self._numbers = memoryview(self._file).cast("q")
        self._places = itertools.count()
        self._requests = itertools.count(1)
        self._room = 0
        self._limit = torch_events.MOST_EVENTS
        self._lock = threading.Lock()
        self._numbers[_SLOTS_AT + Slot.BEGAN] = time.monotonic_ns()
        offset = time.time_ns() - time.monotonic_ns()
        head = Recorder(version=torch_events.VERSION, process=process, clock=own_clock(), wall_offset=offset)
        self._write_text(0, HEAD_BYTES, json.dumps(asdict(head)).encode())

    def _write_text(self, at: int, room: int, text: bytes) -> bool:
        """False: there is no room."""
        if len(text) >= room:
            return False
        self._file[at : at + len(text)] = text
        return True

    def name_group(self, number: int, group: Group) -> None:
        """Describes a group, without its ranks if these need too much room."""
        at = torch_events.GROUPS_AT_BYTE + number * GROUP_BYTES
        if not self._write_text(at, GROUP_BYTES, json.dumps(asdict(group)).encode()):
            self._write_text(at, GROUP_BYTES, json.dumps(asdict(replace(group, ranks=()))).encode())

    def name_row(self, number: int, name: str) -> None:
        """Operation and type of a row."""
        text = name.encode()[:NAME_BYTES]
        at = torch_events.NAMES_AT_BYTE + number * NAME_BYTES
        self._file[at : at + len(text)] = text

    def ended(self, time_ns: int) -> None:
        """The process has destroyed its groups, or ends."""
        self._numbers[_SLOTS_AT + Slot.ENDED] = time_ns

    def begins_again(self) -> None:
        """It has made another group."""
        self.ended(0)

    def request(self) -> int:
        """A number for an asynchronous operation or a message."""
        return next(self._requests)

    def begin(
        self, kind: int, row: int, began: int, count: int, request: int = 0, place: int = 0, peer: int = 0
    ) -> int:
        """Records the begin of an event. `row`: with the group, as in the file. Returns a number for end()."""
        number = next(self._places)
        if number >= self._room and not self._reserve(number):
            return 0
        at = EVENTS_AT_BYTE + number * EVENT_BYTES
        _EVENT.pack_into(self._file, at, began, 0, count, request, place, peer, row, kind)
        return at // NUMBER_BYTES

    def end(self, event: int, ended: int, *, failed: bool = False) -> None:
        """Records the end of an event."""
        if event:
            self._numbers[event + _ENDED] = ended
            if failed:
                self._numbers[event + _KIND] |= FAILED

    def set_place(self, event: int, place: int) -> None:
        """Records the position of an operation."""
        if event:
            self._numbers[event + _PLACE] = place

    def _reserve(self, number: int) -> bool:
        """Makes room up to this event. False: it is dropped."""
        with self._lock:
            while number >= self._room and self._room < self._limit:
                at = EVENTS_AT_BYTE + self._room * EVENT_BYTES
                try:
                    os.posix_fallocate(self._descriptor, at, _CHUNK_EVENTS * EVENT_BYTES)
                    self._room += _CHUNK_EVENTS
                except OSError:
                    self._limit = self._room
            if number < self._room:
                return True
            self._numbers[_SLOTS_AT + Slot.DROPPED] += 1
            return False


def start(directory: Path | None, process: Process) -> Events | None:
    """Events of this process; None: none are wanted, or they cannot be written."""
    if directory is None:
        return None
    try:
        return Events(directory, process)
    except (OSError, ValueError) as error:
        warnings.warn(
            f"Outrigger: no trace: {TRACE}={directory}: cannot write there: {getattr(error, 'strerror', error)}; name "
            "an existing directory with free space",
            stacklevel=2,
        )
        return None
