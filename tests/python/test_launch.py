"""The command that starts a program."""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from proc_stat import alive, stat_of
from waiting import wait_until

from outrigger import artifacts, binding, launch, mpis, sections, settings, tables
from outrigger.artifacts import Artifacts
from outrigger.binding import BoundRank, NodeBinding, OtherJob
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
    """A build for a machine with four cores."""
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
        str(build.daemon), "exec", "--bind", "bunch", "--services", "2", "--keep=spare", "--preload",
        str(build.preload("openmpi")), "--", "./prog", "-x",
    )  # fmt: skip
    assert plan.placement.service_cpus == (3,)
    assert plan.placement.rank_cpus == (0, 1, 2)
    assert plan.notes == ()


def test_cores_that_ranks_need_are_kept_only_where_the_choice_is_fixed(
    build: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def words(chosen: Settings) -> tuple[str, ...]:
        return launch.make_plan(launch.Job(program=("./prog",), ranks=3, mpi=OPENMPI, settings=chosen), build).command

    assert binding.KEEP_SPARE_ONLY in words(Settings(choice="measured"))
    assert binding.KEEP_SPARE_ONLY not in words(Settings(choice="fixed"))
    monkeypatch.setenv("OUTRIGGER_CHOICE", "fixed")
    assert binding.KEEP_SPARE_ONLY not in words(Settings())
    assert binding.KEEP_SPARE_ONLY in words(Settings(choice="measured"))


HEAP_JOBS = {
    "option": launch.Job(program=("./prog",), ranks=2, mpi=MPICH, settings=Settings(shared_heap=True)),
    "x": launch.Job(program=("./prog",), ranks=2, mpi=MPICH, variables=Variables({"OUTRIGGER_SHARED_HEAP": "on"})),
}


@pytest.mark.parametrize("how", (*HEAP_JOBS, "environment"))
def test_the_shared_heap_is_preloaded_in_front(build: Artifacts, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if how == "environment":
        monkeypatch.setenv("OUTRIGGER_SHARED_HEAP", "on")
    job = HEAP_JOBS.get(how, launch.Job(program=("./prog",), ranks=2, mpi=MPICH))
    with pytest.raises(UserError, match=r"the shared heap needs it \(--shared-heap on\)"):
        launch.make_plan(job, build)
    heap = build.root / "lib" / "liboutrigger-heap.so"
    heap.touch()
    plan = launch.make_plan(job, build)
    assert words_after(plan, "--preload") == [f"{heap}:{build.preload('mpich')}"]
    assert plan.environment.get("OUTRIGGER_SHARED_HEAP", "on") == "on"
    native = launch.make_plan(replace(job, native=True), build)
    assert "--preload" not in native.command
    without = launch.make_plan(replace(job, settings=Settings(shared_heap=False), variables=Variables()), build)
    assert words_after(without, "--preload") == [str(build.preload("mpich"))]


@pytest.mark.parametrize("name", ["shared_heap", "wait_copies", "huge_pages"])
def test_switches_have_variables_of_their_own(built: Artifacts, build: Artifacts, name: str) -> None:
    variable = f"OUTRIGGER_{name.upper()}"
    for said in ("on", "off"):
        assert settings.make(built, **{name: said}).environment() == {variable: said}
    assert variable not in launch.make_plan(launch.Job(program=("p",), ranks=2, mpi=MPICH), build).environment
    with pytest.raises(UserError, match=f"--{name.replace('_', '-')} yes: on or off"):
        settings.make(built, **{name: "yes"})


def test_cpus_of_copiers_are_checked_and_kept_from_ranks(built: Artifacts, build: Artifacts) -> None:
    wanted = settings.make(built, copy_cpus="3,6-7")
    assert wanted.environment() == {"OUTRIGGER_COPY_CPUS": "3,6-7"}
    job = launch.Job(program=("p",), ranks=2, mpi=MPICH, settings=wanted)
    assert "--copy-cpus" not in launch.make_plan(job, build).command, "without DPUs there are no such copiers"
    for wrong in ("", "three", "3-", "3,,4"):
        with pytest.raises(UserError, match="write CPUs like 7 or 6,7 or 4-7"):
            settings.make(built, copy_cpus=wrong)


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("mapped,heap", "write --shared-heap on"),
        ("-wait_copies", "write --wait-copies off"),
        ("-huge_pages", "write --huge-pages off"),
    ],
)
def test_words_of_before_are_refused_with_the_option(built: Artifacts, words: str, remedy: str) -> None:
    with pytest.raises(UserError, match=f"--reach {words}: {remedy}"):
        settings.make(built, reach=words)
    with pytest.raises(UserError, match="set OUTRIGGER_BLOCKING=on, or give --blocking on"):
        settings.make(built, algorithms=["blocking=on"])


def test_one_core_keeps_none_and_says_so(tmp_path: Path) -> None:
    plan = launch.make_plan(launch.Job(program=("./prog",), ranks=2, mpi=MPICH), make_build(tmp_path, cores=1))
    assert len(plan.notes) == 1
    assert "only one core" in plan.notes[0]


NO_PLACE = {
    "slow": ("sleep 60", "this machine has not said within 2 s which cores it has"),
    "blind": ("echo outriggerd: hwloc sees no core >&2; exit 3", "hwloc sees no core"),
    "killed": ("kill -KILL $$", "ended with exit code -9"),
}


@pytest.mark.parametrize("native", (False, True))
@pytest.mark.parametrize("how", NO_PLACE)
def test_a_job_does_without_a_placement_that_cannot_be_had(build: Artifacts, how: str, native: bool) -> None:
    script, reason = NO_PLACE[how]
    build.daemon.write_text(f"#!/bin/sh\n{script}\n")
    began = time.monotonic()
    plan = launch.make_plan(launch.Job(program=("./prog",), ranks=2, mpi=MPICH, native=native), build)
    assert time.monotonic() - began < 10
    assert "--bind" not in plan.command
    (note,) = plan.notes
    assert note.startswith("ranks are not bound: ")
    assert reason in note


def test_a_list_of_cpus_that_cannot_be_is_refused(build: Artifacts) -> None:
    build.daemon.write_text("#!/bin/sh\necho 'outriggerd: --bind: cpu 99 does not exist' >&2; exit 2\n")
    with pytest.raises(UserError, match=r"^--bind: cpu 99 does not exist$"):
        launch.make_plan(launch.Job(program=("./prog",), ranks=1, mpi=MPICH, bind="99", native=True), build)


def test_more_ranks_than_can_be_placed_start_without_a_placement(build: Artifacts) -> None:
    said = "--ranks: Value 2000 not in range 1 to 1024\\nRun with --help for more information."
    build.daemon.write_text(f"#!/bin/sh\nprintf -- '{said}' >&2; exit 106\n")
    job = launch.Job(program=("./prog",), ranks=2000, mpi=MPICH)
    with pytest.raises(UserError, match=r"^-n: ranks of a node: 2000 not in range 1 to 1024$"):
        launch.make_plan(job, build)
    assert "2000" in launch.make_plan(replace(job, bind=binding.NONE), build).command


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
    here = ("-hosts", socket.gethostname(), "-launcher", "fork")
    assert plan.command == ("/usr/bin/mpirun.mpich", *here, "-n", "2", "./prog")


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
    assert {"B", "PATH", "LD_LIBRARY_PATH", "OUTRIGGER_DAEMON", "OUTRIGGER_LOG"} <= passed
    assert "OUTRIGGER_BUILD" not in passed
    assert plan.command[plan.command.index(str(build.daemon)) - 1] == "A=1,2"


def test_open_mpi_5_on_hosts(build: Artifacts, agent: str) -> None:
    openmpi = Mpi("openmpi", "5.0.11", Path("/opt/ompi/bin/mpiexec"), Path("/opt/ompi/lib/libmpi.so.40"))
    job = launch.Job(
        program=("./prog",), ranks=3, mpi=openmpi, where=Where(TWO_HOSTS, agent), library_path=Path("/opt/ompi/lib")
    )
    plan = launch.make_plan(job, build)
    assert words_after(plan, "--prtemca")[-2:] == ["plm", "plm_ssh_agent"]
    assert words_after(plan, "plm_ssh_agent") == [agent]
    assert "--mca" not in plan.command
    assert plan.environment["LD_LIBRARY_PATH"].split(":")[0] == "/opt/ompi/lib"
    assert "LD_LIBRARY_PATH" in words_after(plan, "-x")


def test_the_standard_abi_has_a_library_of_its_own(build: Artifacts) -> None:
    mpi = Mpi("mpiabi", "5.0.2", Path("/opt/mpich/bin/mpiexec"), Path("/opt/mpich/lib/libmpi_abi.so.1"), "mpich")
    with pytest.raises(UserError, match=r"liboutrigger-mpiabi\.so is missing: there was no MPI with the standard ABI"):
        launch.make_plan(launch.Job(program=("./prog",), ranks=2, mpi=mpi), build)
    library = build.root / "lib" / "liboutrigger-mpiabi.so"
    library.touch()
    plan = launch.make_plan(launch.Job(program=("./prog",), ranks=2, mpi=mpi), build)
    assert words_after(plan, "--preload") == [str(library)]
    assert plan.command[0] == "/opt/mpich/bin/mpiexec"
    assert words_after(plan, "-n") == ["2"]


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
    assert settings.make(built, blocking="on").environment() == {"OUTRIGGER_BLOCKING": "on"}
    with pytest.raises(UserError, match="--blocking yes: on, off or auto"):
        settings.make(built, blocking="yes")
    assert settings.make(built, intranode="off").environment() == {"OUTRIGGER_INTRANODE": "off"}
    with pytest.raises(UserError, match="--intranode yes: "):
        settings.make(built, intranode="yes")
    assert settings.make(built, wait="polite").environment() == {"OUTRIGGER_WAIT": "polite"}
    with pytest.raises(UserError, match="--wait yes: "):
        settings.make(built, wait="yes")
    assert settings.make(built, sums="any").environment() == {"OUTRIGGER_SUMS": "any"}
    with pytest.raises(UserError, match="--sums all: "):
        settings.make(built, sums="all")
    with pytest.raises(UserError, match="--services 65: from 0 to 64 service processes"):
        settings.make(built, services=65)
    assert plan.environment["OUTRIGGER_ALGORITHM"] == "ialltoall=scatter_dest"
    assert plan.environment["OUTRIGGER_REACH"] == "mapped,bounce"
    assert plan.environment["OUTRIGGER_REPORT"] == "/tmp/r.json"


@pytest.mark.parametrize("reach", ["rdma", "alias", "alias,rdma", "xpmem", "-copier", "mapped,-copier", "bounce"])
def test_every_reach_of_the_library_can_be_asked_for(built: Artifacts, reach: str) -> None:
    assert settings.make(built, reach=reach).environment() == {"OUTRIGGER_REACH": reach}


def test_every_reach_in_the_tables_can_be_asked_for(built: Artifacts) -> None:
    for reach in tables.read(built).selectable:
        assert settings.make(built, reach=reach).reach == reach


def test_other_reaches_are_refused(built: Artifacts) -> None:
    for word in ("telepathy", "relay", "wire", ""):
        with pytest.raises(
            UserError, match=f"'{word}' is no reach; there are mapped, xpmem, cma, copier, rdma, alias, bounce"
        ):
            settings.make(built, reach=f"mapped,{word}")


def test_options_become_variables() -> None:
    chosen = Settings(algorithms=("flat",), blocking="on", shared_heap=False)
    assert chosen.environment() == {
        "OUTRIGGER_ALGORITHM": "flat", "OUTRIGGER_BLOCKING": "on", "OUTRIGGER_SHARED_HEAP": "off",
    }  # fmt: skip
    assert Settings().environment() == {}


def test_variables_that_are_no_settings_are_said(built: Artifacts) -> None:
    assert settings.check_names(built, {"OUTRIGGER_REACH": "cma", "OUTRIGGER_TEST_X": "1", "PATH": "/bin"}) is None
    assert "OUTRIGGER_RAECH is unknown" in (settings.check_names(built, {"OUTRIGGER_RAECH": "cma"}) or "")


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
        (-1, [], None, "--services -1: from 0 to 64"),
        (None, ["ring"], None, "write COLLECTIVE=ALGORITHM"),
        (None, ["ialltoallx=ring_pull"], None, "no such collective as 'ialltoallx'; did you mean ialltoall?"),
        (None, ["ialltoall=flat"], None, "iallgather=flat or node_pull"),
        (None, [], "mapped,magic", "'magic' is no reach; there are mapped, xpmem, cma, copier, rdma, alias, bounce"),
    ],
)
def test_bad_settings_are_refused(
    built: Artifacts, services: int | None, algorithms: list[str], reach: str | None, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        settings.make(built, services=services, algorithms=algorithms, reach=reach)


NOWHERE = NodeBinding((((0,),),), (), (), ())


def plan_of(*command: str) -> launch.Plan:
    return launch.Plan(artifacts.find().daemon, command, {}, NOWHERE)


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


def test_the_program_has_the_signals_as_they_were() -> None:
    """Neither blocked nor ignored, and this process takes them again."""
    status = "import re; print(*re.findall(r'Sig(?:Blk|Ign):\\s*(.*)', open('/proc/self/status').read()))"
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    directly = subprocess.run([sys.executable, "-c", status], capture_output=True, text=True, check=True).stdout
    assert launch.run(plan_of(sys.executable, "-c", status), capture=True) == (0, directly)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


def test_who_starts_it_with_nohup_is_not_told_of_a_hangup() -> None:
    """Nor is the program."""
    status = "print(int([line for line in open('/proc/self/status') if 'SigIgn' in line][0].split()[1], 16) & 1)"
    hangup = f"import os, signal, time; os.kill({os.getpid()}, signal.SIGHUP); time.sleep(0.5); {status}"
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert launch.run(plan_of(sys.executable, "-c", hangup), capture=True) == (0, "1\n")
    finally:
        signal.signal(signal.SIGHUP, before)


_LAUNCHER = """
import os, signal, sys, time
def took(number, _frame):
    print(signal.Signals(number).name, flush=True)
    if number == int(sys.argv[1]):
        sys.exit(3)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT):
    signal.signal(number, took)
print("pid", os.getpid(), flush=True)
while True:
    time.sleep(0.05)  # Python handles a signal that comes just before a sleep only after it
"""
_RUN = """
import sys
from outrigger import artifacts, binding, launch
plan = launch.Plan(artifacts.find().daemon, tuple(sys.argv[1:]), dict(), binding.NodeBinding((), (), (), ()))
sys.exit(launch.run(plan)[0])
"""


@pytest.fixture
def started() -> Iterator[Callable[..., tuple[subprocess.Popen[str], int]]]:
    """Starts a process that runs such a launcher, in a session of its own: it, and the launcher's pid."""
    running: list[subprocess.Popen[str]] = []
    launchers: list[int] = []

    def start(last: int, stdin: int = subprocess.DEVNULL) -> tuple[subprocess.Popen[str], int]:
        process = subprocess.Popen(
            [sys.executable, "-c", _RUN, sys.executable, "-c", _LAUNCHER, str(int(last))],
            stdin=stdin, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        running.append(process)
        assert process.stdout is not None
        launchers.append(int(process.stdout.readline().split()[1]))
        return process, launchers[-1]

    yield start
    for process in running:
        process.kill()
        process.wait()
    for pid in launchers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture(autouse=True)
def _as_from_a_terminal() -> Iterator[None]:
    """Whatever the tests themselves are started with, such as nohup."""
    before = signal.getsignal(signal.SIGHUP)
    if before == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGQUIT)


@pytest.mark.parametrize("everyone", (False, True))
@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
def test_signals_are_the_launchers_once_and_at_once(
    started: Callable[..., tuple[subprocess.Popen[str], int]], number: signal.Signals, everyone: bool
) -> None:
    """For this command alone, or for its process group, as `timeout` and batch systems send them."""
    process, launcher = started(number)
    began = time.monotonic()
    (os.killpg if everyone else os.kill)(process.pid, number)
    assert process.wait(60) == 3
    assert time.monotonic() - began < 4
    assert process.stdout is not None
    assert process.stdout.read() == f"{number.name}\n"
    assert not alive(launcher)


def test_further_signals_are_the_launchers_too(started: Callable[..., tuple[subprocess.Popen[str], int]]) -> None:
    process, _ = started(signal.SIGTERM)
    assert process.stdout is not None
    for number in (signal.SIGINT, signal.SIGINT, signal.SIGUSR2, signal.SIGTERM):
        process.send_signal(number)
        assert process.stdout.readline() == f"{number.name}\n"
    assert process.wait(60) == 3


def state(pid: int) -> str:
    stat = stat_of(pid)
    assert stat is not None, f"process {pid} has ended"
    return stat.state


def test_both_stop_and_go_on(started: Callable[..., tuple[subprocess.Popen[str], int]]) -> None:
    process, launcher = started(signal.SIGTERM)

    def becomes(states: str) -> bool:
        return wait_until(lambda: state(process.pid) in states and state(launcher) in states)

    process.send_signal(signal.SIGTSTP)
    assert becomes("T")
    process.send_signal(signal.SIGCONT)
    assert becomes("SR")
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 3


def test_one_that_is_stopped_alone_passes_no_signal_that_never_came(
    started: Callable[..., tuple[subprocess.Popen[str], int]],
) -> None:
    """By SIGSTOP, for longer than it waits between its looks, as when a debugger or `timeout` has stopped it."""
    process, _ = started(signal.SIGTERM)
    assert process.stdout is not None
    for _ in range(3):
        process.send_signal(signal.SIGUSR1)
        assert process.stdout.readline() == "SIGUSR1\n"
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        process.send_signal(signal.SIGCONT)
        time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 3
    assert process.stdout.read() == "SIGTERM\n"


@pytest.mark.parametrize("everyone", (False, True))
def test_a_launcher_does_not_outlive_the_command(
    started: Callable[..., tuple[subprocess.Popen[str], int]], everyone: bool
) -> None:
    process, launcher = started(signal.SIGTERM)
    (os.killpg if everyone else os.kill)(process.pid, signal.SIGKILL)
    process.wait(60)
    assert wait_until(lambda: not alive(launcher))
    assert process.stdout is not None
    assert process.stdout.read() == "SIGTERM\n"


def test_a_launcher_whose_command_has_gone_is_not_started(tmp_path: Path) -> None:
    """Killed between making the process and its first words."""
    made = tmp_path / "made"
    daemon = artifacts.find().daemon
    result = subprocess.run(
        [str(daemon), "launch", "--parent", "1" if os.getpid() != 1 else "2", "--", "touch", str(made)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert result.returncode == 2
    assert "has already ended" in result.stderr
    assert not made.exists()


def test_keys_of_a_terminal_reach_the_launcher_once_and_it_reads_from_there() -> None:
    """The launcher stays in the foreground; Ctrl-C is for the whole group, `kill` for the command alone."""
    code = f"""
import os, pty, signal, sys, time
child, terminal = pty.fork()
if child == 0:
    words = [sys.executable, "-c", {_RUN!r}, sys.executable, "-c", {_LAUNCHER!r}, "15"]
    os.execv(sys.executable, words)
text = ""
def until(what, times=1):
    global text
    while text.count(what) < times:
        text += os.read(terminal, 4096).decode()
def until_taken(number):
    # A signal that comes while one of its number is pending is lost.
    pending = 1
    while pending & 1:
        lines = open(f"/proc/{{child}}/status").read().splitlines()
        pending = int(next(line for line in lines if line.startswith("ShdPnd:")).split()[1], 16) >> number - 1
        time.sleep(0.01)
until("pid ")
until("\\n")
launcher = int(text.split()[1])
assert os.tcgetpgrp(terminal) == os.getpgid(launcher), "it cannot read from the terminal"
os.write(terminal, b"\\x03")
until("SIGINT")
until_taken(signal.SIGINT)
os.kill(child, signal.SIGINT)
until("SIGINT", 2)
os.kill(child, signal.SIGTERM)
_, status = os.waitpid(child, 0)
try:
    while True:
        text += os.read(terminal, 4096).decode()
except OSError:
    pass
print(text.count("SIGINT"), text.count("SIGTERM"), os.waitstatus_to_exitcode(status))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert result.stdout == "2 1 3\n", result.stderr


def test_each_of_several_programs_gets_the_library(build: Artifacts) -> None:
    first, others = sections.split(("a", "1", ":", "-n", "2", "-x", "V=1", "b", "-n", "9"))
    assert first == ("a", "1")
    for mpi in (OPENMPI, MPICH):
        job = launch.Job(program=first, ranks=5, mpi=mpi, others=others)
        words = list(launch.make_plan(job, build).command)
        wrapper = words[words.index(str(build.daemon)) : words.index("--") + 1]
        assert "--preload" in wrapper
        assert words[words.index("-n") + 1] == "3"
        assert words[words.index(":") :] == [":", "-n", "2", "-x", "V=1", *wrapper, "b", "-n", "9"]
        assert words[words.index(":") - 2 : words.index(":")] == ["a", "1"]


def test_variables_of_one_program_go_before_those_of_all(build: Artifacts) -> None:
    first, others = sections.split(("a", ":", "-n", "1", "-x", "V=1", "-wdir", "-x", "-env", "W", "2", "b"))
    job = launch.Job(program=first, ranks=2, mpi=OPENMPI, others=others, variables=Variables({"V": "0", "U": "3"}))
    command = launch.make_plan(job, build).command
    second = command.index(":")
    assert [word for word in command[:second] if "=" in word and word[0] in "UVW"] == ["V=0", "U=3"]
    assert [word for word in command[second:] if "=" in word and word[0] in "UVW"] == ["V=1", "U=3"]


ODD = "a b,c;$d 'q' \"r\" =x\nnext\tline\\"


@pytest.mark.parametrize("mpi", mpis.find_mpis(), ids=lambda mpi: mpi.family)
@pytest.mark.parametrize("program", ["./prog", "./pr=og"])
def test_variables_are_the_ranks_and_not_the_launchers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mpi: Mpi, program: str
) -> None:
    """No rank could start if the launcher had such a PATH."""
    monkeypatch.chdir(tmp_path)
    build = make_build(tmp_path)
    Path(program).write_text(f"#!{sys.executable}\nimport os\nprint(repr([os.environ['ODD'], os.environ['PATH']]))\n")
    Path(program).chmod(0o755)
    variables = Variables({"ODD": ODD, "PATH": "/nowhere", "LD_PRELOAD": ""})
    job = launch.Job(program=(program,), ranks=1, mpi=mpi, native=True, bind="none", variables=variables)
    plan = launch.make_plan(job, build)
    assert not {"ODD", "PATH", "LD_PRELOAD"} & plan.environment.keys()
    result = subprocess.run(
        plan.command, env={**os.environ, **plan.environment}, capture_output=True, text=True, timeout=120, check=False
    )
    assert result.stdout == f"{[ODD, '/nowhere']!r}\n", result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("a : b", "has no number of ranks: write ': -n RANKS b'"),
        ("a : -n 2", "there is no program behind ':'"),
        (": -n 2 b", "there is no program before ':'"),
        ("a : -n 0 b", "-n 0: the number of ranks must be at least 1"),
        ("a : -n", "-n before one of several programs: its value is missing"),
        ("a : --bind-to core -n 2 b", "--bind-to before one of several programs: outrigger run knows only -n, "),
    ],
)
def test_what_is_wrong_with_several_programs_is_said(words: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        sections.split(words.split())


def test_another_jobs_cores_are_one_note_with_its_user_and_command() -> None:
    here = os.getpid()
    jobs = [OtherJob(0, "ranks", here), OtherJob(2, "ranks", here), OtherJob(3, "service", here)]
    ranks = (BoundRank((0,), 1, shared=False, service=0, node=0),) * 2
    node = NodeBinding((((0,), (1,), (2,), (3,)),), ranks, (), (2, 3), tuple(jobs))
    (note,) = launch._other_jobs_note(node)
    user = pwd.getpwuid(os.getuid()).pw_name
    assert note.startswith(f"another job of {user} (process {here}: ") and "python" in note
    assert note.endswith(") also has CPUs 2-3, where service processes yield, and CPU 0, where ranks of this job run")
    assert launch._other_jobs_note(replace(node, other_jobs=(OtherJob(1, "ranks", here),))) == []
    assert OtherJob(1, "ranks", -1).who == "another job"
