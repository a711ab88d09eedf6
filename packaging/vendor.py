"""Puts the Python packages that the command line needs into a directory, for several versions of Python at once.

Compiled parts of a package have the version of Python in their names, so one directory holds those of all.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

PACKAGES = Path(__file__).resolve().parent / "vendor.txt"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def _pip(*words: str | Path) -> str:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, words)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def fetch(place: Path, pythons: Sequence[str] = PYTHONS) -> None:
    """The same versions of packages for each Python."""
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        scratch = Path(made)
        versions = scratch / "versions.txt"
        versions.touch()
        for python in pythons:
            own = scratch / python
            _pip(
                "install", "--quiet", "--no-compile", "--only-binary", ":all:", "--python-version", python,
                "--target", own, "--constraint", versions, "--requirement", PACKAGES,
            )  # fmt: skip
            shutil.rmtree(own / "bin", ignore_errors=True)
            if python == pythons[0]:
                versions.write_text(_pip("freeze", "--path", own), encoding="utf-8")
            shutil.copytree(own, place, dirs_exist_ok=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="directory")
    fetch(parser.parse_args().out)


if __name__ == "__main__":
    main()
