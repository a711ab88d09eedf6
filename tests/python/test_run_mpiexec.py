"""`outrigger run -- mpirun ...`, with launchers that write what they got."""

from __future__ import annotations

import os
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


def links(tmp_path: Path, soname: str) -> None:
    """Programs seem to be linked to this library."""
    ldd = tmp_path / "ldd"
    ldd.write_text(f"#!/bin/sh\necho '\t{soname} => /opt/lib/{soname} (0x1)'\n")
    ldd.chmod(0o755)


def tools(tmp_path: Path) -> Path:
    """A directory with the system's commands, but without its MPIs."""
    place = tmp_path / "tools"
    place.mkdir()
    for name in ("sh", "env", "true"):
        (place / name).symlink_to(f"/usr/bin/{name}")
    return place


def library(text: str, family: str) -> None:
    """LD_PRELOAD has the library of this ABI first."""
    path = Path(text.removeprefix("LD_PRELOAD=").split(":")[0])
    assert path.name == f"liboutrigger-{family}.so" and path.exists()


@pytest.mark.parametrize(("launcher", "family"), [("mpirun", "openmpi"), ("mpiexec", "mpich")])
def test_variables_go_through_the_launcher(launcher: str, family: str) -> None:
    variables, words = got("--sums", "any", "--", launcher, "-n", "2", "true", "-x")
    library(variables[0], family)
    assert variables[1] == "OUTRIGGER_SUMS=any" and words == ["-n", "2", "true", "-x"]


def test_open_mpi_is_told_what_other_hosts_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIGGER_WAIT", "polite")
    command = ["--sums", "any", "--", "mpirun", "-host", "a,b", "-np", "2", "true", ":", "-np", "1", "false"]
    ours = {name for name in os.environ if name.startswith("OUTRIGGER_") and name != "OUTRIGGER_BUILD"}
    names = {"ASAN_OPTIONS", "LD_PRELOAD", "OUTRIGGER_DAEMON", "OUTRIGGER_SUMS", *ours}
    own = [word for name in sorted(names) for word in ("-x", name)]
    _, words = got(*command)
    assert words == [*own, "-host", "a,b", "-np", "2", "true", ":", *own, "-np", "1", "false"]
    monkeypatch.setenv("OMPI_MCA_mca_base_env_list", "NAME=3")  # refused beside -x
    assert got(*command)[1] == command[4:]


def test_srun_starts_programs_of_any_mpi(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    variables, words = got("--mpi", "mpich", "--", "srun", "-n", "2", "true")
    library(variables[0], "mpich")
    assert words == ["-n", "2", "true"]
    links(tmp_path, "libmpi.so.40")
    library(got("--", "srun", "-n", "2", "true")[0][0], "openmpi")
    for name in VERSIONS:  # as on clusters without mpiexec
        (tmp_path / name).unlink()
    monkeypatch.setenv("PATH", f"{tmp_path}:{tools(tmp_path)}")
    library(got("--", "srun", "-n", "2", "true")[0][0], "openmpi")
    library(got("--mpi", "mpich", "--", "srun", "-n", "2", "true")[0][0], "mpich")


def test_a_command_that_shows_no_mpi_takes_the_first_one() -> None:
    done = run_words("--", "srun", "./job.sh")
    assert "does not show which MPI it starts; taking" in " ".join(done.stderr.split()) and done.returncode == 3


@pytest.mark.parametrize("before", [["env", "NAME=v"], ["nice", "-n", "1"]])
def test_words_before_the_launcher(before: list[str]) -> None:
    variables, words = got("--", *before, "mpiexec", "-n", "2", "true")
    library(variables[0], "mpich")
    assert words == ["-n", "2", "true"]


def test_native_leaves_the_library_out() -> None:
    variables, words = got("--native", "--", "mpirun", "-n", "2", "true")
    assert variables[0] == "LD_PRELOAD=" and words == ["-n", "2", "true"]


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


@pytest.mark.parametrize("option", ["-n 2", "--hostfile h", "--bind scatter", "--no-bind", "--oversubscribe", "-x A=1"])
def test_options_that_place_ranks_are_not_ignored(option: str) -> None:
    done = run_words(*option.split(), "--", "mpirun", "true")
    assert done.returncode != 0 and done.stdout == ""
    said = " ".join(done.stderr.split())
    assert f"{option.split()[0]}: mpirun starts and places the ranks" in said


def test_a_dry_run_starts_nothing() -> None:
    done = run_words("--sums", "any", "--dry-run", "--", "mpiexec", "-n", "2", "./a b")
    assert done.returncode == 0 and "OUTRIGGER_SUMS=any" in done.stdout
    assert done.stdout.endswith("liboutrigger-mpich.so -- mpiexec -n 2 './a b'\n")


def test_words_of_another_mpi_may_be_arguments(tmp_path: Path) -> None:
    links(tmp_path, "libmpi.so.40")
    library(got("--", "mpiexec", "-n", "2", "cat", "true")[0][0], "mpich")


def test_the_mpi_of_a_launcher_is_no_other(tmp_path: Path) -> None:
    done = run_words("--mpi", "mpich", "--", "mpirun", "true")
    assert done.returncode != 0 and "--mpi mpich: mpirun starts programs of Open MPI 5.0.3" in done.stderr
    library(got("--mpi", "openmpi", "--", "mpirun", "true")[0][0], "openmpi")
    library(got("--mpi", tmp_path / "mpirun", "--", "mpirun", "true")[0][0], "openmpi")


def test_what_cannot_be_started_is_named(tmp_path: Path) -> None:
    (tmp_path / "mpirun-7").write_text("#!/bin/sh\n")
    assert "mpirun-7: no such program, or it is not executable" in run_words("--", "mpirun-7", "true").stderr
    assert "aprun: no such program" in run_words("--", "aprun", "true").stderr


@pytest.mark.parametrize(
    ("program", "expected"),
    [("mpirun", True), ("/opt/bin/mpiexec.hydra", True), ("srun", True), ("mpirun_test.sh", False), ("./a", False)],
)
def test_launchers_are_recognized(program: str, expected: bool) -> None:
    assert run_mpiexec.is_mpiexec([program, "-n", "2"]) is expected
