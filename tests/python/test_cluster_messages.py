"""Messages on the cluster's sockets."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence

import pytest

from outrigger.cluster import messages


def test_messages_and_files_arrive() -> None:
    here, there = socket.socketpair()
    readable, writable = os.pipe()
    with here, there:
        messages.send(here, {"do": "run", "words": ["x" * 100_000]}, [writable])
        message, files = messages.receive(there)
    assert message == {"do": "run", "words": ["x" * 100_000]}
    os.write(files[0], b"here")
    assert os.read(readable, 9) == b"here"
    for file in (readable, writable, *files):
        os.close(file)


def test_a_host_may_be_done_before_its_client_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has read the request, run a short program, answered and closed, all while the client's call returns."""
    here, there = socket.socketpair()
    send_fds = socket.send_fds

    def slow(connection: socket.socket, data: Sequence[memoryview], files: list[int]) -> int:
        sent = send_fds(connection, data, files)
        _, received = messages.receive(there)
        os.close(received[0])
        messages.send(there, {"code": 0})
        there.close()
        return sent

    monkeypatch.setattr(socket, "send_fds", slow)
    with here:
        messages.send(here, {"do": "run"}, [0])
        assert messages.receive(here) == ({"code": 0}, [])


@pytest.mark.parametrize("sent", [b"", b"\0\0", b"\0\0\0\x09{", b"\xff\xff\xff\xff", b"\0\0\0\x02[]", b"\0\0\0\x01{"])
def test_other_bytes_are_refused(sent: bytes) -> None:
    here, there = socket.socketpair()
    with here, there:
        here.sendall(sent)
        here.shutdown(socket.SHUT_WR)
        with pytest.raises((messages.ClosedError, ValueError)):
            messages.receive(there)
