"""`outrigger advise` and `outrigger lab tune` with real programs and MPIs, as small as they can be."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Mpi, wait_until

from outrigger import artifacts, selection

RANKS = 2
LIMIT_S = 100.0

pytestmark = [pytest.mark.one_machine, pytest.mark.any_mpi]


def command(mpi: Mpi, directory: Path, *words: str) -> subprocess.Popen[str]:
    """The command with the MPI named, in a directory of its own."""
    elsewhere = mpi.installed.elsewhere
    named = mpi.name if elsewhere is None else str(elsewhere.launcher)
    told = {"OUTRIGGER_BUILD": str(mpi.build.absolute())}
    if search := mpi.installed.search(mpi.directory):
        told["LD_LIBRARY_PATH"] = ":".join(search)
    first, *rest = words
    return subprocess.Popen(
        [sys.executable, "-m", "outrigger", *first.split(), "-n", str(RANKS), "--mpi", named, *rest],
        cwd=directory, env={**mpi._environment(), **told}, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=LIMIT_S)
    return process.returncode, out, err


def program(mpi: Mpi, name: str) -> str:
    path = (mpi.programs / name).absolute()
    assert path.exists(), f"{path} is not built: build the target mpi_programs"
    return str(path)


def test_a_program_is_advised(offload: Mpi, tmp_path: Path) -> None:
    words = (
        "--algorithm",
        "on",
        "--budget",
        "20s",
        "--runs",
        "2",
        "--json",
        "advice.json",
        "--",
        "counted",
        "tests",
        "8",
    )
    words = tuple(program(offload, word) if word == "counted" else word for word in words)
    code, out, err = ended(command(offload, tmp_path, "advise", *words))
    assert code == 0, out + err
    found = json.loads((tmp_path / "advice.json").read_text())
    tried = {one["variant"]: one for one in found["variants"]}
    assert {"native", "offloaded"} <= set(tried) and "--native" in tried["native"]["command"]
    assert len(tried["native"]["seconds"]) >= len(tried["offloaded"]["seconds"]) >= 1
    assert tried["offloaded"]["in_collectives_s"] > 0
    assert 1 <= len(found["advice"]) <= 8
    tests = 3 * 8 * RANKS
    assert any(f"MPI_Test calls can go: {tests} calls tested MPI_Ialltoall" in one["text"] for one in found["advice"])
    assert out.rstrip().endswith("counted tests 8") and found["command"].split()[:2] == ["outrigger", "run"]
    kept = tmp_path / "outrigger-advise"
    assert (kept / "native-1.out").exists() and (kept / "offloaded-1.json").exists()
    again = subprocess.run(
        [sys.executable, "-m", "outrigger", "advise", "--from", str(kept / "offloaded-1.json")],
        capture_output=True, text=True, timeout=LIMIT_S, check=True,
    )  # fmt: skip
    assert "MPI_Test calls can go" in again.stdout


def advised(mpi: Mpi, directory: Path, *more: str) -> tuple[list[str], str]:
    """Sentences for a program that broadcasts most of the time, and the notes."""
    words = ("moved", "bcast", "blocking", "4000000", "500", "100")
    command_line = ("--budget", "60s", "--runs", "1", "--json", "advice.json", "--", program(mpi, words[0]), *words[1:])
    code, out, err = ended(command(mpi, directory, "advise", *command_line, *more))
    assert code == 0, out + err
    return [one["text"] for one in json.loads((directory / "advice.json").read_text())["advice"]], err


@pytest.mark.skipif(platform.machine() != "x86_64", reason="guards need Syscall User Dispatch")
def test_advice_says_when_data_are_used(offload: Mpi, tmp_path: Path) -> None:
    texts, err = advised(offload, tmp_path)
    assert [text for text in texts if text.startswith("MPI_Bcast at moved") and " of the run" in text], err


def test_advice_does_without_a_failed_measurement(offload: Mpi, tmp_path: Path) -> None:
    texts, err = advised(offload, tmp_path, "OUTRIGGER_WINDOWS")
    assert texts and not any("MPI_Bcast at moved" in text for text in texts)
    assert "could not be measured: exit code" in err and "windows-1.out" in err


def test_a_failing_program_ends_it(offload: Mpi, tmp_path: Path) -> None:
    words = ("--budget", "30s", "--", program(offload, "counted"), "end", "exit", "5")
    code, out, err = ended(command(offload, tmp_path, "advise", *words))
    assert code != 0 and all(line.startswith("No spare core:") for line in out.splitlines()), out
    assert "the program ended with exit code" in err and "native-1.out" in err


def test_an_interrupt_ends_the_program(offload: Mpi, tmp_path: Path) -> None:
    process = command(offload, tmp_path, "advise", "--", program(offload, "steady"), "compute", "60")
    output = tmp_path / "outrigger-advise" / "native-1.out"
    assert wait_until(lambda: output.exists() and "steady: ready" in output.read_text(), LIMIT_S)
    os.kill(process.pid, signal.SIGINT)
    code, _, err = ended(process)
    assert code == 130, err
    assert "Traceback" not in err
    assert not offload.leftovers()


def test_a_table_is_measured(offload: Mpi, tmp_path: Path) -> None:
    if not (offload.build / "bench" / offload.name / "orbench").exists():
        pytest.skip("the benchmark is not built for this ABI")
    words = ("--sizes", "1K", "--rounds", "1", "--budget", "60s", "-o", "t.toml", "--json", "t.json", "ialltoall")
    code, out, err = ended(command(offload, tmp_path, "lab tune", *words))
    assert code == 0, out + err
    (cell,) = json.loads((tmp_path / "t.json").read_text())
    assert cell["collective"] == "ialltoall" and cell["bytes"] == 1024
    assert "built-in" in cell["ratios"] and all(ratio > 0 for (ratio,) in cell["ratios"].values())
    assert (tmp_path / "t.png").stat().st_size > 1000
    # One round has no measure of noise.
    assert selection.words(artifacts.find(offload.build), [str(tmp_path / "t.toml")]) == ("auto",)
