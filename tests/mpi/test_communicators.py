"""Communicators made in every way of MPI, sessions, and programs that end with outstanding operations."""

import pytest
from conftest import Mpi, Result

COLLECTIVES = ("ialltoall", "iallgather", "ibcast")
CONSTRUCTORS = {
    "dup", "idup", "dup_with_info on", "dup of dup_with_info on", "split", "split without one", "split_type", "create",
    "create_group", "cart", "cart without one", "cart_sub", "graph", "graph without one", "dist_graph",
    "dist_graph_adjacent", "intercomm_merge",
}  # fmt: skip
OF_MPI_4 = {"idup_with_info", "create_from_group"}
SWITCHED_OFF = {"dup_with_info off", "dup of dup_with_info off"}
RANKS = 4


def by_name(result: Result) -> dict[str, dict[str, dict]]:
    """The report's entries, by communicator and collective."""
    assert result.report is not None, f"{result.command}\nwrote no report\n{result.out}"
    figures: dict[str, dict[str, dict]] = {}
    for entry in result.report["collectives"]:
        figures.setdefault(entry["communicator"], {})[entry["collective"]] = entry
    return figures


def native_calls(result: Result, reason: str) -> int:
    assert result.report is not None
    return sum(entry["native"].get(reason, 0) for entry in result.report["collectives"])


def has_mpi_4(mpi: Mpi) -> bool:
    """The programs for Open MPI are built with 4.1."""
    return mpi.name != "openmpi"


def needs_sessions(mpi: Mpi) -> None:
    if not has_mpi_4(mpi):
        pytest.skip("the program is built with an MPI that has no sessions")


def needs_natively(mpi: Mpi, ranks: int, mode: str) -> None:
    native = mpi.run(ranks, ["communicators", mode], services=None)
    if native.returncode != 0:
        pytest.skip(f"natively this MPI ends with an error in {mode}")


def test_every_constructor(mpi: Mpi, services: int | None) -> None:
    """Collectives of all kinds and roots are offloaded on each, also if it is freed at once."""
    result = mpi.run(RANKS, ["communicators", "all"], services=services).ok()
    if services is None:
        return
    figures = by_name(result)
    for name in CONSTRUCTORS | (OF_MPI_4 if has_mpi_4(mpi) else set()):
        assert set(figures.get(name, ())) == set(COLLECTIVES), f"{name}: {sorted(figures)}"
        for entry in figures[name].values():
            if entry["size"] == 1:  # of split_type, if each rank has a host for itself
                assert entry["native"] == {"group of one": entry["calls"]}, entry
            else:
                assert 0 < entry["calls"] == entry["offloaded"], entry
    for name in SWITCHED_OFF:
        for entry in figures[name].values():
            assert entry["native"] == {"switched off": entry["calls"]}, entry


def test_intercommunicators_stay_native(mpi: Mpi, services: int | None) -> None:
    result = mpi.run(RANKS, ["communicators", "inter"], services=services).ok()
    if services is None:
        return
    across = 3 * 2 * RANKS  # communicators, directions
    assert native_calls(result, "intercommunicator") == across * len(COLLECTIVES)
    assert result.offloaded() == 3 * RANKS * 2  # on the world meanwhile


def test_started_processes_stay_native(offload: Mpi) -> None:
    """MPICH 4.0 and Intel MPI cannot start processes on one machine."""
    needs_natively(offload, 2, "spawn")
    result = offload.run(2, ["communicators", "spawn"]).ok()
    assert result.out.count("spawn: all right") == 2, result.out
    assert result.offloaded() == 2 * 2  # on the world meanwhile
    assert native_calls(result, "intercommunicator") > 0


def test_session_beside_init(offload: Mpi) -> None:
    """A session's communicator made after MPI_Init is offloaded until the delete callbacks of MPI_COMM_SELF, in
    MPI_Finalize or MPI_Session_finalize. Intel MPI has either a session or MPI_Init.
    """
    needs_sessions(offload)
    needs_natively(offload, 3, "session")
    result = offload.run(3, ["communicators", "session"]).ok()
    figures = by_name(result)["beside MPI_Init"]
    until_finalize = {"ialltoall": 3 * 2, "iallgather": 3 * 2, "ibcast": 3 * 3}
    beyond_finalize = {"ialltoall": 3 * 3, "iallgather": 3 * 3, "ibcast": 3 * 6}
    assert {name: entry["offloaded"] for name, entry in figures.items()} in (until_finalize, beyond_finalize)
    assert native_calls(result, "unknown communicator") == 3 * (2 + 3)


def test_session_alone(mpi: Mpi, services: int | None) -> None:
    needs_sessions(mpi)
    mpi.must_end_natively()
    assert "all right" in mpi.run(3, ["communicators", "session_alone"], services=services).ok().out


def test_requests_let_go_before_the_end(offload: Mpi) -> None:
    """MPI_Finalize completes outstanding operations, also if the MPI rejects freeing requests of collectives."""
    result = offload.run(3, ["communicators", "freed"]).ok()
    assert result.offloaded() == 3 * 2


def test_abort_with_operations_outstanding(mpi: Mpi, services: int | None) -> None:
    mpi.pretend_nodes = 2
    result = mpi.run(3, ["communicators", "abort"], services=services, timeout_s=30)
    assert "rank 0 calls MPI_Abort" in result.out
    assert result.returncode != 0


def test_abort_while_others_are_away(offload: Mpi) -> None:
    """They have ended an operation that natively needs rank 0, and do not call MPI. With five ranks rank 0 has not
    talked to all of them before.
    """
    result = offload.run(5, ["communicators", "abort_done"], timeout_s=10)
    assert "rank 0 calls MPI_Abort" in result.out
    assert result.returncode != 0


def test_leaving_with_operations_outstanding(mpi: Mpi, services: int | None) -> None:
    """The launcher's report does not matter; nothing may stay behind or hang."""
    result = mpi.run(3, ["communicators", "exit"], services=services, timeout_s=30)
    assert "leaves" in result.out
