"""`outrigger run` under real MPIs: the ends of jobs, and starts of commands that are not simply MPI programs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from conftest import Job, Mpi, Stopwatch
from proc_stat import alive

RANKS = 3
ENDS_WITHIN_S = 4.0
"""Open MPI takes 1.2 s natively, MPICH 0.1 s."""

pytestmark = [pytest.mark.one_machine, pytest.mark.any_mpi]


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """Directory for jobs' files, and for temporary files of the command."""
    (tmp_path / "temporary").mkdir()
    return tmp_path


def start(mpi: Mpi, directory: Path, program: list[str], *options: str, ranks: int = RANKS, **environment: str) -> Job:
    """Starts the command, with the MPI named, as a user would."""
    elsewhere = mpi.installed.elsewhere
    named = mpi.name if elsewhere is None else str(elsewhere.launcher)
    command = [sys.executable, "-m", "outrigger", "run", "-n", str(ranks), "--mpi", named, *options, "--", *program]
    told = {"OUTRIGGER_BUILD": str(mpi.build), "TMPDIR": str(directory / "temporary"), **environment}
    if search := mpi.installed.search(mpi.directory):
        told["LD_LIBRARY_PATH"] = ":".join(search)
    job = Job(command, {**mpi._environment(), **told}, Path(tempfile.mkdtemp(dir=directory)))
    mpi.jobs.append(job)
    return job


def steady(mpi: Mpi, directory: Path, mode: str) -> tuple[Job, list[int]]:
    """A running job, and the pids of the command's own children."""
    job = start(mpi, directory, [str(mpi.programs / "steady"), mode, "60"], "--report", "--no-bind")
    job.wait_for("steady: ready")
    assert mpi.daemons("serve") and mpi.daemons("keep")
    children = subprocess.check_output(["ps", "-o", "pid=", "--ppid", str(job.process.pid)], text=True).split()
    assert children
    return job, [int(pid) for pid in children]


@pytest.mark.parametrize("everyone", (False, True), ids=("alone", "group"))
@pytest.mark.parametrize("mode", ("compute", "wait"))
def test_a_killed_command_takes_its_job_along(offload, run_dir, mode, everyone):
    job, children = steady(offload, run_dir, mode)
    (os.killpg if everyone else os.kill)(job.process.pid, signal.SIGKILL)
    job.process.wait()
    since = Stopwatch()
    gone = since.sees(lambda: not offload.leftovers() and not any(map(alive, children)), 10)
    assert gone, f"{offload.leftovers()} {children}\n{job.text()}"
    (left,) = (run_dir / "temporary").glob("outrigger-run-*")
    start(offload, run_dir, [str(offload.programs / "steady"), "operations", "0"], "--report").wait(60).ok()
    assert not left.exists()
    assert not list((run_dir / "temporary").glob("outrigger-run-*"))


@pytest.mark.parametrize("number", (signal.SIGINT, signal.SIGTERM), ids=lambda number: number.name)
def test_a_signal_ends_the_job_at_once(offload, run_dir, number):
    """As soon as with the launcher alone: not after a timeout of the command."""
    job, _ = steady(offload, run_dir, "compute")
    since = Stopwatch()
    os.kill(job.process.pid, number)
    ended = since.sees(lambda: job.process.poll() is not None, ENDS_WITHIN_S)
    assert ended, job.text()
    offload.nothing_left()
    assert not list((run_dir / "temporary").glob("outrigger-run-*"))


SCRIPT = """#!/bin/bash
ulimit -c 0
ls / >/dev/null
"$@"
echo "script: $?"
"""


@pytest.mark.parametrize("how", ("script", "shell"))
def test_scripts_start_programs(offload, run_dir, how):
    script = run_dir / "job.sh"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    before = [str(script)] if how == "script" else ["/bin/bash", "-c", 'ulimit -c 0; exec "$0" "$@"']
    report = run_dir / "report.json"
    job = start(
        offload, run_dir, [*before, str(offload.programs / "checked"), "1000"], "--report-to", str(report), ranks=2
    )
    result = job.wait(60).ok()
    assert result.out.count("checked: rank") == 2
    assert result.out.count("script: 0") == (2 if how == "script" else 0)
    assert '"offloaded": ' in report.read_text() or '"offloaded":' in report.read_text()
    assert "outrigger: " not in result.out, "silent where there is nothing to say, --mpi was given"
    offload.nothing_left()


def test_auto_takes_the_mpi_of_mpiexec_and_says_so(offload, run_dir):
    """`true` has no MPI, so natively the library prints nothing."""
    link = run_dir / "bin"
    link.mkdir()
    launcher = shutil.which(offload.installed.launcher(1, "")[0])
    (link / "mpiexec").write_text(f'#!/bin/sh\nexec {launcher} "$@"\n')
    (link / "mpiexec").chmod(0o755)
    command = [
        sys.executable,
        "-m",
        "outrigger",
        "run",
        "-n",
        "2",
        "--",
        "/bin/sh",
        "-c",
        "echo hello; ls / >/dev/null",
    ]
    environment = {**offload._environment(), "OUTRIGGER_BUILD": str(offload.build)}
    environment["PATH"] = f"{link}:{environment['PATH']}"
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "hello\nhello\n"
    ours = [line for line in result.stderr.splitlines() if "outrigger" in line]
    assert len(ours) == 1
    assert f"sh does not show which MPI it starts; taking that of {link}/mpiexec" in ours[0]


def compiler(mpi: Mpi) -> Path:
    """Its compiler wrapper."""
    elsewhere = mpi.installed.elsewhere
    found = shutil.which(f"mpicc.{mpi.name}") if elsewhere is None else str(elsewhere.launcher.parent / "mpicc")
    if found is None or not Path(found).exists() or (elsewhere is not None and mpi.name == "mpiabi"):
        pytest.skip("its mpicc is not installed")
    return Path(found)


def built(mpi: Mpi, directory: Path, by: str, *flags: str) -> str:
    """`checked`, compiled with a sanitizer."""
    if shutil.which(by) is None:
        pytest.skip(f"{by} is not installed")
    program = directory / "checked"
    source = Path(__file__).parent / "programs" / "checked.c"
    made = subprocess.run(
        [str(compiler(mpi)), "-g", *flags, "-o", str(program), str(source)],
        env={**os.environ, "OMPI_CC": by, "MPICH_CC": by}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if made.returncode != 0:
        pytest.skip(f"{by} {' '.join(flags)}: {made.stderr}")
    return str(program)


def clang_runtime() -> str:
    """The flag by which a program finds clang's shared runtime."""
    if shutil.which("clang-16") is None:
        pytest.skip("clang-16 is not installed")
    name = subprocess.check_output(["clang-16", "-print-file-name=libclang_rt.asan-x86_64.so"], text=True).strip()
    return f"-Wl,-rpath,{Path(name).parent}"


@pytest.mark.parametrize("wrapped", (False, True), ids=("itself", "shell"))
@pytest.mark.parametrize("by", ("gcc", "clang-16", "clang-16-shared"))
def test_address_sanitizer(offload, run_dir, by, wrapped):
    """Its runtime is put first; behind a shell its check of that is switched off."""
    flags = ["-fsanitize=address", "-fno-omit-frame-pointer"]
    flags += ["-shared-libasan", clang_runtime()] if by.endswith("shared") else []
    program = built(offload, run_dir, by.removesuffix("-shared"), *flags)
    before = ["/bin/sh", "-c", '"$0" "$@"; exit $?'] if wrapped else []
    report = run_dir / "report.json"
    job = start(
        offload, run_dir, [*before, program, "1000"], "--report-to", str(report), ranks=2, ASAN_OPTIONS="detect_leaks=0"
    )
    result = job.wait(60).ok()
    assert result.out.count("checked: rank") == 2
    assert "runtime does not come first" not in result.out
    assert report.exists()


def test_children_of_a_sanitized_program_do_not_get_its_runtime(offload, run_dir):
    program = run_dir / "child.c"
    program.write_text(
        "#include <mpi.h>\n#include <stdlib.h>\n"
        'int main(int c, char** v) { MPI_Init(&c, &v); int e = system("echo child: $LD_PRELOAD"); MPI_Finalize();'
        " return e; }\n"
    )
    made = subprocess.run(
        [str(compiler(offload)), "-fsanitize=address", "-o", str(run_dir / "child"), str(program)],
        env={**os.environ, "OMPI_CC": "gcc", "MPICH_CC": "gcc"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if made.returncode != 0:
        pytest.skip(made.stderr)
    job = start(offload, run_dir, [str(run_dir / "child")], ranks=1, ASAN_OPTIONS="detect_leaks=0")
    result = job.wait(60).ok()
    assert "child:\n" in result.out, result.out


@pytest.mark.parametrize("elements", (100, 20_000))
def test_valgrind_takes_what_was_received_for_written(offload, run_dir, elements):
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
    program = ["valgrind", "-q", "--undef-value-errors=yes", str(offload.programs / "checked"), str(elements)]
    report = run_dir / "report.json"
    job = start(offload, run_dir, program, "--report-to", str(report), ranks=2)
    result = job.wait(120).ok()
    assert result.out.count("checked: rank") == 2
    assert report.exists()
    assert "look (checked.c" not in result.out and ": look" not in result.out, result.out


def test_memory_sanitizer_takes_what_was_received_for_written(offload, run_dir):
    """The MPI itself is not built for it, so every run has reports: the program checks its own buffers."""
    program = built(offload, run_dir, "clang-16", "-fsanitize=memory", "-fsanitize-recover=memory")
    job = start(offload, run_dir, [program], ranks=2, MSAN_OPTIONS="report_umrs=0:exit_code=0:symbolize=0")
    result = job.wait(60).ok()
    assert result.out.count("unseen 0\n") == 2, result.out


def test_too_few_descriptors_are_named(offload, run_dir):
    """With any low limit, the message names it and nothing else. Below these limits the MPIs themselves fail."""
    limits = {"openmpi": (28, 40), "mpich": (29, 30, 31)}.get(str(offload.installed))
    if limits is None:
        pytest.skip("the system's MPIs only: others need more for themselves")
    for limit in limits:
        program = [str(offload.programs / "checked"), "100"]
        words = ["/bin/bash", "-c", f'ulimit -n {limit}; exec "$0" "$@"', *program]
        result = start(offload, run_dir, words, ranks=2).wait(60)
        for line in [line for line in result.out.splitlines() if "outrigger: " in line]:
            named = "no file descriptors left" in line and f"(limit {limit}); raise ulimit -n" in line
            assert named or "Too many open files" in line, result.out
        offload.nothing_left()


def test_the_limit_of_the_start_is_the_one_that_was_set(offload, run_dir):
    """Not a part of it: the message must name the value to raise."""
    daemon = run_dir / "outriggerd"
    daemon.write_text("#!/bin/sh\nexec sleep 600\n")
    daemon.chmod(0o755)
    settings = ("-x", f"OUTRIGGER_DAEMON={daemon}", "-x", "OUTRIGGER_INIT_TIMEOUT_MS=2000")
    result = start(offload, run_dir, [str(offload.programs / "checked"), "100"], *settings, ranks=2).wait(60).ok()
    (line,) = [line for line in result.out.splitlines() if "outrigger: " in line]
    assert "did not go to the background within 2000 ms" in line
    assert "raise OUTRIGGER_INIT_TIMEOUT_MS" in line
    assert result.out.count("checked: rank") == 2
