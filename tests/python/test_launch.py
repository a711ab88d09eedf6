"""The command that starts a program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from outrigger import launch, settings, tables
from outrigger.artifacts import Artifacts
from outrigger.binding import NodeBinding
from outrigger.errors import UserError
from outrigger.hostfile import Host
from outrigger.hosts import Where
from outrigger.launch import Variables
from outrigger.mpis import Mpi
from outrigger.plan import Share, assign
from outrigger.settings import Settings

OPENMPI = Mpi("openmpi", "4.1.4", Path("/usr/bin/mpirun.openmpi"), Path("/lib/libmpi.so.40"))
MPICH = Mpi("mpich", "4.0.2", Path("/usr/bin/mpirun.mpich"), None)
INTEL = Mpi("mpich", "2021.18", Path("/opt/mpi/bin/mpiexec"), None, "intel")

# Says what an outriggerd on a machine of CORES cores would: bunch, one core kept.
DAEMON = """#!{python}
import json, sys
ranks, cores = int(sys.argv[sys.argv.index("--ranks") + 1]), {cores}
kept = [cores - 1] if cores > 1 and sys.argv[sys.argv.index("--bind") + 1] != "none" else []
free = cores - len(kept)
print(json.dumps(dict(
    version=1,
    cores=[dict(cpus=[cpu], domain=0) for cpu in range(cores)],
    ranks=[dict(cpus=[rank % free], cores=1, shared=ranks > free, service=0, node=0) for rank in range(ranks)],
    services=[dict(cpu=kept[0] if kept else -1, core_is_free=bool(kept))] * {services},
    service_cpus=kept,
)))
"""


def make_build(root: Path, cores: int = 4, services: int = 1) -> Artifacts:
    """A build directory with an outriggerd of few words, and empty files where the libraries would be."""
    for name in ("bin/outriggerd", "lib/liboutrigger-openmpi.so", "lib/liboutrigger-mpich.so"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).touch()
    (root / "bin/outriggerd").write_text(DAEMON.format(python=sys.executable, cores=cores, services=services))
    (root / "bin/outriggerd").chmod(0o755)
    return Artifacts(root)


@pytest.fixture
def build(tmp_path: Path) -> Artifacts:
    """Of a machine of four cores."""
    return make_build(tmp_path)


def words_after(plan: launch.Plan, word: str) -> list[str]:
    return [plan.command[i + 1] for i, given in enumerate(plan.command) if given == word]


def test_the_node_itself_binds_and_preloads(build: Artifacts) -> None:
    plan = launch.make_plan(
        launch.Job(program=("./prog", "-x"), ranks=3, mpi=OPENMPI, settings=Settings(services=2)), build
    )
    wrapper = plan.command.index("exec")
    assert plan.command[:6] == ("/usr/bin/mpirun.openmpi", "-n", "3", "--bind-to", "none", "--oversubscribe")
    assert plan.command[wrapper - 1 :] == (
        str(build.daemon), "exec", "--bind", "bunch", "--services", "2", "--preload", str(build.preload("openmpi")),
        "--", "./prog", "-x",
    )  # fmt: skip
    assert plan.placement.service_cpus == (3,)
    assert plan.placement.rank_cpus == (0, 1, 2)
    assert plan.notes == ()


HEAP_JOBS = {
    "aid": launch.Job(program=("./prog",), ranks=2, mpi=MPICH, settings=Settings(aids=("heap",))),
    "reach": launch.Job(program=("./prog",), ranks=2, mpi=MPICH, settings=Settings(reach="-heap,heap")),
    "x": launch.Job(program=("./prog",), ranks=2, mpi=MPICH, variables=Variables({"OUTRIGGER_REACH": "heap"})),
}


@pytest.mark.parametrize("how", (*HEAP_JOBS, "environment"))
def test_the_shared_heap_is_preloaded_in_front(build: Artifacts, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if how == "environment":
        monkeypatch.setenv("OUTRIGGER_REACH", "heap")
    job = HEAP_JOBS.get(how, launch.Job(program=("./prog",), ranks=2, mpi=MPICH))
    with pytest.raises(UserError, match=r"the shared heap needs it \(--reach heap\)"):
        launch.make_plan(job, build)
    heap = build.root / "lib" / "liboutrigger-heap.so"
    heap.touch()
    plan = launch.make_plan(job, build)
    assert words_after(plan, "--preload") == [f"{heap}:{build.preload('mpich')}"]
    assert plan.environment.get("OUTRIGGER_REACH", "heap") in ("heap", "-heap,heap")
    native = launch.make_plan(replace(job, native=True), build)
    assert "--preload" not in native.command
    without = launch.make_plan(replace(job, settings=Settings(aids=("-heap",)), variables=Variables()), build)
    assert words_after(without, "--preload") == [str(build.preload("mpich"))]


@pytest.mark.parametrize(("option", "word"), settings.AIDS.items())
def test_aids_are_switched_or_left_to_the_environment(
    built: Artifacts, build: Artifacts, option: str, word: str
) -> None:
    name = option.removeprefix("--").replace("-", "_")
    for said, expected in (("on", word), ("off", f"-{word}")):
        assert settings.make(built, **{name: said}).environment({}) == {"OUTRIGGER_REACH": expected}
        present = {"OUTRIGGER_REACH": "mapped"}
        assert settings.make(built, **{name: said}).environment(present) == {"OUTRIGGER_REACH": f"mapped,{expected}"}
    assert "OUTRIGGER_REACH" not in launch.make_plan(launch.Job(program=("p",), ranks=2, mpi=MPICH), build).environment
    with pytest.raises(UserError, match=f"{option} yes: on or off"):
        settings.make(built, **{name: "yes"})


def test_every_aid_of_the_library_has_a_word(built: Artifacts) -> None:
    assert {aid.name for aid in tables.read(built).aids} == set(settings.AIDS.values())


def test_one_core_keeps_none_and_says_so(tmp_path: Path) -> None:
    plan = launch.make_plan(launch.Job(program=("./prog",), ranks=2, mpi=MPICH), make_build(tmp_path, cores=1))
    assert len(plan.notes) == 1
    assert "only one core" in plan.notes[0]


def test_service_processes_that_share_a_core_are_mentioned(tmp_path: Path) -> None:
    job = launch.Job(program=("./prog",), ranks=2, mpi=MPICH, settings=Settings(services=2))
    assert launch.make_plan(job, make_build(tmp_path, services=2)).notes == ("2 service processes share 1 of 4 cores",)


def test_native_has_the_same_placement_and_no_library(build: Artifacts) -> None:
    offloaded = launch.make_plan(launch.Job(program=("./prog",), ranks=2, mpi=MPICH), build)
    native = launch.make_plan(launch.Job(program=("./prog",), ranks=2, mpi=MPICH, native=True), build)
    assert native.placement == offloaded.placement
    assert "--preload" in offloaded.command
    assert "--preload" not in native.command
    assert words_after(native, "--bind") == words_after(offloaded, "--bind") == ["bunch"]
    assert native.environment["OUTRIGGER_ENABLE"] == "0"


def test_without_binding_nothing_is_bound(build: Artifacts) -> None:
    plan = launch.make_plan(launch.Job(program=("./prog",), ranks=2, mpi=MPICH, bind="none"), build)
    assert "--bind" not in plan.command
    assert plan.placement.service_cpus == ()


def test_native_without_binding_starts_the_program_itself(build: Artifacts) -> None:
    plan = launch.make_plan(launch.Job(program=("./prog",), ranks=2, mpi=MPICH, native=True, bind="none"), build)
    assert plan.command == ("/usr/bin/mpirun.mpich", "-n", "2", "./prog")


TWO_HOSTS = assign((Host("n0", 2), Host("n1", 2)), 3)


@pytest.fixture
def agent(tmp_path: Path) -> str:
    path = tmp_path / "agent"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_open_mpi_on_hosts(build: Artifacts, agent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/lib")
    monkeypatch.setenv("OUTRIGGER_LOG", "debug")
    monkeypatch.setenv("OUTRIGGER_BUILD", "/somewhere")
    where = Where(TWO_HOSTS, f"{agent} -p 22")
    job = launch.Job(program=("./prog",), ranks=3, mpi=OPENMPI, where=where, variables=Variables({"A": "1,2"}, ("B",)))
    plan = launch.make_plan(job, build)
    assert words_after(plan, "--host") == ["n0:2,n1:1"]
    assert words_after(plan, "plm_rsh_agent") == [f"{agent} -p 22"]
    assert "--oversubscribe" not in plan.command
    passed = set(words_after(plan, "-x"))
    assert {"A", "B", "PATH", "LD_LIBRARY_PATH", "OUTRIGGER_DAEMON", "OUTRIGGER_LOG"} <= passed
    assert "OUTRIGGER_BUILD" not in passed
    assert plan.environment["A"] == "1,2"


def test_open_mpi_5_on_hosts(build: Artifacts, agent: str) -> None:
    openmpi = Mpi("openmpi", "5.0.11", Path("/opt/ompi/bin/mpiexec"), Path("/opt/ompi/lib/libmpi.so.40"))
    job = launch.Job(
        program=("./prog",), ranks=3, mpi=openmpi, where=Where(TWO_HOSTS, agent), library_path=Path("/opt/ompi/lib")
    )
    plan = launch.make_plan(job, build)
    assert words_after(plan, "--prtemca") == ["plm", "plm_ssh_agent"]
    assert words_after(plan, "plm_ssh_agent") == [agent]
    assert "--mca" not in plan.command
    assert plan.environment["LD_LIBRARY_PATH"].split(":")[0] == "/opt/ompi/lib"
    assert "LD_LIBRARY_PATH" in words_after(plan, "-x")


def test_the_standard_abi_has_a_library_of_its_own(build: Artifacts) -> None:
    mpi = Mpi("mpiabi", "5.0.2", Path("/opt/mpich/bin/mpiexec"), Path("/opt/mpich/lib/libmpi_abi.so.1"), "mpich")
    with pytest.raises(UserError, match=r"liboutrigger-mpiabi\.so is missing: no MPI with the standard ABI"):
        launch.make_plan(launch.Job(program=("./prog",), ranks=2, mpi=mpi), build)
    library = build.root / "lib" / "liboutrigger-mpiabi.so"
    library.touch()
    plan = launch.make_plan(launch.Job(program=("./prog",), ranks=2, mpi=mpi), build)
    assert words_after(plan, "--preload") == [str(library)]
    assert plan.command[:3] == ("/opt/mpich/bin/mpiexec", "-n", "2")


def test_mpich_on_hosts(build: Artifacts, agent: str) -> None:
    plan = launch.make_plan(
        launch.Job(program=("./prog",), ranks=3, mpi=MPICH, where=Where(TWO_HOSTS, f"{agent} -p 22")), build
    )
    assert words_after(plan, "-hosts") == ["n0:2,n1:1"]
    assert words_after(plan, "-launcher-exec") == [agent]
    assert plan.environment["HYDRA_LAUNCHER_EXTRA_ARGS"] == "-p 22"


def test_intel_mpi_on_hosts(build: Artifacts, agent: str) -> None:
    plan = launch.make_plan(
        launch.Job(program=("./prog",), ranks=3, mpi=INTEL, where=Where(TWO_HOSTS, f"{agent} -p 22")), build
    )
    assert words_after(plan, "-host") == ["n0", "n1"]
    assert words_after(plan, "-n") == ["2", "1"]
    assert plan.command.count(":") == 1
    assert words_after(plan, "--preload") == [str(build.preload("mpich"))] * 2
    assert words_after(plan, "-launcher-exec") == [agent]
    assert plan.environment["I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS"] == "-p 22"
    assert plan.environment["I_MPI_PIN"] == "0"


@pytest.mark.parametrize(
    ("shares", "as_allocated", "placed"),
    [
        (TWO_HOSTS, False, ["--nodelist=n0,n0,n1", "--distribution=arbitrary"]),
        (TWO_HOSTS, True, ["--nodelist=n0,n1", "--distribution=block"]),
        (
            assign((Host("n0", 2), Host("n1", 2)), 4),
            False,
            ["--nodelist=n0,n1", "--distribution=block", "--ntasks-per-node=2"],
        ),
    ],
)
def test_srun_in_an_allocation(
    build: Artifacts, shares: tuple[Share, ...], as_allocated: bool, placed: list[str]
) -> None:
    ranks = sum(share.ranks for share in shares)
    where = Where(shares, slurm=True, mpi_type="pmix", as_allocated=as_allocated)
    plan = launch.make_plan(launch.Job(program=("./prog",), ranks=ranks, mpi=OPENMPI, where=where), build)
    assert plan.command[:3] == ("srun", f"--ntasks={ranks}", "--nodes=2")
    daemon = plan.command.index(str(build.daemon))
    assert list(plan.command[3:daemon]) == [
        *placed,
        "--kill-on-bad-exit=1",
        "--cpu-bind=none",
        "--export=ALL",
        "--mpi=pmix",
    ]


def test_an_agent_that_is_no_program_is_named(build: Artifacts) -> None:
    for agent, word in (("no-such-agent -x", "no-such-agent"), ("", "nothing")):
        with pytest.raises(UserError, match=f"--launch-agent {agent}: {word} is no program"):
            launch.make_plan(launch.Job(program=("./prog",), ranks=3, mpi=MPICH, where=Where(TWO_HOSTS, agent)), build)


def test_other_hosts_are_not_judged_by_this_one(tmp_path: Path, agent: str) -> None:
    (tmp_path / "small").mkdir()
    job = launch.Job(program=("./prog",), ranks=3, mpi=MPICH, where=Where(TWO_HOSTS, agent), bind="40,41")
    build = make_build(tmp_path / "small", cores=1)
    (build.root / "bin/outriggerd").write_text("#!/bin/sh\nexit 1\n")
    plan = launch.make_plan(job, build)
    assert plan.placement == NodeBinding((), (), (), ())
    assert plan.notes == ()


def test_pretended_nodes_are_told_to_the_ranks(build: Artifacts) -> None:
    plan = launch.make_plan(launch.Job(program=("./prog",), ranks=4, mpi=MPICH, pretend_nodes=2), build)
    assert plan.environment["OUTRIGGER_PRETEND_NODES"] == "2"


def test_settings_become_variables(build: Artifacts, built: Artifacts) -> None:
    chosen = settings.make(built, services=2, algorithms=["ialltoall=scatter_dest"], reach="mapped, bounce")
    plan = launch.make_plan(
        launch.Job(program=("./prog",), ranks=2, mpi=MPICH, settings=chosen, report=Path("/tmp/r.json")), build
    )
    assert plan.environment["OUTRIGGER_SERVICES"] == "2"
    assert settings.make(built, blocking="on").environment({}) == {"OUTRIGGER_ALGORITHM": "blocking=on"}
    assert settings.make(built, blocking="off").environment({}) == {"OUTRIGGER_ALGORITHM": "blocking=native"}
    with pytest.raises(UserError, match="--blocking yes: on or off"):
        settings.make(built, blocking="yes")
    with pytest.raises(UserError, match="--services 65: from 1 to 64 service processes"):
        settings.make(built, services=65)
    assert plan.environment["OUTRIGGER_ALGORITHM"] == "ialltoall=scatter_dest"
    assert plan.environment["OUTRIGGER_REACH"] == "mapped,bounce"
    assert plan.environment["OUTRIGGER_REPORT"] == "/tmp/r.json"


@pytest.mark.parametrize("reach", ["rdma", "alias", "alias,rdma", "xpmem", "-copier", "mapped,heap", "bounce"])
def test_every_reach_of_the_library_can_be_asked_for(built: Artifacts, reach: str) -> None:
    assert settings.make(built, reach=reach).environment({}) == {"OUTRIGGER_REACH": reach}


def test_every_reach_in_the_tables_can_be_asked_for(built: Artifacts) -> None:
    for reach in tables.read(built).selectable:
        assert settings.make(built, reach=reach).reach == reach


def test_other_reaches_are_refused(built: Artifacts) -> None:
    for word in ("telepathy", "relay", "wire", ""):
        with pytest.raises(UserError, match=f"'{word}' is none of mapped, xpmem, cma, copier, rdma, alias, bounce, "):
            settings.make(built, reach=f"mapped,{word}")


def test_options_go_before_the_environment() -> None:
    chosen = Settings(algorithms=("flat",), blocking="blocking=on", aids=("-heap",))
    present = {"OUTRIGGER_ALGORITHM": "blocking=native,ibcast=native", "OUTRIGGER_REACH": "mapped,heap"}
    assert chosen.environment(present) == {
        "OUTRIGGER_ALGORITHM": "flat,blocking=on",
        "OUTRIGGER_REACH": "mapped,heap,-heap",
    }
    assert Settings(blocking="blocking=on").environment(present) == {
        "OUTRIGGER_ALGORITHM": "blocking=on,blocking=native,ibcast=native"
    }
    assert Settings().environment(present) == {}


def test_variables_of_other_versions_are_refused(built: Artifacts) -> None:
    with pytest.raises(UserError, match="OUTRIGGER_MIN_BYTES is not read any more: write OUTRIGGER_ALGORITHM="):
        settings.check_names(built, {"OUTRIGGER_MIN_BYTES": "4096"})
    assert settings.check_names(built, {"OUTRIGGER_REACH": "cma", "OUTRIGGER_TEST_X": "1", "PATH": "/bin"}) is None
    assert "OUTRIGGER_RAECH is no setting" in (settings.check_names(built, {"OUTRIGGER_RAECH": "cma"}) or "")


def test_open_mpi_passes_the_variables_to_other_nodes(build: Artifacts) -> None:
    plan = launch.make_plan(launch.Job(program=("./prog",), ranks=2, mpi=OPENMPI), build)
    passed = {plan.command[i + 1] for i, word in enumerate(plan.command) if word == "-x"}
    assert passed == {name for name in plan.environment if name.startswith("OUTRIGGER_")}


def test_python_is_told_its_mpi(build: Artifacts) -> None:
    plan = launch.make_plan(launch.Job(program=("python3", "x.py"), ranks=2, mpi=OPENMPI), build)
    assert plan.environment["MPI4PY_LIBMPI"] == "/lib/libmpi.so.40"


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"outriggerd is missing; build it with \./dev build"):
        launch.make_plan(launch.Job(program=("./prog",), ranks=2, mpi=MPICH), Artifacts(tmp_path))


def test_no_ranks_are_refused(build: Artifacts) -> None:
    with pytest.raises(UserError, match="at least one rank"):
        launch.make_plan(launch.Job(program=("./prog",), ranks=0, mpi=MPICH), build)


@pytest.mark.parametrize(
    ("services", "algorithms", "reach", "message"),
    [
        (0, [], None, "--services 0: from 1 to 64"),
        (None, ["ring"], None, "write COLLECTIVE=ALGORITHM"),
        (None, ["igather=ring_pull"], None, "no such collective as 'igather'; there are ialltoall, ialltoallv, "),
        (None, ["ialltoall=flat"], None, "iallgather=flat or node_pull"),
        (None, [], "mapped,magic", "'magic' is none of mapped, xpmem, cma, copier, rdma, alias, bounce"),
    ],
)
def test_bad_settings_are_refused(
    built: Artifacts, services: int | None, algorithms: list[str], reach: str | None, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        settings.make(built, services=services, algorithms=algorithms, reach=reach)


NOWHERE = NodeBinding((((0,),),), (), (), ())


def plan_of(*command: str) -> launch.Plan:
    return launch.Plan(command, {}, NOWHERE)


def test_the_exit_code_is_the_programs() -> None:
    assert launch.run(plan_of("sh", "-c", "exit 7"))[0] == 7
    assert launch.run(plan_of("sh", "-c", "kill -TERM $$"))[0] == 128 + signal.SIGTERM


def test_handlers_of_other_than_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """As libraries in LD_PRELOAD have them: Python names them None, and cannot put them back."""
    ending = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    before = {number: signal.getsignal(number) for number in ending}
    monkeypatch.setattr(signal, "getsignal", lambda _number: None)
    try:
        assert launch.run(plan_of("sh", "-c", "exit 7"))[0] == 7
        monkeypatch.undo()
        assert [signal.getsignal(number) for number in ending] == [signal.SIG_DFL] * 3
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_output_is_captured_on_request() -> None:
    assert launch.run(plan_of("echo", "hello"), capture=True) == (0, "hello\n")


def test_what_runs_too_long_is_ended() -> None:
    started = time.monotonic()
    with pytest.raises(UserError, match="still running after"):
        launch.run(plan_of("sleep", "60"), capture=True, timeout_s=0.2)
    assert time.monotonic() - started < 10


_RUN = """
import subprocess, sys, time
from outrigger import binding, launch

class Popen(subprocess.Popen):
    def __init__(self, *words, **options):
        super().__init__(*words, **options)
        time.sleep({held_up_s})

subprocess.Popen = Popen
script = "echo $$ > {started}.new; mv {started}.new {started}; exec sleep 600"
plan = launch.Plan(("sh", "-c", script), dict(), binding.NodeBinding((), (), (), ()))
sys.exit(launch.run(plan)[0])
"""


@pytest.mark.parametrize("held_up_s", (0, 2))
@pytest.mark.parametrize(("number", "everyone", "status"), [(signal.SIGINT, True, 130), (signal.SIGTERM, False, 143)])
@pytest.mark.slow
def test_signals_end_the_program(
    tmp_path: Path, number: signal.Signals, everyone: bool, status: int, held_up_s: int
) -> None:
    """Also when this command has got no further than starting it."""
    started = tmp_path / "pid"
    code = _RUN.format(started=started, held_up_s=held_up_s)
    process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    deadline = time.monotonic() + 60
    while not started.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    (os.killpg if everyone else os.kill)(process.pid, number)  # a terminal's keys are for the whole group
    assert process.wait(60) == status
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)
