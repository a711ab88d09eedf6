"""Reads what the processes of a PyTorch job have counted (torch_layout.py)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from outrigger import formats, torch_layout
from outrigger.errors import UserError
from outrigger.torch_layout import Form, Group, Number, Process, Slot, State

T = TypeVar("T")
_NS = 1e-9


@dataclass(frozen=True, kw_only=True)
class Row:
    """Calls of one kind by one rank. Times are sums."""

    operation: str
    type: str
    form: Form
    group: Group
    least_bytes: int
    most_bytes: int
    calls: int
    bytes: int
    call_seconds: float
    failed: int
    completed: int
    flight_seconds: float
    waited: int
    waited_flight_seconds: float
    wait_seconds: float
    hidden_seconds: float
    """Time of waited-for operations in which the program did something else."""
    futures: int

    @property
    def blocked_seconds(self) -> float:
        """In the calls and in wait()."""
        return self.call_seconds + self.wait_seconds


@dataclass(frozen=True, kw_only=True)
class Rank:
    """One process."""

    process: Process
    state: State
    seconds: float
    """From its first group to its end, or to the end of its last call."""
    rows: tuple[Row, ...]
    current: str
    """Operation in which it was, or that has failed."""

    @property
    def rank(self) -> int:
        """In the job."""
        return self.process.rank


def _text(data: bytes) -> bytes:
    return data.rstrip(b"\0")


def _group_of(number: int, groups: Sequence[Group]) -> Group:
    if 0 <= number < len(groups):
        return groups[number]
    label = "several" if number == torch_layout.SEVERAL else "unknown"
    return Group(name="", label=label, size=0, ranks=())


def _row(data: bytes, number: int, groups: Sequence[Group]) -> Row:
    at = (torch_layout.ROWS_AT + number * torch_layout.ROW_NUMBERS) * torch_layout.NUMBER_BYTES
    values = struct.unpack_from(f"={torch_layout.ROW_NUMBERS}q", data, at)
    operation, _, kind = _name(data, number).partition(" ")
    group = values[Number.GROUP]
    return Row(
        operation=operation,
        type=kind,
        form=Form(values[Number.FORM]),
        group=_group_of(group, groups),
        least_bytes=values[Number.LEAST_BYTES],
        most_bytes=values[Number.MOST_BYTES],
        calls=values[Number.CALLS],
        bytes=values[Number.BYTES],
        call_seconds=values[Number.CALL_NS] * _NS,
        failed=values[Number.FAILED],
        completed=values[Number.COMPLETED],
        flight_seconds=values[Number.FLIGHT_NS] * _NS,
        waited=values[Number.WAITED],
        waited_flight_seconds=values[Number.WAITED_FLIGHT_NS] * _NS,
        wait_seconds=values[Number.WAIT_NS] * _NS,
        hidden_seconds=values[Number.HIDDEN_NS] * _NS,
        futures=values[Number.FUTURES],
    )


def _name(data: bytes, number: int) -> str:
    at = torch_layout.NAMES_AT_BYTE + number * torch_layout.NAME_BYTES
    return _text(data[at : at + torch_layout.NAME_BYTES]).decode(errors="replace")


def _group(data: bytes, number: int) -> Group:
    at = torch_layout.GROUPS_AT_BYTE + number * torch_layout.GROUP_BYTES
    text = _text(data[at : at + torch_layout.GROUP_BYTES])
    return formats.parse(text or b'{"name": "", "label": "unknown", "size": 0, "ranks": []}', Group, "a group")


def groups_in(data: bytes) -> list[Group]:
    """Those of the process, by their numbers."""
    slots = struct.unpack_from(f"={torch_layout.SLOTS}q", data, torch_layout.HEAD_BYTES)
    return [_group(data, number) for number in range(min(slots[Slot.GROUPS], torch_layout.MOST_GROUPS))]


def operation_of(data: bytes, row: int) -> str:
    """By the index of its row; empty: there is none."""
    number = (row - torch_layout.ROWS_AT) // torch_layout.ROW_NUMBERS
    return _name(data, number).split(" ")[0] if 0 <= number < torch_layout.MOST_ROWS else ""


def read_rank(path: Path) -> Rank | None:
    """The counts in a file; None if its process ended before it had written who it is."""
    return parse_rank(path.read_bytes(), f"the counts {path}")


def parse_rank(data: bytes, what: str) -> Rank | None:
    """The same for the file's contents, which error messages call `what`."""
    head = _text(data[: torch_layout.HEAD_BYTES])
    if len(data) != torch_layout.FILE_BYTES or not head.endswith(b"}"):
        return None
    slots = struct.unpack_from(f"={torch_layout.SLOTS}q", data, torch_layout.HEAD_BYTES)
    groups = groups_in(data)
    rows = [_row(data, number, groups) for number in range(min(slots[Slot.ROWS], torch_layout.MOST_ROWS))]
    state = State(slots[Slot.STATE])
    end = slots[Slot.LAST] if state is State.RUNNING else slots[Slot.ENDED]
    return Rank(
        process=formats.parse_version(head, Process, torch_layout.VERSION, what),
        state=state,
        seconds=(end - slots[Slot.BEGAN]) * _NS,
        rows=tuple(row for row in rows if row.calls or row.completed),
        current=operation_of(data, slots[Slot.CURRENT]),
    )


def read_all(directory: Path) -> list[list[Rank]]:
    """All ranks of each attempt, the first attempt first. torchrun starts all ranks again after a failure."""
    try:
        paths = sorted(directory.glob(f"*{torch_layout.SUFFIX}"))
        found = [rank for path in paths if (rank := read_rank(path)) is not None]
    except OSError as error:
        raise UserError(f"the counts in {directory} cannot be read: {error.strerror}") from error
    return by_attempt(found, lambda rank: rank.process)


def by_attempt(found: Iterable[T], process: Callable[[T], Process]) -> list[list[T]]:
    """Data of processes, sorted by the attempts to which these belong, and by rank."""
    attempts: dict[tuple[str, int], dict[int, T]] = {}
    for one in sorted(found, key=lambda one: process(one).started):
        name, rank, again = process(one).attempt, process(one).rank, 0
        while rank in attempts.get((name, again), {}):  # the same name twice: not started by torchrun
            again += 1
        attempts.setdefault((name, again), {})[rank] = one
    return [[ranks[number] for number in sorted(ranks)] for ranks in attempts.values()]
