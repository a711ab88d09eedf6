"""Several programs in one job, in the syntax of mpiexec: PROGRAM [ARGS] : -n RANKS PROGRAM [ARGS]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from outrigger.errors import UserError

SEPARATOR = ":"
_COUNTS = ("-n", "-np", "--n", "--np", "-c")
_WORDS = dict.fromkeys((*_COUNTS, "-x", "-wdir", "--wdir", "-wd", "-path", "--path"), 1) | {"-env": 2, "-genv": 2}
"""Number of values after each option of a program."""


@dataclass(frozen=True)
class Section:
    """A further program of a job."""

    ranks: int
    options: tuple[str, ...]
    """As given, including the number of ranks."""
    program: tuple[str, ...]

    @property
    def variables(self) -> frozenset[str]:
        """Names of the variables that its options set."""
        found = set()
        position = 0
        while position < len(self.options):
            option, name = self.options[position : position + 2]
            if option in ("-env", "-genv") or (option == "-x" and "=" in name):
                found.add(name.partition("=")[0])
            position += 1 + _WORDS[option]
        return frozenset(found)


def _split(words: Sequence[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for word in words:
        if word == SEPARATOR:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def _count(option: str, text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise UserError(f"{option} {text}: the number of ranks must be at least 1")
    return int(text)


def _read(words: Sequence[str]) -> Section:
    ranks = None
    position = 0
    while position < len(words) and words[position].startswith("-"):
        option = words[position]
        if option not in _WORDS:
            known = ", ".join(_WORDS)
            raise UserError(f"{option} before one of several programs: outrigger run knows only {known} there")
        following = words[position + 1 : position + 1 + _WORDS[option]]
        if len(following) < _WORDS[option]:
            raise UserError(f"{option} before one of several programs: its value is missing")
        if option in _COUNTS:
            ranks = _count(option, following[0])
        position += 1 + _WORDS[option]
    program = tuple(words[position:])
    if not program:
        raise UserError(f"there is no program behind '{SEPARATOR}'")
    if ranks is None:
        raise UserError(f"'{SEPARATOR} {program[0]}' has no number of ranks: write '{SEPARATOR} -n RANKS {program[0]}'")
    return Section(ranks, tuple(words[:position]), program)


def split(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[Section, ...]]:
    """The first program and the others."""
    first, *others = _split(words)
    if not first:
        raise UserError(f"there is no program before '{SEPARATOR}'")
    return tuple(first), tuple(_read(part) for part in others)
