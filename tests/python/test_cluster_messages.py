"""Messages on the cluster's sockets."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence

import pytest

from outrigger.cluster import messages, requests
from outrigger.errors import UserError


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


@pytest.mark.parametrize(
    "asked",
    [requests.Look(), requests.Kill("n1"), requests.Link("n0", "down"), requests.Run(words=["true"], umask=0o77)],
)
def test_requests_are_read_back(asked: requests.ForKeeper | requests.Run) -> None:
    read = requests.for_host if isinstance(asked, requests.Run) else requests.for_keeper
    assert read(requests.as_message(asked)) == asked


@pytest.mark.parametrize(
    ("message", "wrong"),
    [
        ({"do": "dance"}, "dance"),
        ({}, "do"),
        ({"do": "kill"}, "host"),
        ({"do": "kill", "host": 1}, r"\$\.host"),
        ({"do": "link", "host": "n0", "state": "sideways"}, r"\$\.state"),
        ({"do": "run", "words": ["true"]}, "run"),
    ],
)
def test_what_is_wrong_with_a_askedis_said(message: messages.Message, wrong: str) -> None:
    with pytest.raises(UserError, match=f"the request cannot be read: .*{wrong}"):
        requests.for_keeper(message)


def test_a_fault_in_an_answer_is_raised() -> None:
    assert requests.answer({"states": {"n0": "up"}}, requests.States).states == {"n0": "up"}
    with pytest.raises(UserError, match="n9: there are n0 to n1"):
        requests.answer({"fault": "n9: there are n0 to n1"}, requests.Done)
