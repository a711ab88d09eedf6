"""Hosts with their numbers of ranks, one a line, in the formats of mpirun:

    thor001:32
    thor002 slots=32     # the same
    thor003              # one slot
    thor004 slots=32 max_slots=64

`#` begins a comment. If a host is repeated, its slots are added. `max_slots` limits its ranks with `--oversubscribe`.
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
_LIMITS = ("max_slots", "max-slots")


@dataclass(frozen=True)
class Host:
    """Name of a host and its number of ranks."""

    name: str
    slots: int = 1
    max_slots: int | None = None
    """Its most ranks if hosts may have more than their slots."""


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


def _settings(words: Sequence[str], where: str) -> dict[str, int]:
    """slots=N and max_slots=N."""
    found: dict[str, int] = {}
    for word in words:
        key, _, value = word.partition("=")
        key = "max_slots" if key in _LIMITS else key
        if key not in ("slots", "max_slots") or key in found:
            raise UserError(f"{where}: '{word}' is not known here; write one HOST:SLOTS or HOST slots=N a line")
        found[key] = _slots(value, where)
    return found


def _check_name(first: str, name: str, where: str) -> None:
    if first.startswith("[") or first.count(":") > 1:
        raise UserError(f"{where}: '{first}': IPv6 addresses cannot be used; write a name or an IPv4 address")
    user, at, host = name.rpartition("@")
    if at and is_host_name(host):
        raise UserError(f"{where}: '{name}': write {host} alone, and `User {user}` for this host in ~/.ssh/config")
    if not is_host_name(name):
        raise UserError(f"{where}: '{name or first}' is not a host name; write HOST:SLOTS, like node1:32")


def _host(line: str, where: str) -> Host:
    first, *words = re.sub(r"\s*=\s*", "=", line).split()
    name, colon, count = first.partition(":")
    _check_name(first, name, where)
    slots = _slots(count, where) if colon else None
    settings = _settings(words, where)
    if slots is not None and "slots" in settings:
        raise UserError(f"{where}: 'slots={settings['slots']}' after {first}; write HOST:SLOTS or HOST slots=N")
    slots = slots or settings.get("slots", 1)
    most = settings.get("max_slots")
    if most is not None and most < slots:
        raise UserError(f"{where}: {name} has max_slots={most}, fewer than its {slots} slots; give it as many or more")
    return Host(name, slots, most)


def _added(before: Host | None, more: Host) -> Host:
    """A host that is named twice. Without a limit in one line, it has none."""
    if before is None:
        return more
    limits = [host.max_slots for host in (before, more) if host.max_slots is not None]
    return Host(more.name, before.slots + more.slots, sum(limits) if len(limits) == 2 else None)


def parse(text: str, source: str) -> tuple[Host, ...]:
    """Hosts of a text, in its order. A repeated host takes that many more."""
    found: dict[str, Host] = {}
    for number, line in meaningful_lines(text):
        host = _host(line, f"{source}:{number}")
        found[host.name] = _added(found.get(host.name), host)
    if not found:
        raise UserError(f"{source}: no host is named; write HOST:SLOTS on a line of its own for each")
    return tuple(found.values())


def read_text(path: Path, option: str) -> str:
    """Content of a file named by an option."""
    try:
        return path.read_text(encoding="utf-8-sig")  # some editors write a byte order mark
    except OSError as error:
        raise UserError(f"{option} {path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise UserError(f"{option} {path}: this is not a text file") from None


def read(path: Path) -> tuple[Host, ...]:
    """Hosts of a file."""
    return parse(read_text(path, "--hostfile"), str(path))


def render(hosts: Sequence[Host]) -> str:
    """Text that `parse` reads back."""

    def limit(host: Host) -> str:
        return "" if host.max_slots is None else f" max_slots={host.max_slots}"

    return "".join(f"{host.name}:{host.slots}{limit(host)}\n" for host in hosts)
