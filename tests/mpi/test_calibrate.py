"""`outrigger lab calibrate` with a real MPI, as small as it can be: the model reads what it has written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from conftest import Mpi, processes_under, wait_until

LIMIT_S = 200.0

pytestmark = [pytest.mark.one_machine, pytest.mark.any_mpi]


def calibrate(mpi: Mpi, directory: Path, *words: str) -> subprocess.Popen[str]:
    named = mpi.name if mpi.installed.elsewhere is None else str(mpi.installed.elsewhere.launcher)
    told = {"OUTRIGGER_BUILD": str(mpi.build.absolute())}
    if search := mpi.installed.search(mpi.directory):
        told["LD_LIBRARY_PATH"] = ":".join(search)
    return subprocess.Popen(
        [sys.executable, "-m", "outrigger", "lab", "calibrate", "--mpi", named, *words],
        cwd=directory, env={**mpi._environment(), **told}, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def test_the_model_reads_what_was_measured(offload: Mpi, tmp_path: Path) -> None:
    words = ("--out", "mine.toml", "--json", "mine.json", "--sizes", "64,16K", "--rounds", "1", "-n", "2,3")
    process = calibrate(offload, tmp_path, *words)
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, out + err
    measured = json.loads((tmp_path / "mine.json").read_text())
    assert {cell["cell"]["bytes"] for cell in measured["cells"]} == {64, 16384}
    assert {cell["cell"]["ranks_per_node"] for cell in measured["cells"]} == {2, 3}
    assert len(measured["cells"]) == 12
    text = (tmp_path / "mine.toml").read_text()
    written = tomllib.loads(text)
    assert "host" in written["confidence"]
    assert "Fitted to 48 times of 12 cells" in text

    again = calibrate(offload, tmp_path, "--from", "mine.json", "--out", "again.toml")
    out, err = again.communicate(timeout=LIMIT_S)
    assert again.returncode == 0, out + err
    assert tomllib.loads((tmp_path / "again.toml").read_text()) == written  # the same readings give the same numbers

    simulator = offload.build.absolute() / "bin" / "outrigger-sim"
    words = ("--pattern", "ialltoall:16KiB", "--ranks-per-node", "2", "--json")
    said = subprocess.run(
        [simulator, "time", "--cluster", "mine.toml", *words],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout)["offloaded"]["pure_us"] > 0


def test_what_is_measured_until_a_ctrl_c_is_kept(offload: Mpi, tmp_path: Path) -> None:
    process = calibrate(offload, tmp_path, "--out", "mine.toml", "--json", "mine.json", "--rounds", "50")
    assert wait_until(lambda: bool(processes_under(offload.build / "bench")), LIMIT_S)  # after the rates of the cores
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, out + err
    assert "Interrupted" in (tmp_path / "mine.toml").read_text()
    assert tomllib.loads((tmp_path / "mine.toml").read_text())["host"]["copy"]
