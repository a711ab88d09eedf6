"""Names of places in a program's code, by addr2line: file, line and function of an address."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_TIMEOUT_S = 60.0
"""For all files together."""
_UNKNOWN = "??"
_SYMBOL = re.compile(r"([0-9a-f]+) ([0-9a-f]+) [TtWwiu] ")
_WHERE = re.compile(r"(?P<file>.+):(?P<line>\d+)(?: \(discriminator \d+\))?")


@dataclass(frozen=True)
class CodePlace:
    """Return address of a call, as an offset in its file."""

    object: str
    offset: int


@dataclass(frozen=True)
class Named:
    """A place, as far as this machine can name it."""

    place: CodePlace
    function: str = ""
    file: str = ""
    line: int = 0

    @property
    def text(self) -> str:
        """Shortest text that finds it: solve.f90:211 in transpose; without debug information the program or library."""
        where = f"{Path(self.file).name}:{self.line}" if self.line else Path(self.place.object).name
        if not self.line and not self.function:
            return f"{where}+{self.place.offset:#x}"
        return f"{where} in {self.function}" if self.function else where


def _parse(place: CodePlace, function: str, where: str) -> Named:
    found = _WHERE.fullmatch(where)
    known = found is not None and found["file"] != _UNKNOWN and int(found["line"]) > 0
    name = "" if function == _UNKNOWN else function
    return Named(place, name, found["file"], int(found["line"])) if found and known else Named(place, name)


def _functions(path: str, *options: str, left_s: float) -> list[range]:
    """Addresses of the functions in one of the file's symbol tables."""
    command = ["nm", "--print-size", "--defined-only", *options, path]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=left_s, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    found = (_SYMBOL.match(line) for line in done.stdout.splitlines())
    return [range(int(entry[1], 16), int(entry[1], 16) + int(entry[2], 16)) for entry in found if entry]


def _without_neighbors(path: str, found: dict[CodePlace, Named], left_s: float) -> dict[CodePlace, Named]:
    """Without debug information addr2line takes the next symbol below, in stripped files that of other code."""
    unsure = [place for place, name in found.items() if name.function and not name.line]
    if not unsure:
        return found
    functions = _functions(path, left_s=left_s) + _functions(path, "--dynamic", left_s=left_s)
    outside = (place for place in unsure if not any(place.offset - 1 in function for function in functions))
    return found | {place: Named(place) for place in outside}


def _of_object(tool: str, path: str, places: list[CodePlace], left_s: float) -> dict[CodePlace, Named]:
    addresses = [f"{place.offset - 1:#x}" for place in places]  # in the call itself, not behind it
    command = [tool, "-f", "-C", "-e", path, *addresses]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=left_s, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    lines = done.stdout.splitlines()
    if done.returncode != 0 or len(lines) != 2 * len(places):
        return {}
    pairs = zip(places, lines[::2], lines[1::2], strict=True)
    found = {place: _parse(place, function, where) for place, function, where in pairs}
    return _without_neighbors(path, found, left_s)


def finder() -> str | None:
    """The addr2line of this machine."""
    return shutil.which("addr2line")


def named(places: Iterable[CodePlace]) -> dict[CodePlace, Named]:
    """All places, with what this machine knows of them: nothing without addr2line or without the program's file."""
    by_object = defaultdict(list)
    found = {}
    for place in dict.fromkeys(places):
        found[place] = Named(place)
        by_object[place.object].append(place)
    until = time.monotonic() + _TIMEOUT_S
    for path, of_object in by_object.items():
        left_s = until - time.monotonic()
        if (tool := finder()) is not None and left_s > 0 and os.path.isfile(path):
            found |= _of_object(tool, path, of_object, left_s)
    return found
