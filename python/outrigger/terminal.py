"""Output of this command itself."""

from __future__ import annotations

import codecs
import io
import os
import sys

from rich.console import Console

NO_COLOR = "NO_COLOR"
"""A convention of many programs: https://no-color.org."""
_COLUMNS_IN_FILES = 130
_ASCII = str.maketrans("µ→✓✗·…█░▕▏●○", "u>+x.~#-||*o")
"""Replacements of the same width, so that tables stay aligned."""


def console(*, stderr: bool = False) -> Console:
    """As wide as the terminal; files and pipes get the tables' full width."""
    made = Console(highlight=False, stderr=stderr)
    if made.is_terminal or "COLUMNS" in os.environ:
        return made
    return Console(highlight=False, width=_COLUMNS_IN_FILES, stderr=stderr)


def give_up_output(error: OSError) -> None:
    """After a failed write: says so once, and drops what is still to be written, which would change the exit code."""
    note(f"cannot write: {error.strerror}")
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _replacement(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(
        shown if (shown := one.translate(_ASCII)).isascii() else "?" for one in error.object[error.start : error.end]
    ), error.end


def replace_what_cannot_be_shown() -> None:
    """Characters that the output's encoding lacks, or broken file names, must not end a command."""
    codecs.register_error("outrigger", _replacement)
    for output in (sys.stdout, sys.stderr):
        if isinstance(output, io.TextIOWrapper):
            output.reconfigure(errors="outrigger")


def note(text: str) -> None:
    """A line of this command's own, apart from the program's output."""
    print(f"outrigger: {text}", file=sys.stderr, flush=True)
