"""Reads pipes of other processes without blocking and without a thread: see job_process.JobProcess."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator, Sequence
from typing import IO

_AT_ONCE = 64 << 10


class Lines:
    """Lines from a pipe."""

    def __init__(self, pipe: IO[bytes]) -> None:
        os.set_blocking(pipe.fileno(), False)
        self._pipe = pipe
        self._part = b""
        self.ended = False
        """All writers have closed it, and all lines have been taken."""

    def fileno(self) -> int:
        """For select()."""
        return self._pipe.fileno()

    def take(self) -> Iterator[str]:
        """Available lines with their line ends; the last one may have none."""
        while not self.ended:
            try:
                read = os.read(self.fileno(), _AT_ONCE)
            except BlockingIOError:
                return
            whole = (self._part + read).splitlines(keepends=True)
            self.ended = not read
            self._part = whole.pop() if read and whole and not whole[-1].endswith(b"\n") else b""
            yield from (line.decode(errors="replace") for line in whole)


def wait(pipes: Sequence[Lines], timeout_s: float) -> None:
    """Waits until a pipe is readable or the time is over."""
    poll = select.poll()
    for pipe in pipes:
        if not pipe.ended:
            poll.register(pipe, select.POLLIN)
    poll.poll(max(0.0, timeout_s) * 1000)
