"""Ranks on several nodes: what crosses them goes over the wire, and comes out the same.

The nodes are pretended ones of this machine, or hosts of a cluster on it. `pytest tests/mpi --pretend-nodes N` runs
every other test of this directory across nodes, too.
"""

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Mpi
from test_languages import digests

from outrigger.cluster import control
from outrigger.cluster.state import Spec
from outrigger.errors import UserError

CLUSTER = f"nodes{os.getpid()}"
LOST_WITHIN_S = 10.0

# nodes, ranks, operations, threads, environment of the ranks
CASES = [
    (2, 2, 150, 1, {}),
    (2, 4, 120, 1, {"OUTRIGGER_ALGORITHM": "ialltoall=scatter_dest,ialltoallv=scatter_dest"}),
    (2, 4, 100, 1, {"OUTRIGGER_SERVICES": "2", "OUTRIGGER_REACH": "bounce"}),
    (3, 5, 60, 1, {"OUTRIGGER_SERVICES": "2"}),
    (2, 3, 80, 2, {"OUTRIGGER_REACH": "mapped,bounce"}),
]


@pytest.fixture
def two_nodes(offload: Mpi) -> Mpi:
    offload.pretend_nodes = 2
    return offload


def wire_bytes(result) -> int:
    return sum(entry["bytes"]["wire"] for entry in result.report["collectives"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}nodes-{case[1]}ranks-{case[3]}threads")
def test_no_difference(offload, request, case):
    nodes, ranks, operations, threads, env = case
    offload.pretend_nodes = nodes
    seed = (request.config.getoption("--seed") or 5000) + CASES.index(case)
    program = ["differential", "--seed", str(seed), "--operations", str(operations), "--threads", str(threads)]
    result = offload.run(ranks, program, env=env, timeout_s=150).ok()
    assert "no difference" in result.out
    assert wire_bytes(result) > 0, result.report


@pytest.mark.parametrize("language", ("c", "f08", "python"))
def test_languages(two_nodes, language):
    assert digests(two_nodes, language, 1) == digests(two_nodes, language, None)


def test_service_process_is_killed(two_nodes):
    """One node loses its service process; the job ends on both, and the message says which it was."""
    job = two_nodes.start(3, ["steady", "operations", "60"])
    job.wait_for("steady: ready")
    victim = two_nodes.daemons("serve")[0]
    os.kill(victim.pid, signal.SIGKILL)
    since = time.monotonic()
    result = job.wait(40)
    assert time.monotonic() - since < LOST_WITHIN_S
    assert result.returncode != 0
    assert any("outrigger" in line and str(victim.pid) in line for line in result.out.splitlines()), result.out
    two_nodes.nothing_left()


def test_service_process_is_stopped(two_nodes):
    """One that is there and does nothing is as good as lost to the other node, which names it."""
    job = two_nodes.start(2, ["steady", "operations", "60"])
    job.wait_for("steady: ready")
    victim = two_nodes.daemons("serve")[-1]
    os.kill(victim.pid, signal.SIGSTOP)
    since = time.monotonic()
    result = job.wait(60)
    assert time.monotonic() - since < LOST_WITHIN_S
    assert result.returncode != 0
    assert "is lost" in result.out and "does not answer" in result.out, result.out
    two_nodes.nothing_left()


# --- on a cluster ---------------------------------------------------------------------------------------------------


@pytest.fixture
def cluster() -> Iterator[str]:
    try:
        control.up(Spec(nodes=2, rate_bits=1_000_000_000), CLUSTER)
    except UserError as error:
        pytest.skip(str(error))
    yield CLUSTER
    control.down(CLUSTER)


def launch(mpi: Mpi, ranks: int, program: list[str]) -> list[str]:
    """The command that runs a program of tests/mpi on both hosts, offloaded."""
    hosts = mpi.directory / "hosts"
    hosts.write_text(control.hostfile(slots=ranks // 2, mpi=mpi.name, name=CLUSTER))
    words = [str(mpi.programs / program[0]), *program[1:]]
    report = str(mpi.directory / "report.json")
    variables = {"LD_PRELOAD": str(mpi.library), "OUTRIGGER_REPORT": report, "OUTRIGGER_MIN_BYTES": "0"}
    if mpi.name == "openmpi":
        exports = [word for name, value in variables.items() for word in ("-x", f"{name}={value}")]
        start = ["mpirun.openmpi", "--hostfile", str(hosts), "--bind-to", "none", *exports]
    else:
        settings = [word for name, value in variables.items() for word in ("-genv", name, value)]
        start = ["mpiexec.mpich", "-f", str(hosts), *settings]
    script = (
        "import sys; from outrigger.cluster import control; sys.exit(control.execute('n0', sys.argv[2:], sys.argv[1]))"
    )
    return [sys.executable, "-c", script, CLUSTER, *start, "-n", str(ranks), *words]


def environment() -> dict[str, str]:
    return os.environ | {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_mpi_yield_when_idle": "1",
    }


def test_two_hosts(offload, cluster):
    if offload.name == "mpich":
        pytest.skip("MPICH 4.0 over TCP hangs in MPI_Finalize between hosts, natively")
    ranks = 4
    prefix = offload.directory / "over"
    command = launch(offload, ranks, ["alltoall_c", str(prefix)])
    result = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL
    )
    assert result.returncode == 0, result.stdout + result.stderr
    native = offload.directory / "native"
    offload.run(ranks, ["alltoall_c", str(native)], services=None).ok()
    for rank in range(ranks):
        mine, theirs = (hashlib.sha256(Path(f"{name}.{rank}").read_bytes()).digest() for name in (prefix, native))
        assert mine == theirs, f"rank {rank} differs"
    assert (offload.directory / "report.json").exists(), "nothing was offloaded\n" + result.stdout + result.stderr
    offload.nothing_left()


def test_a_link_is_cut(offload, cluster):
    """Both sides end our processes and their ranks, and say who is lost. What mpirun then does is its own affair."""
    output = offload.directory / "output"
    with output.open("wb") as out:
        process = subprocess.Popen(
            launch(offload, 2, ["steady", "operations", "60"]), env=environment(), stdin=subprocess.DEVNULL,
            stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 30
        while "steady: ready" not in output.read_text():
            assert time.monotonic() < deadline and process.poll() is None, output.read_text()
            time.sleep(0.05)
        control.set_link("n1", "down", CLUSTER)
        offload.nothing_left(LOST_WITHIN_S)
        assert "outrigger: node n1 is lost" in output.read_text(), output.read_text()
    finally:
        process.kill()
        process.wait()
