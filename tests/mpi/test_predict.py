"""Tests `outrigger lab predict` on a real program's trace."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import Mpi

CLUSTER = Path(__file__).parents[2] / "clusters" / "graham2024-bluefield3.toml"
STEPS = 12


def outrigger(mpi: Mpi, directory: Path, verb: Sequence[str], *words: str) -> str:
    command = [sys.executable, "-m", "outrigger", *verb, "--build", str(mpi.build), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=directory, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("mpi", ("mpich",), indirect=True)
def test_a_traced_stencil_is_predicted(offload: Mpi, tmp_path: Path) -> None:
    program = offload.build / "examples" / offload.name / "halo"
    if not program.exists():
        pytest.skip(f"{program} is not built")
    halo = [str(program), "--grid", "128,128", "--fields", "2", "--steps", str(STEPS), "--mode", "nonblocking"]
    outrigger(offload, tmp_path, ["run"], "-n", "4", "--no-bind", "--trace", "t.json", "--", *halo)
    output = outrigger(offload, tmp_path, ["lab", "predict"], "t.json", "--cluster", str(CLUSTER), "--nodes", "4",
                       "--seeds", "1", "--json", "f.json")  # fmt: skip
    assert f"{STEPS} repetitions" in output or f"{STEPS - 1} repetitions" in output, output
    figures = json.loads((tmp_path / "f.json").read_text())
    assert [one["way"] for one in figures["configurations"]] == ["blocking", "nonblocking", "testing", "offloaded"]
    for one in figures["configurations"]:
        (times,) = one["seeds"]
        # Messages are edges of some KiB: a step is its work and little more.
        assert 0 < times["work_us"] <= times["step_us"] < times["work_us"] + 1000, one
