"""The processes of PyTorch jobs on this machine: ranks with their counts (torch_layout.py), and service processes.

A rank's abstract socket names its process and the descriptor of its counts, which others open in /proc. So data are
there whatever the rank does, and reading them costs it nothing.
"""

from __future__ import annotations

import os
import re
import stat
import struct
from dataclasses import dataclass
from pathlib import Path

from outrigger import report_torch_ranks, torch_layout
from outrigger.errors import UserError
from outrigger.report_torch_ranks import Rank
from outrigger.torch_layout import Group

_NAME = re.compile(rf"@{torch_layout.LIVE_NAME}:(\d{{1,10}}):(\d{{1,6}})$", re.MULTILINE)
_MOST_PROCESSES = 4096
"""Per machine. More are not read."""


@dataclass(frozen=True)
class Seen:
    """A process and its counts."""

    pid: int
    uid: int
    data: bytes
    rank: Rank
    groups: list[Group]


def _user_of(pid: int) -> int:
    return os.stat(f"/proc/{pid}").st_uid


def _read_file(pid: int, descriptor: int) -> bytes:
    """Any process can use such a name, so this may be another file. Empty: it is."""
    opened = os.open(f"/proc/{pid}/fd/{descriptor}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        found = os.fstat(opened)
        is_counts = stat.S_ISREG(found.st_mode) and found.st_size == torch_layout.FILE_BYTES
        return os.pread(opened, torch_layout.FILE_BYTES, 0) if is_counts else b""
    finally:
        os.close(opened)


def read(pid: int, descriptor: int) -> Seen | None:
    """None: it has ended, or is no rank. PermissionError: it belongs to another user."""
    uid = _user_of(pid)
    if os.geteuid() not in (0, uid):
        raise PermissionError
    data = _read_file(pid, descriptor)
    what = f"data of process {pid}"
    try:
        rank = report_torch_ranks.parse_rank(data, what)
        return Seen(pid, uid, data, rank, report_torch_ranks.groups_in(data)) if rank is not None else None
    except (ValueError, OverflowError, struct.error) as error:
        raise UserError(f"{what} cannot be read: {error}") from error


def find(sockets: str) -> list[tuple[int, int]]:
    """Processes that may be ranks, with the descriptors of their counts."""
    return sorted({(int(found[1]), int(found[2])) for found in _NAME.finditer(sockets)})[:_MOST_PROCESSES]


def fields(pid: int) -> list[str]:
    """State, parent and more."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


@dataclass
class ServiceUse:
    """Use of a core by a service process, from the kernel."""

    cpu: int = -1
    ran_ns: int = 0
    waited_ns: int = 0
    warning: str = ""


def _cpu_of(pid: int) -> int:
    """-1: it may use several."""
    cpus = os.sched_getaffinity(pid)
    return next(iter(cpus)) if len(cpus) == 1 else -1


def service(pid: int) -> ServiceUse:
    """That of a group's service process."""
    try:
        if fields(pid)[0] not in "ZX":  # nothing may have waited for it
            ran, waited, *_ = Path(f"/proc/{pid}/schedstat").read_text().split()
            return ServiceUse(_cpu_of(pid), int(ran), int(waited))
    except (OSError, ValueError):
        pass
    return ServiceUse(warning=f"service process {pid} has ended: ranks of one machine do its operations, others fail")
