"""Lines for a shell to read."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from outrigger.errors import UserError


def _fish(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _csh(text: str) -> str:
    """`!` refers to the history, also in quotes."""
    return "'" + text.replace("'", "'\\''").replace("!", "\\!") + "'"


@dataclass(frozen=True)
class Shell:
    """Syntax to set variables."""

    export: Callable[[str, str], str]
    unset: Callable[[str], str]


_SHELLS = {
    "bash": Shell(lambda name, value: f"export {name}={shlex.quote(value)};", lambda name: f"unset {name};"),
    "fish": Shell(lambda name, value: f"set -gx {name} {_fish(value)};", lambda name: f"set -e {name};"),
    "csh": Shell(lambda name, value: f"setenv {name} {_csh(value)};", lambda name: f"unsetenv {name};"),
}
_SAME = {"sh": "bash", "dash": "bash", "ksh": "bash", "zsh": "bash", "tcsh": "csh"}
NAMES = tuple(_SHELLS)


def named(name: str) -> Shell | None:
    """One of NAMES, or a shell with the same syntax."""
    return _SHELLS.get(_SAME.get(name, name))


def calling() -> Shell:
    """The shell that started this process, else bash."""
    try:
        name = Path(f"/proc/{os.getppid()}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        name = ""
    return named(name) or _SHELLS["bash"]


def choose(name: str | None) -> Shell:
    """--shell, or the calling shell."""
    if name is None:
        return calling()
    found = named(name)
    if found is None:
        raise UserError(f"--shell {name}: there are {', '.join((*NAMES, *_SAME))}")
    return found
