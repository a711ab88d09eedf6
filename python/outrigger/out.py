"""The directory that --out names."""

from __future__ import annotations

from pathlib import Path

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
