"""The process of an MPI launcher: receives every signal of this command, and ends with it."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from outrigger.errors import UserError
from outrigger.signal_queue import SignalQueue, Taken

_SECONDS_TO_END = 5.0
_LOOK_S = 0.2
"""Interval to check for its end, in case another thread got its signal."""
_SENT_BY_KERNEL = 0x80  # SI_KERNEL: terminal keys, or the end of the terminal
# Signals about this process itself, and those that cannot be caught.
_NOT_PASSED = {
    signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGPIPE, signal.SIGTTIN, signal.SIGTTOU, signal.SIGPROF,
    signal.SIGVTALRM, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP, signal.SIGSYS,
}  # fmt: skip
_OF_JOB_CONTROL = {signal.SIGTSTP, signal.SIGCONT}


def words(daemon: Path, unblocked: Collection[int] = (), ignored: Collection[int] = ()) -> list[str]:
    """Prefix of a launcher's command: ends it with the thread that started it, however that ends."""
    unblock = ["--unblock", ",".join(map(str, sorted(unblocked)))] if unblocked else []
    ignore = ["--ignore", ",".join(map(str, sorted(ignored)))] if ignored else []
    return [str(daemon), "launch", "--parent", str(os.getpid()), *unblock, *ignore, "--"]


def _ignored() -> set[int]:
    """Ignored as by nohup. Others that shells ignore for background jobs still go to the launcher."""
    return {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else set()


def _has_the_terminal() -> bool:
    """True if standard input is a terminal whose keys signal this command's process group."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


@contextlib.contextmanager
def _held(numbers: set[int]) -> Iterator[set[int]]:
    """Blocks signals to take them one by one; gives those newly blocked."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield numbers - before
        while signal.sigtimedwait(numbers, 0) is not None:
            pass  # the launcher has ended
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _all_of(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


class JobProcess:
    """A launcher from start to end, run by the thread that creates this.

    This thread must be the only one: if several are killed, the kernel may signal the parent's death twice, and Open
    MPI's launcher then ends without cleanup.

    It has its own process group, so that a signal for this command's group arrives once, from here. With the terminal
    it stays in the group to be able to read, and gets signals of keys directly.
    """

    def __init__(
        self,
        daemon: Path,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        capture: bool,
        into: IO[bytes] | None = None,
        looks: Callable[[], None] | None = None,
    ) -> None:
        """`into`: destination of its output and errors. `looks`: called regularly while it runs."""
        self._terminal = _has_the_terminal()
        passed = set(signal.valid_signals()) - _NOT_PASSED
        self._ignored = _ignored()
        self._passed = (passed - _OF_JOB_CONTROL if self._terminal else passed) - self._ignored
        self._daemon = daemon
        self._command = command
        self._environment = environment
        self._capture = capture
        self._into = into
        self._looks = looks
        self.interrupted = False
        """True after a SIGINT."""

    def run(self, timeout_s: float | None) -> tuple[int, bytes]:
        """Exit code as of subprocess.Popen, and captured output. UserError: ended at the time limit."""
        with self._captured() as output, _held(self._passed | {signal.SIGCHLD}) as unblocked:
            process = subprocess.Popen(
                [*words(self._daemon, unblocked, self._ignored), *self._command],
                env=dict(self._environment),
                stdin=subprocess.DEVNULL if self._capture or self._into is not None else None,
                stdout=output if self._into is None else self._into,
                stderr=None if self._into is None else subprocess.STDOUT,
                process_group=None if self._terminal else 0,
            )
            in_time = self._pass_signals(process, timeout_s)
            if not in_time:
                self._end(process)
            written = b"" if output is None else _all_of(output)
        if not in_time:
            raise UserError(f"still running after {timeout_s:.0f} s, ended: {' '.join(self._command)}")
        return process.returncode, written

    def _captured(self) -> contextlib.AbstractContextManager[IO[bytes] | None]:
        return tempfile.TemporaryFile() if self._capture else contextlib.nullcontext()

    def _pass_signals(self, process: subprocess.Popen[bytes], timeout_s: float | None) -> bool:
        """Forwards signals until it has ended; False: time is over."""
        deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
        with SignalQueue(self._passed | {signal.SIGCHLD}) as signals:
            while process.poll() is None:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                came = signals.take(min(left, _LOOK_S))
                if self._looks is not None:
                    self._looks()
                if came is not None and came.number != signal.SIGCHLD:
                    self._pass(process, came)
        return True

    def _pass(self, process: subprocess.Popen[bytes], came: Taken) -> None:
        self.interrupted = self.interrupted or came.number == signal.SIGINT
        if self._terminal and came.code == _SENT_BY_KERNEL:
            return  # the whole group gets it
        process.send_signal(came.number)
        if came.number == signal.SIGTSTP:
            os.kill(os.getpid(), signal.SIGSTOP)  # until a SIGCONT, which is forwarded, too

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Ends it and its ranks: gracefully, then by force."""
        process.terminate()
        try:
            process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
