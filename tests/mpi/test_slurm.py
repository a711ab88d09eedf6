"""Under Slurm: in an allocation of hosts, or of hosts with their DPUs, `outrigger run` starts everything by srun.

The hosts are those of a cluster on this machine, with Slurm on them. They have no RDMA, so DPUs are started, tried and
not used; tests/rdma has the same with RDMA.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import slurm_site
from conftest import GIVEN_UP, MOST_DEATHS, Job, Mpi, Process, Result, Stopwatch, made, processes_under
from hosts import Hosts
from installed import SYSTEM_MPIS  # Slurm is the system's, too, and has their PMI
from local_dpus import ONE_MPI
from slurm_site import Slurm

from outrigger.cluster import control

pytestmark = [pytest.mark.one_machine, pytest.mark.any_mpi]  # it has hosts of its own

HOSTS = 4
GONE_WITHIN_S = 10.0
UP_WITHIN_S = 60.0
STARTS = 4
OFFLOADING = "outrigger: offloading"
"""Output of OUTRIGGER_LOG=info in MPI_Init."""
DPUS = "n[23]"
TASK_PROLOG = Path(__file__).parents[2] / "packaging" / "slurm" / "task-prolog.sh"
PMI = {"openmpi": "pmix", "mpich": "pmi2"}


def plugin(build: Path) -> Path:
    """Its place, if Slurm's headers were installed at build time."""
    return build / "lib" / "spank_outrigger.so"


@pytest.fixture(scope="module")
def slurm(build: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Slurm, Hosts]]:
    """Slurm on all hosts of a cluster; it ends with them."""
    if reason := slurm_site.why_not():
        pytest.skip(reason)
    if os.geteuid() != 0:
        pytest.skip("this Slurm is root's, and a cluster's processes are who makes it")
    services: list[subprocess.Popen[bytes]] = []
    with made(Hosts(HOSTS, f"slurm{os.getpid()}")) as hosts:
        directory = tmp_path_factory.mktemp("slurm")
        found = plugin(build)
        known = found if found.exists() else None
        slurm = Slurm(directory / "site", hosts.names(), directory, plugin=known, task_prolog=TASK_PROLOG)
        slurm.write()
        for name in hosts.names():
            for service in slurm.services(name):
                command = hosts.agent(name, service)
                services.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        up = subprocess.run(hosts.agent("n0", slurm.until_up(UP_WITHIN_S)), text=True, capture_output=True, check=False)
        assert up.returncode == 0, up.stdout + up.stderr
        yield slurm, hosts
    for running in services:
        running.wait(GONE_WITHIN_S)


class Allocation:
    """Commands of `outrigger` in an allocation of all hosts."""

    def __init__(self, mpi: Mpi, slurm: Slurm, hosts: Hosts) -> None:
        self.mpi = mpi
        self.slurm = slurm
        self.hosts = hosts
        mpi.hosts = hosts  # where to check for remains of a job

    def start(self, *words: str, options: tuple[str, ...]) -> Job:
        """`options`: for salloc."""
        directory, settings = self._place()
        return self._started(
            self.slurm.allocated([f"--nodes={HOSTS}", *options], ["env", *settings, *words]), directory
        )

    def start_batch(self, *lines: str, options: tuple[str, ...]) -> Job:
        """A script of these lines; `options` are for sbatch, and the script has its environment."""
        directory, settings = self._place()
        script = directory / "job.sh"
        script.write_text("\n".join(("#!/bin/sh", *lines, "")))
        return self._started(["env", *settings, *self.slurm.batch([f"--nodes={HOSTS}", *options], script)], directory)

    def _place(self) -> tuple[Path, list[str]]:
        """A job's directory and settings."""
        directory = Path(tempfile.mkdtemp(dir=self.mpi.directory))
        given = {
            "OUTRIGGER_BUILD": str(self.mpi.build),
            "OUTRIGGER_REPORT": str(directory / "report.json"),
            "OUTRIGGER_INIT_TIMEOUT_MS": "30000",  # DPUs that do not work cost a fifth of it
        }
        return directory, [f"{name}={value}" for name, value in given.items()]

    def _started(self, command: list[str], directory: Path) -> Job:
        job = Job(self.hosts.started_on_first(command), dict(os.environ), directory)
        self.mpi.jobs.append(job)
        return job

    def run(self, *words: str, options: tuple[str, ...] = ()) -> Result:
        return self._ended(lambda: self.start(*words, options=options))

    def run_batch(self, *lines: str, options: tuple[str, ...] = ()) -> Result:
        return self._ended(lambda: self.start_batch(*lines, options=options))

    def _ended(self, start: Callable[[], Job]) -> Result:
        """Open MPI 4.1's ranks sometimes crash in MPI_Init when srun starts them, without Outrigger, too."""
        for _ in range(STARTS):
            result = start().wait(60)
            self.mpi.nothing_left()
            if not ("Segmentation fault" in result.out and self.mpi.name == "openmpi" and OFFLOADING not in result.out):
                break
        return result

    def outrigger(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "outrigger", *words]

    def program(self, name: str) -> str:
        return str(self.mpi.programs / name)

    def job(self, ranks: int, program: str, *words: str, options: tuple[str, ...] = ()) -> list[str]:
        """`outrigger run` with a test program with few calls: they are offloaded from the first."""
        settings = {"OUTRIGGER_LOG": "info"}
        set_by = [word for name, value in settings.items() for word in ("-x", f"{name}={value}")]
        options = ("--algorithm", "on", *options)
        return self.outrigger("run", "-n", str(ranks), *set_by, *options, "--", self.program(program), *words)


@pytest.fixture
def allocation(offload: Mpi, slurm: tuple[Slurm, Hosts]) -> Allocation:
    return Allocation(offload, *slurm)


@SYSTEM_MPIS
@pytest.mark.parametrize(
    ("ranks", "salloc"), [(4, ("--ntasks-per-node=1",)), (6, ("--ntasks=6",))], ids=("one-each", "uneven")
)
def test_no_difference(allocation, ranks, salloc):
    """Slurm chooses hosts and slots."""
    command = allocation.job(ranks, "differential", "--seed", "41", "--operations", "40")
    result = allocation.run(*command, options=salloc).ok()
    assert "no difference" in result.out, result.out
    assert f"{OFFLOADING} on {HOSTS} nodes" in result.out, result.out
    assert result.offloaded() > 0


@SYSTEM_MPIS
def test_mpiexec_starts_ranks_on_all_hosts_without_srun(allocation, tmp_path):
    """By the cluster's agent. An srun that fails proves that neither this command nor the MPI calls it."""
    srun = tmp_path / "srun"
    srun.write_text("#!/bin/sh\necho srun is called; exit 7\n")
    srun.chmod(0o755)
    options = ("--launcher", "mpiexec", "--launch-agent", str(control.agent(allocation.hosts.name)))
    command = allocation.job(HOSTS, "differential", "--operations", "20", options=(*options, "--bind", "none"))
    path = f"PATH={tmp_path}:{os.environ['PATH']}"
    result = allocation.run("env", path, *command, options=("--ntasks-per-node=1",)).ok()
    assert "srun is called" not in result.out, result.out
    assert "no difference" in result.out and f"{OFFLOADING} on {HOSTS} nodes" in result.out, result.out


@SYSTEM_MPIS
def test_srun_by_hand(allocation):
    """With the library first, as in the documentation."""
    variables = f"ALL,LD_PRELOAD={allocation.mpi.library},OUTRIGGER_LOG=info"
    command = ["srun", "-n4", "--kill-on-bad-exit", f"--mpi={PMI[allocation.mpi.name]}", f"--export={variables}"]
    program = [allocation.program("differential"), "--operations", "20"]
    result = allocation.run(*command, *program, options=("--ntasks-per-node=1",)).ok()
    assert "no difference" in result.out, result.out
    assert result.offloaded() > 0


@pytest.fixture
def with_plugin(allocation: Allocation) -> Allocation:
    if not plugin(allocation.mpi.build).exists():
        pytest.skip("the SPANK plugin is not built: install libslurm-dev (./dev setup --with slurm) and build again")
    return allocation


@SYSTEM_MPIS
def test_the_plugin_knows_the_programs_mpi(with_plugin):
    """By one option of srun."""
    command = ["srun", "-n4", "--kill-on-bad-exit", f"--mpi={PMI[with_plugin.mpi.name]}", "--outrigger"]
    program = [with_plugin.program("differential"), "--operations", "20"]
    result = with_plugin.run(*command, *program, options=("--ntasks-per-node=1",)).ok()
    assert "no difference" in result.out, result.out
    assert result.offloaded() > 0


SHOWS = "sh -c 'echo $0=$LD_PRELOAD,$OUTRIGGER_ENABLE,$OUTRIGGER_REPORT'"
"""A program whose MPI is not visible."""


@ONE_MPI
def test_what_can_be_asked_of_the_plugin(with_plugin):
    """Each job step gets its options, and unknown ones end only their own step."""
    script = [
        f"srun -n1 {SHOWS} unasked",
        f"srun -n2 --outrigger {SHOWS} which",
        f"srun -n1 --outrigger=report,mpich {SHOWS} named",
        f"LD_PRELOAD=libc.so.6 srun -n1 --outrigger=mpiabi {SHOWS} before",
        f"srun -n1 --outrigger=off {SHOWS} off",
        f"srun -n1 --outrigger=maybe {SHOWS} maybe",
        f"SITE_OUTRIGGER=openmpi SITE_OUTRIGGER_PREFIX={with_plugin.mpi.build} srun -n1 {SHOWS} prolog",
    ]
    out = with_plugin.run("bash", "-c", "unset OUTRIGGER_REPORT; " + "; ".join(script)).out
    lines = [re.sub(r"(?<=outrigger-report-)\d+", "J", line) for line in out.splitlines()]
    library = f"{with_plugin.mpi.build}/lib/liboutrigger"
    wanted = {
        "unasked=,,": 1,
        "which=,,": 2,
        f"named={library}-mpich.so,,outrigger-report-J.2.json": 1,
        f"before={library}-mpiabi.so:libc.so.6,,": 1,
        "off=,off,": 1,
        f"prolog={library}-openmpi.so,,": 1,
    }
    assert {line: lines.count(line) for line in wanted} == wanted, out
    assert out.count("does not show which MPI it loads; name it: --outrigger=on,openmpi") == 1, out
    assert re.search(r"`outrigger report outrigger-report-\d+\.2\.json` shows the result", out), out
    assert "--outrigger: 'maybe' is unknown; write on, off or report" in out and "maybe=" not in out, out


@ONE_MPI
def test_an_allocation_hands_the_word_on(with_plugin):
    """So a batch script's steps have it."""
    out = with_plugin.run("srun", "-n1", "sh", "-c", "echo preload=$LD_PRELOAD", options=("--outrigger=mpich",)).out
    assert f"preload={with_plugin.mpi.build}/lib/liboutrigger-mpich.so" in out, out


@SYSTEM_MPIS
@pytest.mark.parametrize("way", ("word", "variable"))
def test_a_batch_script(with_plugin, way):
    """Its srun gets sbatch's setting, by an option, which the script itself does not get, or by a variable."""
    library = with_plugin.mpi.library
    asked = "--outrigger" if way == "word" else f"--export=ALL,LD_PRELOAD={library},OUTRIGGER_LOG=info"
    program = f"{with_plugin.program('differential')} --operations 20"
    step = f"exec srun -n{HOSTS} --kill-on-bad-exit --mpi={PMI[with_plugin.mpi.name]} {program}"
    result = with_plugin.run_batch("echo script=$LD_PRELOAD,", step, options=("--ntasks-per-node=1", asked)).ok()
    assert f"script={'' if way == 'word' else library}," in result.out, result.out
    assert "no difference" in result.out, result.out
    assert result.offloaded() > 0


@SYSTEM_MPIS
def test_dpus_without_rdma_are_started_and_left(allocation):
    """The second half of the hosts are DPUs of the first half. A line tells why they do not work."""
    daemon = str(allocation.mpi.daemon)
    options = ("--dpu-pattern", DPUS, "--dpu-daemon", daemon)
    command = allocation.job(2, "differential", "--operations", "20", options=options)
    result = allocation.run(*command, options=("--ntasks-per-node=1",)).ok()
    said = [line for line in result.out.splitlines() if "the DPUs are not used" in line]
    assert len(said) == 1 and "DPU n2" in said[0] and "cannot be reached while it computes" in said[0], result.out
    assert "no difference" in result.out and f"{OFFLOADING} on 2 nodes" in result.out, result.out
    assert result.offloaded() > 0


@ONE_MPI
def test_dpus_of_an_allocation_are_tried(allocation):
    """`outrigger info`: its exit code tells that none works."""
    command = allocation.outrigger("info", "--json", "--dpu-pattern", DPUS, "--dpu-daemon", str(allocation.mpi.daemon))
    result = allocation.run(*command, options=("--ntasks-per-node=1",))
    assert result.returncode == 1, result.out
    found = json.loads(result.out)
    assert [(each["dpu"], each["host"]) for each in found] == [("n2", "n0"), ("n3", "n1")], found
    assert all("cannot be reached while it computes" in each["problem"] for each in found), found


@ONE_MPI
def test_a_pattern_that_no_node_matches(allocation):
    result = allocation.run(*allocation.job(2, "differential", options=("--dpu-pattern", "^bf")))
    assert result.returncode == 2, result.out
    assert "--dpu-pattern ^bf: none of n[0-3] matches" in result.out, result.out


def ranks(mpi: Mpi) -> list[Process]:
    return processes_under(mpi.programs)


def service_processes(mpi: Mpi) -> list[Process]:
    return mpi.daemons("serve")


@ONE_MPI
@pytest.mark.parametrize("victims", (service_processes, ranks))
def test_what_is_killed_ends_the_job(allocation, victims):
    """On every host."""
    job = allocation.start(*allocation.job(HOSTS, "steady", "operations", "60"), options=("--ntasks-per-node=1",))
    job.wait_for("steady: under way")

    def on_n1() -> set[int]:
        return {each.pid for each in victims(allocation.mpi) if each.alive() and allocation.hosts.of(each.pid) == "n1"}

    killed: set[int] = set()
    for _ in range(MOST_DEATHS if victims is service_processes else 1):
        since = Stopwatch()
        assert since.sees(lambda: GIVEN_UP in job.text() or on_n1() - killed, GONE_WITHIN_S), on_n1()
        if GIVEN_UP in job.text():
            break
        victim = min(on_n1() - killed)
        killed.add(victim)
        since = Stopwatch()
        os.kill(victim, signal.SIGKILL)
    assert since.sees(lambda: not allocation.mpi.leftovers(), GONE_WITHIN_S), allocation.mpi.leftovers()
    assert job.wait(30).returncode != 0
    if victims is service_processes:
        assert "on node n1 was killed by signal 9" in job.text(), job.text()


@SYSTEM_MPIS
@pytest.mark.parametrize("number", (signal.SIGKILL, signal.SIGTERM), ids=lambda number: number.name)
def test_a_command_that_is_ended_takes_its_job_along(allocation, number):
    """On every host: srun ends its ranks when it is told to, and is told when the command ends."""
    job = allocation.start(*allocation.job(HOSTS, "steady", "compute", "60"), options=("--ntasks-per-node=1",))
    job.wait_for("steady: ready")
    since = Stopwatch()
    os.kill(job.outrigger_run(), number)
    assert since.sees(lambda: not allocation.mpi.leftovers(), GONE_WITHIN_S), allocation.mpi.leftovers()
    job.wait(30)  # salloc reports success for a command that a signal has ended
