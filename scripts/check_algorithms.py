"""Checks the table in the header of each algorithm, which names the code for each step of its source.

    // Source and code (bullets of III.D.1 by number):
    //     4 it reads from the source's memory into the | `operation.pull`
    //        destination's                             |
    //     5 the host is told                           | core/operation.cpp `context.fabric.complete(`

A row begins where the left column does. It names code in backticks, behind its file (under src/engine or in its
algorithms/; under src/intranode) if it is not in the algorithm's own. Prints, as file:line, each row that names no
code, each piece of code or file that is not there, and each algorithm of registry.hpp or intranode/algorithms.hpp
without a table. Exits with 1 when there is one.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path

OWN_ENGINE = Path(__file__).resolve().parent.parent / "src" / "engine"
OWN_INTRANODE = OWN_ENGINE.parent / "intranode"

DECLARATION = re.compile(r"^Task (\w+)\(Operation& operation, LocalRank& rank\);", re.MULTILINE)
INTRANODE_DECLARATION = re.compile(r"^Outcome (\w+)\(Meeting& meeting\b", re.MULTILINE)
TITLE = re.compile(r"// Source and code \(.+\):")
ROW = re.compile(r"//     (?P<left>.*) \|(?: (?P<right>.*))?")
NAMED = re.compile(r"(?:(?P<file>[\w/]+\.[ch]pp) )?`(?P<code>[^`]+)`")
COMMENT = re.compile(r"//.*")
FILE = re.compile(r"[\w/]+\.[ch]pp\b")


@cache
def code_of(path: Path) -> str:
    """A file without its comments, each run of white space as one space."""
    return " ".join(COMMENT.sub("", path.read_text(encoding="utf-8")).split())


def holds(path: Path, code: str) -> bool:
    """True if the file has this piece of code. Names must match as a whole."""
    before, after = (r"(?<!\w)" if code[0].isalnum() else ""), (r"(?!\w)" if code[-1].isalnum() else "")
    return re.search(before + re.escape(" ".join(code.split())) + after, code_of(path)) is not None


def rows_of(lines: list[str]) -> dict[int, str] | None:
    """The right column of the table by the number of each row's first line; None if there is no table."""
    start = next((number for number, line in enumerate(lines, start=1) if TITLE.fullmatch(line)), None)
    if start is None:
        return None
    rows: dict[int, str] = {}
    first = start
    for number, line in enumerate(lines[start:], start=start + 1):
        match = ROW.fullmatch(line)
        if match is None:
            break
        if not line.startswith("//      "):
            first = number
        rows[first] = " ".join([rows.get(first, ""), (match["right"] or "").strip()])
    return rows


def check_algorithm(path: Path, engine: Path) -> list[str]:
    """Problems in the header of one algorithm."""
    if not path.exists():
        return [f"{path}:1: registry.hpp declares {path.stem}, which has no file of its own"]
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = rows_of(lines)
    if not rows:
        return [f"{path}:1: no table '// Source and code (...):' in the header"]
    problems = []
    for number, right in rows.items():
        named = list(NAMED.finditer(right))
        if not named:
            problems.append(f"{path}:{number}: the row names no code in backticks")
        for match in named:
            file = match["file"]
            places = [engine / file, engine / "algorithms" / file] if file else [path]
            place = next((place for place in places if place.exists()), None)
            if place is not None and not holds(place, match["code"]):
                problems.append(f"{path}:{number}: {place.name} has no `{match['code']}`")
    known = [other.as_posix() for other in engine.rglob("*.?pp")]
    for number, line in enumerate(lines, start=1):
        comment = COMMENT.search(line)
        for file in FILE.findall(comment.group() if comment else ""):
            if not any(other.endswith("/" + file) for other in known):
                problems.append(f"{path}:{number}: {file} is no file under {engine}")
    return problems


def check_engine(engine: Path) -> tuple[int, list[str]]:
    """The number of the engine's algorithms, and what is wrong with their headers."""
    names = DECLARATION.findall((engine / "registry.hpp").read_text(encoding="utf-8"))
    problems = [problem for name in names for problem in check_algorithm(engine / "algorithms" / f"{name}.cpp", engine)]
    return len(names), problems


def check_intranode(room: Path) -> tuple[int, list[str]]:
    """The same of src/intranode."""
    names = INTRANODE_DECLARATION.findall((room / "algorithms.hpp").read_text(encoding="utf-8"))
    return len(names), [problem for name in names for problem in check_algorithm(room / f"{name}.cpp", room)]


def main(arguments: list[str]) -> int:
    """`arguments`: the engine's directory; otherwise all of this project's algorithms."""
    rooms = [check_engine(Path(arguments[0]).resolve())] if arguments else []
    rooms = rooms or [check_engine(OWN_ENGINE), check_intranode(OWN_INTRANODE)]
    problems = [problem for _, found in rooms for problem in found]
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{sum(count for count, _ in rooms)} algorithms, {len(problems)} problems in their headers")
    return 1 if problems or any(count == 0 for count, _ in rooms) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
