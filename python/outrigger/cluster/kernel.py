"""System calls for namespaces and mounts that Python 3.11 lacks."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_BIND = 0x1000
MS_REC = 0x4000
MS_SLAVE = 0x80000

_MNT_DETACH = 2
_PR_SET_NAME = 15

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Moves the calling process into new namespaces; for CLONE_NEWPID, its next children."""
    _check(_libc.unshare(flags), "new namespaces")


def mount(source: str, target: Path | str, kind: str | None, flags: int = 0, options: str | None = None) -> None:
    """mount(2)."""
    encode = os.fsencode
    result = _libc.mount(
        encode(source),
        encode(target),
        encode(kind) if kind else None,
        ctypes.c_ulong(flags),
        encode(options) if options else None,
    )
    _check(result, f"mounting {kind or source} on {target}")


def detach(target: Path | str) -> None:
    """Removes a mount: from the tree now, completely once it is unused."""
    _check(_libc.umount2(os.fsencode(target), _MNT_DETACH), f"unmounting {target}")


def set_process_name(name: str) -> None:
    """Sets the name shown by ps and top; at most 15 bytes."""
    _check(_libc.prctl(_PR_SET_NAME, os.fsencode(name)[:15], 0, 0, 0), "prctl")
