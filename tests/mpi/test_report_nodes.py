"""Reports of jobs on several nodes that end without MPI_Finalize have all ranks, and the cause of the end."""

import signal

import pytest
from conftest import Mpi
from test_report import RANKS, final_report, named

pytestmark = [pytest.mark.one_machine, pytest.mark.any_mpi]


@pytest.fixture
def two_nodes(offload: Mpi) -> Mpi:
    """Ranks 0 and 1 on the first, rank 2 on the other."""
    offload.pretend_nodes = 2
    return offload


@pytest.mark.parametrize("rank", (1, 2))
@pytest.mark.parametrize(
    ("end", "how", "code", "number"),
    [
        (("abort", "7"), "aborted", 7, None),
        (("signal", "11"), "signal", None, signal.SIGSEGV),
        (("exit", "5"), "exited", 5, None),
    ],
)
def test_all_ranks_are_counted(two_nodes: Mpi, rank: int, end, how, code, number) -> None:
    """Also if the job is ended by a rank of the node that does not write the report."""
    job = two_nodes.start(RANKS, ["counted", "end", *end], env={"TEST_RANK": str(rank)})
    job.wait(40)
    two_nodes.nothing_left()
    found = final_report(job.directory)
    assert (found.nodes, found.counted_ranks) == (2, ((0, RANKS - 1),))
    assert (found.ended.how, found.ended.code, found.ended.signal, found.ended.rank) == (how, code, number, rank)
    assert named(found, "MPI_Allreduce").calls == 3 * RANKS
    assert {service.node for service in found.services} == {0, 1}


def test_the_node_whose_service_processes_died_says_why(two_nodes: Mpi) -> None:
    job = two_nodes.start(RANKS, ["steady", "operations", "60"])
    job.wait_for("steady: ready")
    two_nodes.kill_services_for_good()
    job.wait(40)
    two_nodes.nothing_left()
    found = final_report(job.directory)
    assert found.ended.how == "ended" and "signal 9" in found.ended.text, found.ended
    assert found.counted_ranks == ((0, RANKS - 1),)
