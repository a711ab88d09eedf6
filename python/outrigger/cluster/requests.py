"""What is asked on the cluster's sockets, and what is answered: every message as what it must hold.

The agent, which starts for every host of every job, does without: it would have to load what checks them.
"""

from __future__ import annotations

from typing import Literal, TypeVar

import msgspec

from outrigger import formats
from outrigger.cluster.messages import Message
from outrigger.errors import UserError

T = TypeVar("T")


class _Request(msgspec.Struct, tag_field="do", tag=str.lower):
    """Its name says what is to be done."""


class Look(_Request):
    """How is it? To the keeper or to a host."""


class Kill(_Request):
    """Cut a host's power."""

    host: str


class Link(_Request):
    """Pull a host's cable, or put it back."""

    host: str
    state: Literal["up", "down"]


class Run(_Request, kw_only=True):
    """Start a program on a host, on the files that come with the message."""

    words: list[str]
    terminal: bool = False
    environment: dict[str, str] | None = None
    """None: as a login would set it."""
    directory: str | None = None
    """None: the user's own."""
    umask: int = 0o022
    cpus: list[int] = []
    """None named: the host's."""
    limits: list[tuple[int, int, int]] = []
    """Kind, soft, hard."""
    ignored: list[int] = []
    """Signals."""


class Signal(msgspec.Struct, frozen=True):
    """For a program that runs; from its client."""

    signal: int


class States(msgspec.Struct, frozen=True):
    """The keeper's answer: how its hosts are."""

    states: dict[str, str]


class Processes(msgspec.Struct, frozen=True):
    """A host's answer."""

    processes: int


class Done(msgspec.Struct, frozen=True):
    """The answer where there is nothing to say."""


class Setup(msgspec.Struct, frozen=True):
    """A process that sets up a part of the cluster: what went wrong, or nothing."""

    fault: str | None


ForKeeper = Look | Kill | Link
ForHost = Look | Run


def setup(line: bytes | str) -> None:
    """A line of such a process; what went wrong is raised."""
    if fault := formats.parse(line, Setup, "what the cluster says").fault:
        raise UserError(fault)


def as_message(request: _Request) -> Message:
    """For messages.send."""
    message: Message = msgspec.to_builtins(request)
    return message


def for_keeper(message: Message) -> ForKeeper:
    """What the keeper is asked."""
    asked: ForKeeper = formats.convert(message, ForKeeper, "the request")
    return asked


def for_host(message: Message) -> ForHost:
    """What a host is asked."""
    asked: ForHost = formats.convert(message, ForHost, "the request")
    return asked


def answer(message: Message, form: type[T]) -> T:
    """An answer; a fault in it is raised."""
    if fault := message.get("fault"):
        raise UserError(str(fault))
    found: T = formats.convert(message, form, "an answer of the cluster")
    return found
