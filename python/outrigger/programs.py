"""The C++ programs as commands of a Python environment; each replaces the process."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

from outrigger import artifacts
from outrigger.errors import UserError
from outrigger.terminal import note


def _become(name: str) -> NoReturn:
    try:
        found = artifacts.find()
        path: Path = found.programs / name
        if not path.exists():
            raise found.missing(path)
    except UserError as error:
        note(str(error))
        sys.exit(2)
    os.execv(path, [str(path), *sys.argv[1:]])


def outriggerd() -> NoReturn:
    """`outriggerd`."""
    _become("outriggerd")


def outrigger_sim() -> NoReturn:
    """`outrigger-sim`."""
    _become("outrigger-sim")
