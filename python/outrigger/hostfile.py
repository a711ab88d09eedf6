"""Hosts with their numbers of ranks, one a line, in the formats of mpirun:

    thor001:32
    thor002 slots=32     # the same
    thor003              # one slot

`#` begins a comment. If a host is repeated, its slots are added.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from outrigger.errors import UserError

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_MAX_SLOTS = 1 << 20


@dataclass(frozen=True)
class Host:
    """Name of a host and its number of ranks."""

    name: str
    slots: int = 1


def is_host_name(text: str) -> bool:
    """Letters, digits, dots, dashes and underscores: a name or an IPv4 address."""
    return _NAME.fullmatch(text) is not None


def is_this_host(name: str) -> bool:
    """True if it is the name of this machine."""
    here = socket.gethostname()
    return name in {"localhost", "127.0.0.1", here, here.partition(".")[0]}


def meaningful_lines(text: str) -> list[tuple[int, str]]:
    """Lines with their numbers, without comments and empty lines."""
    stripped = ((number, line.partition("#")[0].strip()) for number, line in enumerate(text.split("\n"), 1))
    return [(number, line) for number, line in stripped if line]


def _slots(text: str, where: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= _MAX_SLOTS:
        raise UserError(f"{where}: '{text}' is not a number of slots; write one from 1 up, like node1:32")
    return int(text)


def _host(line: str, where: str) -> Host:
    first, *settings = line.split()
    name, colon, count = first.partition(":")
    if not is_host_name(name):
        raise UserError(f"{where}: '{name or first}' is not a host name; write HOST:SLOTS, like node1:32")
    if colon and settings:
        raise UserError(f"{where}: '{settings[0]}' after {first}; write HOST:SLOTS or HOST slots=N, one host a line")
    slots = _slots(count, where) if colon else None
    for setting in settings:
        key, _, value = setting.partition("=")
        if key != "slots" or slots is not None:
            raise UserError(f"{where}: '{setting}' is not known here; write HOST:SLOTS or HOST slots=N")
        slots = _slots(value, where)
    return Host(name, 1 if slots is None else slots)


def parse(text: str, source: str) -> tuple[Host, ...]:
    """Hosts of a text, in its order. A repeated host takes that many more."""
    found: dict[str, int] = {}
    for number, line in meaningful_lines(text):
        host = _host(line, f"{source}:{number}")
        found[host.name] = found.get(host.name, 0) + host.slots
    if not found:
        raise UserError(f"{source}: no host is named; write HOST:SLOTS on a line of its own for each")
    return tuple(Host(name, slots) for name, slots in found.items())


def read_text(path: Path, option: str) -> str:
    """Content of a file named by an option."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{option} {path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise UserError(f"{option} {path}: this is not a text file") from None


def read(path: Path) -> tuple[Host, ...]:
    """Hosts of a file."""
    return parse(read_text(path, "--hostfile"), str(path))


def render(hosts: Sequence[Host]) -> str:
    """Text that `parse` reads back."""
    return "".join(f"{host.name}:{host.slots}\n" for host in hosts)
