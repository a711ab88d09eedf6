"""What other processes write to pipes, read without waiting and without a thread: see job_process.JobProcess."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator, Sequence
from typing import IO

_AT_ONCE = 64 << 10


class Lines:
    """The lines that come through a pipe."""

    def __init__(self, pipe: IO[bytes]) -> None:
        os.set_blocking(pipe.fileno(), False)
        self._pipe = pipe
        self._part = b""
        self.ended = False
        """Nobody can write to it any more, and all lines have been taken."""

    def fileno(self) -> int:
        """For select()."""
        return self._pipe.fileno()

    def take(self) -> Iterator[str]:
        """Those that are there, each with its end; the last one may have none."""
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
    """Until one of them has something to say, or the time is over."""
    poll = select.poll()
    for pipe in pipes:
        if not pipe.ended:
            poll.register(pipe, select.POLLIN)
    poll.poll(max(0.0, timeout_s) * 1000)
