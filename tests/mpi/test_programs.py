"""Programs that must behave as natively: rendezvous, leaks, threads, unusual programs, errors."""

import pytest
from conftest import with_copiers

from outrigger.bench import harm, harm_calls, never_slower_cells, skew

# The native MPI without a single-copy mechanism: a sender must be inside MPI for a large message to move.
SLOW_RENDEZVOUS = {
    "openmpi": {
        "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
        "OMPI_MCA_smsc": "^cma,knem,xpmem",  # Open MPI 5
        "OMPI_MCA_pml": "ob1",
    },
    "mpich": {"UCX_TLS": "posix,self"},
}


@pytest.mark.parametrize("ranks", (2, 3))
@pytest.mark.parametrize("single_copy", ("default", "none"))
def test_rendezvous_goes_through(mpi, services, single_copy, ranks):
    if mpi.hosts is not None and mpi.name == "mpich" and single_copy == "none":
        pytest.skip("the setting allows shared memory only")
    env = SLOW_RENDEZVOUS.get(mpi.installed.implementation, {}) if single_copy == "none" else {}
    result = mpi.run(ranks, ["rendezvous", "16"], services=services, env=env, timeout_s=120).ok()
    assert "all went through" in result.out


def test_posting_many_leaks_nothing(mpi, services):
    result = mpi.run(2, ["post_many", "100000", str(mpi.daemon)], services=services, timeout_s=240).ok()
    if services is not None:
        roles = [line for line in result.out.splitlines() if "post_many: outriggerd" in line]
        assert len(roles) >= 2, f"the service process and the keeper were not looked at\n{result.out}"


@pytest.mark.any_mpi
@pytest.mark.parametrize("communicators", (1, 3))
@pytest.mark.parametrize("nodes", (1, 2))
def test_posting_many_and_blocking_natively(offload, nodes, communicators):
    """All posted operations proceed without further calls of the rank. There are more than slots: with three
    communicators one of them has no slot.
    """
    offload.pretend_nodes = nodes
    result = offload.run(2, ["post_and_block", "6500", str(communicators)], timeout_s=120).ok()
    assert result.out.count("6500 operations went on in blocking calls") == 2


@pytest.mark.slow
@pytest.mark.any_mpi
@pytest.mark.one_machine
def test_elements_of_any_size(offload):
    """A datatype with a hole: more than PMPI_Pack takes at once, and more bytes than an int counts."""
    result = offload.run(2, ["large_type", "2064"], timeout_s=120).ok()
    assert "large_type: all bytes right" in result.out


@pytest.mark.one_machine
def test_soak(mpi, services):
    """By every reach of a node: with memory freed and allocated meanwhile, no byte goes elsewhere."""
    result = mpi.run(2, ["soak", "2000"], services=services, env=with_copiers(), timeout_s=120).ok()
    assert result.out.count("2000 operations, seed 1: all right") == 2
    if services is not None:
        used = {reach for entry in result.report["collectives"] for reach, count in entry["bytes"].items() if count}
        assert used >= {"mapped", "cma", "copier", "relay", "own"}


@pytest.mark.parametrize("nodes", (1, 2))
def test_ranks_that_stand_still_are_served(offload, nodes):
    """They are stopped from their posts on until their data has come."""
    offload.pretend_nodes = nodes
    result = offload.run(2, ["stopped", str(1 << 20), "20"], timeout_s=60).ok()
    assert result.out.count("was served while it stood still") == 2


@pytest.mark.parametrize("ranks,service_processes", ((2, 1), (2, 2), (4, 1)))
def test_threads(mpi, services, ranks, service_processes):
    rounds = "200" if mpi.installed.implementation == "openmpi" else "60"  # the others take longer, natively
    services = None if services is None else service_processes
    # Two native threads that only yield stop the clock of some virtual machines with two cores: for seconds nothing
    # else runs there, not even kernel threads.
    env = {"OMPI_MCA_mpi_yield_when_idle": "0"}
    result = mpi.run(ranks, ["threads", rounds], services=services, env=env, timeout_s=130).ok()
    assert "all right" in result.out


ODD_MODES = ("fork", "free_type", "zero", "alone", "inside", "large_counts", "late_finalize")


@pytest.mark.parametrize("ranks", (1, 2, 3))
def test_odd_programs(mpi, services, ranks):
    """The program names each mode when it is done; the last one ends in MPI_Finalize."""
    result = mpi.run(ranks, ["odd", *ODD_MODES], services=services, timeout_s=120).ok()
    assert [mode for mode in ODD_MODES if f"odd: {mode}: all right" not in result.out] == []


@pytest.mark.parametrize("ranks", (2, 3))
def test_one_buffer_for_both_sides(offload, ranks):
    """Legal if the parts are disjoint. Native Open MPI 4.1 treats it as MPI_IN_PLACE and gives wrong data."""
    offload.run(ranks, ["odd", "one_buffer"], timeout_s=60).ok()


def test_status_of_many_requests(offload):
    """By calls of MPI 4.1, implemented by MPI_Request_get_status if the MPI lacks them."""
    offload.run(2, ["odd", "status_lists"], timeout_s=60).ok()


def test_children_are_not_preloaded(offload):
    """Other entries stay."""
    other = "libm.so.6"
    preloads = [offload.heap, offload.library] if offload.heap.exists() else [offload.library]
    preloads_text = ":".join(map(str, preloads))
    result = offload.run(1, ["odd", "children"], env={"LD_PRELOAD": f"{other}:{preloads_text}"}).ok()
    assert f"children get {other}\n" in result.out


def test_communicator_freed_early(mpi, services):
    """With two ranks: native Open MPI 4.1 hangs here in a group of one."""
    mpi.run(2, ["odd", "free_communicator"], services=services, timeout_s=60).ok()


def test_communicator_churn(mpi, services):
    """With two ranks, because native MPICH on shared cores takes a time slice for every message."""
    mpi.run(2, ["odd", "churn", "1000"], services=services, timeout_s=120).ok()


def test_leaving_without_finalize(mpi, services):
    """The MPI decides the exit status; nothing may stay behind or hang."""
    result = mpi.run(2, ["odd", "no_finalize"], services=services, timeout_s=30)
    assert "leaving without MPI_Finalize" in result.out


@pytest.mark.parametrize(
    "mode", ("mismatch", "mismatch_bcast", "mismatch_root", "mismatch_operation", "mismatch_vector")
)
def test_mismatched_arguments(offload, mode):
    """Native MPIs differ here (Open MPI reports nothing); ours must report, without an overrun or a hang."""
    said = "truncat"
    if mode == "mismatch_root":
        said = "ibcast on a communicator of 3 ranks failed: ranks disagree about the collective"
    if mode in ("mismatch_operation", "mismatch_vector"):
        said = "iallreduce on a communicator of 3 ranks failed: ranks disagree about the collective"
    result = offload.run(3, ["odd", mode], services=2, timeout_s=40)
    assert result.returncode != 0
    assert "beyond the receive buffer" not in result.out
    assert said in result.out.lower(), result.out


def test_mismatch_goes_to_the_error_handler(offload):
    """To that of the communicator, once, from each call that ends with it; operations go on working there."""
    env = {"OUTRIGGER_BLOCKING": "on"}
    assert "all right" in offload.run(3, ["odd", "mismatch_handler"], services=2, env=env, timeout_s=40).ok().out


@pytest.mark.parametrize("ranks", (2, 3, 5))
@pytest.mark.parametrize("nodes", (1, 2))
def test_nobody_leaves_a_barrier_early(mpi, services, nodes, ranks):
    if mpi.hosts is not None:
        pytest.skip("the ranks share memory")
    mpi.pretend_nodes = max(nodes, mpi.pretend_nodes)
    env = {"OUTRIGGER_BLOCKING": "on", "OUTRIGGER_SERVICES": "2"}
    rounds = 40 if services is None else 200
    result = mpi.run(ranks, ["barriers", str(rounds)], services=services, env=env, timeout_s=120).ok()
    assert "nobody left early" in result.out
    if services is not None:
        offloaded = [row["offloaded"] for row in result.report["collectives"] if row["collective"] == "ibarrier"]
        assert sum(offloaded) > rounds, result.report


def test_errors_are_the_native_ones(offload):
    native = offload.run(2, ["errors"], services=None).ok()
    ours = offload.run(2, ["errors"], services=1, env={"OUTRIGGER_BLOCKING": "on"}).ok()
    said = [line for line in ours.out.splitlines() if "class" in line or "called" in line]
    expected = [line for line in native.out.splitlines() if "class" in line or "called" in line]
    assert len(expected) >= 50
    assert said == expected


def test_errors_natively(mpi):
    mpi.run(2, ["errors"], services=None).ok()


@pytest.mark.one_machine
def test_the_benchmark_of_what_is_beside_collectives(offload):
    """Its collectives are offloaded, and every test has a rate."""
    program = offload.build / "bench" / offload.name / "harm"
    if not program.exists():
        pytest.skip(f"{program} is not built")
    result = offload.run(2, [str(program), "--megabytes", "33", "--samples", "1"]).ok()
    assert result.offloaded() >= 2 * 10
    assert len(harm.read_run(result.out, 2).rates) == 10


@pytest.mark.one_machine
def test_the_benchmark_of_calls_that_stay_native(offload):
    """Every call has a cost, and none is offloaded."""
    program = offload.build / "bench" / offload.name / "calls"
    if not program.exists():
        pytest.skip(f"{program} is not built")
    result = offload.run(2, [str(program), "--samples", "1"], env={"OUTRIGGER_ALGORITHM": "native"}).ok()
    assert len(harm_calls.read_run(result.out, 2).costs_ns) == 21


def test_the_benchmark_of_late_ranks(offload):
    """It checks every byte itself; one of the three ranks comes up to 40 ms late in each round."""
    program = offload.build / "bench" / offload.name / "skew"
    if not program.exists():
        pytest.skip(f"{program} is not built")
    names = ("allgatherv", "ialltoallv", "ibcast")
    words = ["--bytes", "4096", "--rounds", "3", "--skew-ms", "40", "--work-ms", "1"]
    result = offload.run(3, [str(program), *words], env={"OUTRIGGER_BLOCKING": "on"}).ok()
    run = skew.read_run(result.out, 3, names)
    assert 0 < run["allgatherv"].on_time_mpi_ms < 20_000
    assert result.offloaded() >= 3 * (3 + 2)


@pytest.mark.one_machine
def test_the_benchmark_that_gives_every_round(offload):
    """A blocking and a nonblocking form; the side without rules is offloaded by default."""
    program = offload.build / "bench" / offload.name / "orbench"
    if not program.exists():
        pytest.skip(f"{program} is not built")
    words = ["--figures", "samples", "--collectives", "ialltoall,allgather", "--sizes", "64,262144"]
    words += ["--iterations", "6", "--milliseconds", "20"]
    result = offload.run(2, [str(program), *words], env={"OUTRIGGER_ALGORITHM": "all=on"}).ok()
    lines = never_slower_cells.read_lines(result.out)
    assert [line.key for line in lines] == [(n, b) for n in ("ialltoall", "allgather") for b in (64, 262144)]
    assert [line.total is None for line in lines] == [False, False, True, True]
    assert [line.work_iterations > 0 for line in lines] == [True, True, False, False]
    assert all(5 <= len(line.judged.again) <= 6 and line.ranks == 2 for line in lines)
    calls = {entry["collective"]: entry["offloaded"] for entry in result.report["collectives"]}
    # One of each round's three operations: of both sizes and ranks, with those that check bytes.
    assert calls["ialltoall"] >= 2 * 2 * (5 + 5)
    never_slower_cells.make_cell("any", "any", [(lines[0], lines[0])])
