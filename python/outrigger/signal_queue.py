"""Takes blocked signals one by one, with a time limit.

Not by signal.sigtimedwait(): if a stop and a SIGCONT arrive during a wait that times out, CPython 3.11 returns a signal
that never came, from uninitialized stack memory.
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
import sys
from collections.abc import Collection
from dataclasses import dataclass

_SIGSET_BYTES = 128  # size of the C library's sigset_t
_INFO = struct.Struct("=Iii")  # signalfd_siginfo begins with number, errno and code
_INFO_BYTES = 128


@dataclass(frozen=True)
class Taken:
    """A received signal."""

    number: int
    code: int
    """As si_code: its sender."""


class SignalQueue:
    """Signals that the calling thread has blocked; a context manager for that thread."""

    def __init__(self, numbers: Collection[int]) -> None:
        bits = sum(1 << (number - 1) for number in set(numbers))
        sigset = ctypes.create_string_buffer(bits.to_bytes(8, sys.byteorder), _SIGSET_BYTES)
        library = ctypes.CDLL(None, use_errno=True)
        self._fd = library.signalfd(-1, sigset, os.O_CLOEXEC | os.O_NONBLOCK)
        if self._fd < 0:
            error = ctypes.get_errno()
            raise OSError(error, f"signalfd: {os.strerror(error)}")

    def __enter__(self) -> SignalQueue:
        return self

    def __exit__(self, *_error: object) -> None:
        os.close(self._fd)

    def take(self, timeout_s: float) -> Taken | None:
        """The next one; None: none came in that time."""
        select.select([self._fd], [], [], max(0.0, timeout_s))
        try:
            info = os.read(self._fd, _INFO_BYTES)
        except BlockingIOError:
            return None
        number, _errno, code = _INFO.unpack_from(info)
        return Taken(number, code)
