"""Cores that a job claims during its planning, before its keeper can.

The names are those of src/service/placement/core_claims.hpp, which describes them.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import socket
from collections.abc import Sequence
from pathlib import Path

from outrigger.binding import NodeBinding
from outrigger.settings import CORE_CLAIMS, JOB

SOCKETS = Path("/proc/net/unix")
_WORD = re.compile("[A-Za-z0-9_-]{1,24}")
_held: dict[str, socket.socket] = {}
"""By name. They end with this process, and so with the job."""
_MOST_KEEPERS = 64


def word() -> str:
    """Word that identifies all processes of this command as one job."""
    return os.environ.setdefault(JOB, f"run-{os.getpid()}-{secrets.token_hex(3)}")


def scope() -> str:
    """Empty: claims are off."""
    name = os.environ.get(CORE_CLAIMS, "") or "on"
    return "" if name == "off" or not _WORD.fullmatch(name) else name


def _bind(name: str) -> bool:
    """True if this process has the name now. Without sockets it counts as held, as nothing is known."""
    if name in _held:
        return True
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(b"\0" + name.encode())
    except OSError as error:
        claim.close()
        return error.errno != errno.EADDRINUSE
    _held[name] = claim
    return True


def sockets() -> str:
    """The names of this machine's Unix sockets, from the kernel. Empty also if the system does not list them."""
    try:
        return SOCKETS.read_text(errors="replace")
    except OSError:
        return ""


def _is_own(cpu: int) -> bool:
    names = sockets()
    mine = re.compile(rf"@outrigger-claim:{scope()}:(service|ranks):{cpu}:{word()}:")
    return not names or mine.search(names) is not None


def _explain(by: str, cpus: Sequence[int]) -> None:
    for cpu in cpus:
        _bind(f"outrigger-claim:{scope()}:{by}:{cpu}:{word()}:{os.getpid()}")


def _tell_keepers(cpus: Sequence[int]) -> None:
    """Keepers of other jobs check claims again when a process connects to them, and when it disconnects
    (neighbours.hpp).

    In addition to this job's keeper, which does it itself: a native job has none.
    """
    claim = re.compile(rf"@outrigger-claim:{scope()}:(?:service|ranks):(\d+):({_WORD.pattern}):(\d+)$", re.MULTILINE)
    keepers = {
        f"outrigger-keeper:{scope()}:{found[2]}:{found[3]}"
        for found in claim.finditer(sockets())
        if int(found[1]) in cpus and found[2] != word()
    }
    for keeper in sorted(keepers.difference(_held))[:_MOST_KEEPERS]:
        link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        link.setblocking(False)
        try:
            link.connect(b"\0" + keeper.encode())
        except OSError:  # it has no keeper yet, or not any more
            link.close()
        else:
            _held[keeper] = link


def drop() -> None:
    """As if this process ended."""
    while _held:
        _held.popitem()[1].close()


def hold(node: NodeBinding, copy_cpus: Sequence[int] = ()) -> bool:
    """Claims a plan's cores for this machine's ranks, service processes and copiers. False: others were faster; plan
    again.
    """
    if not scope():
        return True
    others = {job.cpu for job in node.other_jobs}
    cores = [core for domain in node.domains for core in domain]
    usable = sum(map(len, cores))
    bound = node.rank_cpus if any(0 < len(rank.cpus) < usable for rank in node.ranks) else ()
    services = [core for core in cores if set(core) & {*node.service_cpus, *copy_cpus}]
    alone = [core for core in cores if (set(core) & set(bound) or core in services) and not others & set(core)]
    # In ascending order: if several jobs want the same cores, one gets all of its.
    for cpu in sorted(cpu for core in alone for cpu in core):
        if not _bind(f"outrigger-core:{scope()}:{cpu}") and not _is_own(cpu):
            drop()
            return False
    _explain("service", [cpu for core in services if core in alone for cpu in core])
    _explain("ranks", bound)
    _tell_keepers([*bound, *(cpu for core in services for cpu in core)])
    return True
