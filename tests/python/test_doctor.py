"""`outrigger doctor`: what it makes of facts, and one real run."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console

from outrigger import info, mpis
from outrigger.artifacts import Artifacts
from outrigger.doctor import checks, command, machine
from outrigger.doctor.checks import Facts
from outrigger.doctor.line import Line
from outrigger.doctor.trial import Trial, _result, attempt
from outrigger.dpu_info import DpuFinding
from outrigger.info import Cores, Daemon, HugePages, Info, Machine, Reach, Variable, Wire

GOOD_MACHINE = Machine(
    version="1.2.3",
    protocol=21,
    reach=Reach(mapped=True, cma=True, xpmem=False, copier=True),
    wire=Wire(kind="rdma", transports="rc_mlx5/mlx5_0:1"),
    huge_pages=HugePages(bytes=2 << 20, why_not=""),
)
GOOD = Facts(
    command_version="1.2.3",
    info=Info(
        mpis=(),
        ucx="1.13.1",
        cores=Cores(((0,), (1,), (2,)), (0, 1), (2,), {}),
        daemon=Daemon("/opt/bin/outriggerd", machine=GOOD_MACHINE),
        environment={},
        reaches=(),
    ),
    system=machine.System(
        kernel="6.1",
        python="3.11.2",
        online_cpus=4,
        allowed_cpus=3,
        group=machine.Group(),
        shared_memory=machine.SharedMemory(8 << 30, 4 << 30),
        refused_calls=(),
        seccomp=False,
        ptrace_scope=1,
        locked_bytes=None,
        rdma=(machine.RdmaPort("mlx5_0", 1, "ACTIVE", "200 Gb/sec", True),),
        preloaded=(),
    ),
    trials=(Trial("MPICH 4.0.2", calls=8, offloaded=8, seconds=0.4),),
    dpus=None,
)


def with_machine(**changes: Any) -> Facts:
    daemon = replace(GOOD.info.daemon, machine=replace(GOOD_MACHINE, **changes))
    return replace(GOOD, info=replace(GOOD.info, daemon=daemon))


def with_info(**changes: Any) -> Facts:
    return replace(GOOD, info=replace(GOOD.info, **changes))


def with_system(**changes: Any) -> Facts:
    return replace(GOOD, system=replace(GOOD.system, **changes))


def bad(facts: Facts) -> list[Line]:
    return [line for line in checks.lines(facts) if line.state != "ok"]


def test_a_good_machine_has_nothing_to_be_told() -> None:
    lines = checks.lines(GOOD)
    assert bad(GOOD) == []
    assert not any(line.remedy for line in lines)
    assert command.verdict(lines) == f"Outrigger works here: all {len(lines)} checks passed."


NO_CMA = Reach(mapped=True, cma=False, cma_why_not="not permitted: scope is 3", xpmem=False, copier=False)
OFF = {"OUTRIGGER_ENABLE": Variable("off", "off: nothing is offloaded")}
UNKNOWN = {"OUTRIGGER_SERVICE": Variable("2", "")}
PORT = GOOD.system.rdma[0]


@pytest.mark.parametrize(
    ("facts", "name", "state", "words"),
    [
        (with_info(daemon=Daemon(None, "it is missing; run ./dev build")), "outriggerd", "fail", "it is missing"),
        (replace(GOOD, command_version="1.3"), "versions", "fail", "from one installation"),
        (with_info(ucx=None), "system", "warn", "libucx0"),
        (with_info(environment=OFF), "OUTRIGGER_ENABLE", "warn", "natively until it is unset"),
        (with_info(environment=UNKNOWN), "OUTRIGGER_SERVICE", "warn", "is the name right"),
        (replace(GOOD, trials=()), "MPI", "fail", "load an MPI's module"),
        (replace(GOOD, trials=(Trial("X", served=False, problem="no library"),)), "X", "fail", "no library"),
        (replace(GOOD, trials=(*GOOD.trials, Trial("X", served=False, problem="none"))), "X", "warn", "none"),
        (replace(GOOD, trials=(Trial("X", problem="exit code 1: no"),)), "X", "fail", "without Outrigger"),
        (replace(GOOD, trials=(Trial("X", calls=8, said="running natively: y"),)), "X", "fail", "running natively: y"),
        (replace(GOOD, trials=(Trial("X"),)), "X", "fail", "does mpiexec forward LD_PRELOAD"),
        (with_system(refused_calls=("socketpair (no)",)), "system calls", "fail", "seccomp profile"),
        (with_machine(reach=NO_CMA), "cross-memory attach", "warn", "scope is 3"),
        (with_system(shared_memory=None), "shared memory", "warn", "mount a tmpfs"),
        (with_system(shared_memory=machine.SharedMemory(64 << 20, 64 << 20)), "shared memory", "warn", "--shm-size"),
        (with_system(locked_bytes=8 << 20), "locked memory", "warn", "memlock unlimited"),
        (with_machine(huge_pages=HugePages(bytes=0, why_not="the kernel has none")), "huge pages", "warn", "has none"),
        (with_info(cores=Cores(((0,),), (0,), (), {})), "cores", "warn", "a core more than ranks"),
        (with_info(cores=Cores(((0,), (1,)), (0,), (1,), {1: 0.5})), "service process's core", "warn", "are native"),
        (with_system(group=machine.Group(cpus=1.5)), "control group", "warn", "raise the limit"),
        (with_machine(wire=Wire(problem="no UCX transport")), "between nodes", "warn", "no UCX transport"),
        (with_machine(wire=Wire(kind="messages", transports="tcp")), "RDMA", "warn", "ucx_info -d"),
        (with_system(rdma=(replace(PORT, state="DOWN"),)), "mlx5_0 port 1", "warn", "link is not up"),
        (with_system(rdma=(replace(PORT, usable=False),)), "mlx5_0 port 1", "warn", "uverbs"),
        (replace(GOOD, dpus=(DpuFinding(dpu="bf0", host="n0", problem="lost"),)), "DPU bf0 of n0", "fail", "lost"),
    ],
)  # fmt: skip
def test_each_fault_has_a_line_with_a_remedy(facts: Facts, name: str, state: str, words: str) -> None:
    (line,) = [line for line in bad(facts) if line.name == name]
    assert line.state == state
    assert words in line.remedy, line


def test_no_limit_of_locked_memory_matters_without_rdma() -> None:
    assert bad(with_system(locked_bytes=65536, rdma=())) == []


def test_what_a_program_has_printed(tmp_path: Path) -> None:
    """The library's own line is told apart from others."""
    text = "some warning\noutrigger: running natively: no service process\n\nSegmentation fault\n"
    trial = _result("X", 139, text, tmp_path / "none", 1.0)
    assert trial.problem == "exit code 139: Segmentation fault"
    assert trial.said == "running natively: no service process"
    assert _result("X", 0, "", tmp_path / "none", 1.0).offloaded == 0


def test_a_library_that_the_loader_misses_is_named_with_the_remedy(tmp_path: Path, built: Artifacts) -> None:
    mpi = mpis.Mpi("openmpi", "4.1.4", tmp_path / "usr/bin/mpiexec", None)
    assert "neither beside it nor by the loader" in attempt(mpi, built).problem
    there = tmp_path / "usr/lib/aarch64-linux-gnu/libmpi.so.40"
    there.parent.mkdir(parents=True)
    there.touch()
    problem = attempt(mpi, built).problem
    assert str(there) in problem and "run ldconfig as root" in problem and f"put {there.parent} in LD_LIB" in problem


def test_calls_are_tried() -> None:
    def refused() -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    needed: Mapping[str, Callable[[], None]] = {"allowed": lambda: None, "pidfd_open": refused}
    assert machine.refused_calls(needed) == ("pidfd_open (Operation not permitted)",)


@pytest.mark.parametrize(
    ("text", "cpus"), [("max 100000", None), ("150000 100000", 1.5), ("-1 100000", None), ("", None), ("1 0", None)]
)
def test_cpu_limits(text: str, cpus: float | None) -> None:
    assert machine.parse_cpu_max(text) == cpus


@pytest.mark.parametrize(("text", "limit"), [("max", None), ("9223372036854771712", None), ("1048576", 1 << 20)])
def test_memory_limits(text: str, limit: int | None) -> None:
    assert machine.parse_bytes(text) == limit


def test_remedies_are_shown_below_what_they_are_for(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [Line("memory", "shared memory", "warn", "64 MiB", "take more"), Line("cores", "cores", "fail", "none")]
    command.show(Console(width=100, highlight=False), lines)
    shown = capsys.readouterr().out
    assert shown.index("64 MiB") < shown.index("→ take more") < shown.index("cores")
    assert "1 of 2 checks failed" in shown


def test_a_real_machine(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], built: Artifacts) -> None:
    """With one MPI, or it takes long."""
    found = mpis.find_mpis()
    if not found:
        pytest.skip("no MPI on PATH")
    monkeypatch.setattr(mpis, "find_all_mpis", lambda: found[:1])
    monkeypatch.setattr(info, "find_all_mpis", lambda: found[:1])
    with pytest.raises(typer.Exit) as ended:
        command.doctor(json=True, build=built.root)
    read = json.loads(capsys.readouterr().out)
    trials = [check for check in read["checks"] if check["topic"] == "MPI"]
    assert [(check["name"], check["state"]) for check in trials] == [(found[0].title, "ok")], read
    assert "8 of 8 calls offloaded, data right" in trials[0]["value"]
    assert ended.value.exit_code == (1 if read["fail"] else 0)


def test_a_broken_build(tmp_path: Path, write_programs: Callable[[Mapping[str, str]], None]) -> None:
    """Nothing works, and each line says why: the exit code is 1."""
    write_programs({"bin/outriggerd": "echo 'outriggerd: broken' >&2; exit 3"})
    done = subprocess.run(
        [sys.executable, "-m", "outrigger", "doctor", "--build", str(tmp_path)],
        env={**os.environ, "PATH": "/nowhere"}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert "outriggerd: broken" in done.stdout and "no mpiexec is on PATH" in done.stdout
    assert "Traceback" not in done.stderr
