"""Outrigger's API for Python programs: the functions of outrigger.h, if the preload library is in the process.

Without it nothing is active or counted, and phases and the switch do nothing. See docs/using/api.md.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

NOT_LOADED = "the preload library is not loaded"


class Result(IntEnum):
    """The values of outrigger.h."""

    OK = 0
    NOT_ACTIVE = 1
    BAD_ARGUMENT = 2
    NOT_COUNTED = 3
    DISAGREED = 4
    LIMIT = 5
    MPI_FAILED = 6


_WORDS = {
    Result.NOT_ACTIVE: "nothing is offloaded here",
    Result.BAD_ARGUMENT: "an unknown name or communicator",
    Result.NOT_COUNTED: "counting has not begun, or this communicator is not counted by itself",
    Result.DISAGREED: "ranks made different requests, or at different places of the program",
    Result.LIMIT: "phases are nested too deeply, or more ended than began",
    Result.MPI_FAILED: "a call of the MPI failed",
}


class ApiError(RuntimeError):
    """A failed call; `result` is the reason."""

    def __init__(self, result: Result) -> None:
        super().__init__(_WORDS.get(result, str(result)))
        self.result = result


class Communicator(Protocol):
    """Interface of mpi4py's communicators: py2f() returns the Fortran handle."""

    def py2f(self) -> int:
        """The Fortran handle."""


@dataclass(frozen=True)
class Counter:
    """A counter, the same for one version of the library."""

    name: str
    unit: str
    description: str


class _CounterInfo(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("unit", ctypes.c_char_p), ("description", ctypes.c_char_p)]


@functools.cache
def _library() -> ctypes.CDLL | None:
    """This process, if the preload library is in it."""
    process = ctypes.CDLL(None)
    try:
        process.outrigger_preload_version.restype = ctypes.c_char_p
        process.outrigger_preload_inactive_reason.restype = ctypes.c_char_p
    except AttributeError:
        return None
    return process


def _checked(code: int) -> None:
    if code != Result.OK:
        raise ApiError(Result(code))


def version() -> str:
    """Version of the preload library; empty if there is none."""
    library = _library()
    return "" if library is None else library.outrigger_preload_version().decode()


def is_active() -> bool:
    """True if service processes serve this job, between MPI_Init and MPI_Finalize. The same on all ranks."""
    library = _library()
    return library is not None and bool(library.outrigger_preload_is_active())


def inactive_reason() -> str:
    """The reason if not active; otherwise empty."""
    library = _library()
    return NOT_LOADED if library is None else library.outrigger_preload_inactive_reason().decode()


@functools.cache
def known_counters() -> tuple[Counter, ...]:
    """All counters; empty if the preload library is not loaded."""
    library = _library()
    if library is None:
        return ()
    found = []
    for index in range(library.outrigger_preload_counter_count()):
        info = _CounterInfo()
        _checked(library.outrigger_preload_counter_info(index, ctypes.byref(info)))
        found.append(Counter(info.name.decode(), info.unit.decode(), info.description.decode()))
    return tuple(found)


def start_counting() -> None:
    """Counts this process's collectives from now on, or from MPI_Init on."""
    library = _library()
    _checked(Result.NOT_ACTIVE if library is None else library.outrigger_preload_counting_start())


def counters(comm: Communicator | None = None, call: str | None = None) -> dict[str, int]:
    """All counters by name: of this process, or of one communicator and optionally one MPI function."""
    library = _library()
    if library is None:
        raise ApiError(Result.NOT_ACTIVE)
    if comm is None and call is not None:
        raise ApiError(Result.BAD_ARGUMENT)
    values = {}
    value = ctypes.c_uint64()
    for index, counter in enumerate(known_counters()):
        if comm is None:
            code = library.outrigger_preload_counter_read(index, ctypes.byref(value))
        else:
            name = None if call is None else call.encode()
            code = library.outrigger_preload_counter_read_comm_f(comm.py2f(), name, index, ctypes.byref(value))
        _checked(code)
        values[counter.name] = value.value
    return values


@contextlib.contextmanager
def phase(name: str) -> Iterator[None]:
    """Assigns this thread's calls inside to a named phase of the report."""
    library = _library()
    if library is None:
        yield
        return
    _checked(library.outrigger_preload_phase_push(name.encode()))
    try:
        yield
    finally:
        _checked(library.outrigger_preload_phase_pop())


def switch(on: bool, comm: Communicator | None = None) -> bool:
    """Switches offloading; returns the former state. Collective over the communicator, or all ranks.

    Raises ApiError on all ranks, with nothing changed, if they disagree or nothing is active.
    """
    library = _library()
    if library is None:
        raise ApiError(Result.NOT_ACTIVE)
    before = ctypes.c_int(0)
    if comm is None:
        _checked(library.outrigger_preload_switch(int(on), ctypes.byref(before)))
    else:
        _checked(library.outrigger_preload_comm_switch_f(comm.py2f(), int(on), ctypes.byref(before)))
    return bool(before.value)


@contextlib.contextmanager
def switched(on: bool, comm: Communicator | None = None) -> Iterator[None]:
    """Like switch(), and restores the former state at the end, on all ranks together. Does nothing if nothing is
    active.
    """
    if not is_active():
        yield
        return
    before = switch(on, comm)
    yield
    switch(before, comm)  # not after an exception, which may affect this rank only: the others would be waited for
