"""Counts the operations of this process for the report, in a file that survives it, shows them live, and traces them.

The file is described in torch_layout.py. Counts are made by the threads that call, and by those of the groups. All take
a lock for a few additions.
"""

from __future__ import annotations

import atexit
import json
import mmap
import multiprocessing.util
import os
import platform
import socket
import sys
import threading
import time
import uuid
import warnings
import weakref
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import outrigger
from outrigger import torch_layout as layout
from outrigger.formats import printable
from outrigger.settings import LIVE, REPORT, TRACE
from outrigger.torch import recording
from outrigger.torch.clocks import Comparison, own_clock
from outrigger.torch_events import GROUP_SHIFT
from outrigger.torch_layout import Form, Group, Number, Present, Process, Slot, State, Wait
from outrigger.trace.events import Clock

now_ns = time.monotonic_ns
BLOCKING, ASYNC, MESSAGE = map(int, Form)

Job = Callable[[], None]
Kind = tuple[int, int, int, int, int]
"""Calls with the same bytes: indices of their row and of three of its numbers, and the bytes."""
_MOST_KNOWN = 4096
_LONGEST_NAME = 200
_LONGEST_LABEL = 64
_ROW = layout.ROW_NUMBERS
_STATE, _BEGAN, _LAST, _ENDED, _GROUPS, _ROWS, _CURRENT, _THREADS = (layout.SLOTS_AT + slot for slot in Slot)
_CALLS, _BYTES, _CALL_NS, _FAILED = map(int, (Number.CALLS, Number.BYTES, Number.CALL_NS, Number.FAILED))
_COMPLETED, _FLIGHT_NS, _FUTURES = map(int, (Number.COMPLETED, Number.FLIGHT_NS, Number.FUTURES))
_WAITED, _WAITED_FLIGHT_NS = int(Number.WAITED), int(Number.WAITED_FLIGHT_NS)
_WAIT_NS, _HIDDEN_NS = int(Number.WAIT_NS), int(Number.HIDDEN_NS)


def _number(name: str) -> int | None:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else None


def _head(rank: int, world_size: int, attempt: str) -> Process:
    return Process(
        version=layout.VERSION,
        rank=rank,
        world_size=world_size,
        host=socket.gethostname(),
        pid=os.getpid(),
        local_rank=_number("LOCAL_RANK"),
        local_world_size=_number("LOCAL_WORLD_SIZE"),
        restarts=_number("TORCHELASTIC_RESTART_COUNT"),
        attempt=attempt,
        started=time.time(),
        program=printable(Path(sys.argv[0]).name[:_LONGEST_NAME]) if sys.argv else "",
        outrigger=outrigger.__version__,
        torch=torch.__version__,
        python=platform.python_version(),
        node=_number("GROUP_RANK") or 0,
        nodes=_number("GROUP_WORLD_SIZE") or 1,
    )


def _new_file(directory: Path, rank: int) -> int:
    """A file with a name of its own. Its blocks are allocated, so a full place is an error here and not in a call."""
    path = directory / f"rank{rank}-{uuid.uuid4().hex}{layout.SUFFIX}"
    opened = -1
    try:
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.posix_fallocate(opened, 0, layout.FILE_BYTES)
        return opened
    except OSError as error:
        if opened >= 0:
            path.unlink(missing_ok=True)
            os.close(opened)
        raise RuntimeError(
            f"Outrigger: {REPORT}={directory}: cannot write there: {error.strerror}; name an existing "
            "directory with free space, or unset it"
        ) from error


def _nameless_file() -> int:
    """In memory."""
    opened = os.memfd_create(layout.LIVE_NAME, os.MFD_CLOEXEC)
    os.posix_fallocate(opened, 0, layout.FILE_BYTES)
    return opened


def _sign(descriptor: int) -> socket.socket | None:
    """A name by which others find the file. None: it cannot be had, so the job is not shown live."""
    sign = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        sign.bind(f"\0{layout.LIVE_NAME}:{os.getpid()}:{descriptor}".encode())
    except OSError:
        sign.close()
        return None
    return sign


_current: ProcessCounts | None = None
_threads: weakref.WeakSet[Blocked] = weakref.WeakSet()
"""Those of the program that have called operations."""


class Blocked:
    """How long a thread was blocked in calls and in wait(). Other threads may read it."""

    __slots__ = ("__weakref__", "state")

    def __init__(self) -> None:
        self.state = (0, 0)
        """The sum, and the begin of the present block or 0. One object, so it is read at once."""

    def enter(self, begun_ns: int) -> tuple[int, int]:
        """Begins a block. A block inside another one adds nothing."""
        outer = self.state
        if outer[1] == 0:
            self.state = (outer[0], begun_ns)
        return outer

    def leave(self, outer: tuple[int, int], begun_ns: int, ended_ns: int) -> None:
        """`outer` is what enter() has returned."""
        self.state = outer if outer[1] else (outer[0] + ended_ns - begun_ns, 0)

    def until(self, end_ns: int) -> int:
        """The sum at this time, which is now."""
        total, begun_ns = self.state
        return total + end_ns - begun_ns if begun_ns else total


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.blocked = Blocked()
        _threads.add(self.blocked)
        if _current is not None:
            _current.count_threads()


_of_thread = _OfThread()


def blocked_here() -> Blocked:
    """That of the calling thread."""
    return _of_thread.blocked


class ProcessCounts:
    """The counts of this process."""

    def __init__(
        self, directory: Path | None, rank: int, world_size: int, attempt: str, trace: Path | None = None
    ) -> None:
        """`directory` None: no report. `trace`: the directory of a trace, if one is wanted."""
        self._descriptor = _nameless_file() if directory is None else _new_file(directory, rank)
        self._file = mmap.mmap(self._descriptor, layout.FILE_BYTES)
        self.numbers = memoryview(self._file)[: layout.NAMES_AT_BYTE].cast("q")
        self.free_waits = list(range(layout.WAITS_AT, layout.ROWS_AT, layout.WAIT_NUMBERS))
        self.lock = threading.Lock()
        self._rows: dict[tuple[int, int, str, str, int], int] = {}
        self._live_groups = 0
        self.comparing_groups = 0
        """Groups that compare the clock of this machine for a trace."""
        self._pid = os.getpid()
        self.numbers[_BEGAN] = self.numbers[_LAST] = now_ns()
        head = _head(rank, world_size, attempt)
        self._write_json(0, layout.HEAD_BYTES, asdict(head))
        self.events = recording.start(trace, head)
        self.count_threads()
        self._sign = _sign(self._descriptor)
        atexit.register(self._exited)
        # A process of multiprocessing does not run the functions of atexit.
        multiprocessing.util.Finalize(None, self._exited, exitpriority=0)

    def _write_json(self, at: int, room: int, data: dict[str, Any]) -> bool:
        """False: there is no room."""
        text = json.dumps(data).encode()
        if len(text) >= room:
            return False
        self._file[at : at + len(text)] = text
        return True

    def _write_group(self, number: int, group: Group) -> None:
        """Without its ranks if these need too much room."""
        at, room = layout.GROUPS_AT_BYTE + number * layout.GROUP_BYTES, layout.GROUP_BYTES
        if not self._write_json(at, room, asdict(group)):
            self._write_json(at, room, asdict(replace(group, ranks=())))

    def count_threads(self) -> None:
        """Also those that have ended since the last look."""
        self.numbers[_THREADS] = len(_threads)

    def add_group(self, group: Group) -> int:
        """Its number."""
        with self.lock:
            number: int = min(self.numbers[_GROUPS], layout.MOST_GROUPS - 1)
            is_last = number == layout.MOST_GROUPS - 1
            kept = Group(name="", label="further groups", size=0, ranks=()) if is_last else group
            self._write_group(number, kept)
            if self.events is not None:
                self.events.name_group(number, kept)
                self.events.begins_again()
            self.numbers[_GROUPS] = number + 1
            self._live_groups += 1
            self.numbers[_STATE] = State.RUNNING
        return number

    def group_ended(self) -> None:
        """The program has destroyed a group."""
        with self.lock:
            self._live_groups -= 1
            if self._live_groups == 0:
                self._end(State.DESTROYED)

    def _exited(self) -> None:
        """Python ends the process, and no other that has forked from it."""
        if os.getpid() == self._pid:
            self._end(State.EXITED)

    def _end(self, state: State) -> None:
        self.numbers[_ENDED] = ended_ns = now_ns()
        self.numbers[_STATE] = state
        if self.events is not None:
            self.events.ended(ended_ns)

    def row(self, form: int, group: int, operation: str, kind: str, count: int) -> int:
        """The index of the first number of the row of such a call."""
        with self.lock:
            key = (form, group, operation, kind, layout.size_class(count))
            row = self._rows.get(key)
            if row is None:
                row = self._rows[key] = self._new_row(form, group, f"{operation} {kind}", count)
            least = row + Number.LEAST_BYTES
            self.numbers[least] = min(self.numbers[least], count)
            self.numbers[least + 1] = max(self.numbers[least + 1], count)
        return row

    def _new_row(self, form: int, group: int, name: str, count: int) -> int:
        number = self.numbers[_ROWS]
        row: int = layout.ROWS_AT + min(number, layout.MOST_ROWS - 1) * _ROW
        if number < layout.MOST_ROWS:
            if number == layout.MOST_ROWS - 1:
                name, group = "(others) (several)", layout.SEVERAL
            self.numbers[row + Number.FORM], self.numbers[row + Number.GROUP] = form, group
            self.numbers[row + Number.LEAST_BYTES] = count
            at = layout.NAMES_AT_BYTE + number * layout.NAME_BYTES
            text = name.encode()[: layout.NAME_BYTES]
            self._file[at : at + len(text)] = text
            if self.events is not None:
                self.events.name_row(number, name)
            self.numbers[_ROWS] = number + 1
        return row


class GroupCounts:
    """Counts the operations of one process group."""

    __slots__ = (
        "_begun", "_comparison", "_events", "_group", "_known", "_lock", "_numbers", "_present", "_process", "_since",
        "_state", "_takes_part",
    )  # fmt: skip

    def __init__(self, process: ProcessCounts, group: int) -> None:
        self._present = layout.PRESENT_AT + group * layout.PRESENT_NUMBERS
        self._state, self._since = self._present + Present.STATE, self._present + Present.SINCE
        self._begun: dict[str, int] = {}
        self._process = process
        self._group = group
        self._events = process.events
        self._numbers = process.numbers
        self._lock = process.lock
        self._known: dict[tuple[int, str, Any, int], Kind] = {}
        self._comparison: Comparison | None = None
        self._takes_part = False

    def begin(self, form: int, operation: str, tensors: list[Any]) -> Kind:
        """The kind of a call that begins."""
        try:
            (tensor,) = tensors
            key = (form, operation, tensor.dtype, tensor.nbytes)
        except (ValueError, RuntimeError):  # several tensors or none; sparse ones have no such bytes
            key = (form, operation, tensors[0].dtype if tensors else None, bytes_of(tensors))
        return self._known.get(key) or self._new_kind(key)

    def _new_kind(self, key: tuple[int, str, Any, int]) -> Kind:
        form, operation, dtype, count = key
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        name = "-" if dtype is None else str(dtype).removeprefix("torch.")
        row = self._process.row(form, self._group, operation, name, count)
        kind = self._known[key] = (row, row + _CALLS, row + _BYTES, row + _CALL_NS, count)
        return kind

    def _record(self, what: int, kind: Kind, began_ns: int, request: int = 0, place: int = 0, peer: int = 0) -> int:
        """Records the begin of an event if there is a trace. Returns a number for _recorded()."""
        events = self._events
        if events is None:
            return 0
        row = (kind[0] - layout.ROWS_AT) // _ROW | self._group << GROUP_SHIFT
        return events.begin(what, row, began_ns, kind[4], request, place, peer)

    def _recorded(self, event: int, ended_ns: int, *, failed: bool = False) -> None:
        if self._events is not None:
            self._events.end(event, ended_ns, failed=failed)

    def request(self) -> int:
        """A number for an asynchronous operation or a message in the trace; 0: there is none."""
        return 0 if self._events is None else self._events.request()

    def execute(self, operation: str, row: int, begun_ns: int, job: Job, event: int = 0) -> None:
        """Does an operation in the group's turn, and shows that. Short, as it is on the path of each call.

        `event`: in the trace.
        """
        numbers, begun, state = self._numbers, self._begun, self._state
        begun[operation] = number = begun.get(operation, 0) + 2
        numbers[self._present] = row
        numbers[self._since] = begun_ns
        numbers[state] = number + 1
        if event and self._events is not None:
            self._events.set_place(event, number >> 1)
        if self._comparison is not None:
            self._comparison.note(operation)
        try:
            job()
        finally:
            numbers[state] = number

    def execute_posted(self, operation: str, kind: Kind, request: int, job: Job) -> None:
        """The same in the group's thread."""
        begun_ns, failed = now_ns(), True
        event = self._record(recording.OPERATION, kind, begun_ns, request)
        try:
            self.execute(operation, kind[0], begun_ns, job, event)
            failed = False
        finally:
            self._numbers[self._since] = ended_ns = now_ns()
            self._recorded(event, ended_ns, failed=failed)
        if self._comparison is not None:
            self._comparison.compare_if_due()

    def compare_clocks(self, message: Callable[..., Any], rank: int, compared: list[int]) -> None:
        """Clocks of these ranks are compared with rank 0's from now on. `message`: makes a message of the group."""
        self._takes_part = True
        self._process.comparing_groups += 1
        if rank == 0 or rank in compared:
            self._comparison = Comparison(message, rank, compared, self._compared)

    def _compared(self, clock: Clock) -> None:
        if self._events is not None:
            row = self._group << GROUP_SHIFT
            event = self._events.begin(recording.CLOCK, row, clock.at, clock.offset, place=clock.error)
            self._events.end(event, clock.at)

    def served_by(self, process: int) -> None:
        """The group has this service process."""
        self._numbers[self._present + Present.SERVICE] = process
        if self._events is not None:
            began_ns = now_ns()
            event = self._events.begin(recording.SERVED, self._group << GROUP_SHIFT, began_ns, process)
            self._events.end(event, began_ns)

    def enter_wait(self, by: int) -> None:
        """A thread is in wait() of an asynchronous operation (1), or is not any more (-1)."""
        with self._lock:
            self._numbers[self._present + Present.WAITS] += by
            if by > 0:
                self._numbers[self._present + Present.WAIT_SINCE] = now_ns()

    def enter_message(self, row: int, peer: int, tag: int) -> int:
        """A thread waits for a message. Returns a number for leave_message()."""
        try:
            at = self._process.free_waits.pop()
        except IndexError:
            return 0
        numbers = self._numbers
        numbers[at + Wait.ROW], numbers[at + Wait.PEER], numbers[at + Wait.TAG] = row, peer, tag
        numbers[at + Wait.SINCE] = now_ns()
        numbers[at + Wait.STATE] += 3
        self._process.count_threads()
        return at

    def leave_message(self, at: int) -> None:
        """The thread waits no more."""
        if at:
            self._numbers[at + Wait.STATE] -= 1
            self._process.free_waits.append(at)

    def blocking(self, operation: str, tensors: list[Any], do: Callable[[Job], object], job: Job) -> None:
        """Does an operation that is complete when do(job) returns. Short, as it is on the path of each call."""
        numbers = self._numbers
        begun_ns = now_ns()
        try:  # as begin(), without its call
            (tensor,) = tensors
            kind = self._known[BLOCKING, operation, tensor.dtype, tensor.nbytes]
        except (KeyError, ValueError, RuntimeError):
            kind = self.begin(BLOCKING, operation, tensors)
        row, calls, total, time, count = kind
        numbers[_CURRENT] = row
        blocked = _of_thread.blocked
        outer = blocked.state
        if not outer[1]:  # as enter() and leave(), without their calls
            blocked.state = (outer[0], begun_ns)
        event = 0 if self._events is None else self._record(recording.CALL, kind, begun_ns)
        try:
            do(partial(self.execute, operation, row, begun_ns, job, event))
        except BaseException:
            blocked.leave(outer, begun_ns, now_ns())
            self._failed(row, begun_ns, event)
            raise
        numbers[self._since] = ended_ns = now_ns()
        blocked.state = outer if outer[1] else (outer[0] + ended_ns - begun_ns, 0)
        with self._lock:
            numbers[calls] += 1
            numbers[total] += count
            numbers[time] += ended_ns - begun_ns
        numbers[_LAST] = ended_ns
        numbers[_CURRENT] = 0
        if event:
            self._recorded(event, ended_ns)
        if self._comparison is not None:
            self._comparison.compare_if_due()

    def _failed(self, row: int, begun_ns: int, event: int) -> None:
        """A blocking call; the process stays in it."""
        ended_ns = now_ns()
        with self._lock:
            self._numbers[row + _CALLS] += 1
            self._numbers[row + _CALL_NS] += ended_ns - begun_ns
            self._numbers[row + _FAILED] += 1
        self._numbers[self._since] = self._numbers[_LAST] = ended_ns
        self._recorded(event, ended_ns, failed=True)

    def posted(self, kind: Kind, begun_ns: int, ended_ns: int, request: int) -> None:
        """The call of an asynchronous operation has returned."""
        self._recorded(self._record(recording.POST, kind, begun_ns, request), ended_ns)
        numbers = self._numbers
        _, calls, total, time, count = kind
        with self._lock:
            numbers[calls] += 1
            numbers[total] += count
            numbers[time] += ended_ns - begun_ns
        numbers[_LAST] = ended_ns

    def completed(self, row: int, flight_ns: int, failed: bool) -> None:
        """An asynchronous operation has ended."""
        numbers = self._numbers
        with self._lock:
            numbers[row + _COMPLETED] += 1
            numbers[row + _FLIGHT_NS] += flight_ns
            if failed:
                numbers[row + _FAILED] += 1

    def waited(self, row: int, flight_ns: int, hidden_ns: int) -> None:
        """A wait() for a completed operation has returned, its first."""
        numbers = self._numbers
        with self._lock:
            numbers[row + _WAITED] += 1
            numbers[row + _WAITED_FLIGHT_NS] += flight_ns
            numbers[row + _HIDDEN_NS] += hidden_ns

    def message_begins(self, kind: Kind, begun_ns: int, request: int, message: tuple[int, int]) -> int:
        """Returns a number for message_ended(). `message`: the other rank, and the tag."""
        peer, tag = message
        return self._record(recording.MESSAGE, kind, begun_ns, request, tag, peer)

    def message_ended(self, event: int, ended_ns: int, *, failed: bool) -> None:
        """The program has seen it."""
        self._recorded(event, ended_ns, failed=failed)

    def wait_begins(self, kind: Kind, begun_ns: int, request: int) -> int:
        """Returns a number for blocked()."""
        return self._record(recording.WAIT, kind, begun_ns, request)

    def blocked(self, row: int, begun_ns: int, ended_ns: int, event: int = 0) -> None:
        """Any wait() has returned."""
        with self._lock:
            self._numbers[row + _WAIT_NS] += ended_ns - begun_ns
        self._numbers[_LAST] = ended_ns
        self._recorded(event, ended_ns)

    def future_taken(self, row: int) -> None:
        """The program waits for a future."""
        with self._lock:
            self._numbers[row + _FUTURES] += 1

    def ended(self) -> None:
        """The group has been destroyed."""
        self._process.comparing_groups -= self._takes_part
        self._process.group_ended()


def bytes_of(tensors: list[Any]) -> int:
    """Sum over this rank's tensors."""
    return sum(_tensor_bytes(tensor) for tensor in tensors)


def _tensor_bytes(tensor: Any) -> int:
    if tensor.layout == torch.sparse_coo:
        return bytes_of([tensor._indices(), tensor._values()])
    count: int = tensor.nbytes
    return count


def _forget() -> None:
    global _current
    _current = None


os.register_at_fork(after_in_child=_forget)


def _is_under_torchrun() -> bool:
    return "TORCHELASTIC_RUN_ID" in os.environ


def _directory(variable: str) -> Path | None:
    """Value of the variable, if it is for this job: it names a file for an MPI job.

    A name that does not exist is a directory if it ends in "/", or under torchrun.
    """
    place = os.environ.get(variable)
    if not place:
        return None
    path = Path(place)
    is_named = place.endswith("/") or (_is_under_torchrun() and path.suffix not in (".json", ".gz"))
    return path if path.is_dir() or (is_named and not path.exists()) else None


def _named_directory(variable: str, what: str) -> Path | None:
    """The same with a warning if there is none."""
    directory, place = _directory(variable), os.environ.get(variable)
    if directory is None and place and _is_under_torchrun():
        warnings.warn(f"Outrigger: no {what}: {variable}={place} must name a directory for PyTorch", stacklevel=2)
    return directory


def clock_to_compare(rank: int) -> str:
    """The name of this process's clock, if a new group in which it has this rank may compare it for a trace."""
    if _current is None:
        return own_clock() if _directory(TRACE) is not None else ""
    is_wanted = _current.events is not None and (rank == 0 or not _current.comparing_groups)
    return own_clock() if is_wanted else ""


def for_group(name: str, label: str, rank: int, size: int, ranks: tuple[int, ...]) -> GroupCounts | None:
    """Counts of a new group; None if no report, no trace and no live data are wanted.

    `ranks`: those of the job; empty: all.
    """
    directory, trace = _named_directory(REPORT, "report"), _named_directory(TRACE, "trace")
    if directory is None and trace is None and os.environ.get(LIVE) != "on":
        return None
    global _current
    if _current is None:
        world_rank, world_size = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (rank, size)
        _current = ProcessCounts(directory, world_rank, world_size, _attempt(name), trace)
    group = Group(name=name, label=printable(label[:_LONGEST_LABEL]), size=size, ranks=layout.runs(ranks))
    return GroupCounts(_current, _current.add_group(group))


def _attempt(name: str) -> str:
    """A name for the ranks that started together, whichever of their groups `name` is the first of this rank.

    Without a default group this one becomes it, and all ranks have it.
    """
    if not dist.is_initialized():
        return name
    store = dist.distributed_c10d._get_default_store()
    if store.add("outrigger report ranks", 1) == 1:
        store.set("outrigger report", name)
    found: bytes = store.get("outrigger report")
    return found.decode()
