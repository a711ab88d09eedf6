"""Output of commands: the directory of --out, files with figures and pictures."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from outrigger import pictures
from outrigger.errors import UserError


def directory(place: Path, stale: re.Pattern[str] | None = None) -> Path:
    """Makes the directory, and removes files of an earlier command: those of which the whole name is `stale`."""
    try:
        place.mkdir(parents=True, exist_ok=True)
        for old in place.iterdir() if stale is not None else ():
            if stale is not None and stale.fullmatch(old.name) and old.is_file():
                old.unlink()
    except OSError as error:
        raise UserError(f"--out {place}: {error.strerror}") from error
    return place.absolute()


_PROBE_BYTES = 4096


def check_file(place: Path, option: str = "") -> Path:
    """Returns the absolute path after a writing test: jobs and measurements must not run in vain."""
    named = f"{option} {place}" if option else str(place)
    path = place.absolute()
    if not path.parent.is_dir():
        raise UserError(f"{named}: there is no directory {path.parent}")
    if path.is_dir():
        raise UserError(f"{named}: that is a directory; name a file")
    try:
        if path.exists() and not path.is_file():  # a pipe or a device, which must not receive test data
            if not os.access(path, os.W_OK):
                raise PermissionError(0, "Permission denied")
        else:
            with tempfile.TemporaryFile(dir=path.parent) as probe:  # also finds a full file system
                probe.write(bytes(_PROBE_BYTES))
    except OSError as error:
        raise UserError(f"{named}: cannot write in {path.parent}: {error.strerror}; name another place") from error
    return path


def check_place(place: Path | None) -> Path | None:
    """Checks the path of an optional output before the measurement."""
    if place is not None:
        check_file(place)
    return place


def check_picture(place: Path | None) -> Path | None:
    """Like check_place, for --plot; also checks that drawing is possible."""
    if place is not None:
        pictures.check("--plot", place)
    return check_place(place)
