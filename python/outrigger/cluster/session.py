"""Runs a program on a host as if it were local: forwards files, terminal, signals and exit status.

The launch agent is this module; it imports little because it starts for every host of every job.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence

from outrigger.cluster import messages

_FAILED = 255  # ssh's own exit status on failure
_PASSED_ON = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_ALL_PASSED_ON = (*_PASSED_ON, signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)
_CHUNK_BYTES = 65536
# ssh options with a value; launchers pass some, and all are ignored here.
_SSH_OPTIONS_WITH_VALUE = "BbcDEeFIiJLlmOopQRSWw"


class HostDownError(Exception):
    """The host's socket has no listener."""


def _connect(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        raise HostDownError from None
    return connection


class _Terminal:
    """Forwards the user's terminal to one of the program, so that job control works in it."""

    def __init__(self) -> None:
        import termios
        import tty

        self._termios = termios
        self.master, self.slave = os.openpty()
        self._before = termios.tcgetattr(0)
        termios.tcsetattr(self.slave, termios.TCSANOW, self._before)
        self.copy_size()
        tty.setraw(0)

    def slave_or(self, descriptor: int) -> int:
        """Redirected files stay as they are."""
        return self.slave if os.isatty(descriptor) else descriptor

    def copy_size(self) -> None:
        with contextlib.suppress(OSError):
            self._termios.tcsetwinsize(self.master, self._termios.tcgetwinsize(0))

    def restore(self) -> None:
        with contextlib.suppress(OSError, self._termios.error):
            self._termios.tcsetattr(0, self._termios.TCSADRAIN, self._before)

    def drain(self) -> None:
        """Forwards the program's last output."""
        os.set_blocking(self.master, False)
        with contextlib.suppress(OSError):
            while data := os.read(self.master, _CHUNK_BYTES):
                _write_all(1, data)


@contextlib.contextmanager
def _held(numbers: Sequence[signal.Signals]) -> Iterator[None]:
    """Blocks signals for a short time."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


class _Session:
    """A program on a host."""

    def __init__(self, connection: socket.socket, request: messages.Message, terminal: _Terminal | None) -> None:
        self._connection = connection
        self._terminal = terminal
        self._selector = selectors.DefaultSelector()
        files = [0, 1, 2] if terminal is None else [terminal.slave, terminal.slave, terminal.slave_or(2)]
        with _held(_ALL_PASSED_ON):  # a signal that arrives as soon as the program runs is for the program
            messages.send(connection, request, files)
            self._handle_signals()
        if terminal is not None:
            os.close(terminal.slave)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(OSError):
            messages.send(self._connection, {"signal": number})

    def _stop(self) -> None:
        """Ctrl-Z: stops the program, then this process; SIGCONT resumes both."""
        self._signal(signal.SIGTSTP)
        os.kill(os.getpid(), signal.SIGSTOP)

    def _handle_signals(self) -> None:
        """Forwards signals to the program. Signals ignored here are ignored there, too."""
        handlers: dict[int, Callable[[], None]] = {
            number: (lambda number=number: self._signal(number))  # type: ignore[misc]
            for number in _PASSED_ON
            if signal.getsignal(number) != signal.SIG_IGN
        }
        if self._terminal is None:
            handlers[signal.SIGTSTP] = self._stop
            handlers[signal.SIGCONT] = lambda: self._signal(signal.SIGCONT)
        else:
            handlers[signal.SIGWINCH] = self._terminal.copy_size
        for number, handler in handlers.items():
            signal.signal(number, lambda _number, _frame, handler=handler: handler())  # type: ignore[misc]

    def _copy(self, source: int, target: int) -> None:
        try:
            data = os.read(source, _CHUNK_BYTES)
        except OSError:  # a terminal whose other end is closed
            data = b""
        if not data:
            self._selector.unregister(source)
            return
        _write_all(target, data)

    def run(self) -> messages.Message:
        """Waits for the program's end; returns its result."""
        self._selector.register(self._connection, selectors.EVENT_READ)
        if self._terminal is not None:
            master = self._terminal.master
            self._selector.register(0, selectors.EVENT_READ, lambda: self._copy(0, master))
            self._selector.register(master, selectors.EVENT_READ, lambda: self._copy(master, 1))
        while True:
            ready = self._selector.select()
            for key, _ in ready:
                if key.data is not None:
                    key.data()
            if any(key.data is None for key, _ in ready):
                return messages.receive(self._connection)[0]


def _open_standard_files() -> None:
    """A launcher may leave some closed; files that take their numbers must not be forwarded as standard files."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def run(path: str, host: str, request: messages.Message, *, may_have_terminal: bool) -> int:
    """Runs a program on the host with the socket at `path`; returns its exit status, or 128 + its signal."""
    _open_standard_files()
    try:
        connection = _connect(path)
    except HostDownError:
        return _complain(host, "the host is down")
    terminal = _Terminal() if may_have_terminal and os.isatty(0) and os.isatty(1) else None
    try:
        with connection:
            ending = _Session(connection, {**request, "terminal": terminal is not None}, terminal).run()
        if terminal is not None:
            terminal.drain()
    except (messages.ClosedError, OSError):
        ending = {"fault": "the host went down", "code": _FAILED}
    finally:
        if terminal is not None:
            terminal.restore()
    if "fault" in ending:
        _complain(host, ending["fault"])
    return int(ending["code"])


def _complain(host: str, text: str) -> int:
    print(f"outrigger: {host}: {text}", file=sys.stderr, flush=True)
    return _FAILED


def _skip_options(arguments: list[str]) -> tuple[list[str], bool]:
    """Words after the options of ssh, and whether -n is one of the options."""
    no_input = False
    index = 0
    while index < len(arguments) and arguments[index].startswith("-") and arguments[index] != "--":
        letters = arguments[index][1:]
        index += 1
        for position, letter in enumerate(letters):
            no_input |= letter == "n"
            if letter in _SSH_OPTIONS_WITH_VALUE:
                index += position == len(letters) - 1
                break
    if index < len(arguments) and arguments[index] == "--":
        index += 1
    return arguments[index:], no_input


def _names(directory: str) -> dict[str, str]:
    """Names and addresses from the hosts file."""
    names = {}
    with open(f"{directory}/hosts") as file:
        for line in file:
            words = line.split()
            if len(words) == 2 and words[1] != "localhost":
                names[words[0]] = names[words[1]] = words[1]
    return names


def agent(directory: str, arguments: Sequence[str]) -> int:
    """Called like ssh: [OPTIONS] HOST COMMAND..., where the command is words for a shell."""
    rest, no_input = _skip_options(list(arguments))
    if not rest:
        print("usage: agent [OPTIONS OF SSH] HOST COMMAND...", file=sys.stderr)
        return _FAILED
    given = rest[0].rpartition("@")[2]
    try:
        name = _names(directory).get(given)
    except OSError:
        return _complain(given, f"the cluster is down ({directory})")
    if name is None:
        return _complain(given, "there is no such host in the cluster")
    shell = os.environ.get("SHELL") or "/bin/sh"
    words = [shell, "-c", " ".join(rest[1:])] if len(rest) > 1 else [shell, "-l"]
    if no_input:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    return run(f"{directory}/{name}", name, {"do": "run", "words": words}, may_have_terminal=len(rest) == 1)
