"""examples/cg: the same solution on any number of ranks, native and offloaded."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import HERE, Mpi
from test_languages import python_environment

from outrigger.mpis import MPIABI

pytestmark = pytest.mark.any_mpi

PROGRAM = HERE.parent.parent / "examples" / "cg" / "cg.py"
SMALL = ("--rows", "40", "--columns", "30", "--iterations", "400")
ITERATIONS = 125
"""Approximate: rounding changes it by a few."""


def solve(mpi: Mpi, tmp_path: Path, ranks: int, *arguments: str, services: int | None, rules: str = ""):
    pytest.importorskip("mpi4py", reason="mpi4py is not installed beside pytest")
    if mpi.name == MPIABI:
        pytest.skip("mpi4py's wheel knows no standard ABI")
    env = python_environment(mpi) | ({"OUTRIGGER_ALGORITHM": rules, "OUTRIGGER_BLOCKING": "on"} if rules else {})
    figures = tmp_path / "figures.json"
    command = [sys.executable, str(PROGRAM), *SMALL, "--json", str(figures), *arguments]
    result = mpi.run(ranks, command, services=services, env=env)
    return result, json.loads(figures.read_text()) if figures.exists() else {}


def must_be_solved(found: dict[str, Any]) -> None:
    assert found["residual"] <= 1e-8 and found["true_residual"] < 2e-8, found
    assert abs(found["iterations"] - ITERATIONS) < 15, found


def sums(report: dict[str, Any], form: str) -> int:
    """Number of offloaded sums on all ranks."""
    found = [entry for entry in report["calls"] if entry["collective"] == "iallreduce" and entry["form"] == form]
    return sum(entry["offloaded"] for entry in found)


@pytest.mark.parametrize("ranks, mode", ((1, "pipelined"), (2, "pipelined"), (4, "testing"), (3, "classic")))
def test_offloaded(offload: Mpi, tmp_path: Path, ranks: int, mode: str) -> None:
    rules = "iallreduce=on"
    result, found = solve(offload, tmp_path, ranks, "--mode", mode, services=1, rules=rules)
    result.ok()
    must_be_solved(found)
    if ranks == 1:
        return
    form, each = ("blocking", 2) if mode == "classic" else ("nonblocking", 1)
    assert sums(result.report, form) >= each * found["iterations"] * ranks


@pytest.mark.parametrize("mode", ("pipelined", "classic", "testing"))
def test_native(mpi: Mpi, tmp_path: Path, mode: str) -> None:
    result, found = solve(mpi, tmp_path, 3, "--mode", mode, services=None)
    result.ok()
    must_be_solved(found)


@pytest.mark.parametrize(
    ("arguments", "said"),
    ((("--rows", "1"), "--rows 1: at least one for each of the 2 ranks"), (("--tolerance", "2"), "--tolerance 2.0")),
)
def test_wrong_arguments_are_named(mpi: Mpi, tmp_path: Path, arguments: tuple[str, str], said: str) -> None:
    result, _ = solve(mpi, tmp_path, 2, *arguments, services=None)
    assert result.returncode != 0
    assert said in result.out
