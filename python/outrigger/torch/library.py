"""The functions of group.h, by ctypes."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from datetime import timedelta
from typing import Any, Protocol

from outrigger import artifacts

ANY_RANK = 0xFFFFFFFF
PENDING = 8
TIMEOUT = 2

_SET = CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, c_size_t)
_GET = CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, c_size_t, c_int64)


class _Store(Structure):
    _fields_ = (("context", c_void_p), ("set", _SET), ("get", _GET))


class _Config(Structure):
    _fields_ = (("rank", c_uint32), ("size", c_uint32), ("store", _Store), ("timeout_ms", c_int64))


class Blocks(Structure):
    """One block for each rank: struct outrigger_group_blocks."""

    _fields_ = (
        ("base", c_void_p),
        ("each", c_uint64),
        ("bytes", POINTER(c_uint64)),
        ("offsets", POINTER(c_uint64)),
    )


def regular(address: int, each: int) -> Blocks:
    """Equally long blocks in a row."""
    return Blocks(address, each, None, None)


def irregular(addresses: list[int], lengths: list[int]) -> Blocks:
    """Blocks at any addresses, with their lengths in bytes."""
    base = min((address for address, length in zip(addresses, lengths, strict=True) if length), default=0)
    array = c_uint64 * len(addresses)
    offsets = [address - base if length else 0 for address, length in zip(addresses, lengths, strict=True)]
    return Blocks(base, max(lengths, default=0), array(*lengths), array(*offsets))


def counts(each: list[int]) -> Any:
    """A number for each rank."""
    return (c_uint64 * len(each))(*each)


@functools.lru_cache(maxsize=256)
def equal_counts(count: int, size: int) -> Any:
    """The same number for each rank."""
    return counts([count] * size)


_BLOCKS = POINTER(Blocks)
_REQUEST = POINTER(c_void_p)
_ARGUMENTS: dict[str, list[Any]] = {
    "create": [POINTER(_Config), POINTER(c_void_p)],
    "set_timeout": [c_void_p, c_int64],
    "prefer_service": [c_void_p, c_int],
    "service_process": [c_void_p],
    "abort": [c_void_p],
    "destroy": [c_void_p],
    "barrier": [c_void_p],
    "broadcast": [c_void_p, c_void_p, c_uint64, c_uint32],
    "all_reduce": [c_void_p, c_void_p, c_void_p, c_uint64, c_int, c_int],
    "reduce": [c_void_p, c_void_p, c_void_p, c_uint64, c_int, c_int, c_uint32],
    "reduce_scatter": [c_void_p, c_void_p, c_void_p, POINTER(c_uint64), c_int, c_int],
    "all_gather": [c_void_p, c_void_p, c_uint64, _BLOCKS],
    "gather": [c_void_p, c_void_p, c_uint64, _BLOCKS, c_uint32],
    "scatter": [c_void_p, _BLOCKS, c_void_p, c_uint64, c_uint32],
    "all_to_all": [c_void_p, _BLOCKS, _BLOCKS],
    "all_to_allv": [c_void_p, _BLOCKS, _BLOCKS],
    "isend": [c_void_p, c_void_p, c_uint64, c_uint32, c_int64, _REQUEST],
    "irecv": [c_void_p, c_void_p, c_uint64, c_uint32, c_int64, _REQUEST],
    "test": [c_void_p],
    "wait": [c_void_p, c_int64],
    "source": [c_void_p],
    "free": [c_void_p],
}
_WITHOUT_RESULT = ("set_timeout", "abort", "destroy", "free")
_QUICK = ("set_timeout", "prefer_service")
"""Calls that keep the interpreter's lock: to release it means to wait for it behind a computing thread."""


class GroupError(Exception):
    """A function of group.h failed."""

    def __init__(self, result: int, sentence: str) -> None:
        super().__init__(sentence)
        self.result = result


class KeyValueStore(Protocol):
    """The part of a torch Store that is used."""

    def set(self, key: str, value: bytes) -> None:
        """Sets a key."""

    def wait(self, keys: list[str], timeout: timedelta) -> None:
        """Waits until keys are set; raises an error if they are not."""

    def get(self, key: str) -> bytes:
        """The value of a key that is set."""


class Library:
    """Each function by its name behind outrigger_group_. Most calls release the interpreter's lock."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        self._quick = ctypes.PyDLL(path)
        self._library.outrigger_group_last_error.restype = c_char_p
        self.functions = {name: self._declared(name, arguments) for name, arguments in _ARGUMENTS.items()}
        """By their names. Most return an enum outrigger_group_result."""

    def _declared(self, name: str, arguments: list[Any]) -> Any:
        function = getattr(self._quick if name in _QUICK else self._library, f"outrigger_group_{name}")
        function.argtypes = arguments
        function.restype = None if name in _WITHOUT_RESULT else c_uint32 if name == "source" else c_int
        return function

    def function(self, name: str) -> Any:
        """One of them."""
        return self.functions[name]

    def check(self, result: int) -> None:
        """Raises what a function has returned, unless it is OUTRIGGER_GROUP_OK."""
        if result:
            raise GroupError(result, self._library.outrigger_group_last_error().decode())

    def create(self, store: KeyValueStore, rank: int, size: int, timeout_ms: int) -> int:
        """The group's handle."""
        set_value, get_value, failures = _callbacks(store)
        config = _Config(rank, size, _Store(None, set_value, get_value), timeout_ms)
        group = c_void_p()
        result = self.function("create")(ctypes.byref(config), ctypes.byref(group))
        try:
            self.check(result)
        except GroupError as error:
            raise error from (failures[-1] if failures else None)
        assert group.value is not None
        return group.value


def _callbacks(store: KeyValueStore) -> tuple[Any, Any, list[Exception]]:
    """Functions for struct outrigger_group_store, and what the store has raised in them."""
    failures: list[Exception] = []

    def guarded(call: Callable[[], None]) -> int:
        try:
            call()
        except Exception as error:
            failures.append(error)
            return 1
        return 0

    def set_value(_context: int, key: bytes, value: int, length: int) -> int:
        return guarded(lambda: store.set(key.decode(), ctypes.string_at(value, length)))

    def get_value(_context: int, key: bytes, value: int, length: int, timeout_ms: int) -> int:
        def get() -> None:
            # The library looks at the other ranks between waits.
            store.wait([key.decode()], timedelta(milliseconds=timeout_ms))
            found = store.get(key.decode())
            if len(found) != length:
                raise ValueError(f"{key.decode()} has {len(found)} bytes, not {length}")
            ctypes.memmove(value, found, length)

        return guarded(get)

    return _SET(set_value), _GET(get_value), failures


@functools.cache
def load() -> Library:
    """The library of this installation or build."""
    found = artifacts.find()
    # The name without a version may be in a package for development.
    paths = [found.libraries / name for name in ("liboutrigger_group.so.1", "liboutrigger_group.so")]
    path = next((one for one in paths if one.exists()), None)
    if path is None:
        raise found.missing(paths[0])
    return Library(str(path))
