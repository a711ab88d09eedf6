"""An installation for the tests: installed, then moved, so that nothing can lead back to where it was made."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("OUTRIGGER_BUILD", ROOT / "build" / "release")).resolve()


PATIENCE = float(os.environ.get("OUTRIGGER_PATIENCE", "1"))  # of a machine with other work to do


def clean_environment() -> dict[str, str]:
    """This process's, without what would lead to a build or a checkout."""
    dropped = ("PYTHONPATH", "OUTRIGGER_BUILD", "LD_PRELOAD")
    return {name: value for name, value in os.environ.items() if name not in dropped}


def succeed(
    words: Sequence[str | Path], environment: Mapping[str, str] | None = None, *, timeout_s: float = 120.0
) -> str:
    """Runs a command, which must succeed, and returns its output."""
    done = subprocess.run(
        [str(word) for word in words], env=environment or clean_environment(), capture_output=True, text=True,
        timeout=timeout_s * PATIENCE, check=False, cwd="/",
    )  # fmt: skip
    assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class Tree:
    """An installation."""

    prefix: Path

    @property
    def unit(self) -> Path:
        """Systemd's, for a DPU."""
        return self.prefix / "lib/systemd/system/outriggerd-dpu@.service"

    def outrigger(self, *words: str | Path) -> str:
        """Runs the command with the Python of the tests and returns its output."""
        return succeed([sys.executable, self.prefix / "bin" / "outrigger", *words])


def install(build: Path, prefix: Path) -> None:
    """`cmake --install`."""
    succeed(["cmake", "--install", build, "--prefix", prefix])


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """Installed in one place and moved to another."""
    if not (BUILD / "install" / "pages").is_dir():
        pytest.fail(f"{BUILD} is not built as a whole: ./dev build")
    place = tmp_path_factory.mktemp("install")
    install(BUILD, place / "first")
    (place / "first").rename(place / "moved")
    return Tree(place / "moved")
