"""Jobs of benchmarks: their hosts, and those whose figures are complete before they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from proc_stat import alive
from waiting import wait_until

from outrigger.bench import jobs
from outrigger.bench.jobs import Site, has_json_line, run_command
from outrigger.errors import UserError
from outrigger.hosts import Hosts
from outrigger.mpis import Mpi

OPENMPI = Mpi("openmpi", "4.1.4", Path("mpirun"), None)
MPICH = Mpi("mpich", "4.0.2", Path("mpiexec"), None)
CHATTY_WHEN_ENDED = """
import signal, sys, time
def say(*_):
    print("===== killed", flush=True)
    print("process manager error", file=sys.stderr, flush=True)
    sys.exit(7)
signal.signal(signal.SIGTERM, say)
print('{"figures": 1}', flush=True)
time.sleep(60)
"""


def start(code: str, timeout_s: float = 30, grace_s: float = 0.3) -> jobs.Ended:
    return run_command([sys.executable, "-c", code], os.environ, has_json_line, timeout_s, grace_s)


def test_a_job_that_ends_gives_all_it_printed_and_its_exit_code() -> None:
    assert start("print('{}'); print('after'); raise SystemExit(3)") == jobs.Ended(3, "{}\nafter\n", True)


@pytest.mark.parametrize("number", (signal.SIGTERM, signal.SIGINT))
@pytest.mark.slow
def test_a_command_that_is_ended_while_it_starts_a_job_ends_that(tmp_path: Path, number: signal.Signals) -> None:
    code = f"""
import os, subprocess, sys, time
from outrigger.bench import jobs

class Popen(subprocess.Popen):
    def __init__(self, *words, **options):
        super().__init__(*words, **options)
        while not os.path.exists("{tmp_path}/go"):
            time.sleep(0.01)

subprocess.Popen = Popen
script = "echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; exec sleep 600"
jobs.run_command(["sh", "-c", script], dict(), jobs.has_json_line, 600)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    assert wait_until((tmp_path / "pid").exists)
    process.send_signal(number)
    (tmp_path / "go").touch()
    assert process.wait(60) == (143 if number == signal.SIGTERM else -signal.SIGINT)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_launcher_ends_with_a_command_that_is_killed(tmp_path: Path) -> None:
    code = f"""
from outrigger import artifacts, binding, launch
from outrigger.bench import jobs
script = "echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; exec sleep 600"
plan = launch.Plan(artifacts.find().daemon, ("sh", "-c", script), dict(), binding.NodeBinding((), (), (), ()))
jobs.run(plan, jobs.has_json_line, 600)
"""
    process = subprocess.Popen([sys.executable, "-c", code])
    assert wait_until((tmp_path / "pid").exists)
    # The kernel tells it as often as the command has threads, and Open MPI's is to be told once.
    assert "\nThreads:\t1\n" in Path(f"/proc/{process.pid}/status").read_text()
    process.kill()
    process.wait(60)
    launcher = Path("/proc") / (tmp_path / "pid").read_text().strip()
    if not wait_until(lambda: not launcher.exists()):
        os.kill(int(launcher.name), signal.SIGKILL)
        pytest.fail("the launcher lives on")


def test_all_that_is_printed_is_read_though_nobody_waits_for_it() -> None:
    """More than pipes hold, on both, and lines that come in parts."""
    code = """
import fcntl, sys, termios, time
for number in range(3000):
    print("x" * 60, file=sys.stderr)
    print(number, "y" * 60, flush=True)
sys.stdout.write('{"half": ')
sys.stdout.flush()
while any(fcntl.ioctl(1, termios.FIONREAD, bytes(4))):  # until the first half has been read
    time.sleep(0.01)
print("1}")
"""
    ended = start(code)
    assert ended.by_itself and ended.output.splitlines()[-1] == '{"half": 1}'
    assert [int(line.split()[0]) for line in ended.output.splitlines()[:-1]] == list(range(3000))


def test_handlers_of_other_than_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """As libraries in LD_PRELOAD have them: Python names them None, and cannot put them back."""
    ending = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    before = {number: signal.getsignal(number) for number in ending}
    monkeypatch.setattr(signal, "getsignal", lambda _number: None)
    try:
        assert start("print('{}')").code == 0
        monkeypatch.undo()
        assert [signal.getsignal(number) for number in ending] == [signal.SIG_DFL] * 3
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_job_that_hangs_after_its_figures_is_ended(capfd: pytest.CaptureFixture[str]) -> None:
    before = time.monotonic()
    ended = start(CHATTY_WHEN_ENDED)
    assert time.monotonic() - before < 40  # of the 60 s that it would take by itself
    assert ended == jobs.Ended(0, '{"figures": 1}\n', False)
    assert "process manager" not in capfd.readouterr().err
    assert "MPICH 4.0.2: ranks had not left MPI_Finalize" in jobs.unended(MPICH)


@pytest.mark.slow
def test_a_job_without_figures_is_ended_with_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match="still running after 3 s, ended"):
        run_command(["sh", "-c", "echo why >&2; exec sleep 60"], os.environ, has_json_line, timeout_s=3)
    assert "why" in capfd.readouterr().err


def test_a_job_that_ignores_being_ended_is_killed_with_its_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_SECONDS_TO_END", 0.2)
    code = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print('{"child": %d}' % child.pid, flush=True)
time.sleep(60)
"""
    ended = start(code)
    child = int(ended.output.split()[-1].rstrip("}"))

    assert wait_until(lambda: not alive(child)), "the child lives on"


def test_only_whole_lines_are_figures() -> None:
    assert has_json_line('a warning\n{"a": 1}\n')
    assert not has_json_line('{"a": 1}')
    assert not has_json_line("")


def test_ranks_of_named_hosts_that_are_not_bound_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMPI_MCA_mpi_yield_when_idle", raising=False)
    hosts = Hosts(hostfile=Path("hosts"))
    assert Site(hosts, "none").variables(OPENMPI, 2) == {"OMPI_MCA_mpi_yield_when_idle": "1"}
    assert Site(hosts, "none").variables(MPICH, 2) == {}
    assert Site(hosts, "bunch").variables(OPENMPI, 2) == {}
    assert Site(bind="none").variables(OPENMPI, 2) == {}
    monkeypatch.setenv("OMPI_MCA_mpi_yield_when_idle", "0")
    assert Site(hosts, "none").variables(OPENMPI, 2) == {}


def test_a_job_gets_its_hosts_and_binding(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("a:1\nb:1\n")
    site = Site(Hosts(hostfile=tmp_path / "hosts", agent="env"), "none")
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")  # shows no MPI
    program.chmod(0o755)
    job = site.job((str(program),), 2, MPICH)
    assert [share.host.name for share in job.where.shares] == ["a", "b"]
    assert job.bind == "none" and site.many and not site.binds
    assert Site().job((str(program),), 2, MPICH).bind == "bunch"
