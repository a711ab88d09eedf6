"""Launches MPI programs under each MPI, native and offloaded, and checks that they leave nothing behind."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import installed
import proc_stat
import pytest
from hosts import Hosts, exported
from installed import Installed
from waiting import wait_until

from outrigger.errors import UserError

HERE = Path(__file__).parent
SETTLE_S = 10.0
"""Time limit for the end of our processes after a job's end."""
MOST_DEATHS = 10
"""Deaths in a service process's place before the job ends; the seventh ends it if they die at the same operation."""
GIVEN_UP = "the job cannot go on"
INIT_TIMEOUT_MS = 60_000
"""A fifth of it is for a DPU to reach memory. Longer than the default: a busy machine must not run natively."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--native-only", action="store_true", help="run the programs without Outrigger: they must pass on plain MPI"
    )
    parser.addoption(
        "--pretend-nodes", type=int, default=1, help="split the ranks into so many nodes: what crosses them is wired"
    )
    parser.addoption(
        "--cluster", type=int, default=0, metavar="HOSTS", help="spread the ranks over so many hosts of a cluster"
    )
    parser.addoption(
        "--mpi-prefix",
        action="append",
        default=[],
        metavar="DIR",
        help="run under the MPI that is installed there instead of the system's; may be given several times",
    )
    parser.addoption(
        "--patience", type=float, default=2, help="times the limits on how long programs run: busy machines"
    )
    parser.addoption(
        "--in-turn", action="store_true", help="run tests that are not about an MPI's own ways under one of them each"
    )
    parser.addoption("--seed", type=int, default=None, help="first seed of the differential test (default: 1000)")


def pytest_configure(config: pytest.Config) -> None:
    Job.patience = config.getoption("--patience")
    config.addinivalue_line("markers", "one_machine: of no use with --cluster")
    config.addinivalue_line("markers", "any_mpi: tests what is alike under each MPI; see --in-turn")
    config.addinivalue_line("markers", "xdist_group: run by the same one of several sessions, one after the other")
    # Shells start background commands with SIGINT ignored, which children inherit. With such a launcher Open MPI leaves
    # segments on other hosts.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


QUICK = {
    "test_alias.py": {"test_no_difference": ""},
    "test_bad_calls.py": {"test_bad_calls_on_requests": ""},
    "test_communicators.py": {"test_every_constructor": "", "test_abort_with_operations_outstanding": ""},
    "test_differential.py": {"test_no_difference": "-3ranks-1threads-defaults", "test_blocking_forms": ""},
    "test_dpu.py": {"test_no_difference": "", "test_killed_or_stopped": ""},
    "test_failures.py": {"test_service_process_is_killed": "", "test_rank_is_killed": ""},
    "test_huge_pages.py": {"test_buffers_are_moved": ""},
    "test_languages.py": {"test_offloaded": ""},
    "test_nodes.py": {"test_no_difference": "-3nodes-"},
    "test_other_mpis.py": {"test_right_bytes": ""},
    "test_programs.py": {
        "test_rendezvous_goes_through": "-default-2",
        "test_threads": "",
        "test_odd_programs": "-2]",
        "test_mismatched_arguments": "",
    },
    "test_refused_calls.py": {"test_it_does_without_all_of_them": "", "test_no_shared_heap": "madvise"},
    "test_rough.py": {"test_what_programs_do_to_their_memory": "protect"},
    "test_run.py": {"test_a_killed_command_takes_its_job_along": "compute-alone", "test_scripts_start_programs": ""},
    "test_shared_heap.py": {"test_children_are_apart": ""},
    "test_tools.py": {"test_tools_see_what_they_see_natively": ""},
    "test_dpu_copies.py": {"test_waiting_ranks_copy": "-2-"},
    "test_wait_copies.py": {"test_waiting_ranks_copy": "", "test_ranks_copy_alone_where_no_core_is_spare": ""},
    "test_xpmem.py": {"test_private_memory_is_attached": ""},
}
"""Tests of ./dev test --quick under each MPI: one of each kind, the first whose id has the text."""


OF_THE_MACHINE = {
    "test_bad_networks.py",
    "test_cluster_failures.py",
    "test_jobs.py",
    "test_live.py",
    "test_mixed.py",
    "test_nodes.py",
    "test_restart_nodes.py",
    "test_slurm.py",
    "test_stuck.py",
}
"""Tests with clusters of hosts, or that check all jobs on the machine: no two of them run at a time."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.name in OF_THE_MACHINE:
            item.add_marker(pytest.mark.xdist_group("machine"))
    mark_quick(items)
    if config.getoption("--in-turn"):
        left_out = those_of_other_turns(items)
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


def parameters_of(item: pytest.Item) -> dict[str, object]:
    return dict(item.callspec.params) if hasattr(item, "callspec") else {}


def mark_quick(items: list[pytest.Item]) -> None:
    seen = set()
    for item in items:
        name = getattr(item, "originalname", item.name)
        wanted = QUICK.get(item.path.name, {}).get(name)
        if wanted is None or wanted not in item.name:
            continue
        parameters = parameters_of(item)
        key = (item.path, name, str(parameters.get("mpi", parameters.get("other"))))
        if key not in seen:
            seen.add(key)
            item.add_marker(pytest.mark.quick)


def those_of_other_turns(items: list[pytest.Item]) -> list[pytest.Item]:
    """MPIs rotate from one test to the next, in the order of a file: the assignment does not depend on the selected
    tests.
    """
    under: dict[tuple[object, ...], list[pytest.Item]] = {}
    for item in items:
        parameters = parameters_of(item)
        if item.get_closest_marker("any_mpi") and "mpi" in parameters:
            others = tuple(sorted((key, str(value)) for key, value in parameters.items() if key != "mpi"))
            under.setdefault((item.path, getattr(item, "originalname", item.name), others), []).append(item)
    alike = sorted(under.items(), key=lambda each: str(each[0]))
    return [item for turn, (_, each) in enumerate(alike) for item in each if item is not each[turn % len(each)]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test runs under each MPI, except tests that name one."""
    named = any("mpi" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    if "mpi" in metafunc.fixturenames and not named:
        metafunc.parametrize("mpi", installed.at(metafunc.config.getoption("--mpi-prefix")), ids=str, indirect=True)


def with_copiers() -> dict[str, str]:
    """Ranks are not bound here, so no core is free; only a named core gives a service process copiers."""
    return {"OUTRIGGER_SERVICE_CPUS": str(max(os.sched_getaffinity(0)))}


def always_offloaded(env: dict[str, str]) -> dict[str, str]:
    """Calls without a rule of the test are offloaded, small blocks too, however busy this machine is."""
    rules = filter(None, [env.get("OUTRIGGER_ALGORITHM"), "all=on"])
    return {"OUTRIGGER_ALGORITHM": ",".join(rules)}


def build_directory() -> Path:
    given = os.environ.get("OUTRIGGER_BUILD", "")
    if not given:
        raise pytest.UsageError("set OUTRIGGER_BUILD to a build directory, e.g. OUTRIGGER_BUILD=build/release")
    build = Path(given).resolve()
    if not (build / "tests" / "mpi").is_dir():
        raise pytest.UsageError(f"{build} holds no MPI test programs: build the target mpi_programs there")
    return build


# --- running processes ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Process:
    pid: int
    command: tuple[str, ...]

    @property
    def role(self) -> str:
        """Role of an outriggerd: serve or keep."""
        return self.command[1] if len(self.command) > 1 else ""

    def cpu_seconds(self) -> float:
        found = proc_stat.stat_of(self.pid)
        assert found is not None, f"process {self.pid} has ended"
        return found.cpu_ticks / os.sysconf("SC_CLK_TCK")

    def alive(self) -> bool:
        return proc_stat.alive(self.pid)


class Serving(NamedTuple):
    """A service process."""

    started_ticks: int
    pid: int
    keeper: int
    """Or the daemon of a DPU."""


def victims(serving: Iterable[Serving], killed: Sequence[Serving]) -> list[Serving]:
    """Candidates for the next kill, the best last: the youngest one, and then the replacement of the last killed one.

    It has the same keeper. Those of other nodes may be replaced meanwhile, too: UCX ends some whose peer dies while
    they connect to it. Deaths count per place, so kills in different places end no job.
    """

    def may_follow(one: Serving) -> bool:
        return one.keeper == killed[-1].keeper and one > killed[-1]  # by its start, then its pid

    return sorted(one for one in serving if one not in killed and (not killed or may_follow(one)))


def processes_under(directory: Path) -> list[Process]:
    """All processes whose executable is in a directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            executable = os.readlink(entry / "exe").removesuffix(" (deleted)")
            if not Path(executable).is_relative_to(directory):
                continue
            command = (entry / "cmdline").read_bytes().rstrip(b"\0").decode(errors="replace").split("\0")
        except OSError:
            continue
        found.append(Process(int(entry.name), tuple(command)))
    return found


def shared_memory_files() -> set[str]:
    return {name for name in os.listdir("/dev/shm") if "outrigger" in name.lower()}


class Stopwatch:
    """Seconds from now on, without those in which the machine did not even run a sleeping thread.

    For time limits: a machine that hangs, or is taken away from its guests, keeps none.
    """

    BEAT_S = 0.05
    LATE_S = 0.1
    """A smaller delay is no hang."""

    def __init__(self) -> None:
        self._started = self._beat = time.monotonic()
        self._lost = 0.0
        self._lock = threading.Lock()
        threading.Thread(target=Stopwatch._watch, args=(weakref.ref(self),), daemon=True).start()

    @staticmethod
    def _watch(one: weakref.ref[Stopwatch]) -> None:
        """Runs while the stopwatch is referenced."""
        while (stopwatch := one()) is not None:
            stopwatch.seconds(beat=True)
            del stopwatch
            time.sleep(Stopwatch.BEAT_S)

    def seconds(self, *, beat: bool = False) -> float:
        with self._lock:
            now = time.monotonic()
            late = max(0.0, now - self._beat - self.BEAT_S)
            lost = self._lost + (late if late > self.LATE_S else 0.0)
            if beat:
                self._lost, self._beat = lost, now
            return now - self._started - lost

    def sees(self, condition: Callable[[], bool], within_s: float) -> bool:
        while self.seconds() < within_s:
            if condition():
                return True
            time.sleep(0.02)
        return condition()


# --- running --------------------------------------------------------------------------------------------------------


@dataclass
class Result:
    command: str
    returncode: int
    out: str
    seconds: float
    report: dict | None = None

    def ok(self) -> Result:
        assert self.returncode == 0, f"{self.command}\nreturned {self.returncode}\n{self.out}"
        return self

    def offloaded(self) -> int:
        """Offloaded calls, as rank 0 reports."""
        assert self.report is not None, f"{self.command}\nwrote no report: was anything offloaded?\n{self.out}"
        return sum(entry["offloaded"] for entry in self.report["collectives"])


class Job:
    """A running mpirun. Its output goes to a file; its process group is killed with it."""

    patience = 1.0
    END_FILE = "end"
    """Long-running programs end when this file exists."""
    FURTHER_OPERATIONS = 20
    PROGRESS_FILE = "progress"
    """Some programs add a byte for each operation."""

    def __init__(self, command: list[str], env: dict[str, str], directory: Path) -> None:
        self.command = " ".join(command)
        self.directory = directory
        self.output = directory / "output"
        self.started = time.monotonic()
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=directory,
                process_group=0,  # in our session: see start_keeper
            )

    def text(self) -> str:
        return self.output.read_text(errors="replace")

    def wait_for(self, text: str, timeout_s: float = 30) -> None:
        timeout_s *= self.patience
        seen = wait_until(lambda: text in self.text() or self.process.poll() is not None, timeout_s)
        assert seen and text in self.text(), f"{self.command}\nnever printed {text!r}\n{self.text()}"

    def progress(self) -> int:
        """How many operations the program has noted."""
        file = self.directory / self.PROGRESS_FILE
        return file.stat().st_size if file.exists() else 0

    def goes_on(self, operations: int, timeout_s: float = 60) -> None:
        """Waits until the program has noted so many more."""
        assert self._noted(self.progress() + operations, timeout_s), f"{self.command}\nhas ended\n{self.text()}"

    def end_soon(self) -> None:
        """The test is over: the job does a few more operations, if it notes them, without a time limit for waits."""
        if self.progress() > 0:
            self._noted(self.progress() + self.FURTHER_OPERATIONS, 60)
        (self.directory / self.END_FILE).touch()

    def _noted(self, operations: int, timeout_s: float) -> bool:
        """False: the job has ended before."""
        over = lambda: self.process.poll() is not None  # noqa: E731
        seen = wait_until(lambda: self.progress() >= operations or over(), timeout_s * self.patience, pause_s=0.005)
        assert seen, f"{self.command}\nnoted {self.progress()} operations, not {operations}\n{self.text()}"
        return self.progress() >= operations

    def rank_pids(self) -> list[int]:
        """The pids of `steady`, by rank."""
        lines = [line.split() for line in self.text().splitlines() if " is process " in line]
        return [int(words[-1]) for words in sorted(lines, key=lambda words: int(words[2]))]

    def outrigger_run(self) -> int:
        """The pid of the `outrigger run` that has this job's directory in its arguments or environment."""
        for entry in Path("/proc").iterdir():
            try:
                command, environment = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
            except OSError:
                continue
            named = os.fsencode(self.directory) in command + environment
            if named and command.split(b"\0")[1:4] == [b"-m", b"outrigger", b"run"]:
                return int(entry.name)
        pytest.fail(f"there is no outrigger run\n{self.text()}")

    def wait(self, timeout_s: float) -> Result:
        timeout_s *= self.patience
        if not wait_until(lambda: self.process.poll() is not None, timeout_s):
            self.kill()
            pytest.fail(f"{self.command}\nstill running after {timeout_s} s; its output:\n{self.text()}")
        seconds = time.monotonic() - self.started
        report = self.directory / "report.json"
        return Result(
            self.command,
            self.process.returncode,
            self.text(),
            seconds,
            json.loads(report.read_text()) if report.exists() else None,
        )

    def disturb(self, moments: random.Random, seconds: float) -> None:
        """Stops and continues ranks, one at a time, for `seconds`, or until the job ends."""
        end = time.monotonic() + seconds
        with contextlib.suppress(ProcessLookupError):
            while time.monotonic() < end and self.process.poll() is None:
                victim = moments.choice(self.rank_pids())
                os.kill(victim, signal.SIGSTOP)
                time.sleep(moments.uniform(0, 0.1))
                os.kill(victim, signal.SIGCONT)
                time.sleep(moments.uniform(0, 0.05))

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass
class Mpi:
    """One MPI, and the way programs run under it: natively or offloaded, the place, and the number of service
    processes.
    """

    installed: Installed
    build: Path
    directory: Path
    native_only: bool
    pretend_nodes: int = 1
    measured_choice: bool = False
    """For calls without a rule the library decides, as for users."""
    hosts: Hosts | None = None
    """The ranks' hosts; None: this machine."""
    jobs: list[Job] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Name of the ABI: openmpi, mpich or mpiabi."""
        return self.installed.family

    @property
    def programs(self) -> Path:
        return self.build / "tests" / "mpi" / self.name

    @property
    def library(self) -> Path:
        return self.build / "lib" / f"liboutrigger-{self.name}.so"

    @property
    def heap(self) -> Path:
        return self.build / "lib" / "liboutrigger-heap.so"

    @property
    def daemon(self) -> Path:
        return self.build / "bin" / "outriggerd"

    def start(
        self,
        n: int,
        program: list[str],
        *,
        services: int | None = 1,
        env: dict[str, str] | None = None,
        cpus: str | None = None,
        under: list[str] | None = None,
    ) -> Job:
        """Starts `program` (a name, or a path, and arguments) on n ranks; services=None runs it without Outrigger.
        `under`: words of a command that starts the launcher.
        """
        executable = self.programs / program[0] if "/" not in program[0] else Path(program[0])
        assert executable.exists(), f"{executable} is not built: build the target mpi_programs"
        if services is None:
            self.must_end_natively()
        for_ranks = dict(env or {})
        directory = Path(tempfile.mkdtemp(dir=self.directory))
        for_ranks["TEST_END_FILE"] = str(directory / Job.END_FILE)
        for_ranks["TEST_PROGRESS_FILE"] = str(directory / Job.PROGRESS_FILE)
        if services is not None:
            self._require_library()
            for_ranks |= self._preload(heap=for_ranks.get("OUTRIGGER_SHARED_HEAP") == "on")
            for_ranks |= {"OUTRIGGER_SERVICES": str(services)}
            for_ranks |= {"OUTRIGGER_REPORT": str(directory / "report.json")}
            for_ranks |= {"OUTRIGGER_PRETEND_NODES": str(self.pretend_nodes)}
            for_ranks |= {"OUTRIGGER_INIT_TIMEOUT_MS": str(INIT_TIMEOUT_MS)}
            for_ranks |= {"XDG_CACHE_HOME": str(self.directory / "cache")}
            for_ranks |= {"OUTRIGGER_CHOICE": "early"} if self.measured_choice else {}
            for_ranks |= env or {}
            if not self.measured_choice:
                for_ranks |= always_offloaded(for_ranks)
        if search := self.installed.search(self.directory):
            for_ranks["LD_LIBRARY_PATH"] = ":".join([*filter(None, [for_ranks.get("LD_LIBRARY_PATH")]), *search])
        command = ["taskset", "-c", cpus] if cpus else list(under or [])
        command += [*self._launcher(n, for_ranks, directory), str(executable), *program[1:]]
        job = Job(command, self._environment(), directory)
        self.jobs.append(job)
        return job

    def start_mixed(self, ranks: str, program: str, having: dict[str, dict[str, str]]) -> Job:
        """Starts a program of which only some ranks have the library. `ranks` has a letter for each; `having` has
        further variables for the letters of those with the library.
        """
        self._require_library()
        self.must_end_natively()
        directory = Path(tempfile.mkdtemp(dir=self.directory))
        search = self.installed.search(self.directory)
        everywhere = {"LD_LIBRARY_PATH": ":".join(search)} if search else {}
        offered = self._preload(heap=False) | {"OUTRIGGER_PRETEND_NODES": str(self.pretend_nodes)}
        offered |= always_offloaded(offered)
        command = self._started(len(ranks), directory)[:-2]
        for letter, group in itertools.groupby(ranks):
            settings = everywhere | (offered | having[letter] if letter in having else {})
            command += ["-n", str(len(list(group))), "env", *(f"{name}={value}" for name, value in settings.items())]
            command += [str(self.programs / program), ":"]
        job = Job(self._on_first(command[:-1]), self._environment(), directory)
        self.jobs.append(job)
        return job

    def must_end_natively(self) -> None:
        """For programs that are not offloaded, with or without the library."""
        if self.hosts is not None and str(self.installed) == "mpich":
            pytest.skip("MPICH 4.0 over TCP hangs in MPI_Finalize between hosts, natively")

    def run(self, n: int, program: list[str], *, timeout_s: float = 60, **options) -> Result:
        """Runs to the end, and checks that nothing stays behind."""
        result = self.start(n, program, **options).wait(timeout_s)
        self.nothing_left()
        return result

    def daemons(self, role: str | None = None) -> list[Process]:
        found = [p for p in processes_under(self.build / "bin") if Path(p.command[0]).name == "outriggerd"]
        return [process for process in found if role is None or process.role == role]

    def serving(self) -> list[Serving]:
        """Live service processes, the oldest first, with those that stand by."""
        stats = [(process.pid, proc_stat.stat_of(process.pid)) for process in self.daemons("serve")]
        return sorted(Serving(stat.started_ticks, pid, stat.parent) for pid, stat in stats if stat and stat.alive)

    def serving_by_keeper(self) -> list[list[int]]:
        """Pids for each keeper, or daemon of a DPU, the oldest first; those of one are of one node."""
        found: dict[int, list[int]] = {}
        for one in self.serving():
            found.setdefault(one.keeper, []).append(one.pid)
        return [found[keeper] for keeper in sorted(found)]

    def kill_services_for_good(self, *, how: int = signal.SIGKILL, pause_s: float = 0.1) -> int:
        """Kills service processes in sequence until none is replaced; returns the last one. Six are replaced per place,
        or up to nine that die at different operations.
        """
        killed: list[Serving] = []

        def given_up() -> bool:
            return GIVEN_UP in self.jobs[-1].text()

        def left() -> list[Serving]:
            return victims(self.serving(), killed)

        for _ in range(MOST_DEATHS):
            assert wait_until(lambda: given_up() or bool(left()), SETTLE_S), self.daemons()
            if given_up():
                break
            time.sleep(pause_s)
            killed.append(left()[-1])
            os.kill(killed[-1].pid, how)
        assert wait_until(given_up, SETTLE_S), f"the job goes on without {killed}\n{self.jobs[-1].text()}"
        return killed[-1].pid

    def leftovers(self) -> list[str]:
        processes = self.daemons() + processes_under(self.build / "tests" / "mpi")
        alive = [f"process {p.pid}: {' '.join(p.command)}" for p in processes if p.alive()]
        found = alive + [f"/dev/shm/{name}" for name in shared_memory_files()]
        return found if found or self.hosts is None else self.hosts.shared_memory_files()

    def nothing_left(self, timeout_s: float = SETTLE_S) -> None:
        gone = wait_until(lambda: not self.leftovers(), timeout_s)
        assert gone, f"left behind {timeout_s} s after the end: {self.leftovers()}"

    def clean_up(self) -> None:
        """Kills the processes of a failed test, so that the next one starts clean."""
        for job in self.jobs:
            if job.process.poll() is None:
                job.kill()
        if not wait_until(lambda: not self.leftovers(), SETTLE_S):
            for process in self.daemons() + processes_under(self.build / "tests" / "mpi"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)

    def _require_library(self) -> None:
        assert self.library.exists(), f"{self.library} is not built"
        assert self.daemon.exists(), f"{self.daemon} is not built"

    def _preload(self, *, heap: bool) -> dict[str, str]:
        cache = (self.build / "CMakeCache.txt").read_text()
        wanted = [str(self.library)]
        if heap:
            if not self.heap.exists():
                pytest.skip(f"{self.heap} is not built: libjemalloc_pic.a was missing")
            wanted.insert(0, str(self.heap))
        if "OUTRIGGER_SANITIZE:STRING=address" in cache:  # its runtime must be the first library
            runtime = subprocess.check_output(["gcc", "-print-file-name=libasan.so"], text=True).strip()
            wanted.insert(0, runtime)
        # The native MPIs leak at exit, which is not tested.
        return {"LD_PRELOAD": ":".join(wanted), "ASAN_OPTIONS": "detect_leaks=0"}

    def preloaded(self) -> str:
        """The libraries that ranks with Outrigger preload."""
        return self._preload(heap=False)["LD_PRELOAD"]

    def _launcher(self, n: int, for_ranks: dict[str, str], directory: Path) -> list[str]:
        launcher = self._started(n, directory)
        return self._on_first([*launcher, *exported(self.installed.implementation, for_ranks)])

    def _started(self, n: int, directory: Path) -> list[str]:
        if self.hosts is not None:
            return self.installed.launcher_on_hosts(n, self.hosts.shares(n), directory)
        # Shared memory of killed ranks is removed with the test's directory.
        return self.installed.launcher(n, self._shared_directory())

    def _on_first(self, command: list[str]) -> list[str]:
        return command if self.hosts is None else self.hosts.started_on_first(command)

    def _shared_directory(self) -> str:
        path = Path("/dev/shm") / f"mpi-tests-{os.getpid()}"
        path.mkdir(exist_ok=True)
        return str(path)

    def _environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("OUTRIGGER_", "LD_PRELOAD"))}
        return {
            "OUTRIGGER_CORE_CLAIMS": "off",  # tests run beside each other, and each must find a core
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_mpi_yield_when_idle": self.installed.yields,
            "OMPI_MCA_rmaps_base_oversubscribe": "1",
            # A rank that ends waits 2 s for mpirun's answer. If mpirun did not run for so long, Open MPI 4 reports a
            # rank without MPI_Finalize (open-mpi/ompi#7833).
            "OMPI_MCA_orte_allowed_exit_without_sync": "1",
            "MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1",  # MPICH 5
            "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT": "10",
            "I_MPI_THREAD_YIELD": "3",
            "I_MPI_PIN": "0",
            "I_MPI_ADJUST_IALLGATHERV": "2",  # else MPI_Iallgatherv may hang
        } | kept


@pytest.fixture(scope="session")
def build() -> Path:
    return build_directory()


@contextlib.contextmanager
def made(hosts: Hosts) -> Iterator[Hosts]:
    """A cluster for a while; skips the tests if this machine cannot have one."""
    try:
        hosts.up()
    except UserError as error:
        pytest.skip(str(error))
    try:
        yield hosts
    finally:
        hosts.down()


@pytest.fixture(scope="session")
def all_on_hosts(request: pytest.FixtureRequest) -> Iterator[Hosts | None]:
    """For --cluster."""
    count = request.config.getoption("--cluster")
    if not count:
        yield None
        return
    with made(Hosts(count)) as hosts:
        yield hosts


@pytest.fixture
def mpi(request: pytest.FixtureRequest, build: Path, tmp_path: Path, all_on_hosts: Hosts | None) -> Iterator[Mpi]:
    chosen = request.param if isinstance(request.param, Installed) else Installed(request.param)
    if not (build / "tests" / "mpi" / chosen.family).is_dir():
        pytest.skip(f"no programs were built for {chosen.family}")
    result = Mpi(chosen, build, tmp_path, request.config.getoption("--native-only"))
    result.pretend_nodes = request.config.getoption("--pretend-nodes")
    if all_on_hosts is not None and request.node.get_closest_marker("one_machine"):
        pytest.skip("means something on one machine only")
    result.hosts = all_on_hosts
    yield result
    result.clean_up()


@pytest.fixture
def offload(mpi: Mpi) -> Mpi:
    """For tests that need service processes."""
    if mpi.native_only:
        pytest.skip("only with Outrigger")
    return mpi


@pytest.fixture
def services(mpi: Mpi) -> int | None:
    """One service process, or None with --native-only."""
    return None if mpi.native_only else 1


@pytest.fixture(scope="session", autouse=True)
def _remove_shared_directory() -> Iterator[None]:
    """Also after a run that is told to end, as by Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    yield
    shutil.rmtree(Path("/dev/shm") / f"mpi-tests-{os.getpid()}", ignore_errors=True)
