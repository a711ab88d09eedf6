"""Messages on the cluster's sockets: a length, then JSON; open files may travel with the first byte."""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Sequence
from typing import Any

Message = dict[str, Any]

_LENGTH = struct.Struct("!I")
_FILES_AT_MOST = 8
_LENGTH_AT_MOST = 64 << 20


class ClosedError(Exception):
    """The peer has disconnected."""


def send(connection: socket.socket, message: Message, files: Sequence[int] = ()) -> None:
    """Sends a message and duplicates of open files."""
    text = json.dumps(message).encode()
    data = memoryview(_LENGTH.pack(len(text)) + text)
    sent = socket.send_fds(connection, [data], list(files)) if files else 0
    if sent < len(data):  # sending 0 bytes fails, too, if the peer has finished and disconnected
        connection.sendall(data[sent:])


def _receive_exactly(connection: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = connection.recv(min(count - len(parts), 1 << 20))
        if not part:
            raise ClosedError
        parts += part
    return bytes(parts)


def parse(text: bytes) -> Message:
    """Parses a message."""
    message = json.loads(text)
    if not isinstance(message, dict):
        raise ValueError("not a message")
    return message


def receive(connection: socket.socket) -> tuple[Message, list[int]]:
    """Returns the next message and the received files, which the caller must close."""
    first, files, _, _ = socket.recv_fds(connection, _LENGTH.size, _FILES_AT_MOST)
    for file in files:
        os.set_inheritable(file, False)
    if not first:
        raise ClosedError
    first += _receive_exactly(connection, _LENGTH.size - len(first))
    (length,) = _LENGTH.unpack(first)
    if length > _LENGTH_AT_MOST:
        raise ValueError(f"a message of {length} bytes")
    return parse(_receive_exactly(connection, length)), files


def ask(path: str, message: Message, timeout_s: float = 30.0) -> Message:
    """Sends a request and returns its answer. Raises OSError or ClosedError if there is no peer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout_s)
        connection.connect(path)
        send(connection, message)
        return receive(connection)[0]
