"""Reads the decisions that earlier runs have saved for later ones (src/steer/rank/decision_file.hpp)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

_TITLE = "outrigger-choices 4"
_HEADER = ("machine ", "mpi ", "cores ", "program ")
_FILES = "choices-*.txt"
_SUMS = "sums-*.txt"
"""Orders in which MPIs add (src/intranode/sums/order_file.hpp)."""
_WORDS = 9
"""Fields of a line: collective, form, size class, ranks, nodes, ranks per node, services per node, way, since."""


@dataclass(frozen=True)
class Choice:
    """Decision for one kind of call on one shape of communicator."""

    collective: str
    form: str
    """`blocking` or `nonblocking`."""
    size_class: int
    """Blocks in bytes: more than half of 2 to this power, and up to it."""
    ranks: int
    nodes: int
    ranks_per_node: int
    services: int
    way: str
    """`native`, or an algorithm of service processes."""
    since: datetime
    """When it was learned: later runs have found the same."""


@dataclass(frozen=True)
class Kept:
    """Decision file of one program on one kind of machine, with one MPI and one placement."""

    path: Path
    changed: datetime
    """Time of the last addition."""
    machine: str = ""
    mpi: str = ""
    cores: str = ""
    program: str = ""
    """Name of the executable, or of an interpreter's script."""
    choices: tuple[Choice, ...] = ()
    readable: bool = True
    """False: of another version, or something else; the library does not touch it."""


def size_class(block_bytes: float) -> int:
    """Number used by the library: 0 up to one byte, 1 up to 2, 2 up to 4."""
    return max(int(block_bytes) - 1, 0).bit_length()


def place(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Directory of decision files; None: there is no home directory, and nothing is saved."""
    cache, home = environment.get("XDG_CACHE_HOME", ""), environment.get("HOME", "")
    if cache.startswith("/"):
        return Path(cache) / "outrigger"
    return Path(home) / ".cache" / "outrigger" if home.startswith("/") else None


def _choice(line: str) -> Choice | None:
    words = line.split()
    if len(words) != _WORDS or not all(word.isdecimal() for word in (*words[2:7], words[8])):
        return None
    size, ranks, nodes, ranks_per_node, services = map(int, words[2:7])
    try:
        since = datetime.fromtimestamp(int(words[8])).astimezone()
    except (OverflowError, ValueError, OSError):
        return None
    return Choice(words[0], words[1], size, ranks, nodes, ranks_per_node, services, words[7], since)


def read_file(path: Path) -> Kept:
    """Raises OSError if it cannot be read."""
    changed = datetime.fromtimestamp(path.stat().st_mtime).astimezone()
    title, *lines = path.read_text(encoding="utf-8", errors="replace").splitlines() or [""]
    header, choices = lines[: len(_HEADER)], [_choice(line) for line in lines[len(_HEADER) :]]
    named = len(header) == len(_HEADER) and all(map(str.startswith, header, _HEADER))
    known = tuple(choice for choice in choices if choice is not None)
    if title != _TITLE or not named or len(known) < len(choices):
        return Kept(path, changed, readable=False)
    machine, mpi, cores, program = (line.removeprefix(name) for line, name in zip(header, _HEADER, strict=True))
    return Kept(path, changed, machine, mpi, cores, program, known)


def read_all(directory: Path | None, program: str | None = None) -> list[Kept]:
    """Newest first; without unreadable files of other users. `program`: only its files."""
    kept = []
    for path in directory.glob(_FILES) if directory is not None else ():
        try:
            kept.append(read_file(path))
        except OSError:
            continue
    chosen = (each for each in kept if program is None or (each.readable and each.program == program))
    return sorted(chosen, key=lambda each: each.changed, reverse=True)


def sum_files(directory: Path | None) -> list[Path]:
    """Files with orders in which MPIs add."""
    return sorted(directory.glob(_SUMS)) if directory is not None else []


def clear(directory: Path | None, program: str | None = None) -> int:
    """Removes all files, or the decisions of a program. Returns the number. Active runs may write theirs again."""
    if program is not None:
        files = [each.path for each in read_all(directory, program)]
    else:
        files = [*(sorted(directory.glob(_FILES)) if directory is not None else []), *sum_files(directory)]
    for path in files:
        path.unlink(missing_ok=True)
        path.with_name(f"{path.name}.lock").unlink(missing_ok=True)
    return len(files)
