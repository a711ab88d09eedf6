"""Picture files: their formats, and whether the drawing library is installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from outrigger.errors import UserError

SUFFIXES = (".png", ".svg", ".pdf")


def why_none() -> str:
    """Reason why pictures cannot be drawn; empty: they can. Distribution packages only recommend the drawing
    library.
    """
    if importlib.util.find_spec("matplotlib") is not None:
        return ""
    return "pictures need the Python package matplotlib, which is missing: install it (Debian: python3-matplotlib)"


def check_drawable() -> None:
    """Before a measurement to be drawn."""
    if why := why_none():
        raise UserError(why)


def check(option: str, path: Path) -> None:
    """The same for a file given by an option."""
    if path.suffix not in SUFFIXES:
        raise UserError(f"{option} {path}: write {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} at its end")
    check_drawable()
