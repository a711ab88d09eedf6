"""A host: its files, its name, and its first process, which starts the others."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import sys
import time
from pathlib import Path

from outrigger import formats
from outrigger.cluster import jobs, kernel, messages, requests
from outrigger.cluster.state import Files, Spec

NAMESPACES = kernel.CLONE_NEWNET | kernel.CLONE_NEWUTS | kernel.CLONE_NEWIPC | kernel.CLONE_NEWNS | kernel.CLONE_NEWPID
_SECONDS_FOR_A_REQUEST = 20.0
_QUIET = kernel.MS_NOSUID | kernel.MS_NODEV


def _own_sysfs(spare: Path) -> None:
    """/sys/class/net with this host's interfaces, which UCX reads; the control groups stay visible in it.

    A container may forbid this. Its own /sys then stays, which usually lists an eth0, too.
    """
    try:
        kernel.mount("sysfs", spare, "sysfs", _QUIET | kernel.MS_NOEXEC)
    except OSError as error:
        print(f"{error}; /sys lists the network interfaces of the machine", file=sys.stderr, flush=True)
        return
    groups = Path("/sys/fs/cgroup")
    if groups.is_dir():
        kernel.mount(str(groups), spare / "fs/cgroup", None, kernel.MS_BIND | kernel.MS_REC)
    kernel.mount(str(spare), "/sys", None, kernel.MS_BIND | kernel.MS_REC)
    kernel.detach(spare)


def set_up(files: Files, name: str, spec: Spec) -> None:
    """Sets the host name and private files in the calling process's namespaces."""
    socket.sethostname(name)
    _own_sysfs(files.temporary)
    kernel.mount("proc", "/proc", "proc", _QUIET | kernel.MS_NOEXEC)
    kernel.mount(str(files.hosts), Path("/etc/hosts").resolve(), None, kernel.MS_BIND)
    kernel.mount("shm", Path("/dev/shm").resolve(), "tmpfs", _QUIET, "mode=1777")
    kernel.mount("tmp", files.temporary, "tmpfs", _QUIET, "mode=1777")
    for directory in spec.private:
        mode = os.stat(directory).st_mode & 0o7777
        kernel.mount("private", directory, "tmpfs", _QUIET, f"mode={mode:o}")


def listen(path: Path) -> socket.socket:
    """Unix socket whose peers can read the identity of the calling process."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen(128)
    return listener


class Server:
    """First process of a host: starts processes for clients and reaps those that end."""

    def __init__(self, listener: socket.socket, place: jobs.Place) -> None:
        self._listener = listener
        self._place = place
        self._jobs: dict[int, jobs.Job] = {}
        self._selector = selectors.DefaultSelector()

    def run(self) -> None:
        """Serves until the host is killed."""
        woken, wake = os.pipe()
        os.set_blocking(woken, False)
        os.set_blocking(wake, False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(woken, selectors.EVENT_READ, lambda: self._reap(woken))
        while True:
            for key, _ in self._selector.select(self._seconds_to_deadline()):
                try:
                    key.data()
                except Exception as error:  # a client's fault must not end the host
                    print(f"{self._place.name}: {error!r}", file=sys.stderr, flush=True)
            self._kill_overdue()

    def _seconds_to_deadline(self) -> float | None:
        deadlines = [job.kill_at for job in self._jobs.values() if job.kill_at is not None]
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def _kill_overdue(self) -> None:
        now = time.monotonic()
        for job in self._jobs.values():
            if job.kill_at is not None and job.kill_at <= now:
                job.kill()

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        connection.settimeout(_SECONDS_FOR_A_REQUEST)
        received: list[int] = []
        kept = False
        try:
            request, received = messages.receive(connection)
            kept = self._serve(request, received, connection)
        except (messages.ClosedError, OSError):
            pass
        finally:
            for file in received:
                os.close(file)
            if not kept:
                connection.close()

    def _serve(self, request: messages.Message, files: list[int], connection: socket.socket) -> bool:
        if isinstance(asked := requests.for_host(request), requests.Look):
            processes = sum(name.isdigit() for name in os.listdir("/proc"))
            messages.send(connection, {"processes": processes - 1})
            return False
        job = jobs.start(asked, files, self._place, connection)
        if job is None:
            return False
        self._jobs[job.pid] = job
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._hear(job))
        return True

    def _hear(self, job: jobs.Job) -> None:
        """Handles a signal for the process, or the client's disconnection."""
        try:
            message, _ = messages.receive(job.connection)
        except (messages.ClosedError, OSError, ValueError):
            self._selector.unregister(job.connection)
            job.hang_up()
            return
        job.signal(formats.convert(message, requests.Signal, "a signal").signal)

    def _reap(self, woken: int) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(woken, 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if job := self._jobs.pop(pid, None):
                self._finish(job, status)

    def _finish(self, job: jobs.Job, status: int) -> None:
        if job.client_gone:
            job.kill()  # the rest of the group
        else:
            self._selector.unregister(job.connection)
        with contextlib.suppress(OSError):
            messages.send(job.connection, jobs.ending(status))
        job.connection.close()
