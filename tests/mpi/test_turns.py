"""--in-turn leaves out no test, and no MPI."""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from conftest import build_directory

pytestmark = pytest.mark.one_machine
HERE = Path(__file__).parent


def collected(file: str, *options: str) -> set[str]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        str(HERE / file),
        "--collect-only",
        "-q",
        "-p",
        "no:cacheprovider",
        *options,
    ]
    environment = {"PATH": "/usr/bin:/bin", "OUTRIGGER_BUILD": str(build_directory())}
    listed = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=60).stdout
    return {line.partition("::")[2] for line in listed.splitlines() if "::" in line}


def without_mpi(test: str) -> str:
    return re.sub(r"(openmpi|mpich)-?", "", test)


def test_each_test_has_its_turn_under_one():
    under = defaultdict(set)
    for test in collected("test_restart.py"):
        under[without_mpi(test)].add(test)
    in_turn = collected("test_restart.py", "--in-turn")
    assert sorted(map(without_mpi, in_turn)) == sorted(under)
    if max(map(len, under.values())) > 1:
        assert any("openmpi" in test for test in in_turn) and any("mpich" in test for test in in_turn)


def test_what_is_about_an_mpi_runs_under_each():
    assert collected("test_persistent.py", "--in-turn") == collected("test_persistent.py")
