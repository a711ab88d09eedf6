"""Temporary directories that exist while a command runs.

A killed command cannot remove its directory. So each is locked by its command, and the next command that needs one
removes those without a lock holder. Only directories of this user and host are considered.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

from outrigger.errors import UserError

_ATTEMPTS = 100
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def _prefix() -> str:
    """By host: locks in shared directories may be visible on their own host only."""
    return f"outrigger-run-{socket.gethostname()}-"


def _is(entry: os.stat_result, name: str, parent: int) -> bool:
    """True if the opened directory still has its name."""
    try:
        now = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except OSError:
        return False
    return (now.st_dev, now.st_ino) == (entry.st_dev, entry.st_ino)


def _locked(name: str, parent: int) -> int | None:
    """Opens and locks a directory of this user; None: missing, not ours, or locked."""
    try:
        opened = os.open(name, _OPEN, dir_fd=parent)
    except OSError:
        return None
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = os.fstat(opened)
        if found.st_uid == os.geteuid() and _is(found, name, parent):
            return opened
    except OSError:
        pass
    os.close(opened)
    return None


def _remove(name: str, parent: int, opened: int) -> None:
    """Removes its files and the directory. Subdirectories are not ours and stay."""
    for file in os.listdir(opened):
        with contextlib.suppress(OSError):
            os.unlink(file, dir_fd=opened)
    with contextlib.suppress(OSError):
        os.rmdir(name, dir_fd=parent)


def sweep(place: Path | None = None) -> None:
    """Removes directories of killed commands."""
    place = place or Path(tempfile.gettempdir())
    with contextlib.suppress(OSError):
        parent = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in os.listdir(parent):
                if name.startswith(_prefix()) and (opened := _locked(name, parent)) is not None:
                    _remove(name, parent, opened)
                    os.close(opened)
        finally:
            os.close(parent)


def _make(place: Path) -> tuple[Path, int | None]:
    """A new directory and its lock; None: the file system has no locks, and so no command can take it for abandoned."""
    parent = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for _ in range(_ATTEMPTS):
            path = Path(tempfile.mkdtemp(prefix=_prefix(), dir=place))
            if (opened := _locked(path.name, parent)) is not None:
                return path, opened
            if path.is_dir() and not _can_lock(path):
                return path, None
        raise OSError("each one is removed at once")
    finally:
        os.close(parent)


def _can_lock(path: Path) -> bool:
    try:
        opened = os.open(path, _OPEN)
    except OSError:
        return True  # removed as abandoned by another command meanwhile
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(opened)
    return True


@contextlib.contextmanager
def directory(place: Path | None = None) -> Iterator[Path]:
    """In `place`, or else with other temporary files."""
    place = place or Path(tempfile.gettempdir())
    sweep(place)
    try:
        path, lock = _make(place)
    except OSError as error:
        raise UserError(f"cannot make a directory in {place}: {error.strerror or error}") from error
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def until_exit() -> Path:
    """Exists until this process ends."""
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(directory())
