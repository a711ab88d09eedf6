"""The user's rules of the selection table: which algorithm serves which collective, or that the program's own MPI does.

A rule can be written as a word, `iallgather:n2-:b65536-=node_ring`, as the library reads it from its environment, or as
a table of a TOML file:

    [[rule]]
    collective = "iallgather"    # or a list; left out: all that have the algorithm
    nodes = "2-"                 # a number, "LOW-", "LOW-HIGH" or "-HIGH", both ends included
    bytes = "64K-"
    algorithm = "node_ring"      # or "native"

The first rule that fits decides; where none does, the built-in table.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrigger.errors import UserError
from outrigger.sizes import parse_size

ALGORITHMS = {
    "ialltoall": ("ring_pull", "scatter_dest"),
    "ialltoallv": ("ring_pull", "scatter_dest"),
    "ialltoallw": ("ring_pull", "scatter_dest"),
    "iallgather": ("flat", "node_ring", "hierarchical"),
    "iallgatherv": ("flat", "node_ring", "hierarchical"),
    "ibcast": ("flat", "hierarchical"),
}
"""Of each collective."""
NATIVE = "native"
ALIKE = ("ialltoall", "iallgather", "ibcast")
"""Their blocks are alike on all ranks, so bytes may decide."""
CONDITIONS = {"ranks": "r", "nodes": "n", "ranks_per_node": "p", "services": "s", "bytes": "b"}
"""By their names in a file: the letters in words, in which order they are written."""
MOST_RULES = 256
_MOST = (1 << 64) - 1

Range = tuple[int, int | None]


class _RuleError(Exception):
    """What is wrong with a rule, without its place."""


@dataclass(frozen=True)
class Rule:
    """One rule; ranges by the names of CONDITIONS."""

    algorithm: str
    collective: str | None = None
    ranges: tuple[tuple[str, Range], ...] = ()

    def word(self) -> str:
        """As the library reads it."""
        if self.collective is None:
            return self.algorithm
        conditions = (f":{CONDITIONS[name]}{_text(range_)}" for name, range_ in self.ranges)
        return f"{self.collective}{''.join(conditions)}={self.algorithm}"


def _text(range_: Range) -> str:
    low, high = range_
    return str(low) if low == high else f"{low}-{'' if high is None else high}"


def choices() -> str:
    """What there is, for messages."""
    return "; ".join(f"{name}={' or '.join(names)}" for name, names in ALGORITHMS.items())


def _checked(collective: str | None, algorithm: str, ranges: dict[str, Range]) -> Rule:
    known = {name for names in ALGORITHMS.values() for name in names} | {NATIVE}
    if collective is not None and collective not in ALGORITHMS:
        raise _RuleError(f"there is no collective '{collective}'; there are {', '.join(ALGORITHMS)}")
    if algorithm not in known:
        raise _RuleError(f"there is no algorithm '{algorithm}'; there are {choices()}")
    if collective is not None and algorithm not in (*ALGORITHMS[collective], NATIVE):
        raise _RuleError(f"{collective} has no '{algorithm}'; there are {choices()}")
    if "bytes" in ranges and collective not in ALIKE:
        raise _RuleError(
            f"bytes: the ranks of {collective} know different ones, so they cannot decide; only for {', '.join(ALIKE)}"
        )
    ordered = tuple((name, ranges[name]) for name in CONDITIONS if name in ranges)
    return Rule(algorithm, collective, ordered)


def _number(text: str, sizes: bool) -> int:
    if re.fullmatch("[0-9]+", text) is not None:
        value = int(text)
    elif sizes:
        value = parse_size(text)
    else:
        raise _RuleError(f"'{text}' is not a number")
    if value > _MOST:
        raise _RuleError(f"{text} is too large")
    return value


def _range(text: str, sizes: bool) -> Range:
    """A number, LOW-, LOW-HIGH or -HIGH; with K, M and G where it is of bytes."""
    low, dash, high = (part.strip() for part in text.partition("-"))
    if not dash:
        value = _number(low, sizes)
        return value, value
    if not low and not high:
        raise _RuleError(f"'{text}' has no end; write a number, LOW-, LOW-HIGH or -HIGH")
    range_ = (_number(low, sizes) if low else 0, _number(high, sizes) if high else None)
    if range_[1] is not None and range_[1] < range_[0]:
        raise _RuleError(f"'{text}' ends before it begins")
    if range_ == (0, None) or range_[1] == _MOST:
        raise _RuleError(f"'{text}' always holds; leave it out")
    return range_


def _parse_word(word: str) -> Rule:
    left, equals, algorithm = word.partition("=")
    if not equals:
        return _checked(None, word, {})
    collective, *conditions = left.split(":")
    letters = {letter: name for name, letter in CONDITIONS.items()}
    ranges: dict[str, Range] = {}
    for condition in conditions:
        name = letters.get(condition[:1])
        if name is None:
            raise _RuleError(f"':{condition}': a condition begins with one of {', '.join(letters)}")
        if name in ranges:
            raise _RuleError(f"':{condition}': '{condition[0]}' is there twice")
        ranges[name] = _range(condition[1:], False)
    return _checked(collective, algorithm, ranges)


def parse_words(text: str) -> list[Rule]:
    """Rules written as words with commas between them; `text` is the value of --algorithm."""
    rules = []
    for word in text.split(","):
        try:
            rules.append(_parse_word(word.strip()))
        except (_RuleError, UserError) as error:
            raise UserError(f"--algorithm {text}: write COLLECTIVE=ALGORITHM: {error}") from error
    return rules


def _field_range(name: str, value: Any) -> Range:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise _RuleError(f'{name}: write a number or a text like "2-8"')
    if isinstance(value, int):
        if not 0 <= value <= _MOST:
            raise _RuleError(f"{name}: {value} is out of range")
        return value, value
    try:
        return _range(value, name == "bytes")
    except (_RuleError, UserError) as error:
        raise _RuleError(f"{name}: {error}") from error


def _collectives(value: Any) -> Sequence[str | None]:
    if value is None:
        return (None,)
    names = value if isinstance(value, list) else [value]
    if not names or not all(isinstance(name, str) for name in names):
        raise _RuleError("collective: write a name or a list of names")
    return names


def _parse_table(entry: Any) -> list[Rule]:
    if not isinstance(entry, dict):
        raise _RuleError("write [[rule]] and its fields below")
    unknown = [name for name in entry if name not in ("collective", "algorithm", *CONDITIONS)]
    if unknown:
        raise _RuleError(f"{unknown[0]}: no such field; there are collective, algorithm, {', '.join(CONDITIONS)}")
    algorithm = entry.get("algorithm")
    if not isinstance(algorithm, str):
        raise _RuleError("algorithm: write a name, or native")
    ranges = {name: _field_range(name, entry[name]) for name in CONDITIONS if name in entry}
    collectives = _collectives(entry.get("collective"))
    if collectives == (None,) and ranges:
        alike = ALGORITHMS if "bytes" not in ranges else ALIKE
        collectives = [name for name in alike if algorithm in (*ALGORITHMS[name], NATIVE)] or (None,)
    return [_checked(collective, algorithm, ranges) for collective in collectives]


def _hides(rule: Rule, later: Rule) -> bool:
    """Does the first one decide wherever the later one could?"""
    if rule.ranges:
        return False
    if rule.collective is None:
        return rule.algorithm == NATIVE or (
            later.collective is not None and rule.algorithm in ALGORITHMS[later.collective]
        )
    return rule.collective == later.collective


def read_file(path: Path) -> list[Rule]:
    """The rules of a TOML file; what is wrong is said with file, rule and field."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"--algorithm {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"--algorithm {path}: not TOML: {error}") from error
    entries = data.pop("rule", [])
    if data or not isinstance(entries, list) or not entries:
        wrong = f"'{next(iter(data))}' is not known" if data else "there are no rules"
        raise UserError(f"--algorithm {path}: {wrong}; write rules, each as a table [[rule]]")
    rules: list[Rule] = []
    for number, entry in enumerate(entries, start=1):
        try:
            parsed = _parse_table(entry)
            for rule in parsed:
                if any(_hides(earlier, rule) for earlier in rules):
                    raise _RuleError(f"never used for {rule.collective}: a rule before it always decides")
        except _RuleError as error:
            raise UserError(f"--algorithm {path}: rule {number}: {error}") from error
        rules += parsed
    return rules


def words(options: Sequence[str]) -> tuple[str, ...]:
    """The values of --algorithm, words or files, as words for the library; a later option goes first."""
    rules: list[Rule] = []
    for text in options:
        rules[:0] = read_file(Path(text)) if text.endswith(".toml") else parse_words(text)
    if len(rules) > MOST_RULES:
        raise UserError(f"--algorithm: {len(rules)} rules; at most {MOST_RULES}")
    return tuple(rule.word() for rule in rules)
