"""Counts sentences that break docs/inside/writing.md: in pages, in comments and in Python's docstrings.

usage: check_prose.py            compares the count of each file with scripts/prose.txt; exits with 1 where they differ
       check_prose.py PATH...    prints the places in files and directories
       check_prose.py --lower    writes smaller counts to the list; without a list, writes a first one

Rules: no sentence begins with a noun clause ("What ...") or a fronted genitive ("Of ..."), and none uses a house word.
No sentence of a page has more than 25 words. A file that is not in the list has no such place.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

OWN_ROOT = Path(__file__).resolve().parent.parent
LIST = Path("scripts/prose.txt")
ROOTS = (
    "README.md", "CONTRIBUTING.md", "bench", "clusters", "cmake", "docs", "examples", "include", "packaging", "python",
    "scripts", "src", "tests",
)  # fmt: skip
GENERATED = {Path("docs/using/reference.md"), Path("docs/using/never-slower.md")}
MOST_WORDS = 25

OPENING = re.compile(r"(What|Who|Whom|Whose|Whether|Whoever|By (what|which|whom)|Of (?!course\b)\S+)\b")
HOUSE = re.compile(
    r"\b(whoever|nobody|to be had|gets? on(?=[.,;:)]|$)|gone on with|of late|as ever|takes? (its|their) leave"
    r"|by turns|is none of|what is not|tells? of (itself|themselves))\b",
    re.IGNORECASE,
)
SENTENCE_END = re.compile(r"(?<=[.!?])[)*\"]?\s+(?=[A-Z`*\"(])")
CODE_OR_LINK = re.compile(r"`[^`]*`|!?\[([^\]]*)\]\([^)]*\)")
PICTURE = re.compile(r"[─│▶◀└┌┐┘┄═^]|\S {3,}\S|-->|<--")

C_SUFFIXES = {".c", ".cpp", ".h", ".hpp"}
HASH_SUFFIXES = {".cmake", ".py", ".sh", ".toml"}
SUFFIXES = C_SUFFIXES | HASH_SUFFIXES | {".md"}


@dataclass(frozen=True)
class Place:
    """A sentence that breaks a rule."""

    line: int
    rule: str
    sentence: str


def page_lines(lines: list[str]) -> Iterator[str | None]:
    """The prose of each line of a page; None ends a paragraph."""
    fenced = False
    for line in lines:
        if line.lstrip().startswith("```"):
            fenced = not fenced
        if fenced or line.startswith(("    ", "#")) or line.lstrip().startswith(("|", "```")):
            yield None
            continue
        item = re.match(r"\s*([*-]|\d+\.) (.*)", line)
        yield f"\n{item[2]}" if item else line.strip() or None


def comment_lines(lines: list[str], mark: str) -> Iterator[str | None]:
    """The text of each line's comment; None if the line has none, or has a picture."""
    comment = re.compile(rf"(?:^\s*|.*\s){mark}\s(.*)$")
    for line in lines:
        match = comment.match(line)
        yield match[1] if match and not PICTURE.search(match[1]) else None


def paragraphs(lines: Iterator[str | None]) -> Iterator[tuple[int, str]]:
    """Each run of lines with its first line's number. A line that begins with a line feed begins a run."""
    start = 0
    block: list[str] = []
    for number, line in enumerate(lines, start=1):
        if line is None or line.startswith("\n"):
            yield start, " ".join(block)
            block = []
        if line is not None:
            start = number if not block else start
            block.append(line.strip())
    yield start, " ".join(block)


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """The paragraphs of the string statements of a Python file, and the lines where they begin."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines = inspect.cleandoc(node.value.value).splitlines()
            yield from ((node.lineno + line - 1, text) for line, text in paragraphs(page_lines(lines)))


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """The paragraphs of a file, and the lines where they begin."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".md":
        yield from paragraphs(page_lines(text.splitlines()))
        return
    yield from paragraphs(comment_lines(text.splitlines(), "//" if path.suffix in C_SUFFIXES else "#"))
    if path.suffix == ".py":
        yield from docstrings(text)


def broken_rule(sentence: str, page: bool) -> str | None:
    """The rule that a sentence breaks."""
    plain = CODE_OR_LINK.sub(lambda match: match[1] or "X", sentence)
    if OPENING.match(plain):
        return "opening"
    if HOUSE.search(plain):
        return "word"
    words = len(plain.split())
    return f"{words} words" if page and words > MOST_WORDS else None


def places(path: Path) -> list[Place]:
    """The sentences of a file that break a rule, in order."""
    found = []
    for line, paragraph in prose(path):
        for sentence in SENTENCE_END.split(paragraph):
            if rule := broken_rule(sentence, path.suffix == ".md"):
                found.append(Place(line, rule, sentence))
    return found


def files(root: Path, names: tuple[str, ...] = ROOTS) -> Iterator[Path]:
    """The files below `root` with prose."""
    for name in names:
        top = root / name
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            if path.suffix in SUFFIXES and path.is_file() and path.relative_to(root) not in GENERATED:
                yield path


def counts(root: Path) -> dict[str, int]:
    """The number of places of each file; files without any are left out."""
    found = {path.relative_to(root).as_posix(): len(places(path)) for path in files(root)}
    return {name: count for name, count in found.items() if count}


def allowed(root: Path) -> dict[str, int]:
    """The list: a count and a file in each line."""
    lines = (root / LIST).read_text(encoding="utf-8").splitlines()
    split = (line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))
    return {name: int(count) for count, name in split}


def write(root: Path, list_of: dict[str, int]) -> None:
    """Writes the list, by file."""
    head = "# Places in each file that may break docs/inside/writing.md (check_prose.py). Numbers only get smaller.\n"
    rows = "".join(f"{count:4d} {name}\n" for name, count in sorted(list_of.items()))
    (root / LIST).write_text(head + rows, encoding="utf-8")


def lower(root: Path) -> None:
    """Lowers each file's number to the present one."""
    found = counts(root)
    if (root / LIST).exists():
        found = {name: min(count, found[name]) for name, count in allowed(root).items() if name in found}
    write(root, found)


def compare(root: Path) -> list[str]:
    """Differences from the list."""
    found, listed = counts(root), allowed(root)
    problems = []
    for name in sorted(found.keys() | listed.keys()):
        count, most = found.get(name, 0), listed.get(name, 0)
        if count > most:
            problems.append(f"{name}: {count} places, {most} allowed: `scripts/check_prose.py {name}` prints them")
        elif count < most:
            problems.append(f"{name}: {count} places, {most} allowed: lower that with `scripts/check_prose.py --lower`")
    return problems


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--lower", action="store_true")
    parser.add_argument("--root", type=Path, default=OWN_ROOT, help="the project's directory")
    given = parser.parse_args(arguments)
    if given.lower:
        lower(given.root)
        return 0
    if given.paths:
        for path in files(Path(), tuple(map(str, given.paths))):
            for place in places(path):
                print(f"{path}:{place.line}: {place.rule}: {place.sentence[:140]}")
        return 0
    problems = compare(given.root)
    print(
        "\n".join([*problems, f"{sum(counts(given.root).values())} places, {len(problems)} files differ from the list"])
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
