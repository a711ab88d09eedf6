"""The user's rules of the selection table: the algorithm for each collective, or the program's own MPI.

A rule is a word, `iallgather:n2-:b64K-=node_pull`, as in the library's environment variable, or a table of a TOML file:

    [[rule]]
    collective = "iallgather"    # or a list; a blocking form is `allgather`; left out: all that have the algorithm
    nodes = "2-"                 # a number, "LOW-", "LOW-HIGH" or "-HIGH", both ends included
    bytes = "64K-"
    algorithm = "node_pull"      # or "native", "on" or "auto"

The first matching rule decides; without one, the built-in table. Only the library interprets the words.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from outrigger import tables
from outrigger.artifacts import Artifacts
from outrigger.errors import UserError, or_known

_UNKNOWN = re.compile(r"(no such \w+ as '([^']*)'); there are (.*)")
_NAME = re.compile(r"\b(?!or\b)\w+")


def _shortened(problem: str) -> str:
    """Lists names similar to an unknown one instead of all."""
    found = _UNKNOWN.search(problem)
    if found is None or not (hint := or_known(found[2], _NAME.findall(found[3]))).startswith("did"):
        return problem
    return f"{problem[: found.end(1)]}; {hint}"


def _checked_words(found: Artifacts, text: str) -> list[str]:
    """Rules as words separated by commas; `text` is the value of --algorithm."""
    rules = tables.check_rules(found, [word.strip() for word in text.split(",")])
    for rule in rules:
        if rule.problem:
            form = "" if "=" in rule.rule else "write COLLECTIVE=ALGORITHM: "
            raise UserError(f"--algorithm {text}: {form}{_shortened(rule.problem)}")
    return [rule.rule for rule in rules]


def _range(name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise UserError(f'{name}: write a number or a text like "2-8"')
    if isinstance(value, int) and value < 0:
        raise UserError(f"{name}: {value} is out of range")
    return "".join(str(value).split())


def _words_of(entry: Any, conditions: Sequence[tables.Condition]) -> Iterator[str]:
    """Words of one [[rule]], one for each of its collectives."""
    if not isinstance(entry, dict):
        raise UserError("write [[rule]] and its fields below")
    fields = ("collective", "algorithm", *(condition.name for condition in conditions))
    for name in entry:
        if name not in fields:
            raise UserError(f"{name}: no such field; there are {', '.join(fields)}")
    algorithm, collectives = entry.get("algorithm"), entry.get("collective", "all")
    if not isinstance(algorithm, str):
        raise UserError("algorithm: write a name, or native")
    names = collectives if isinstance(collectives, list) else [collectives]
    if not names or not all(isinstance(name, str) for name in names):
        raise UserError("collective: write a name or a list of names")
    ranges = [f":{each.letter}{_range(each.name, entry[each.name])}" for each in conditions if each.name in entry]
    for name in names:
        yield f"{name}{''.join(ranges)}={algorithm}"


def _read_file(found: Artifacts, path: Path) -> list[str]:
    """Rules of a TOML file; errors name file and rule."""
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
    conditions = tables.read(found).conditions
    numbered: list[tuple[int, str]] = []
    for number, entry in enumerate(entries, start=1):
        try:
            numbered += [(number, word) for word in _words_of(entry, conditions)]
        except UserError as error:
            raise UserError(f"--algorithm {path}: rule {number}: {error}") from error
    checked = tables.check_rules(found, [word for _, word in numbered])
    for (number, _), rule in zip(numbered, checked, strict=True):
        if problem := rule.problem or rule.hidden:
            raise UserError(f"--algorithm {path}: rule {number}: {_shortened(problem)}")
    return [rule.rule for rule in checked]


def words(found: Artifacts, options: Sequence[str]) -> tuple[str, ...]:
    """Values of --algorithm, words or files, as words for the library; a later option has precedence."""
    rules: list[str] = []
    for text in options:
        rules[:0] = _read_file(found, Path(text)) if text.endswith(".toml") else _checked_words(found, text)
    if len(rules) > (most := tables.read(found).most_rules):
        raise UserError(f"--algorithm: {len(rules)} rules; at most {most}")
    return tuple(rules)
