"""Command line to start this program again, from wherever it was installed."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from outrigger import artifacts

_PREFIX = "OUTRIGGER_"
_PACKAGES = Path(__file__).resolve().parents[1]
# Not PYTHONPATH, which started programs would inherit.
_RUN = (
    "import runpy, sys; "
    "sys.path[:0] = sys.argv.pop(1).split(':'); "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__')"
)


def _tree() -> artifacts.Artifacts | None:
    """Installation around this package, if Python does not know it."""
    file = artifacts.own_layout()
    return None if file is None or file.parent != _PACKAGES.parent else artifacts.find_installed(file)


def as_given() -> str:
    """This command as the user has given it, with the settings of its environment."""
    values = [f"{name}={shlex.quote(value)}" for name, value in sorted(os.environ.items()) if name.startswith(_PREFIX)]
    command = " ".join([*values, shlex.join(["outrigger", *sys.argv[1:]])])
    return command.encode(errors="surrogateescape").decode(errors="replace")


def command() -> tuple[str, ...]:
    """The command `outrigger`, under the same Python."""
    tree = _tree()
    return (sys.executable, *(("-m", "outrigger") if tree is None else (str(tree.programs / "outrigger"),)))


def module(name: str) -> tuple[str, ...]:
    """One of its modules as a program."""
    tree = _tree()
    places = (_PACKAGES,) if tree is None else (_PACKAGES, tree.vendor)
    return (sys.executable, "-c", _RUN, os.pathsep.join(map(str, places)), name)
