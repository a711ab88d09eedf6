"""The command that starts a program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from outrigger import launch, settings
from outrigger.artifacts import Artifacts
from outrigger.cores import Placement, place
from outrigger.errors import UserError
from outrigger.mpis import Mpi

OPENMPI = Mpi("openmpi", "4.1.4", Path("/usr/bin/mpirun.openmpi"), Path("/lib/libmpi.so.40"))
MPICH = Mpi("mpich", "4.0.2", Path("/usr/bin/mpirun.mpich"), None)
FOUR_CORES = [(0,), (1,), (2,), (3,)]


@pytest.fixture
def build(tmp_path: Path) -> Artifacts:
    """A build directory with empty files where the real ones would be."""
    for name in ("bin/outriggerd", "lib/liboutrigger-openmpi.so", "lib/liboutrigger-mpich.so"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return Artifacts(tmp_path)


def test_ranks_get_a_core_each_and_the_last_is_kept(build: Artifacts) -> None:
    plan = launch.make_plan(launch.Job(("./prog", "-x"), 3, OPENMPI), build, FOUR_CORES)
    wrapper = plan.command.index("exec")
    assert plan.command[: wrapper - 1][:6] == (
        "/usr/bin/mpirun.openmpi", "-n", "3", "--bind-to", "none", "--oversubscribe",
    )  # fmt: skip
    assert plan.command[wrapper - 1 :] == (
        str(build.daemon), "exec", "--cpus", "0;1;2", "--preload", str(build.preload("openmpi")), "--", "./prog", "-x",
    )  # fmt: skip
    assert plan.environment["OUTRIGGER_SERVICE_CPUS"] == "3"
    assert "OMPI_MCA_mpi_yield_when_idle" not in plan.environment
    assert plan.notes == ()


def test_more_ranks_than_cores_share_them_and_yield(build: Artifacts) -> None:
    plan = launch.make_plan(launch.Job(("./prog",), 5, OPENMPI), build, FOUR_CORES)
    assert plan.command[plan.command.index("--cpus") + 1] == "0-2"
    assert plan.environment["OMPI_MCA_mpi_yield_when_idle"] == "1"


def test_one_core_keeps_none_and_says_so(build: Artifacts) -> None:
    plan = launch.make_plan(launch.Job(("./prog",), 2, MPICH), build, [(0,)])
    assert "OUTRIGGER_SERVICE_CPUS" not in plan.environment
    assert len(plan.notes) == 1
    assert "only one core" in plan.notes[0]


def test_native_has_the_same_placement_and_no_library(build: Artifacts) -> None:
    offloaded = launch.make_plan(launch.Job(("./prog",), 2, MPICH), build, FOUR_CORES)
    native = launch.make_plan(launch.Job(("./prog",), 2, MPICH, native=True), build, FOUR_CORES)
    assert native.placement == offloaded.placement
    assert "--preload" in offloaded.command
    assert "--preload" not in native.command
    assert native.environment["OUTRIGGER_ENABLE"] == "0"


def test_without_binding_no_cores_are_named(build: Artifacts) -> None:
    plan = launch.make_plan(launch.Job(("./prog",), 2, MPICH, bind=False), build, FOUR_CORES)
    assert "--cpus" not in plan.command
    assert "OUTRIGGER_SERVICE_CPUS" not in plan.environment


def test_native_without_binding_starts_the_program_itself(build: Artifacts) -> None:
    plan = launch.make_plan(launch.Job(("./prog",), 2, MPICH, native=True, bind=False), build, FOUR_CORES)
    assert plan.command == ("/usr/bin/mpirun.mpich", "-n", "2", "./prog")


def test_settings_become_variables(build: Artifacts) -> None:
    chosen = settings.make(2, ["ialltoall=scatter_dest"], "mapped, bounce")
    plan = launch.make_plan(launch.Job(("./prog",), 2, MPICH, chosen, report=Path("/tmp/r.json")), build, FOUR_CORES)
    assert plan.environment["OUTRIGGER_SERVICES"] == "2"
    assert plan.environment["OUTRIGGER_SERVICE_CPUS"] == "2,3"
    assert plan.environment["OUTRIGGER_ALGORITHM"] == "ialltoall=scatter_dest"
    assert plan.environment["OUTRIGGER_REACH"] == "mapped,bounce"
    assert plan.environment["OUTRIGGER_REPORT"] == "/tmp/r.json"


def test_open_mpi_passes_the_variables_to_other_nodes(build: Artifacts) -> None:
    plan = launch.make_plan(launch.Job(("./prog",), 2, OPENMPI), build, FOUR_CORES)
    passed = {plan.command[i + 1] for i, word in enumerate(plan.command) if word == "-x"}
    assert passed == {name for name in plan.environment if name.startswith("OUTRIGGER_")}


def test_python_is_told_its_mpi(build: Artifacts) -> None:
    plan = launch.make_plan(launch.Job(("python3", "x.py"), 2, OPENMPI), build, FOUR_CORES)
    assert plan.environment["MPI4PY_MPIABI"] == "openmpi"
    assert plan.environment["MPI4PY_LIBMPI"] == "/lib/libmpi.so.40"


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"outriggerd is missing; build it with \./dev build"):
        launch.make_plan(launch.Job(("./prog",), 2, MPICH), Artifacts(tmp_path), FOUR_CORES)


def test_no_ranks_are_refused(build: Artifacts) -> None:
    with pytest.raises(UserError, match="at least one rank"):
        launch.make_plan(launch.Job(("./prog",), 0, MPICH), build, FOUR_CORES)


@pytest.mark.parametrize(
    ("services", "algorithms", "reach", "message"),
    [
        (0, [], None, "--services 0: from 1 to 64"),
        (None, ["ring_pull"], None, "write COLLECTIVE=ALGORITHM"),
        (None, ["ibcast=ring_pull"], None, "collectives: ialltoall, ialltoallv"),
        (None, ["ialltoall=fastest"], None, "algorithms: ring_pull, scatter_dest"),
        (None, [], "mapped,magic", "'magic' is none of mapped, cma, bounce"),
    ],
)
def test_bad_settings_are_refused(services: int | None, algorithms: list[str], reach: str | None, message: str) -> None:
    with pytest.raises(UserError, match=message):
        settings.make(services, algorithms, reach)


def plan_of(*command: str) -> launch.Plan:
    placement: Placement = place([(0,)], 1, None)
    return launch.Plan(command, {}, placement)


def test_the_exit_code_is_the_programs() -> None:
    assert launch.run(plan_of("sh", "-c", "exit 7"))[0] == 7
    assert launch.run(plan_of("sh", "-c", "kill -TERM $$"))[0] == 128 + signal.SIGTERM


def test_output_is_captured_on_request() -> None:
    assert launch.run(plan_of("echo", "hello"), capture=True) == (0, "hello\n")


def test_what_runs_too_long_is_ended() -> None:
    started = time.monotonic()
    with pytest.raises(UserError, match="still running after"):
        launch.run(plan_of("sleep", "60"), capture=True, timeout_s=0.2)
    assert time.monotonic() - started < 10


def test_ctrl_c_ends_the_program(tmp_path: Path) -> None:
    started = tmp_path / "pid"
    code = (
        "from outrigger import launch; from outrigger.cores import place; import sys;"
        f"plan = launch.Plan(('sh', '-c', 'echo $$ > {started}.new; mv {started}.new {started}; exec sleep 60'), {{}},"
        " place([(0,)], 1, None)); sys.exit(launch.run(plan)[0])"
    )
    process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    deadline = time.monotonic() + 20
    while not started.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    assert process.wait(20) == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)
