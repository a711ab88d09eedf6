"""The words that start this command line once more, from wherever it was installed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from outrigger import artifacts

_PACKAGES = Path(__file__).resolve().parents[1]
# Not by PYTHONPATH, which programs that are started from there would get, too.
_RUN = (
    "import runpy, sys; "
    "sys.path[:0] = sys.argv.pop(1).split(':'); "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__')"
)


def command() -> tuple[str, ...]:
    """The command `outrigger`, under the same Python."""
    file = artifacts.own_layout()
    if file is not None and file.parent == _PACKAGES.parent:  # a tree, which Python does not know
        return (sys.executable, str(artifacts.find_installed(file).programs / "outrigger"))
    return (sys.executable, "-m", "outrigger")


def module(name: str) -> tuple[str, ...]:
    """One of its modules as a program."""
    beside = _PACKAGES.parent / "vendor"
    places = [str(place) for place in (_PACKAGES, beside) if place.is_dir()]
    return (sys.executable, "-c", _RUN, os.pathsep.join(places), name)
