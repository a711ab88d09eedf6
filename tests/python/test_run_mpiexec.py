"""`outrigger run -- mpirun ...`, with launchers that write what they got."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from outrigger import report, run_mpiexec

VERSIONS = {"mpirun": "mpirun (Open MPI) 5.0.3", "mpiexec": "HYDRA build details:\n Version: 4.2.0"}


@pytest.fixture(autouse=True)
def launchers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An mpirun of Open MPI, an mpiexec of MPICH, and srun."""
    for name in ("mpirun", "mpiexec", "srun"):
        program = tmp_path / name
        program.write_text(
            f'#!/bin/sh\n[ "$1" = --version ] && {{ echo "{VERSIONS.get(name, "")}"; exit 0; }}\n'
            'printf "%s\\n" "LD_PRELOAD=$LD_PRELOAD" "OUTRIGGER_SUMS=$OUTRIGGER_SUMS" "NAME=$NAME" "$@"\nexit 3\n'
        )
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for name in ("LD_PRELOAD", "OUTRIGGER_SUMS", "NAME"):
        monkeypatch.delenv(name, raising=False)


def run_words(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "outrigger", "run", *words]
    return subprocess.run(command, text=True, capture_output=True, check=False)


def got(*words: str | Path) -> tuple[list[str], list[str]]:
    """The launcher's variables and words."""
    done = run_words(*words)
    assert done.returncode == 3, done.stderr
    lines = done.stdout.splitlines()
    return lines[:3], lines[3:]


def library(text: str, family: str) -> str:
    """The path of the preload library in an option."""
    _, _, path = text.rpartition("=")
    assert Path(path).name == f"liboutrigger-{family}.so" and Path(path).exists()
    return path


def test_open_mpi_passes_variables_to_the_ranks_of_each_program() -> None:
    variables, words = got(
        "--sums", "any", "-x", "NAME=v", "--", "mpirun", "-np", "2", "true", ":", "-np", "1", "false"
    )
    assert variables == ["LD_PRELOAD=", "OUTRIGGER_SUMS=any", "NAME=v"]
    own = words[:8]
    library(own[1], "openmpi")
    assert own[::2] == ["-x"] * 4 and own[3::2] == ["NAME", "OUTRIGGER_DAEMON", "OUTRIGGER_SUMS"]
    assert words[8:] == ["-np", "2", "true", ":", *own, "-np", "1", "false"]


def test_others_pass_all_variables() -> None:
    variables, words = got("--sums", "any", "--", "mpiexec", "-n", "2", "true", "-x")
    assert variables == ["LD_PRELOAD=", "OUTRIGGER_SUMS=any", "NAME="]
    assert words[:2] == ["-genv", "LD_PRELOAD"] and words[3:] == ["-n", "2", "true", "-x"]
    library(words[2], "mpich")


def test_srun_passes_the_library_as_well() -> None:
    variables, words = got("--mpi", "openmpi", "--", "srun", "-n", "2", "true")
    library(variables[0], "openmpi")
    assert words == ["-n", "2", "true"]


def test_native_leaves_the_library_out() -> None:
    variables, words = got("--native", "--", "mpirun", "-n", "2", "true")
    assert variables[0] == "LD_PRELOAD=" and words == ["-x", "OUTRIGGER_ENABLE", "-n", "2", "true"]


def test_a_job_without_mpi_has_no_report(tmp_path: Path) -> None:
    done = run_words("--report", "--report-to", tmp_path / "r.json", "--", "mpirun", "true")
    assert done.returncode == 3 and "there is no report: no rank reached MPI_Init" in done.stderr


def test_a_report_has_the_command_and_the_mpi(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    launcher = tmp_path / "mpirun"
    blank = tmp_path / "blank.json"
    report_of_no_rank = run_words("--report-to", blank, "--mpi", launcher, "--", "true")
    assert report_of_no_rank.returncode == 3 and blank.exists()
    launcher.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "{VERSIONS["mpirun"]}" || cp {blank} {path}\n')
    done = run_words("--report-to", path, "--", "mpirun", "-n", "2", "true")
    assert done.returncode == 0, done.stderr
    run = report.read(path).run
    assert run is not None and run.command.endswith("-- mpirun -n 2 true") and run.mpi == "Open MPI 5.0.3"


@pytest.mark.parametrize("option", ["-n 2", "--hostfile h", "--bind scatter", "--no-bind", "--oversubscribe"])
def test_options_that_place_ranks_are_not_ignored(option: str) -> None:
    done = run_words(*option.split(), "--", "mpirun", "true")
    assert done.returncode != 0 and done.stdout == ""
    said = " ".join(done.stderr.split())
    assert f"{option.split()[0]}: mpirun starts and places the ranks" in said


def test_a_dry_run_starts_nothing() -> None:
    done = run_words("--sums", "any", "--dry-run", "--", "mpiexec", "-n", "2", "./a b")
    assert done.returncode == 0 and "OUTRIGGER_SUMS=any mpiexec -genv LD_PRELOAD" in done.stdout
    assert done.stdout.endswith(" -n 2 './a b'\n")


def test_programs_of_another_mpi_are_refused(tmp_path: Path) -> None:
    ldd = tmp_path / "ldd"
    ldd.write_text("#!/bin/sh\necho '	libmpi.so.40 => /opt/lib/libmpi.so.40 (0x1)'\n")
    ldd.chmod(0o755)
    done = run_words("--", "mpiexec", "-n", "2", "true")
    said = " ".join(done.stderr.split())
    assert "true is linked to libmpi.so.40 (Open MPI's ABI), and mpiexec starts programs of MPICH 4.2.0" in said


def test_an_unknown_launcher_needs_the_name_of_its_mpi(tmp_path: Path) -> None:
    (tmp_path / "orterun").write_text("#!/bin/sh\n")
    (tmp_path / "orterun").chmod(0o755)
    assert "say which it starts with --mpi" in " ".join(run_words("--", "orterun", "true").stderr.split())
    assert "no such program" in run_words("--", "aprun", "true").stderr


@pytest.mark.parametrize(
    ("program", "expected"),
    [("mpirun", True), ("/opt/bin/mpiexec.hydra", True), ("srun", True), ("mpirun_test.sh", False), ("./a", False)],
)
def test_launchers_are_recognized(program: str, expected: bool) -> None:
    assert run_mpiexec.is_mpiexec([program, "-n", "2"]) is expected
