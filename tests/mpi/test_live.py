"""A running job publishes late ranks and hidden time; one without counting publishes nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from conftest import Job, Mpi, Stopwatch, wait_until
from local_dpus import dpus
from proc_stat import stat_of

from outrigger.live import keepers
from outrigger.live.snapshot import Node, Row

LATE_MS, WORK_MS, RANKS = 100, 30, 3
COUNTS = {"OUTRIGGER_LIVE": "on", "OUTRIGGER_REPORT": ""}

pytestmark = [pytest.mark.one_machine, pytest.mark.parametrize("mpi", ("mpich",), indirect=True)]
"""The data are the same under every MPI."""


def nodes_of(job: Job) -> list[Node]:
    """Nodes whose ranks it has started."""
    group = job.process.pid
    return [node for node in keepers.read().nodes if all(_is_below(rank.pid, group) for rank in node.ranks)]


def _is_below(pid: int, ancestor: int) -> bool:
    while pid > 1 and pid != ancestor:
        stat = stat_of(pid)
        if stat is None:
            return False
        pid = stat.parent
    return pid == ancestor


def started(mpi: Mpi, env: dict[str, str]) -> Job:
    job = mpi.start(RANKS, ["watched", str(LATE_MS), str(WORK_MS)], env=env)
    job.wait_for("watched: goes on")
    return job


def all_to_alls(node: Node) -> dict[int, Row]:
    return {node.ranks[row.rank].world: row for row in node.rows if node.calls[row.call].name == "MPI_Ialltoall"}


def test_who_is_waited_for_and_what_is_hidden(offload: Mpi) -> None:
    job = started(offload, COUNTS)
    (node,) = nodes_of(job)
    rows = all_to_alls(node)
    assert sorted(rows) == [0, 1, 2] and node.world == RANKS and node.nodes == 1
    calls = min(row.offloaded for row in rows.values())
    late = [rows[rank].late_ns * 1e-6 / rows[rank].calls for rank in range(RANKS)]
    hidden = [rows[rank].hidden_ns * 1e-6 / rows[rank].calls for rank in range(RANKS)]
    assert calls >= 3
    assert late[2] > LATE_MS / 2 and max(late[:2]) < LATE_MS / 2, late
    # The operation of the last rank's call does not overlap with its work: all have their data as soon as it arrives.
    assert min(hidden[:2]) > 0.7 * WORK_MS and hidden[2] < 0.7 * WORK_MS, hidden
    assert rows[0].exposed_ns * 1e-6 / rows[0].calls > (LATE_MS - WORK_MS) / 2
    (service,) = node.services
    assert service.pid > 0 and service.ran_ns > 0 and service.restarts == 0
    os.kill(service.pid, signal.SIGKILL)

    def restarted() -> bool:
        services = [one for node in nodes_of(job) for one in node.services]
        return [one.restarts for one in services] == [1] and services[0].pid != service.pid

    assert wait_until(restarted, 30), nodes_of(job)
    done = max(row.calls for row in all_to_alls(nodes_of(job)[0]).values())

    def goes_on() -> bool:
        return all(row.calls > done for row in all_to_alls(nodes_of(job)[0]).values())

    assert wait_until(goes_on, 30), nodes_of(job)
    shown = subprocess.run(
        [sys.executable, "-m", "outrigger", "top", "--once"], capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "COLUMNS": "100"},
    )  # fmt: skip
    assert "MPI_Ialltoall" in shown.stdout and "rank 2" in shown.stdout, shown
    job.end_soon()
    job.wait(40).ok()
    assert not nodes_of(job)
    assert not (job.directory / "report.json").exists()


def test_several_nodes_are_one_job(offload: Mpi) -> None:
    job = started(offload, COUNTS | {"OUTRIGGER_PRETEND_NODES": "2"})
    nodes = nodes_of(job)
    assert sorted(node.node for node in nodes) == [0, 1] and len({node.job for node in nodes}) == 1
    rows = {rank: row for node in nodes for rank, row in all_to_alls(node).items()}
    late = [rows[rank].late_ns * 1e-6 / rows[rank].calls for rank in range(RANKS)]
    assert late[2] > LATE_MS / 3 and late[2] == max(late), late  # less by the latency of a message
    assert any(node.wire for node in nodes)
    first, second = sorted(nodes, key=lambda node: node.node)
    for node, other in ((first, second), (second, first)):
        (link,) = node.links
        assert link.node == other.node and link.name.startswith(other.host)
        wire = sum(count for row in node.rows for way, count in row.reached if node.reaches[way] == "wire")
        assert link.received == node.all_links.received >= wire > 0 and link.sent == node.all_links.sent > 0
    job.end_soon()
    job.wait(40).ok()


def test_what_dpus_count_reaches_their_hosts_keepers_and_outlives_them(offload: Mpi) -> None:
    offload.pretend_nodes = 2
    with dpus(offload, 2) as on_dpus:
        job = started(offload, COUNTS | on_dpus.told())
        for node in nodes_of(job):
            ((link,), dpu) = node.links, node.dpu
            wire = sum(count for row in node.rows for way, count in row.reached if node.reaches[way] == "wire")
            assert link.received == node.all_links.received >= wire > 0 and link.sent == node.all_links.sent > 0
            assert dpu.name and dpu.read > 0 and dpu.written >= wire, dpu
        (before,) = (node for node in nodes_of(job) if node.node == 0)
        on_dpus.running[0].send_signal(signal.SIGKILL)
        taken = "service processes on this node replace it"
        assert Stopwatch().sees(lambda: taken in job.text(), 12.0), job.text()
        (after,) = (node for node in nodes_of(job) if node.node == 0)
        assert after.dpu == before.dpu and after.services[0].pid > 0
        assert after.all_links.sent >= before.all_links.sent > 0
        job.end_soon()
        job.wait(40).ok()


_VISIT = """
import socket, sys
link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
link.settimeout(20)
link.connect(bytes.fromhex(sys.argv[1]))
try:
    print(len(link.recv(1 << 20)))
except ConnectionResetError:
    print(0)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_is_sent_away(offload: Mpi) -> None:
    """Not a byte, while root gets everything."""
    job = started(offload, COUNTS)
    (node,) = nodes_of(job)
    address = keepers.Keeper(node.job, node.keeper).address.hex()
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    told = []
    for who in (nobody, []):
        visit = [*who, "/usr/bin/python3", "-c", _VISIT, address]
        told.append(int(subprocess.run(visit, capture_output=True, text=True, timeout=60, check=True).stdout))
    assert told[0] == 0 < told[1]
    memory = [f"/proc/{node.keeper}/fd", f"/proc/{node.services[0].pid}/fd", f"/proc/{node.ranks[0].pid}/mem"]
    for path in memory:  # its segments have no other names
        read = subprocess.run([*nobody, "ls" if path.endswith("fd") else "cat", path], capture_output=True, timeout=60)
        assert read.returncode != 0 and b"Permission denied" in read.stderr, path
    job.end_soon()
    job.wait(40).ok()


def test_a_job_that_runs_natively_has_no_keeper_to_tell_of_it(offload: Mpi) -> None:
    job = offload.start(RANKS, ["watched", str(LATE_MS), str(WORK_MS)], env=COUNTS | {"OUTRIGGER_DAEMON": "/bin/false"})
    job.wait_for("watched: goes on")
    assert not nodes_of(job)
    job.end_soon()
    assert "running natively: " in job.wait(40).ok().out


def test_a_job_that_does_not_count_tells_nothing(offload: Mpi) -> None:
    job = started(offload, {"OUTRIGGER_REPORT": ""})
    assert not nodes_of(job)
    job.end_soon()
    job.wait(40).ok()
