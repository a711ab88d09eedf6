"""Service processes of one job on this machine, found by the log file of their setting."""

from __future__ import annotations

import os
from pathlib import Path

LOG = "OUTRIGGER_LOG"
_SERVES = b"serve"


def setting_of(log: Path) -> str:
    """The job's, in LOG."""
    return f"info:{log}"


def service_processes(daemon: Path, log: Path) -> list[int]:
    """Live ones."""
    mark = f"{LOG}={setting_of(log)}".encode()
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            if os.readlink(f"/proc/{entry.name}/exe") != str(daemon):
                continue
            command = Path(f"/proc/{entry.name}/cmdline").read_bytes().split(b"\0")
            environment = Path(f"/proc/{entry.name}/environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended, or is another user's
        if _SERVES in command[1:2] and mark in environment:
            found.append(int(entry.name))
    return found
