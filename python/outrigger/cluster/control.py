"""Makes, inspects, disturbs and removes clusters, from outside of them."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from outrigger import itself
from outrigger.cluster import cpusets, messages, requests, session
from outrigger.cluster.state import DEFAULT_NAME, NODES_AT_MOST, Files, Spec, address, files, host_name, locked
from outrigger.errors import UserError

T = TypeVar("T")

_SECONDS_TO_START = 60.0
_SECONDS_TO_END = 20.0
_SECONDS_TO_ANSWER = 10.0
# Mounts over these would hide files that the cluster or its programs need.
_NOT_PRIVATE = ("/", "/bin", "/dev", "/etc", "/lib", "/proc", "/sys", "/usr")

# Separator between host and number of ranks in a hostfile.
_SLOTS = {"mpich": ":", "openmpi": " slots="}


@dataclass(frozen=True)
class Host:
    """Current state of a host."""

    name: str
    address: str
    state: str
    processes: int


def _hint(name: str, *words: str) -> str:
    """A command of ours to suggest, for a cluster of this name."""
    return " ".join(["outrigger lab cluster", *words, *([] if name == DEFAULT_NAME else ["--name", name])])


def _no_cluster(name: str) -> UserError:
    return UserError(f"there is no cluster '{name}'; make one with: {_hint(name, 'up')}")


def _keeper_pid(found: Files) -> int | None:
    """PID of the keeper as seen by the kernel; None if it is not running."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_SECONDS_TO_END)
        try:
            connection.connect(str(found.keeper))
        except OSError:
            return None
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid: int = struct.unpack("3i", credentials)[0]
    if pid == 0:
        raise UserError("this is a host of the cluster; run the command outside, where the cluster was made")
    return pid


def _kill(pid: int) -> None:
    """Kills the keeper and waits until the kernel has ended all of its processes."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(process, signal.SIGKILL)
        if not select.select([process], [], [], _SECONDS_TO_END)[0]:
            raise UserError(f"process {pid}, the cluster's keeper, was killed but has not ended: see /proc/{pid}/stack")
    except ProcessLookupError:
        pass
    finally:
        os.close(process)


def _clear(found: Files) -> bool:
    """Removes a cluster and its files in any state; returns whether there was something."""
    pid = _keeper_pid(found)
    if pid is not None:
        _kill(pid)
    cpusets.remove(found.name)
    if not found.directory.exists():
        return False
    shutil.rmtree(found.directory)
    return True


def _whole(found: Files) -> bool:
    """True if the keeper answers and none of its hosts is dead."""
    try:
        answer = messages.ask(str(found.keeper), requests.as_message(requests.Look()), _SECONDS_TO_ANSWER)
    except (OSError, messages.ClosedError):
        return False
    return "killed" not in requests.answer(answer, requests.States).states.values()


def _check(spec: Spec, found: Files) -> None:
    if not 1 <= spec.nodes <= NODES_AT_MOST:
        raise UserError(f"--nodes {spec.nodes}: 1 to {NODES_AT_MOST} can be made")
    for directory in spec.private:
        path = Path(directory)
        if not path.is_absolute() or not path.is_dir():
            raise UserError(f"--private {directory}: the absolute path of a directory is needed")
        if str(path.resolve()) in _NOT_PRIVATE or found.directory.is_relative_to(path.resolve()):
            raise UserError(f"--private {directory}: this directory is needed on every host as it is")
    if len(str(found.host(host_name(spec.nodes)))) > 100:
        raise UserError(f"{found.directory}: too long for the path of a socket; set XDG_RUNTIME_DIR to a shorter one")


# -S, -E and -s skip files that Python would look for at its start.
_AGENT = """#!/bin/sh
exec {python} -S -E -s -c '
import sys
sys.path.insert(0, sys.argv[1])
from outrigger.cluster.session import agent
sys.exit(agent(sys.argv[2], sys.argv[3:]))
' {package} {directory} "$@"
"""


def _write_files(found: Files, spec: Spec) -> None:
    found.directory.mkdir(mode=0o700)
    found.temporary.mkdir()
    found.programs.mkdir()
    found.write_spec(spec)
    lines = ["127.0.0.1 localhost", "::1 localhost"]
    lines += [f"{address(index)} {name}" for index, name in enumerate(spec.hosts())]
    found.hosts.write_text("\n".join(lines) + "\n")
    found.hosts.chmod(0o644)
    paths = {"python": sys.executable, "package": Path(__file__).resolve().parents[2], "directory": found.directory}
    found.agent.write_text(_AGENT.format(**{name: shlex.quote(str(path)) for name, path in paths.items()}))
    found.agent.chmod(0o755)
    (found.programs / "ssh").symlink_to(found.agent)


def _start_keeper(found: Files, lock: int, *, unprivileged: bool) -> None:
    """Starts the keeper. It holds the lock, too, until all is set up, so that a partial cluster is not overlooked."""
    command = [*itself.module("outrigger.cluster.keeper"), str(found.directory), str(lock)]
    if unprivileged:
        command.append("unprivileged")
    with open(found.log, "ab") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, cwd="/", pass_fds=(lock,)
        )
    assert process.stdout is not None
    with process.stdout as output:
        ready, _, _ = select.select([output], [], [], _SECONDS_TO_START)
        line = output.readline() if ready else b""
    process.wait()
    if not line:
        last = found.log.read_text(errors="replace").strip().splitlines()[-1:]
        raise UserError(f"the cluster did not start: {last[0] if last else 'its keeper ended without a message'}")
    requests.setup(line)


def up(spec: Spec, name: str = DEFAULT_NAME, *, unprivileged: bool = False) -> bool:
    """Makes a cluster; returns whether a broken one had to be removed first."""
    with locked(name) as (found, lock):
        _check(spec, found)
        if _whole(found):
            raise UserError(f"the cluster '{name}' is up already; remove it first: {_hint(name, 'down')}")
        cleared = _clear(found)
        cpusets.make(spec, found.name)
        try:
            _write_files(found, spec)
            _start_keeper(found, lock, unprivileged=unprivileged)
        except BaseException:
            _clear(found)
            raise
    return cleared


def down(name: str = DEFAULT_NAME) -> bool:
    """Ends every process of a cluster and removes its files; returns whether there was one."""
    if not files(name).directory.exists():
        return False
    with locked(name) as (found, _):
        return _clear(found)


def _ask_keeper(name: str, request: requests.ForKeeper, form: type[T]) -> T:
    try:
        message = messages.ask(str(files(name).keeper), requests.as_message(request), _SECONDS_TO_ANSWER)
    except TimeoutError:
        raise UserError(f"the cluster '{name}' does not answer; remove it with: {_hint(name, 'down')}") from None
    except (OSError, messages.ClosedError):
        if files(name).directory.exists():
            advice = f"{_hint(name, 'up')}, or {_hint(name, 'down')}"
            raise UserError(f"the cluster '{name}' has ended by itself; remove it with: {advice}") from None
        raise _no_cluster(name) from None
    return requests.answer(message, form)


def spec_of(name: str = DEFAULT_NAME) -> Spec:
    """Specification that a cluster was made from."""
    try:
        return files(name).read_spec()
    except FileNotFoundError:
        raise _no_cluster(name) from None


def look(name: str = DEFAULT_NAME) -> list[Host]:
    """Current state of every host."""
    states = _ask_keeper(name, requests.Look(), requests.States).states
    hosts = []
    for index, (host, state) in enumerate(states.items()):
        processes = 0
        with contextlib.suppress(OSError, messages.ClosedError):
            if state != "killed":
                message = messages.ask(str(files(name).host(host)), requests.as_message(requests.Look()))
                processes = requests.answer(message, requests.Processes).processes
        hosts.append(Host(host, address(index), state, processes))
    return hosts


def kill(host: str, name: str = DEFAULT_NAME) -> None:
    """Ends a host at once; the others are not told."""
    _ask_keeper(name, requests.Kill(host), requests.Done)


def set_link(host: str, state: str, name: str = DEFAULT_NAME) -> None:
    """Unplugs a host's cable (down) or plugs it in (up)."""
    if state not in ("up", "down"):
        raise UserError(f"{state}: a link can be set up or down")
    _ask_keeper(name, requests.Link(host, "up" if state == "up" else "down"), requests.Done)


def hostfile(slots: int | None = None, mpi: str = "mpich", name: str = DEFAULT_NAME) -> str:
    """The hosts, one a line, for an MPI launcher; MPICH's format is Outrigger's as well."""
    if slots is not None and slots < 1:
        raise UserError(f"--slots {slots}: at least one is needed")
    if mpi not in _SLOTS:
        raise UserError(f"--mpi {mpi}: there are {', '.join(_SLOTS)}")
    suffix = "" if slots is None else f"{_SLOTS[mpi]}{slots}"
    return "".join(f"{host}{suffix}\n" for host in spec_of(name).hosts())


def agent(name: str = DEFAULT_NAME) -> Path:
    """Program that replaces ssh."""
    spec_of(name)
    return files(name).agent


def _limits() -> list[tuple[int, int, int]]:
    kinds = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]
    return [(kind, *resource.getrlimit(kind)) for kind in kinds]


def _ignored_signals() -> list[int]:
    """Signals ignored as by nohup; Python itself ignores two others."""
    python = (signal.SIGPIPE, signal.SIGXFSZ)
    every = signal.valid_signals() - set(python)
    return sorted(number for number in every if signal.getsignal(number) == signal.SIG_IGN)


def execute(host: str, words: Sequence[str], name: str = DEFAULT_NAME) -> int:
    """Runs a program on a host as if it were local; returns its exit status."""
    hosts = spec_of(name).hosts()
    if host not in hosts:
        raise UserError(f"{host}: there are {hosts[0]} to {hosts[-1]} in the cluster '{name}'")
    try:
        directory = os.getcwd()
    except FileNotFoundError:
        raise UserError("the working directory is deleted; change to another") from None
    umask = os.umask(0)
    os.umask(umask)
    request = requests.Run(
        words=list(words),
        environment=dict(os.environ),
        directory=directory,
        umask=umask,
        cpus=sorted(os.sched_getaffinity(0)),
        limits=_limits(),
        ignored=_ignored_signals(),
    )
    return session.run(str(files(name).host(host)), host, requests.as_message(request), may_have_terminal=True)
