"""Where commands write: the directory that --out names, files of figures and pictures."""

from __future__ import annotations

import os
import tempfile
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


_PROBE_BYTES = 4096


def check_file(place: Path, option: str = "") -> Path:
    """The absolute path, once a file could be written there: jobs and measurements must not run in vain."""
    named = f"{option} {place}" if option else str(place)
    path = place.absolute()
    if not path.parent.is_dir():
        raise UserError(f"{named}: there is no directory {path.parent}")
    if path.is_dir():
        raise UserError(f"{named}: that is a directory; name a file")
    try:
        if path.exists() and not path.is_file():  # a pipe or a device, into which nothing may be written before
            if not os.access(path, os.W_OK):
                raise PermissionError(0, "Permission denied")
        else:
            with tempfile.TemporaryFile(dir=path.parent) as probe:  # also finds a full file system
                probe.write(bytes(_PROBE_BYTES))
    except OSError as error:
        raise UserError(f"{named}: cannot write in {path.parent}: {error.strerror}; name another place") from error
    return path


def check_place(place: Path | None) -> Path | None:
    """Checks the place of an optional output before anything is measured."""
    if place is not None:
        check_file(place)
    return place


def check_picture(place: Path | None) -> Path | None:
    """As check_place, of --plot; there must be something to draw with, too."""
    if place is not None:
        pictures.check("--plot", place)
    return check_place(place)
