"""Ranks on several nodes: what crosses them goes over the wire, and comes out the same.

The nodes are pretended ones of this machine, or hosts of a cluster on it. `pytest tests/mpi --pretend-nodes N`
and `--cluster N` run the other tests of this directory across nodes, too.
"""

import os
import signal
import time
from collections.abc import Iterator

import pytest
from conftest import Mpi, made
from hosts import Hosts
from test_languages import digests, expected

__all__ = ["expected"]  # a fixture

pytestmark = pytest.mark.one_machine

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
    assert result.report["nodes"] == nodes
    (use,) = result.report["wire"]
    assert use["kind"] in ("rdma", "messages") and "/" in use["transports"] and use["nodes"] == nodes


def test_wire_is_named(two_nodes):
    """By the report as a table, and by what OUTRIGGER_VERBOSE says; also where it was not used."""
    environment = {"OUTRIGGER_UCX_TLS": "tcp", "OUTRIGGER_REPORT": "-", "OUTRIGGER_VERBOSE": "1"}
    program = ["steady", "idle", "0"]  # one operation
    used = two_nodes.run(2, program, env=environment).ok().out
    assert "\nwire: messages (tcp/" in used and "outrigger: wire: messages (tcp/" in used, used
    unused = two_nodes.run(2, program, env=environment | {"OUTRIGGER_MIN_BYTES": "1000000"}).ok().out
    assert "\nwire: not used\n" in unused and "outrigger: wire: not used" in unused, unused


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


@pytest.fixture(scope="module")
def three_hosts() -> Iterator[Hosts]:
    with made(Hosts(3, f"nodes{os.getpid()}")) as hosts:
        yield hosts


@pytest.fixture
def on_hosts(offload: Mpi, three_hosts: Hosts) -> Mpi:
    offload.hosts = three_hosts
    return offload


def test_no_difference_between_hosts(on_hosts):
    program = ["differential", "--seed", "6000", "--operations", "60"]
    result = on_hosts.run(4, program, env={"OUTRIGGER_SERVICES": "2"}, timeout_s=100).ok()
    assert "no difference" in result.out
    assert wire_bytes(result) > 0, result.report


@pytest.mark.parametrize("language", ("c", "f08", "python"))
def test_languages_between_hosts(on_hosts, expected, language):
    assert digests(on_hosts, language, 1) == expected
