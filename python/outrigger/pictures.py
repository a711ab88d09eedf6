"""Files of pictures: their formats, and whether what draws them is there."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from outrigger.errors import UserError

SUFFIXES = (".png", ".svg", ".pdf")


def why_none() -> str:
    """Why no picture can be drawn; empty: one can. Packages of distributions only recommend what draws them."""
    if importlib.util.find_spec("matplotlib") is not None:
        return ""
    return "pictures need the Python package matplotlib, which is missing: install it (Debian: python3-matplotlib)"


def check_drawable() -> None:
    """Before anything is measured that is to be drawn."""
    if why := why_none():
        raise UserError(why)


def check(option: str, path: Path) -> None:
    """The same, for a file that an option names."""
    if path.suffix not in SUFFIXES:
        raise UserError(f"{option} {path}: write {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} at its end")
    check_drawable()
