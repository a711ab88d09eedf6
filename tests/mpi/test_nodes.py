"""Ranks on several nodes: data between nodes goes over the wire, and arrives unchanged.

The nodes are pretended nodes of this machine, or hosts of a cluster on it. `pytest tests/mpi --pretend-nodes N` and
`--cluster N` run the other tests of this directory across nodes, too.
"""

import os
from collections.abc import Iterator

import pytest
from conftest import Mpi, Stopwatch, made, with_copiers
from hosts import Hosts
from test_languages import digests, expected

from outrigger import settings
from outrigger.artifacts import Artifacts

__all__ = ["expected"]  # a fixture

pytestmark = [pytest.mark.one_machine, pytest.mark.any_mpi]

LOST_WITHIN_S = 10.0

# nodes, ranks, operations, threads, environment of the ranks
CASES = [
    (2, 2, 150, 1, {}),
    (2, 4, 120, 1, {"OUTRIGGER_ALGORITHM": "ialltoall=scatter_dest,ialltoallv=scatter_dest"}),
    (2, 4, 100, 1, {"OUTRIGGER_SERVICES": "2", "OUTRIGGER_REACH": "bounce"}),
    (3, 5, 60, 1, {"OUTRIGGER_SERVICES": "2", "OUTRIGGER_ALGORITHM": "hierarchical"}),
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


@pytest.mark.parametrize("call", ("ibcast=hierarchical", "ibcast=flat", "iallgather=node_pull", "ialltoall=ring_pull"))
def test_a_late_rank_gets_what_it_needs_from_nodes_that_are_through(offload, call):
    """The last collective before MPI_Finalize: a node's service processes stay until all nodes' ranks have arrived."""
    offload.pretend_nodes = 4
    collective = call.partition("=")[0]
    result = offload.run(4, ["leave", collective, "3", "500"], env={"OUTRIGGER_ALGORITHM": call}).ok()
    assert result.out.count("has it") == 4, result.out
    assert result.offloaded() == 4
    offload.nothing_left()


@pytest.mark.parametrize("mpi", ("mpich",), indirect=True)  # the choice is the same under all
def test_blocking_forms_are_offloaded_where_that_pays(two_nodes):
    """Allgathers of large blocks between nodes of several ranks; all or none if the user asks for that."""

    def offloaded(size: int, env: dict[str, str]) -> int:
        program = [str(two_nodes.build / "bench" / "mpich" / "skew"), "--collectives", "allgather,alltoall"]
        program += ["--bytes", str(size), "--rounds", "2", "--skew-ms", "1", "--work-ms", "0"]
        return two_nodes.run(4, program, env=env).ok().offloaded()

    large, rounds = 256 << 10, 3  # one more than measured; besides, the program checks the nonblocking forms
    nonblocking = offloaded(large, {"OUTRIGGER_BLOCKING": "off"})
    assert offloaded(large, {}) == nonblocking + 4 * rounds
    assert offloaded(large - 1, {}) == nonblocking
    assert offloaded(1024, {"OUTRIGGER_BLOCKING": "on"}) >= nonblocking + 4 * 2 * rounds


TABLE = """
[[rule]]
collective = "ialltoall"
nodes = 2
bytes = "1-"
algorithm = "scatter_dest"

[[rule]]
collective = ["iallgather", "iallgatherv"]
ranks = "1-3"
algorithm = "hierarchical"

[[rule]]
collective = "ibcast"
algorithm = "native"
"""


def test_a_file_chooses_the_algorithms(two_nodes, tmp_path):
    """The report has the table's algorithms, by the shape of each communicator; others are as by default."""
    path = tmp_path / "table.toml"
    path.write_text(TABLE)
    environment = settings.make(Artifacts(two_nodes.build), algorithms=[str(path)]).environment()
    result = two_nodes.run(4, ["differential", "--seed", "77", "--operations", "60"], env=environment).ok()
    natives = 0
    used: dict[tuple[str, bool], set[str]] = {}
    for entry in result.report["collectives"]:
        assert sum(entry["algorithms"].values()) == entry["offloaded"]
        used.setdefault((entry["collective"], entry["size"] == 4), set()).update(entry["algorithms"])
        by_table = entry["native"].get("your rule", 0)
        assert by_table == 0 if entry["collective"] != "ibcast" else entry["offloaded"] == 0
        natives += by_table
    assert natives > 0
    assert "scatter_dest" in used["ialltoall", True]
    assert used["iallgather", True] | used["iallgatherv", True] == {"node_pull"}
    assert used["ialltoallv", True] == {"ring_pull"}
    smaller = used.get(("iallgather", False), set()) | used.get(("iallgatherv", False), set())
    assert smaller == {"hierarchical"}


def test_wire_is_named(two_nodes):
    """By the report and OUTRIGGER_LOG=info; also if the wire was not used."""
    environment = {"OUTRIGGER_UCX_TLS": "tcp", "OUTRIGGER_LOG": "info"}
    program = ["steady", "idle", "0"]  # one operation
    used = two_nodes.run(2, program, env=environment).ok()
    (wire,) = used.report["wire"]
    assert wire["kind"] == "messages" and wire["transports"].startswith("tcp/") and wire["nodes"] == 2
    assert "outrigger: wire: messages (tcp/" in used.out, used.out
    unused = two_nodes.run(2, program, env=environment | {"OUTRIGGER_ALGORITHM": "all:b-999999=native"}).ok()
    assert unused.report["wire"] == [] and "outrigger: wire: not used" in unused.out, unused.out


@pytest.mark.parametrize("language", ("c", "f08", "python"))
def test_languages(two_nodes, language):
    assert digests(two_nodes, language, 1) == digests(two_nodes, language, None)


def test_service_processes_of_a_node_are_killed(two_nodes):
    """More often than allowed; the job ends on both nodes, and the message names the process."""
    job = two_nodes.start(3, ["steady", "operations", "60"])
    job.wait_for("steady: ready")
    victim = two_nodes.kill_services_for_good()
    since = Stopwatch()
    result = job.wait(40)
    assert since.seconds() < LOST_WITHIN_S
    assert result.returncode != 0
    assert any("outrigger" in line and str(victim) in line for line in result.out.splitlines()), result.out
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


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="the service processes need a core of their own")
def test_ranks_of_other_hosts_on_the_same_core_are_let_post(on_hosts):
    """Containers, for example: a rank that computes after its post would delay others' posts by a time slice."""
    ranks_cpu = min(os.sched_getaffinity(0))
    result = on_hosts.run(3, ["yields", str(ranks_cpu)], env=with_copiers()).ok()
    assert result.offloaded() == 3
    # mpirun may print something, too
    said = sorted(line for line in result.out.splitlines() if line.startswith("rank "))
    assert said == [f"rank {rank} yields 1 times" for rank in range(3)]


@pytest.mark.parametrize("language", ("c", "f08", "python"))
def test_languages_between_hosts(on_hosts, expected, language):
    assert digests(on_hosts, language, 1) == expected
