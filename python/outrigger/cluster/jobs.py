"""Processes that a host runs for remote clients."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import signal
import socket
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from outrigger.cluster import messages, requests

_SECONDS_TO_HANG_UP = 5.0
_CANNOT_BE_RUN = 126
_NOT_FOUND = 127
# Signals from terminal keys go to the whole process group; others to the process alone.
_FOR_THE_GROUP = {signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTSTP, signal.SIGCONT}
# Variables that a login would set; a launch agent passes no environment, like ssh.
_LOGIN_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ")


@dataclass(frozen=True)
class Place:
    """Environment that a host adds to its processes."""

    name: str
    temporary: str
    programs: str


@dataclass
class Job:
    """A process started for a client; leads a session and a process group."""

    pid: int
    connection: socket.socket
    client_gone: bool = field(default=False)
    kill_at: float | None = field(default=None)
    """Time to kill the remaining processes after the client disconnected."""

    def signal(self, number: int) -> None:
        """Forwards a signal of the client."""
        with contextlib.suppress(ProcessLookupError):
            if number in _FOR_THE_GROUP:
                os.killpg(self.pid, number)
            else:
                os.kill(self.pid, number)

    def hang_up(self) -> None:
        """Handles the client's disconnection."""
        self.client_gone = True
        self.signal(signal.SIGHUP)
        self.signal(signal.SIGCONT)
        self.kill_at = time.monotonic() + _SECONDS_TO_HANG_UP

    def kill(self) -> None:
        """Kills the rest of the process group."""
        self.kill_at = None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)


def _environment(given: Mapping[str, str] | None, place: Place) -> dict[str, str]:
    if given is None:
        given = {name: value for name in _LOGIN_VARIABLES if (value := os.environ.get(name)) is not None}
    path = given.get("PATH", os.defpath)
    return {**given, "PATH": f"{place.programs}:{path}", "TMPDIR": place.temporary, "HOSTNAME": place.name}


def _apply_limits(request: requests.Run) -> None:
    """Applies the client's limits; limits that may not be set keep the host's value."""
    os.umask(request.umask)
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, request.cpus or os.sched_getaffinity(0))
    for kind, soft, hard in request.limits:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(kind, (soft, hard))


def _default_signals(ignored: Sequence[int]) -> None:
    """Restores signals that the keeper and Python ignore, and ignores those that the client ignores."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        with contextlib.suppress(OSError):  # SIGKILL, SIGSTOP
            signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)


def _become(request: requests.Run, files: Sequence[int], place: Place) -> None:
    os.setsid()
    for target, file in enumerate(files):
        os.dup2(file, target)
    if request.terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    _default_signals(request.ignored)
    _apply_limits(request)
    directory = request.directory or os.environ.get("HOME", "/")
    try:
        os.chdir(directory)
    except OSError as error:
        if request.directory:
            raise OSError(error.errno, f"directory {directory}: {error.strerror}") from None
        os.chdir("/")
    words = request.words
    try:
        os.execvpe(words[0], words, _environment(request.environment, place))
    except FileNotFoundError:
        raise FileNotFoundError(f"{words[0]}: no such program") from None
    except OSError as error:
        raise OSError(error.errno, f"{words[0]}: {error.strerror}") from None


_FAULT = struct.Struct("!B")


def _child(request: requests.Run, files: Sequence[int], place: Place, faults: int) -> None:
    """Becomes the program; on failure, reports the reason and exits."""
    code = _CANNOT_BE_RUN
    try:
        _become(request, files, place)
    except FileNotFoundError as error:
        code = _NOT_FOUND
        text = str(error)
    except OSError as error:
        text = error.strerror or str(error)
    except BaseException as error:
        text = repr(error)
    try:
        os.write(faults, _FAULT.pack(code) + text.encode(errors="replace")[:4000])
    finally:
        os._exit(code)


def start(request: requests.Run, files: Sequence[int], place: Place, connection: socket.socket) -> Job | None:
    """Starts a process on three open files; on failure, tells the client the reason and returns None."""
    faults, faults_of_child = os.pipe()
    # Duplicates above the standard descriptors, which they will replace.
    files = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 10) for file in files]
    pid = os.fork()
    if pid == 0:
        _child(request, files, place, faults_of_child)
    for descriptor in (*files, faults_of_child):
        os.close(descriptor)
    with open(faults, "rb") as pipe:
        fault = pipe.read()
    if not fault:
        return Job(pid, connection)
    (code,) = _FAULT.unpack(fault[: _FAULT.size])
    os.waitpid(pid, 0)
    messages.send(connection, {"fault": fault[_FAULT.size :].decode(), "code": code})
    return None


def ending(status: int) -> messages.Message:
    """Message to the client about the end of its process."""
    return {"code": os.waitstatus_to_exitcode(status) if not os.WIFSIGNALED(status) else 128 + os.WTERMSIG(status)}
