"""A machine's answer about its jobs for `top` and `watch` of another machine: JSON, under /nodes and by `exporter
--lines`.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from outrigger import __version__
from outrigger.errors import UserError
from outrigger.live import snapshot
from outrigger.live.snapshot import Node

VERSION = 1
"""Version of the format."""
_MOST_PROBLEMS = 64
_MOST_LETTERS = 400


@dataclass(frozen=True)
class Told:
    """Nodes found, and sources that could not be read."""

    nodes: tuple[Node, ...]
    problems: tuple[str, ...] = ()
    refused: int = 0
    """Keepers of other users' jobs, which answer only those users and root."""


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of every version."""

    live: int
    outrigger: str


class _Answer(_Head, frozen=True, kw_only=True):
    nodes: tuple[Node, ...]
    problems: tuple[str, ...]
    refused: int


_heads = msgspec.json.Decoder(_Head)
_answers = msgspec.json.Decoder(_Answer)


def printable(text: str) -> str:
    """The printable characters of text from others."""
    return "".join(letter for letter in text if letter.isprintable())[:_MOST_LETTERS]


def encode(told: Told) -> bytes:
    """In one line."""
    return msgspec.json.encode(
        _Answer(live=VERSION, outrigger=__version__, nodes=told.nodes, problems=told.problems, refused=told.refused)
    )


def decode(text: bytes, what: str, who: str = "") -> Told:
    """Reverses encode(); raises UserError for other text. `who`: name to add to its problems."""
    try:
        head = _heads.decode(text)
        if head.live != VERSION:
            raise UserError(
                f"{what} is from Outrigger {printable(head.outrigger)}, but this is {__version__}: use the same version"
            )
        answer = _answers.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"{what} cannot be read: {error}") from error
    nodes = tuple(snapshot.check(node, what) for node in answer.nodes)
    before = f"{who}: " if who else ""
    problems = tuple(before + printable(problem) for problem in answer.problems[:_MOST_PROBLEMS])
    return Told(nodes, problems, max(0, answer.refused))
