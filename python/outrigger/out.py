"""Where commands write: the directory that --out names, files of figures and pictures."""

from __future__ import annotations

from pathlib import Path

from outrigger import pictures
from outrigger.errors import UserError


def directory(place: Path, *stale: str) -> Path:
    """Makes it, without what an earlier command has left there by such names (globs)."""
    try:
        place.mkdir(parents=True, exist_ok=True)
        for pattern in stale:
            for old in place.glob(pattern):
                old.unlink()
    except OSError as error:
        raise UserError(f"--out {place}: {error.strerror}") from error
    return place.absolute()


def check_place(place: Path | None) -> Path | None:
    """Before anything is measured: what is measured for minutes must find a place where it can be written."""
    if place is not None and not place.absolute().parent.is_dir():
        raise UserError(f"{place}: there is no directory {place.absolute().parent}")
    if place is not None and place.is_dir():
        raise UserError(f"{place}: that is a directory; name a file")
    return place


def check_picture(place: Path | None) -> Path | None:
    """As check_place, of --plot; there must be something to draw with, too."""
    if place is not None:
        pictures.check("--plot", place)
    return check_place(place)
