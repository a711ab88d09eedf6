"""Requests and answers on the cluster's sockets, with the fields of every message.

The agent does not use this module: it starts for every host of every job, and validation takes long to load.
"""

from __future__ import annotations

from typing import Literal, TypeVar

import msgspec

from outrigger import formats
from outrigger.cluster.messages import Message
from outrigger.errors import UserError

T = TypeVar("T")


class _Request(msgspec.Struct, tag_field="do", tag=str.lower):
    """The class name is the action."""


class Look(_Request):
    """Asks the keeper or a host for its state."""


class Kill(_Request):
    """Cuts a host's power."""

    host: str


class Link(_Request):
    """Connects or disconnects a host's cable."""

    host: str
    state: Literal["up", "down"]


class Run(_Request, kw_only=True):
    """Starts a program on a host, on the files that come with the message."""

    words: list[str]
    terminal: bool = False
    environment: dict[str, str] | None = None
    """None: like a login."""
    directory: str | None = None
    """None: the user's home."""
    umask: int = 0o022
    cpus: list[int] = []
    """Empty: all of the host."""
    limits: list[tuple[int, int, int]] = []
    """Resource, soft limit, hard limit."""
    ignored: list[int] = []
    """Signals."""


class Signal(msgspec.Struct, frozen=True):
    """Signal from its client, for a running program."""

    signal: int


class States(msgspec.Struct, frozen=True):
    """The keeper's answer: the state of its hosts."""

    states: dict[str, str]


class Processes(msgspec.Struct, frozen=True):
    """A host's answer."""

    processes: int


class Done(msgspec.Struct, frozen=True):
    """Answer without data."""


class Setup(msgspec.Struct, frozen=True):
    """Result of a setup process: its error, or nothing."""

    fault: str | None


ForKeeper = Look | Kill | Link
ForHost = Look | Run


def setup(line: bytes | str) -> None:
    """Parses the line of a setup process; raises its error."""
    if fault := formats.parse(line, Setup, "what the cluster says").fault:
        raise UserError(fault)


def as_message(request: _Request) -> Message:
    """Converts for messages.send."""
    message: Message = msgspec.to_builtins(request)
    return message


def for_keeper(message: Message) -> ForKeeper:
    """Parses a request for the keeper."""
    asked: ForKeeper = formats.convert(message, ForKeeper, "the request")
    return asked


def for_host(message: Message) -> ForHost:
    """Parses a request for a host."""
    asked: ForHost = formats.convert(message, ForHost, "the request")
    return asked


def answer(message: Message, form: type[T]) -> T:
    """Parses an answer; raises its error."""
    if fault := message.get("fault"):
        raise UserError(str(fault))
    found: T = formats.convert(message, form, "an answer of the cluster")
    return found
