"""System limits and permissions of this user's processes, as far as they matter here."""

from __future__ import annotations

import fcntl
import os
import platform
import resource
import select
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc/self")
_CGROUPS = Path("/sys/fs/cgroup")
_RDMA = Path("/sys/class/infiniband")
_RDMA_DEVICES = Path("/dev/infiniband")
_SHARED_MEMORY = Path("/dev/shm")
_UNLIMITED_BYTES = 1 << 60
"""Control groups of version 1 report a number like this for no limit."""


@dataclass(frozen=True)
class Group:
    """Limits of the control groups of this process."""

    cpus: float | None = None
    """In CPUs; None: no limit."""
    memory_bytes: int | None = None


@dataclass(frozen=True)
class RdmaPort:
    """A port of an RDMA device."""

    device: str
    port: int
    state: str
    """State from the kernel: ACTIVE, DOWN, ..."""
    rate: str
    usable: bool
    """True if this user may open the device."""


@dataclass(frozen=True)
class SharedMemory:
    """The file system /dev/shm."""

    bytes: int
    free_bytes: int


@dataclass(frozen=True)
class System:
    """All of these."""

    kernel: str
    python: str
    online_cpus: int
    allowed_cpus: int
    group: Group
    shared_memory: SharedMemory | None
    """None: does not exist."""
    refused_calls: tuple[str, ...]
    """Calls of a rank's library that were refused."""
    seccomp: bool
    """True if a filter checks this process's system calls."""
    ptrace_scope: int | None
    """None: the kernel has no such setting."""
    locked_bytes: int | None
    """Limit of locked memory; None: no limit."""
    rdma: tuple[RdmaPort, ...]
    preloaded: tuple[str, ...]
    """Our libraries in the shell's LD_PRELOAD."""


def _word(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _seals() -> None:
    memory = os.memfd_create("outrigger-doctor", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(memory, 4096)
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    finally:
        os.close(memory)


def _waits() -> None:
    doorbell = os.eventfd(0, os.EFD_CLOEXEC)
    try:
        with select.epoll() as events:
            events.register(doorbell, select.EPOLLIN)
            events.poll(0)
    finally:
        os.close(doorbell)


def _talks() -> None:
    for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET):
        end.close()


def _watches() -> None:
    os.close(os.pidfd_open(os.getpid()))


_NEEDED: Mapping[str, Callable[[], None]] = {
    "memfd_create and its seals": _seals,
    "eventfd and epoll": _waits,
    "socketpair": _talks,
    "pidfd_open": _watches,
}


def refused_calls(needed: Mapping[str, Callable[[], None]] = _NEEDED) -> tuple[str, ...]:
    """Tries the calls that service processes need; returns each refused one with the reason."""
    refused = []
    for name, attempt in needed.items():
        try:
            attempt()
        except OSError as error:
            refused.append(f"{name} ({error.strerror})")
    return tuple(refused)


def parse_cpu_max(text: str) -> float | None:
    """Parses cpu.max: microseconds of a period, or max."""
    words = text.split()
    if len(words) != 2 or not all(word.isdecimal() for word in words) or int(words[1]) == 0:
        return None
    return int(words[0]) / int(words[1])


def parse_bytes(text: str) -> int | None:
    """Parses memory.max, and memory.limit_in_bytes of version 1."""
    return int(text) if text.isdecimal() and int(text) < _UNLIMITED_BYTES else None


def _group_directories(text: str) -> list[tuple[str, Path]]:
    """Controller ("" in version 2) and directory from each line of /proc/self/cgroup, from the innermost to
    the root.
    """
    found = []
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            root = _CGROUPS / controller if controller else _CGROUPS
            inmost = root / path.lstrip("/")
            found += [(controller, place) for place in (inmost, *inmost.parents) if place.is_relative_to(root)]
    return found


def _group() -> Group:
    """Lowest limit on the path to the root."""
    cpus, memory = [], []
    for controller, place in _group_directories(_word(_PROC / "cgroup")):
        if controller in ("", "cpu"):
            quota = _word(place / "cpu.cfs_quota_us")
            cpus.append(parse_cpu_max(_word(place / "cpu.max") or f"{quota} {_word(place / 'cpu.cfs_period_us')}"))
        if controller in ("", "memory"):
            memory.append(parse_bytes(_word(place / "memory.max") or _word(place / "memory.limit_in_bytes")))
    return Group(
        min((each for each in cpus if each is not None), default=None),
        min((each for each in memory if each is not None), default=None),
    )


def _shared_memory() -> SharedMemory | None:
    try:
        found = os.statvfs(_SHARED_MEMORY)
    except OSError:
        return None
    return SharedMemory(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)


def _rdma_ports() -> tuple[RdmaPort, ...]:
    found = []
    for port in sorted(_RDMA.glob("*/ports/*")):
        device = port.parent.parent
        verbs = sorted(device.glob("device/infiniband_verbs/uverbs*"))
        usable = any(os.access(_RDMA_DEVICES / each.name, os.R_OK | os.W_OK) for each in verbs)
        state = _word(port / "state").rpartition(": ")[2]  # 4: ACTIVE
        found.append(RdmaPort(device.name, int(port.name), state, _word(port / "rate"), usable))
    return tuple(found)


def _locked_bytes() -> int | None:
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return None if soft == resource.RLIM_INFINITY else soft


def _ptrace_scope() -> int | None:
    text = _word(Path("/proc/sys/kernel/yama/ptrace_scope"))
    return int(text) if text.isdecimal() else None


def look(environment: Mapping[str, str]) -> System:
    """Collects all of it."""
    status = dict(line.split(":\t", 1) for line in _word(_PROC / "status").splitlines() if ":\t" in line)
    preloads = environment.get("LD_PRELOAD", "").replace(":", " ").split()
    return System(
        kernel=platform.release(),
        python=platform.python_version(),
        online_cpus=os.cpu_count() or 1,
        allowed_cpus=len(os.sched_getaffinity(0)),
        group=_group(),
        shared_memory=_shared_memory(),
        refused_calls=refused_calls(),
        seccomp=status.get("Seccomp", "0") != "0",
        ptrace_scope=_ptrace_scope(),
        locked_bytes=_locked_bytes(),
        rdma=_rdma_ports(),
        preloaded=tuple(path for path in preloads if Path(path).name.startswith("liboutrigger-")),
    )
