"""The keepers of this machine: who they are, and what they say (src/service/keeper/observe/live_listener.hpp)."""

from __future__ import annotations

import os
import re
import socket
import struct
from dataclasses import dataclass

import msgspec

from outrigger import claims
from outrigger.errors import UserError
from outrigger.live import snapshot
from outrigger.live.answer import Told

_NAME = re.compile(r"@outrigger-live:([A-Za-z0-9_-]{1,24}):(\d{1,10})$", re.MULTILINE)
_TIMEOUT_SECONDS = 2.0
MOST_KEEPERS = 256
"""Per machine. More are not read."""


@dataclass(frozen=True, order=True)
class Keeper:
    """Job and process, from the name of its socket."""

    job: str
    pid: int

    @property
    def address(self) -> bytes:
        """In the abstract namespace."""
        return b"\0" + f"outrigger-live:{self.job}:{self.pid}".encode()


def find(sockets: str) -> list[Keeper]:
    """In a text like /proc/net/unix, without duplicates."""
    return sorted({Keeper(found[1], int(found[2])) for found in _NAME.finditer(sockets)})[:MOST_KEEPERS]


def _user_of(link: socket.socket) -> int:
    _pid, uid, _gid = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(uid)


def _is_trusted(link: socket.socket) -> bool:
    """Any process can use such a name, so other users' data is shown only to root."""
    return os.geteuid() == 0 or _user_of(link) in (0, os.geteuid())


class RefusedError(Exception):
    """The job of another user: its keeper answers only that user and root."""


def ask(keeper: Keeper) -> snapshot.Node | None:
    """None: it has ended. RefusedError: it belongs to another user."""
    frame = bytearray()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.settimeout(_TIMEOUT_SECONDS)
        try:
            link.connect(keeper.address)
            if not _is_trusted(link):
                raise RefusedError
            user = _user_of(link)
            while chunk := link.recv(1 << 18):
                frame += chunk
                if len(frame) > snapshot.HEADER.size + snapshot.MOST_BYTES:
                    raise UserError(f"keeper {keeper.pid} sends too much data")
        except OSError:
            return None
        if not frame and os.geteuid() not in (0, _user_of(link)):
            raise RefusedError
    if not frame:
        return None
    node = snapshot.decode(bytes(frame), f"data of keeper {keeper.pid} says")
    # Only root may speak for others: files of this user will be read.
    return node if user == 0 else msgspec.structs.replace(node, uid=user)


def read() -> Told:
    """Every job on this machine whose figures this user may read."""
    nodes = []
    problems = []
    refused = 0
    for keeper in find(claims.sockets()):
        try:
            node = ask(keeper)
        except RefusedError:
            refused += 1
        except UserError as error:
            problems.append(str(error))
        else:
            nodes += [node] if node is not None else []
    return Told(tuple(nodes), tuple(problems), refused)
