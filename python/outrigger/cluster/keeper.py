"""The keeper process of a cluster: its network namespace is the switch, its children are the hosts.

It is the first process of a PID namespace that contains all hosts' namespaces: when it ends, for whatever reason, the
kernel kills every process of the cluster, and networks and mounts disappear with the last of them.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from outrigger import formats
from outrigger.cluster import cable, cpusets, host, jobs, kernel, messages, namespaces, network, requests
from outrigger.cluster.state import Files, Spec, address, host_name
from outrigger.errors import UserError

_SECONDS_FOR_A_REQUEST = 5.0
_FAULT_AT_MOST = 2000


def _text(error: BaseException) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or repr(error)


def _report(pipe: int, fault: str | None) -> None:
    text = None if fault is None else fault[:_FAULT_AT_MOST]
    os.write(pipe, formats.line_of(requests.Setup(text)))


def _reported(pipe: int, action: Callable[[], None]) -> None:
    """Runs a setup step and reports its result; on failure the process exits."""
    try:
        action()
        _report(pipe, None)
    except BaseException as error:
        _report(pipe, _text(error))
        os._exit(1)


def _close_all_but(*kept: int) -> None:
    """A host must hold no descriptor of the switch or of other hosts. Standard files stay open."""
    edges = [2, *sorted(kept), os.sysconf("SC_OPEN_MAX")]
    for low, high in itertools.pairwise(edges):
        os.closerange(low + 1, high)


@dataclass
class _Host:
    index: int
    pid: int
    """PID of its first process."""
    go: int
    """Pipe that signals that its cable exists."""
    reports: int
    """Pipe with two setup results: from its first process and from its network."""
    maker: int = 0
    """Process that creates it; until that has ended, the host's first process is not a child of the keeper."""


def _host_life(files: Files, name: str, spec: Spec, reports: int) -> NoReturn:
    """Main function of a host's first process."""
    kernel.set_process_name(f"outrigger-{name}")

    def prepare() -> socket.socket:
        cpusets.enter(files.name, name)
        host.set_up(files, name, spec)
        return host.listen(files.host(name))

    listeners: list[socket.socket] = []
    _reported(reports, lambda: listeners.append(prepare()))
    os.close(reports)
    place = jobs.Place(name, str(files.temporary), str(files.programs))
    host.Server(listeners[0], place).run()
    os._exit(1)


def _make_host(files: Files, index: int, spec: Spec, go: int, reports: int, pids: int) -> NoReturn:
    """Makes a host's namespaces, starts its first process, and connects it on a signal."""

    def namespaces() -> None:
        kernel.unshare(host.NAMESPACES)
        network.prepare_host()

    _reported(reports, namespaces)
    pid = os.fork()
    if pid == 0:
        _close_all_but(reports)
        _host_life(files, host_name(index), spec, reports)
    os.write(pids, pid.to_bytes(4))
    if os.read(go, 1):
        _reported(reports, lambda: network.configure_host(address(index), spec))
    os._exit(0)


class _Switch:
    """State of the running keeper."""

    def __init__(self, files: Files, spec: Spec) -> None:
        self._files = files
        self._spec = spec
        self._hosts: list[_Host] = []
        self._links_down: set[int] = set()

    def _start_host(self, index: int) -> _Host:
        go, go_here = os.pipe()
        reports_here, reports = os.pipe()
        pids_here, pids = os.pipe()
        maker = os.fork()
        if maker == 0:
            _close_all_but(go, reports, pids)
            _make_host(self._files, index, self._spec, go, reports, pids)
        for descriptor in (go, reports, pids):
            os.close(descriptor)
        with open(pids_here, "rb") as pipe:
            pid = pipe.read(4)
        found = _Host(index, int.from_bytes(pid), go_here, reports_here, maker)
        if not pid:
            self._check(found)
        return found

    def _check(self, made: _Host) -> None:
        """Raises the setup error of a host, if there is one."""
        with open(made.reports) as pipe:
            lines = list(pipe)
        os.waitpid(made.maker, 0)
        try:
            for line in lines:
                requests.setup(line)
        except UserError as error:
            raise UserError(f"{host_name(made.index)}: {error}") from None
        if len(lines) < 3:
            raise UserError(f"{host_name(made.index)}: it ended during its setup; see {self._files.log}")

    def set_up(self) -> None:
        """Makes the switch and every host."""
        network.make_switch()
        for index in range(self._spec.nodes):
            self._hosts.append(self._start_host(index))
        ends: list[tuple[int, int]] = []
        for made in self._hosts:
            if pair := network.connect(made.index, made.pid, self._spec):
                ends.append(pair)
            os.write(made.go, b"!")
            os.close(made.go)
        for made in self._hosts:
            self._check(made)
        if ends:
            self._carry(ends)

    def _carry(self, ends: list[tuple[int, int]]) -> None:
        """Starts the process that forwards frames through faulty cables. It ends with this one."""
        if os.fork() == 0:
            try:
                kernel.set_process_name("outrigger-cable")
                _close_all_but(*itertools.chain(*ends))
                cable.Cables(self._spec.faults, self._spec.latency_us, ends).run()
            finally:
                os._exit(1)
        for end in itertools.chain(*ends):
            os.close(end)

    def _reap(self) -> None:
        """Reaps ended children. Not on SIGCHLD: a PID must stay valid while a request is handled."""
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for made in self._hosts:
                if made.pid == pid:
                    made.pid = 0

    def _host(self, name: str) -> _Host:
        for made in self._hosts:
            if host_name(made.index) == name:
                return made
        raise UserError(f"{name}: there are {host_name(0)} to {host_name(len(self._hosts) - 1)}")

    def _kill(self, name: str) -> None:
        """Simulates a power failure of a host: the others receive nothing more from it."""
        made = self._host(name)
        if made.pid == 0:
            raise UserError(f"{name} is killed already")
        network.set_port(made.index, "down")
        os.kill(made.pid, signal.SIGKILL)
        os.waitpid(made.pid, 0)
        made.pid = 0

    def _link(self, name: str, state: str) -> None:
        made = self._host(name)
        if made.pid == 0:
            raise UserError(f"{name} is killed, its link with it")
        network.set_port(made.index, state)
        (self._links_down.add if state == "down" else self._links_down.discard)(made.index)

    def _state(self, made: _Host) -> str:
        if made.pid == 0:
            return "killed"
        return "link down" if made.index in self._links_down else "up"

    def _answer(self, message: messages.Message) -> messages.Message:
        match requests.for_keeper(message):
            case requests.Look():
                return {"states": {host_name(made.index): self._state(made) for made in self._hosts}}
            case requests.Kill(host=name):
                self._kill(name)
            case requests.Link(host=name, state=state):
                self._link(name, state)
        return {}

    def serve(self, listener: socket.socket) -> NoReturn:
        """Answers requests until killed."""
        while True:
            connection, _ = listener.accept()
            self._reap()
            with connection:
                connection.settimeout(_SECONDS_FOR_A_REQUEST)
                with contextlib.suppress(messages.ClosedError, OSError, ValueError):
                    request, _ = messages.receive(connection)
                    try:
                        answer = self._answer(request)
                    except (UserError, OSError) as error:
                        answer = {"fault": _text(error)}
                    messages.send(connection, answer)


def _keep(files: Files, spec: Spec, answers: int, lock: int) -> NoReturn:
    """Main function of the keeper, in its namespaces."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    kernel.set_process_name("outrigger-switch")
    # Mounts of the machine still propagate to here, but not the other way.
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_SLAVE)
    namespaces.mount_own_proc()
    listener = host.listen(files.keeper)
    switch = _Switch(files, spec)
    _reported(answers, switch.set_up)
    os.close(answers)
    os.close(lock)
    switch.serve(listener)


def main(arguments: list[str]) -> None:
    """Starts the keeper of the cluster in a directory; prints the result in one line."""
    files, lock = Files(Path(arguments[0])), int(arguments[1])
    spec = files.read_spec()
    answers = os.dup(1)
    os.dup2(2, 1)

    try:
        namespaces.make(unprivileged="unprivileged" in arguments[2:])
    except UserError as error:
        _report(answers, str(error))
        return
    if os.fork() == 0:
        try:
            _keep(files, spec, answers, lock)
        except BaseException as error:
            _report(answers, _text(error))
            os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
