"""Fails where a class of src has more methods than one can hold in one's head.

Reads the sources as clang-format leaves them, one member a line. Overloads count once, constructors as well; a class in
a class counts for itself.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

MOST = 28
LARGER = {"Operation": 29, "Replicas": 30}  # fmt: skip
"""Those that are larger, until they are split: none may grow, and none may join them."""

_HEAD = re.compile(r"^(\s*)(?:template <.*> )?(?:class|struct) (?:\[\[\w+\]\] )?(\w+)(?: final)?(?: : .*)?\s*\{")
_NAME = re.compile(r"(~?\w+|operator\s*[^\s\w]+)\s*$")
_NO_METHODS = ("using", "friend", "typedef", "static_assert")


def _code(line: str) -> str:
    return re.sub(r"//.*|\"(\\.|[^\"])*\"", "", line)


def _method(line: str) -> str | None:
    """The name of the method that a member declares."""
    before, parenthesis, _ = line.strip().partition("(")
    if not parenthesis or before.startswith(_NO_METHODS) or "=" in before or before.count("<") != before.count(">"):
        return None
    found = _NAME.search(before)
    return found[1] if found else None


def methods(lines: list[str], head: int, indent: int) -> set[str]:
    """Of the class whose head is that line."""
    found: set[str] = set()
    depth = 1
    margin = " " * (indent + 2)
    for line in map(_code, lines[head + 1 :]):
        if depth == 1 and line.startswith(margin) and not line.startswith(margin + " ") and (name := _method(line)):
            found.add(name)
        depth += line.count("{") - line.count("}")
        if depth <= 0:
            break
    return found


def classes(path: Path) -> Iterator[tuple[str, int]]:
    """Each class of a file with its number of methods."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        head = _HEAD.match(line)
        if head and not line.rstrip().endswith("};"):
            yield head[2], len(methods(lines, number, len(head[1])))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parent.parent)
    sources = sorted(parser.parse_args().root.joinpath("src").rglob("*.[ch]pp"))
    found = [(path, name, count) for path in sources for name, count in classes(path)]
    large = [(path, name, count) for path, name, count in found if count > LARGER.get(name, MOST)]
    for path, name, count in large:
        print(
            f"{path}: {name} has {count} methods; at most {LARGER.get(name, MOST)}: split it along what it does",
            file=sys.stderr,
        )
    print(f"{len(found)} classes, {len(large)} too large")
    return int(bool(large) or not found)


if __name__ == "__main__":
    sys.exit(main())
