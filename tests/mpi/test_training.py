"""examples/training: equal weights on all ranks, as after training on one rank, native and offloaded."""

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

PROGRAM = HERE.parent.parent / "examples" / "training" / "training.py"
SMALL = ("--steps", "4", "--samples", "48", "--width", "90", "--layers", "3", "--bucket-kib", "20")
BUCKETS = 4
"""Buckets for the 17,836 gradients of such a model."""


def training(mpi: Mpi, ranks: int, *arguments: str, services: int | None, rules: str = ""):
    pytest.importorskip("mpi4py", reason="mpi4py is not installed beside pytest")
    if mpi.name == MPIABI:
        pytest.skip("mpi4py's wheel knows no standard ABI")
    env = python_environment(mpi) | ({"OUTRIGGER_ALGORITHM": rules, "OUTRIGGER_BLOCKING": "on"} if rules else {})
    return mpi.run(ranks, [sys.executable, str(PROGRAM), *SMALL, *arguments], services=services, env=env)


def sums(report: dict[str, Any]) -> dict[str, Any]:
    """The gradients' entry, for all ranks."""
    return next(entry for entry in report["calls"] if entry["collective"] == "iallreduce")


@pytest.mark.parametrize(
    "ranks, mode, memory",
    (
        (2, "nonblocking", "malloc"),
        (3, "nonblocking", "alloc_mem"),
        (3, "testing", "malloc"),
        (4, "blocking", "malloc"),
    ),
)
def test_offloaded(mpi: Mpi, tmp_path: Path, ranks: int, mode: str, memory: str) -> None:
    figures = tmp_path / "figures.json"
    options = ("--mode", mode, "--memory", memory, "--check", "--json", str(figures))
    result = training(mpi, ranks, *options, services=1, rules="iallreduce=on").ok()
    found = json.loads(figures.read_text())
    assert found["same_weights"] and found["differs"] < 1e-4
    assert found["last_loss"] < found["first_loss"]
    assert sums(result.report)["offloaded"] == (1 if mode == "blocking" else BUCKETS) * 4 * ranks


@pytest.mark.parametrize("mode, why", (("nonblocking", "rounding"), ("blocking", "too few calls")))
def test_native(mpi: Mpi, mode: str, why: str) -> None:
    """Sums of floating-point numbers are native unless a rule offloads them."""
    training(mpi, 2, "--mode", mode, "--check", services=None).ok()
    mpi.measured_choice = True  # by Outrigger's defaults
    result = training(mpi, 2, "--mode", mode, "--check", services=1).ok()
    assert sums(result.report)["offloaded"] == 0
    assert sums(result.report)["native"].keys() == {why}


def test_wrong_arguments_are_named(mpi: Mpi) -> None:
    result = training(mpi, 1, "--layers", "0", services=None)
    assert result.returncode != 0
    assert "--layers 0: at least 1" in result.out
