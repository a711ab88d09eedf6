"""What this command itself says."""

from __future__ import annotations

import os
import sys

from rich.console import Console

NO_COLOR = "NO_COLOR"
"""Set, it means the same to all programs: https://no-color.org."""
_COLUMNS_IN_FILES = 130


def console(*, stderr: bool = False) -> Console:
    """As wide as the terminal; into files and pipes as wide as the tables are."""
    made = Console(highlight=False, stderr=stderr)
    if made.is_terminal or "COLUMNS" in os.environ:
        return made
    return Console(highlight=False, width=_COLUMNS_IN_FILES, stderr=stderr)


def note(text: str) -> None:
    """A line of this command's own, apart from the program's output."""
    print(f"outrigger: {text}", file=sys.stderr, flush=True)
