"""Service processes on DPUs, as the launcher starts and ends them: a launch agent and an outriggerd of few words."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from waiting import wait_until

from outrigger import run
from outrigger.artifacts import Artifacts
from outrigger.dpu_process import CannotStartError, Ready, Way, parse_ready, way
from outrigger.dpus import started
from outrigger.errors import UserError
from outrigger.hostfile import Host
from outrigger.plan import Share
from outrigger.settings import allows_dpus

HERE = socket.gethostname()
Write = Callable[[Mapping[str, str]], None]

# Called as ssh is; what a DPU does is by its name.
AGENT = """
DPU=$1; export DPU; shift
case $DPU in
unreachable) echo "ssh: connect to host unreachable: No route to host" >&2; exit 255 ;;
empty) echo "sh: outriggerd: not found" >&2; exit 127 ;;
esac
echo "$*" >{root}/command-$DPU
exec sh -c "$*"
"""
DAEMON = """
case $1 in
dpu-probe)
    read -r secret
    [ "$secret" = "$(cat {root}/secret-${{2%:*}})" ] || {{ echo "outriggerd: wrong secret" >&2; exit 1; }}
    case $2 in
    bf1:4711)
        echo '{{"reach":"rdma","device":"rc_mlx5/mlx5_0:1",'
        echo '"round_trip_us":2.14,"bandwidth_bytes_per_s":2.3e10}}' ;;
    tcp:*) echo '{{"reach":"none","device":"tcp/eth0","problem":"tcp/eth0 does not move memory by itself"}}' ;;
    *) echo "outriggerd: connection refused" >&2; exit 1 ;;
    esac ;;
place)
    echo '{{"version":1,"cores":[],"ranks":[],"services":[],"service_cpus":[]}}'
    echo "$*" >>{root}/placed ;;
dpu)
    trap '' PIPE  # the reader of its log may be gone
    read -r secret
    echo "$secret" >{root}/secret-$DPU
    echo "Welcome to $DPU"
    case $DPU in
    broken) echo "outriggerd: dpu failed: no RDMA device; load mlx5_ib"; exit 1 ;;
    mute) exec cat >/dev/null ;;
    crashed) echo "outriggerd: out of memory" >&2; exit 3 ;;
    esac
    echo "outriggerd: dpu ready protocol=3 endian=little port=4711 services=0 cores=8"
    [ $DPU != chatty ] || {{ sleep 1; seq -f "%.0f words" 20000 >&2; }}
    cat >/dev/null
    echo "service processes end" >&2
    echo ended >{root}/ended-$DPU
    [ $DPU != sulky ] || exit 5 ;;
esac
"""


@pytest.fixture
def site(tmp_path: Path, write_programs: Write) -> Path:
    """Programs first on PATH there, and files that name hosts and DPUs."""
    daemon = DAEMON.format(root=tmp_path)
    write_programs(
        {
            "agent": AGENT.format(root=tmp_path),
            "outriggerd": daemon,
            "build/bin/outriggerd": daemon,
            "build/lib/liboutrigger-openmpi.so": "",
            "job.sh": "true",
        }
    )
    (tmp_path / "hosts").write_text(f"{HERE}:2\n")
    return tmp_path


@pytest.fixture
def how(site: Path, monkeypatch: pytest.MonkeyPatch) -> Way:
    monkeypatch.setenv("PATH", f"{site}:/usr/bin:/bin")
    return Way("agent", start_s=60)


def shares(*names: str) -> tuple[Share, ...]:
    return tuple(Share(Host(f"n{index}", 4), 4 * index, 4, name) for index, name in enumerate(names))


def appears(path: Path, within_s: float = 60.0) -> bool:
    return wait_until(path.exists, within_s)


def test_all_are_started_and_end_with_their_input(site: Path, how: Way) -> None:
    with started(shares("bf1", "bf2"), how) as fleet:
        environment = fleet.environment()
        assert fleet.problem is None
        assert environment["OUTRIGGER_DPUS"].split("@")[1] == "n0=bf1:4711,n1=bf2:4711"
        assert fleet.ready()["bf2"] == Ready(port=4711, protocol=3, services=0, cores=8)
        for name in ("bf1", "bf2"):
            assert (site / f"secret-{name}").read_text() == environment["OUTRIGGER_DPUS"].split("@")[0] + "\n"
            assert (site / f"command-{name}").read_text() == "outriggerd dpu --services 0\n"
            assert not (site / f"ended-{name}").exists()
    assert (site / "ended-bf1").exists() and (site / "ended-bf2").exists()
    assert len(bytes.fromhex(environment["OUTRIGGER_DPUS"].split("@")[0])) == 16
    assert fleet.notes() == []


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("broken", "no RDMA device; load mlx5_ib"),
        ("unreachable", "it cannot be reached by agent: ssh: connect to host unreachable: No route to host"),
        ("empty", "there is no outriggerd on it; install Outrigger there, or name another by --dpu-daemon"),
        ("crashed", "out of memory"),
        ("mute", "no answer within 5 s; try: "),
    ],
)
@pytest.mark.slow
def test_if_one_cannot_be_had_none_is_used(site: Path, how: Way, name: str, reason: str) -> None:
    impatient = Way(how.agent, start_s=5 if name == "mute" else 60)
    with started(shares("bf1", name), impatient) as fleet:
        assert fleet.environment() == {}
        assert fleet.problem is not None and "\n" not in fleet.problem
        assert fleet.problem.startswith(f"DPU {name} of n1: {reason}")
        assert fleet.problem.endswith("; service processes run on the hosts instead")
        assert (site / "ended-bf1").exists()


def test_an_agent_that_is_killed_is_mentioned(site: Path, how: Way) -> None:
    with started(shares("bf1", "sulky"), how) as fleet:
        fleet.running[0].process.kill()
        fleet.running[0].process.wait(60)
        notes = fleet.notes()
    assert notes == ["DPU bf1: outriggerd dpu --services 0 or its launch agent has ended with signal 9"]
    assert [note.rpartition(" ended with ")[2] for note in fleet.notes()] == ["signal 9", "exit code 5"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("failed: port in use", "port in use"),
        ("ready", "which this version does not know"),
        ("ready protocol=3 endian=big port=1 services=0 cores=8", "its byte order is big, the hosts' is little"),
        ("ready protocol=3 endian=little port=0 services=0 cores=8", "listens on port 0"),
        ("ready protocol=x endian=little port=9 services=0 cores=8", "which this version does not know"),
    ],
)
def test_what_a_dpu_says_is_checked(line: str, reason: str) -> None:
    with pytest.raises(CannotStartError, match=reason):
        parse_ready(line)


def test_service_processes_for_ranks() -> None:
    by_itself, chosen = Ready(1, 3, 0, 8), Ready(1, 3, 2, 8)
    assert [by_itself.services_for(ranks, 8) for ranks in (1, 8, 9, 64, 128)] == [1, 1, 2, 8, 8]
    assert chosen.services_for(128, 8) == 2


def test_settings_are_checked(how: Way) -> None:
    environment = {"OUTRIGGER_INIT_TIMEOUT_MS": "1500"}
    assert way("agent", 4, environment, daemon="/o/d") == Way("agent", False, "/o/d", 4, 1.5)
    assert way("agent", None, {}, daemon="/x/y").words() == ["/x/y", "dpu", "--services", "0"]
    with pytest.raises(UserError, match=r"OUTRIGGER_INIT_TIMEOUT_MS=1s: write milliseconds"):
        way("agent", None, {"OUTRIGGER_INIT_TIMEOUT_MS": "1s"})


@pytest.mark.parametrize(
    ("reach", "allowed"),
    [
        ("", True), ("-copier", True), ("mapped,rdma", True), ("alias", True), ("-alias", True),
        ("-rdma", False), ("mapped,-rdma", False), ("mapped,cma", False), ("bounce", False),
    ],
)  # fmt: skip
def test_dpus_need_rdma(built: Artifacts, reach: str, allowed: bool) -> None:
    assert allows_dpus(built, {"OUTRIGGER_REACH": reach}) == allowed


def test_within_an_allocation_srun_starts_them() -> None:
    words = ["--nodelist=bf1", "--nodes=1", "--ntasks=1", "--overlap", "--cpu-bind=none", "/o/d", "dpu", "--services"]
    assert Way(slurm=True, daemon="/o/d", services=3).command("bf1") == ["srun", *words, "3"]


def test_a_drawing_says_what_runs_on_a_dpu() -> None:
    share = shares("bf1")[0]
    assert run.dpu_words(share, None, {"bf1": Ready(1, 3, 0, 8)}, 8) == "DPU bf1: 1 service process, 8 cores"
    assert run.dpu_words(share, 2, {}, 8) == "DPU bf1: 2 service processes"
    assert run.dpu_words(share, None, {}, 8) == "DPU bf1: one service process for 8 ranks, at most one a core"


@pytest.mark.parametrize("names", [("bf1",), ("bf1", "tcp", "broken", "bf3")], ids=("good", "bad"))
@pytest.mark.slow
def test_info_says_what_each_dpu_offers(site: Path, how: Way, names: tuple[str, ...]) -> None:
    (site / "dpus").write_text("\n".join(names))
    words = [sys.executable, "-m", "outrigger", "info", "--build", str(site / "build"), "--dpufile", str(site / "dpus")]
    words += ["--launch-agent", str(site / "agent")]
    table = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    lines = [line.split() for line in table.stdout.splitlines()]
    assert "rdma: registered memory is read into the DPU and written from there" in table.stdout
    assert f"● bf1 {HERE} rdma rc_mlx5/mlx5_0:1 2.1 µs 23.0 GB/s 8".split() in lines, table.stdout + table.stderr
    if names == ("bf1",):
        assert table.returncode == 0
        return
    assert table.returncode == 1
    for text in (
        "tcp: tcp/eth0 does not move memory by itself",
        "broken: no RDMA device; load mlx5_ib",
        "bf3: connection refused",
        "3 of 4 of no use; a job with one of them runs its service processes on the hosts.",
    ):
        assert text in table.stdout
    found = json.loads(subprocess.run([*words, "--json"], capture_output=True, timeout=60, check=False).stdout)
    assert [each["reach"] for each in found] == ["rdma", "none", "none", "none"]
    assert found[0]["bandwidth_bytes_per_s"] == 2.3e10 and found[2]["cores"] is None


def command(site: Path, *options: str, dpu: str = "bf1") -> list[str]:
    (site / "dpus").write_text(f"{dpu}\n")
    return [
        *(sys.executable, "-m", "outrigger", "run", "-n", "2", "--mpi", "openmpi", "--build", str(site / "build")),
        *("--hostfile", str(site / "hosts"), "--dpufile", str(site / "dpus"), "--launch-agent", str(site / "agent")),
        *(*options, "--", str(site / "job.sh")),
    ]


def start(site: Path, write_programs: Write, mpirun: str, *options: str, **settings: str) -> subprocess.Popen[str]:
    """The whole command with an mpirun that does as it is told."""
    version = "case $1 in --version) echo 'mpirun (Open MPI) 4.1.4'; exit ;; esac"
    write_programs({"mpiexec": f'{version}\necho "$*" >{site}/ranks\nenv >{site}/environment\n{mpirun}'})
    dpu = settings.pop("dpu", "bf1")
    return subprocess.Popen(
        command(site, *options, dpu=dpu),
        env={**os.environ, "PATH": f"{site}:/usr/bin:/bin", **settings},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def test_ranks_are_told_where_their_dpu_listens(site: Path, write_programs: Write) -> None:
    job = start(site, write_programs, f"[ ! -e {site}/ended-bf1 ] && exit 7")
    _, errors = job.communicate(timeout=60)
    assert job.returncode == 7, errors
    assert (site / "ended-bf1").exists()
    secret = (site / "secret-bf1").read_text().strip()
    environment = (site / "environment").read_text().splitlines()
    assert f"OUTRIGGER_DPUS={secret}@{HERE}=bf1:4711" in environment
    ranks = (site / "ranks").read_text()
    assert "-x OUTRIGGER_DPUS" in ranks and "exec --bind bunch --keep=none" in ranks
    assert secret not in ranks + (site / "command-bf1").read_text() + errors
    assert "service processes end" in errors


def test_a_job_whose_dpu_fails_runs_on_the_hosts(site: Path, write_programs: Write) -> None:
    job = start(site, write_programs, "exit 0", "--show-binding", dpu="broken")
    _, errors = job.communicate(timeout=60)
    assert job.returncode == 0, errors
    assert f"outrigger: DPU broken of {HERE}: no RDMA device; load mlx5_ib; service processes run on" in errors
    assert "OUTRIGGER_DPU" not in (site / "environment").read_text()
    assert "--keep=none" not in (site / "ranks").read_text() + (site / "placed").read_text()


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ((), {"OUTRIGGER_REACH": "-rdma"}),
        (("-x", "OUTRIGGER_REACH=-rdma"), {}),
        (("--reach", "mapped,cma"), {}),
        (("--native",), {}),
    ],
)
@pytest.mark.slow
def test_a_dpu_that_is_not_wanted_is_left_alone(
    site: Path, write_programs: Write, options: tuple[str, ...], settings: dict[str, str]
) -> None:
    job = start(site, write_programs, "exit 0", *options, **settings)
    _, errors = job.communicate(timeout=60)
    assert job.returncode == 0, errors
    assert not (site / "command-bf1").exists()
    assert "OUTRIGGER_DPUS" not in (site / "environment").read_text()


def test_a_dry_run_shows_what_would_be_started(site: Path, write_programs: Write) -> None:
    job = start(site, write_programs, "exit 1", "--dry-run", "--services", "3", "--show-binding")
    output, errors = job.communicate(timeout=60)
    assert job.returncode == 0, errors
    assert f"# for DPU bf1: echo SECRET | {site}/agent bf1 'outriggerd dpu --services 3'\n" in output
    assert f"OUTRIGGER_DPUS=SECRET@{HERE}=bf1:PORT" in output and "DPU bf1: 3 service processes" in output
    assert not (site / "command-bf1").exists()


@pytest.mark.parametrize(
    ("number", "everyone", "status"),
    [(signal.SIGINT, True, 130), (signal.SIGTERM, False, 143), (signal.SIGKILL, False, -signal.SIGKILL)],
    ids=("ctrl-c", "terminated", "killed"),
)
@pytest.mark.slow
def test_a_job_that_is_ended_leaves_nothing_on_its_dpu(
    site: Path, write_programs: Write, number: signal.Signals, everyone: bool, status: int
) -> None:
    """Nor its launcher."""
    job = start(site, write_programs, f"echo $$ >{site}/launcher; touch {site}/computing; exec sleep 600")
    assert appears(site / "computing", 60)
    (os.killpg if everyone else os.kill)(job.pid, number)
    assert job.wait(60) == status
    assert appears(site / "ended-bf1")
    launcher = Path("/proc") / (site / "launcher").read_text().strip()
    assert wait_until(lambda: not launcher.exists())
    job.communicate()


def threads_of(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("Threads:")))


def test_a_launcher_is_told_once_that_its_command_was_killed(site: Path, write_programs: Write) -> None:
    """The kernel reports the death once for each of the command's threads. The DPU's output still arrives, even if it
    is more than a pipe holds."""
    job = start(site, write_programs, f"touch {site}/computing; exec sleep 600", dpu="chatty")
    assert appears(site / "computing", 60)
    assert job.stderr is not None
    while job.stderr.readline() != "20000 words\n":
        assert job.poll() is None
    assert threads_of(job.pid) == 1
    job.kill()
    assert appears(site / "ended-chatty")
    job.communicate()
