"""`outrigger run`: where a job goes, from hosts, files and an allocation; and what is wrong with them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

import pytest

from outrigger import hosts, linked, report
from outrigger.artifacts import Artifacts
from outrigger.errors import UserError
from outrigger.hosts import Hosts, Where, find_where
from outrigger.launch import Variables
from outrigger.run import Request, parse_variables
from outrigger.settings import Settings

HERE = socket.gethostname()
ALLOCATED = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2],bf[1-2]", "SLURM_JOB_CPUS_PER_NODE": "2(x4)"}


def program(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files to name, and an ssh, a scontrol and an srun first on PATH."""
    (tmp_path / "hosts").write_text("n1:2\nn2:2\n")
    (tmp_path / "dpus").write_text("bf1\nbf2\n")
    (tmp_path / "one").write_text("bf1\n")
    (tmp_path / "here").write_text(f"{HERE}:4\n")
    program(tmp_path / "ssh", "exit 1")
    program(tmp_path / "scontrol", "printf 'n1\\nn2\\nbf1\\nbf2\\n'")
    program(tmp_path / "srun", "printf 'plugins:\\n\\tpmi2\\n\\tpmix\\n'")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def placed(where: Where) -> list[tuple[str, int, int]]:
    return [(share.host.name, share.first, share.ranks) for share in where.shares]


def test_without_hosts_all_is_here() -> None:
    assert find_where(Hosts(), 4, "openmpi", {}) == Where()


@pytest.mark.parametrize("name", ["PBS_NODEFILE", "LSB_DJOB_HOSTFILE"])
def test_a_batch_job_has_its_hosts(files: Path, name: str) -> None:
    """A line for each slot. Alone, this machine knows its cores better."""
    (files / "nodes").write_text("n1\nn1\nn2\nn2\n")
    where = find_where(Hosts(), 3, "mpich", {name: str(files / "nodes")})
    assert placed(where) == [("n1", 0, 2), ("n2", 2, 1)]
    (files / "nodes").write_text(f"{HERE}\n{HERE}\n")
    assert find_where(Hosts(), 3, "mpich", {name: str(files / "nodes")}) == Where()
    assert placed(find_where(Hosts(files / "hosts"), 3, "mpich", {name: "nowhere"})) == [("n1", 0, 2), ("n2", 2, 1)]
    with pytest.raises(UserError, match=f"{name} nowhere: No such file"):
        find_where(Hosts(), 3, "mpich", {name: "nowhere"})


def test_hosts_of_a_file_with_their_dpus(files: Path) -> None:
    where = find_where(Hosts(files / "hosts", files / "dpus"), 3, "mpich", {})
    assert placed(where) == [("n1", 0, 2), ("n2", 2, 1)]
    assert [share.dpu for share in where.shares] == ["bf1", "bf2"]
    assert hosts.dpu_shares(where, allowed=True) == where.shares
    assert hosts.dpu_shares(where, allowed=False) == hosts.dpu_shares(Where(), allowed=True) == ()


def test_open_mpi_begins_with_the_host_it_runs_on(files: Path) -> None:
    (files / "hosts").write_text(f"n1:2\n{HERE}:1\n")
    assert placed(find_where(Hosts(files / "hosts"), 3, "openmpi", {})) == [(HERE, 0, 1), ("n1", 1, 2)]
    assert placed(find_where(Hosts(files / "hosts"), 3, "mpich", {})) == [("n1", 0, 2), (HERE, 2, 1)]


def test_an_allocation_is_used_with_srun(files: Path) -> None:
    where = find_where(Hosts(dpu_pattern="^bf"), 4, "openmpi", ALLOCATED)
    assert where.slurm
    assert where.mpi_type == "pmix"
    assert placed(where) == [("n1", 0, 2), ("n2", 2, 2)]
    assert [share.dpu for share in where.shares] == ["bf1", "bf2"]
    assert not where.as_allocated


def test_an_allocation_as_slurm_planned_it(files: Path) -> None:
    """All of its nodes with all of their slots."""
    assert find_where(Hosts(), 8, "mpich", ALLOCATED).as_allocated
    assert not find_where(Hosts(), 7, "mpich", ALLOCATED).as_allocated


def test_in_an_allocation_a_hostfile_means_mpiexec(files: Path) -> None:
    where = find_where(Hosts(files / "hosts"), 4, "openmpi", ALLOCATED)
    assert not where.slurm
    assert find_where(Hosts(files / "hosts", launcher="srun"), 4, "openmpi", ALLOCATED).slurm


def test_mpiexec_starts_ranks_on_the_hosts_of_an_allocation(files: Path) -> None:
    program(files / "agent", "")
    where = find_where(Hosts(launcher="mpiexec", agent="agent"), 4, "mpich", ALLOCATED)
    assert where == Where(where.shares, "agent")
    assert placed(where) == [("n1", 0, 2), ("n2", 2, 2)]
    with_dpus = find_where(Hosts(launcher="mpiexec", agent="agent", dpu_pattern="^bf"), 4, "mpich", ALLOCATED)
    assert [share.dpu for share in with_dpus.shares] == ["bf1", "bf2"]


def test_mpiexec_uses_the_file_rather_than_the_allocation(files: Path) -> None:
    where = find_where(Hosts(files / "here", launcher="mpiexec"), 4, "mpich", ALLOCATED)
    assert placed(where) == [(HERE, 0, 4)]


@pytest.mark.parametrize(
    ("hosts", "environment", "message"),
    [
        (Hosts(Path("hosts")), {}, "-n 9: the 2 hosts have 4 slots; name more hosts or slots, or"),
        (Hosts(Path("missing")), {}, "--hostfile missing: No such file"),
        (Hosts(Path("hosts"), Path("one")), {}, "--dpufile one: 1 DPUs for 2 hosts"),
        (Hosts(dpufile=Path("dpus")), {}, "--dpufile: its DPUs belong to the hosts of a --hostfile"),
        (
            Hosts(Path("hosts"), dpu_pattern="bf"),
            {},
            "--dpu-pattern finds DPUs in a Slurm allocation, and this is none",
        ),
        (Hosts(Path("hosts"), Path("dpus"), "bf"), ALLOCATED, "--dpufile and --dpu-pattern both name DPUs"),
        (Hosts(launcher="srun"), {}, "--launcher srun: this is no Slurm allocation"),
        (Hosts(launcher="rsh"), {}, "--launcher rsh: there are auto, mpiexec, srun"),
        (Hosts(Path("here"), launcher="srun"), ALLOCATED, "is not in the allocation of Slurm job 7"),
        (Hosts(Path("hosts"), oversubscribe=True, agent="nobody"), {}, "--launch-agent nobody: nobody is no program"),
        (Hosts(pretend_nodes=0), {}, "--pretend-nodes 0: from 1 to 9"),
        (Hosts(pretend_nodes=10), {}, "--pretend-nodes 10: from 1 to 9"),
        (Hosts(Path("hosts"), oversubscribe=True, pretend_nodes=2), {}, "it splits the ranks of one host, but the job"),
    ],
)
def test_what_cannot_be_is_said(
    files: Path, monkeypatch: pytest.MonkeyPatch, hosts: Hosts, environment: dict[str, str], message: str
) -> None:
    monkeypatch.chdir(files)
    with pytest.raises(UserError) as raised:
        find_where(hosts, 9, "openmpi", environment)
    assert message in str(raised.value)


def test_a_host_that_ssh_does_not_know_is_named(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str, _port: None) -> list[str]:
        if name == "192.0.2.1":
            return [name]
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    program(files / "ssh", 'echo "hostname $2"')
    with pytest.raises(UserError, match=r"^host n1 is unknown \(Name or service not known\); correct the name in"):
        find_where(Hosts(files / "hosts"), 4, "mpich", {})
    program(files / "agent", "")
    find_where(Hosts(files / "hosts", agent="agent"), 4, "mpich", {})  # what else starts commands may know it
    for known in ("hostname 192.0.2.1", "hostname n1\nproxyjump gate"):
        program(files / "ssh", f"printf '{known}\\n'")
        find_where(Hosts(files / "hosts"), 4, "mpich", {})


def test_variables() -> None:
    found = parse_variables(["A=1=2", "B=", "PATH"])
    assert found == Variables({"A": "1=2", "B": ""}, ("PATH",))


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("1A=2", "'1A' is not the name of a variable"),
        ("", "''"),
        ("NOT_SET_ANYWHERE", "write -x NOT_SET_ANYWHERE=VALUE"),
    ],
)
def test_what_is_no_variable_is_named(word: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_variables([word])


def test_ranks_are_started_through_srun(files: Path, built: Artifacts) -> None:
    """And service processes on their hosts' DPUs, by an srun that shows how it was called."""
    log = files / "called"
    program(
        files / "srun",
        f"""case "$*" in
        --mpi=list) printf "\\tpmi2\\n\\tpmix\\n" ;;
        *" outriggerd dpu "*)
            echo "$*" >{log}.$1
            echo "outriggerd: dpu ready protocol=3 endian=little port=${{1#--nodelist=bf}}000 services=0 cores=8"
            cat >/dev/null ;;
        *) echo "$OUTRIGGER_DAEMON ${{OUTRIGGER_DPUS#*@}} | $*" >{log} ;;
        esac""",
    )
    build = files / "build"
    for name in ("bin/outriggerd", "lib/liboutrigger-openmpi.so"):
        (build / name).parent.mkdir(parents=True, exist_ok=True)
        told = '{"version":1,"cores":[],"ranks":[],"services":[],"service_cpus":[]}'
        program(build / name, f"case $1 in tables | launch) exec {built.daemon} \"$@\" ;; esac\necho '{told}'")
    program(files / "mpirun.openmpi", "echo 'mpirun (Open MPI) 4.1.4'")
    program(files / "job.sh", "true")
    result = subprocess.run(
        [
            *(sys.executable, "-m", "outrigger", "run", "-n", "4", "--mpi", "openmpi", "--build", str(build)),
            *("--dpu-pattern", "bf", "--", str(files / "job.sh"), "x y"),
        ],
        env={**os.environ, **ALLOCATED}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    dpu = "--nodelist=bf2 --nodes=1 --ntasks=1 --overlap --cpu-bind=none outriggerd dpu --services 0\n"
    assert Path(f"{log}.--nodelist=bf2").read_text() == dpu
    assert log.read_text() == (
        f"{build}/bin/outriggerd n1=bf1:1000,n2=bf2:2000 | "
        f"--ntasks=4 --nodes=2 --nodelist=n1,n2 --distribution=block --ntasks-per-node=2 "
        f"--kill-on-bad-exit=1 --cpu-bind=none --export=ALL --mpi=pmix {build}/bin/outriggerd exec --bind bunch "
        f"--keep=none --preload {build}/lib/liboutrigger-openmpi.so -- {files}/job.sh x y\n"
    )


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def started(tmp_path: Path, write_programs: Callable[[Mapping[str, str]], None]) -> Run:
    """`outrigger run` with these options; the script that is given takes mpiexec's place."""

    def run(
        mpiexec: str, *options: str, stdout: IO[str] | int = subprocess.PIPE, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        version = 'case $1 in --version) echo "HYDRA build details:"; echo "Version: 4.0.2"; exit ;; esac'
        placement = '{"version":1,"cores":[],"ranks":[],"services":[],"service_cpus":[]}'
        write_programs(
            {
                "bin/outriggerd": f"echo '{placement}'",
                "lib/liboutrigger-mpich.so": "",
                "mpi/bin/mpiexec": f"{version}\n{mpiexec}",
            }
        )
        words = ["run", "--build", str(tmp_path), "--mpi", str(tmp_path / "mpi"), *options, "--", "true"]
        return subprocess.run(
            [sys.executable, "-m", "outrigger", *words],
            env={**os.environ, **environment}, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=60,
            check=False,
        )  # fmt: skip

    return run


@pytest.mark.parametrize("option", ["--report-to", "--trace"])
@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("/proc/x.json", "cannot write in /proc"),
        ("/none/x.json", "there is no directory /none"),
        ("here.json", "that is a directory"),
    ],
)
def test_nothing_starts_where_its_files_cannot_be_written(
    tmp_path: Path, started: Run, option: str, place: str, message: str
) -> None:
    (tmp_path / "here.json").mkdir()
    result = started(f"touch {tmp_path}/called", option, str(tmp_path / place))
    assert result.returncode == 2 and f"{option} {tmp_path / place}: {message}" in result.stderr, result.stderr
    assert not (tmp_path / "called").exists()


def test_the_exit_code_is_the_programs_whatever_cannot_be_written(tmp_path: Path, started: Run) -> None:
    place = tmp_path / "place"
    place.mkdir()
    kept = tmp_path / "report.json"
    # The directory has gone at the end: the trace is lost, the report is not.
    result = started(f"rm -r {place}; exit 3", "--report-to", str(kept), "--trace", str(place / "trace.json"))
    assert result.returncode == 3, result.stderr
    assert f"there is no trace {place / 'trace.json'}" in result.stderr
    assert '"code": 3' in kept.read_text()
    place.mkdir()
    result = started(f"rm -r {place}; exit 3", "--report-to", str(place / "report.json"))
    assert result.returncode == 3, result.stderr
    assert f"the report {place / 'report.json'} cannot be written: No such file or directory" in result.stderr


def test_live_data_need_a_process_that_publishes_them(started: Run) -> None:
    result = started("true", "--live", "--native")
    assert result.returncode == 2 and "--live: " in result.stderr and "--native leaves out" in result.stderr
    with pytest.raises(UserError, match=r"--live: .* --services 0 leaves out"):
        Request(
            program=("true",), ranks=2, mpi="auto", settings=Settings(services=0, live=True), hosts=Hosts(), bind="auto"
        ).check()


def test_a_report_and_a_trace_are_two_files(tmp_path: Path, started: Run) -> None:
    result = started("true", "--trace", str(tmp_path / "one.json"), "--report-to", str(tmp_path / "." / "one.json"))
    assert result.returncode == 2 and "name one file; give each its own" in result.stderr, result.stderr


def test_a_full_disk_does_not_change_the_exit_code(started: Run) -> None:
    with Path("/dev/full").open("w") as full:
        result = started("exit 3", "--report", stdout=full)
    assert result.returncode == 3 and "cannot write: No space left on device" in result.stderr, result.stderr
    assert "Traceback" not in result.stderr


def test_output_to_a_full_disk_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "outrigger", "info"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1 and done.stderr == "outrigger: cannot write: No space left on device\n"


@pytest.mark.parametrize("by", ["option", "variable", "-x"])
def test_without_service_processes_no_core_is_kept(
    by: str, built: Artifacts, tmp_path: Path, write_programs: Callable[[Mapping[str, str]], None]
) -> None:
    write_programs({"mpi/bin/mpiexec": 'echo "HYDRA build details:"; echo "Version: 4.0.2"'})
    words = {"option": ["--services", "0"], "-x": ["-x", "OUTRIGGER_SERVICES=0"], "variable": []}[by]
    variables = {"OUTRIGGER_SERVICES": "0"} if by == "variable" else {}
    build = str(built.daemon.parents[1])
    command = ["run", "--build", build, "--mpi", str(tmp_path / "mpi"), *words, "--show-binding", "--dry-run", "--"]
    done = subprocess.run(
        [sys.executable, "-m", "outrigger", *command, "true"],
        env={**os.environ, **variables}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "--keep=none" in done.stdout and "no service process, " in done.stdout and "SP0" not in done.stdout


def test_settings_that_the_library_refuses_do_not_count(built: Artifacts) -> None:
    refused = {"OUTRIGGER_SERVICES": "99999", "OUTRIGGER_CHOICE": "best"}
    assert Settings(services=2).as_in(refused, built) == Settings(services=2)
    assert Settings().as_in({"OUTRIGGER_CHOICE": "fixed"}, built) == Settings(choice="fixed")
    assert Settings().as_in({"OUTRIGGER_COPY_CPUS": "6,7"}, built) == Settings(copy_cpus="6,7")


def test_a_script_without_its_interpreter_is_named(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter -x\n")
    script.chmod(0o755)
    with pytest.raises(UserError, match="its first line names /no/such/interpreter, which does not exist"):
        linked.find_program(str(script))


def test_a_trace_has_the_name_of_json(tmp_path: Path, started: Run) -> None:
    result = started("true", "--trace", str(tmp_path / "t.txt"))
    assert result.returncode == 2 and "t.txt: a trace is written as JSON" in result.stderr, result.stderr


def test_a_report_of_an_earlier_job_is_not_shown(
    tmp_path: Path, started: Run, write_programs: Callable[[Mapping[str, str]], None]
) -> None:
    """With hosts, too, of which this one is not among."""
    kept, others = tmp_path / "report.json", tmp_path / "hosts"
    kept.write_text('{"version": 1, "of": "an earlier job"}')
    others.write_text("there:1\n")
    write_programs({"agent": "exit 0"})
    agent = ("--hostfile", str(others), "--launch-agent", str(tmp_path / "agent"))
    result = started("exit 3", "--report", "--report-to", str(kept), *agent)
    assert result.returncode == 3 and "there is no report" in result.stderr, result.stderr
    assert not kept.exists()


def test_a_hostfile_of_this_host_alone_is_a_job_of_this_host(tmp_path: Path, started: Run) -> None:
    kept, here = tmp_path / "report.json", tmp_path / "hosts"
    here.write_text(f"{HERE}:1\n")
    result = started("exit 3", "--report-to", str(kept), "--hostfile", str(here))
    assert result.returncode == 3, result.stderr
    written = report.read(kept)
    assert written.ended.code == 3 and written.run is not None and "--hostfile" in written.run.command
