"""Blocking collectives that the ranks of a node do by themselves, through shared memory."""

import subprocess

import pytest
from test_sum_orders import politely

ALWAYS = {"OUTRIGGER_INTRANODE": "always"}
NEIGHBOR_CALLS = ("alltoall", "alltoallv", "alltoallw", "allgather", "allgatherv")
CALLS_BETWEEN_NODES = ("Barrier", "Bcast", "Reduce", "Allreduce", "Allgather", "Gather", "Scatter", "Alltoall")


def by_ranks(result) -> int:
    assert result.report is not None, result.out
    return sum(call["by_ranks"] for call in result.report["calls"])


@pytest.mark.parametrize("services", (0, 1))
@pytest.mark.parametrize("ranks", (2, 3, 4))
def test_no_difference(offload, ranks, services):
    program = ["intranode", "--seed", str(10 * ranks + services), "--operations", "400"]
    result = offload.run(ranks, program, services=services, env=ALWAYS, timeout_s=150).ok()
    assert "no difference" in result.out
    assert by_ranks(result) > 200 * ranks


@pytest.mark.parametrize(("ranks", "together"), ((4, 2), (9, 4), (16, 4)))
def test_two_levels_within_a_node(offload, ranks, together):
    """Short calls of ranks that pretend to share caches, and longer ones between them."""
    program = ["intranode", "--seed", str(ranks), "--operations", str(800 // ranks)]
    env = ALWAYS | politely(offload) | {"OUTRIGGER_PRETEND_CACHES": str(together)}
    result = offload.run(ranks, program, services=0, env=env, timeout_s=150).ok()
    assert "no difference" in result.out
    assert by_ranks(result) > 400


@pytest.mark.parametrize("ranks", (2, 4))
def test_neighbors(offload, ranks):
    """Grids and graphs, with parallel edges and edges of a rank to itself; blocks below and above direct copies."""
    program = ["neighbors", "--seed", str(ranks), "--operations", "100", "--blocking", "1"]
    env = ALWAYS | {"OUTRIGGER_BLOCKING": "off"}
    result = offload.run(ranks, program, services=1, env=env, timeout_s=150).ok()
    assert "no difference" in result.out
    for name in NEIGHBOR_CALLS:
        done = sum(call["by_ranks"] for call in result.report["calls"] if call["call"] == f"MPI_Neighbor_{name}")
        assert done > 10, result.report


@pytest.mark.parametrize("ranks", (2, 4))
@pytest.mark.parametrize("way", ("always", "on"))
def test_lists_that_change_in_place(offload, ranks, way):
    program = [str(offload.programs / "repeated_lists"), str(ranks)]
    result = offload.run(ranks, program, env={"OUTRIGGER_INTRANODE": way}, services=0).ok()
    assert "all blocks are right" in result.out


@pytest.mark.parametrize("ranks", (2, 3))
def test_longer_lists_are_tried_again(offload, ranks):
    """Each size has a trial of its own, of 11 native calls on each rank, whatever that of short blocks has shown."""
    result = offload.run(ranks, ["longer_blocks"], env={"OUTRIGGER_INTRANODE": "on"}, services=0, timeout_s=100).ok()
    assert "all blocks are right" in result.out
    for call in ("MPI_Gatherv", "MPI_Scatterv", "MPI_Alltoallv", "MPI_Alltoallw"):
        (row,) = (row for row in result.report["calls"] if row["call"] == call)
        # Ranks that share cores try rows of such calls, too: 11 of 48 calls natively.
        most = 30 if call.startswith("MPI_Alltoall") else 30 + 11 * 48
        assert 22 * ranks <= row["native"]["in trials"] < most * ranks, row


@pytest.mark.parametrize("mpi", ("openmpi",), indirect=True)  # MPICH 4.0 then hangs in MPI_Finalize, natively, too
@pytest.mark.parametrize("call", ("process_vm_readv", "process_vm_writev"))
def test_without_direct_copies(offload, call):
    refuse = offload.build / "tests" / "mpi" / "seccomp" / "refuse"
    if subprocess.run([refuse, "EPERM", call, "true"], check=False, capture_output=True).returncode == 77:
        pytest.skip("this system installs no seccomp filters")
    program = [str(refuse), "EPERM", call, str(offload.programs / "intranode"), "--seed", "8", "--operations", "200"]
    result = offload.run(3, program, services=0, env=ALWAYS, timeout_s=150).ok()
    assert "no difference" in result.out
    assert by_ranks(result) > 300


@pytest.mark.parametrize("mpi", ("openmpi",), indirect=True)  # MPICH 4.0 then hangs in MPI_Finalize, natively, too
def test_a_sandbox_in_the_middle(offload):
    """It would kill ranks that copy directly, or that meet in another communicator."""
    of_mpi = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none"}  # nor may the MPI
    result = offload.run(3, ["sandboxed"], services=0, env=ALWAYS | of_mpi, timeout_s=60)
    if result.returncode == 77:
        pytest.skip("this system installs no seccomp filters")
    assert result.ok().out.count("all right") == 3
    assert by_ranks(result) >= 3 * 80


@pytest.mark.parametrize("services", (0, 1))
def test_trials_change_nothing(offload, services):
    program = ["intranode", "--seed", "3", "--operations", "1500", "--duplicates", "5"]
    env = {"OUTRIGGER_INTRANODE": "on"}
    result = offload.run(2, program, services=services, env=env, timeout_s=150).ok()
    assert "no difference" in result.out
    assert by_ranks(result) > 100


@pytest.mark.parametrize("nodes", ("1", "2"))
def test_communicators_come_and_go(offload, nodes):
    program = ["intranode", "--seed", "5", "--operations", "40", "--duplicates", "140"]
    env = ALWAYS | {"OUTRIGGER_PRETEND_NODES": nodes}
    result = offload.run(3, program, services=0, env=env, timeout_s=150).ok()
    assert "no difference" in result.out
    assert by_ranks(result) > 1000


@pytest.mark.parametrize(("ranks", "nodes"), ((2, 1), (3, 2)))
def test_threads(offload, ranks, nodes):
    program = ["intranode", "--seed", "6", "--operations", "200", "--threads", "3"]
    env = ALWAYS | {"OUTRIGGER_PRETEND_NODES": str(nodes), "OUTRIGGER_BLOCKING": "off"}
    result = offload.run(ranks, program, services=1, env=env, timeout_s=150).ok()
    assert "no difference" in result.out


def test_trials_between_nodes_change_nothing(offload):
    program = ["intranode", "--seed", "4", "--operations", "1000"]
    env = {"OUTRIGGER_INTRANODE": "on", "OUTRIGGER_PRETEND_NODES": "2"}
    result = offload.run(4, program, services=0, env=env, timeout_s=200).ok()
    assert "no difference" in result.out
    assert by_ranks(result) > 50
    assert "in trials" in {reason for call in result.report["calls"] for reason in call["native"]}


@pytest.mark.parametrize("services", (0, 1))
def test_on_by_default(offload, services):
    """After the first calls and the trials."""
    program = ["intranode", "--seed", "3", "--operations", "1500"]
    result = offload.run(2, program, services=services, timeout_s=150).ok()
    assert by_ranks(result) > 100
    reasons = {reason for call in result.report["calls"] for reason in call["native"]}
    assert {"too few calls", "in trials"} <= reasons


def test_switched_off(offload):
    env = {"OUTRIGGER_INTRANODE": "off"}
    result = offload.run(2, ["intranode", "--operations", "50"], services=0, env=env, timeout_s=100).ok()
    assert by_ranks(result) == 0


@pytest.mark.parametrize("services", (0, 1))
@pytest.mark.parametrize(("ranks", "nodes"), ((2, 1), (3, 2)))
def test_the_info_key_switches_it_off_and_on(offload, services, ranks, nodes):
    env = ALWAYS | {"OUTRIGGER_PRETEND_NODES": str(nodes), "OUTRIGGER_BLOCKING": "off"}
    result = offload.run(ranks, ["switched_off"], services=services, env=env, timeout_s=100).ok()
    calls = [call for call in result.report["calls"] if call["call"] == "MPI_Allreduce"]
    found = {call["communicator"]: (call["by_ranks"], call["calls"]) for call in calls}
    calls_of = {"off": (0, 1), "inherited": (0, 1), "on": (1, 1), "changed": (2, 3)}
    assert found == {name: (100 * ranks * done, 100 * ranks * made) for name, (done, made) in calls_of.items()}


@pytest.mark.any_mpi
@pytest.mark.parametrize("services", (0, 1))
@pytest.mark.parametrize(("ranks", "nodes"), ((3, 2), (4, 2), (5, 3)))
def test_two_levels_between_nodes(offload, ranks, nodes, services):
    """Nodes of one and two ranks. Ranks of a node are not neighbors in each communicator."""
    program = ["intranode", "--seed", str(10 * ranks + services), "--operations", "250", "--duplicates", "10"]
    env = ALWAYS | {"OUTRIGGER_PRETEND_NODES": str(nodes), "OUTRIGGER_BLOCKING": "off"}
    env["OUTRIGGER_SUMS"] = "any" if services else "native"  # floating-point numbers, too
    result = offload.run(ranks, program, services=services, env=env, timeout_s=200).ok()
    assert "no difference" in result.out
    done = {call["call"] for call in result.report["calls"] if call["by_ranks"] > 10}
    assert done == {f"MPI_{name}" for name in CALLS_BETWEEN_NODES}, result.report


def test_pretended_nodes_share_no_memory(offload):
    """Each rank is a node: nothing can be done by ranks."""
    env = ALWAYS | {"OUTRIGGER_PRETEND_NODES": "2"}
    result = offload.run(2, ["intranode", "--operations", "50"], services=1, env=env, timeout_s=100).ok()
    assert "no difference" in result.out
    assert by_ranks(result) == 0


DIFFER = ("other_collective", "other_root", "other_roots_of_gather", "other_size", "other_way")
LENGTHS = ("longer_gatherv", "shorter_alltoallv")


@pytest.mark.any_mpi
@pytest.mark.parametrize("fault", DIFFER + LENGTHS)
def test_calls_that_differ_end_with_a_message(offload, fault):
    """Rank 2 makes another call than ranks 0 and 1."""
    result = offload.run(3, ["team_faults", fault], services=0, env=ALWAYS, timeout_s=40)
    assert result.returncode != 0
    assert "on a communicator of 3 ranks failed: the ranks' calls differ: rank" in result.out, result.out


@pytest.mark.any_mpi
@pytest.mark.parametrize("fault", ("other_collective", "other_root", "other_size", "other_way"))
def test_calls_that_differ_on_a_node_of_several_end_with_a_message(offload, fault):
    """Ranks 2 and 3 are a node."""
    env = ALWAYS | {"OUTRIGGER_PRETEND_NODES": "2"}
    result = offload.run(4, ["team_faults", fault], services=0, env=env, timeout_s=40)
    assert result.returncode != 0
    assert "on a communicator of 4 ranks failed: the ranks' calls differ: rank" in result.out, result.out


@pytest.mark.parametrize(
    ("fault", "error"),
    (("other_root", "MPI_ERR_OTHER"), ("other_size", "MPI_ERR_TRUNCATE"), ("longer_gatherv", "MPI_ERR_TRUNCATE")),
)
def test_errors_go_to_the_communicators_handler(offload, fault, error, tmp_path):
    said = tmp_path / "said"
    env = ALWAYS | {"TEAM_FAULTS_FILE": str(said)}
    result = offload.run(3, ["team_faults", fault, "returns"], services=0, env=env, timeout_s=40)
    assert result.returncode != 0
    assert f": {error}" in said.read_text(), result.out


@pytest.mark.parametrize("services", (0, 1))
@pytest.mark.parametrize("fault", ("killed", "aborted", "exited"))
def test_a_rank_that_ends_ends_the_job(offload, fault, services):
    """As without the library. offload.run() checks that nothing is left behind."""
    result = offload.run(3, ["team_faults", fault], services=services, env=ALWAYS, timeout_s=40)
    assert result.returncode != 0 or fault == "exited"  # MPICH's launcher takes that for success


@pytest.mark.parametrize("fault", ("killed", "aborted"))
def test_a_rank_that_ends_ends_the_job_on_several_nodes(offload, fault):
    env = ALWAYS | {"OUTRIGGER_PRETEND_NODES": "2"}
    result = offload.run(4, ["team_faults", fault], services=0, env=env, timeout_s=40)
    assert result.returncode != 0


@pytest.mark.parametrize(("ranks", "verbose"), ((2, False), (2, True), (4, True)))
def test_a_late_rank_is_no_error(offload, ranks, verbose):
    """Four ranks are in two levels: the leader of the late rank waits, and is not the one to be named."""
    env = (
        ALWAYS
        | ({"OUTRIGGER_LOG": "info"} if verbose else {})
        | ({"OUTRIGGER_PRETEND_CACHES": "2"} if ranks > 2 else {})
    )
    result = offload.run(ranks, ["team_faults", "late"], services=0, env=env, timeout_s=60).ok()
    said = f" s in MPI_Allreduce of 256 bytes for rank {ranks - 1} of its communicator"
    assert (said in result.out) == verbose, result.out
