"""MPIs installed by `./dev mpis`, without --mpi-prefix: tests if every ABI works there as with the system's MPIs."""

from collections.abc import Iterator
from pathlib import Path

import installed
import pytest
from conftest import HERE, Mpi
from installed import Installed
from test_languages import RANKS, digests, expected
from test_polite import sleeps

__all__ = ["expected"]  # a fixture

pytestmark = pytest.mark.one_machine

PREFIXES = sorted(HERE.parents[1].glob("build/mpis/*/bin"))
OTHERS = [other for prefix in PREFIXES for other in installed.at([str(prefix.parent)])]


@pytest.fixture(params=OTHERS, ids=str)
def other(request: pytest.FixtureRequest, build: Path, tmp_path: Path) -> Iterator[Mpi]:
    if request.config.getoption("--mpi-prefix"):
        pytest.skip("the other tests have an MPI by --mpi-prefix")
    chosen: Installed = request.param
    mpi = Mpi(chosen, build, tmp_path, native_only=False)
    if not mpi.library.exists():
        pytest.skip(f"{mpi.library} was not built")
    yield mpi
    mpi.clean_up()


@pytest.mark.skipif(not OTHERS, reason="./dev mpis was not run")
def test_there_are_others():
    assert {mpi.family for mpi in OTHERS} >= {"openmpi", "mpich", "mpiabi"}


def test_right_bytes(other, expected):
    assert digests(other, "c", 1) == expected


def test_waiting_drives_the_native_mpi(other):
    result = other.run(2, ["rendezvous", "8"], timeout_s=120).ok()
    assert "all went through" in result.out
    assert result.offloaded() > 0


def test_no_difference(other):
    if not (other.programs / "differential").exists():
        pytest.skip(f"build the target mpiabi_programs for the {other.name} programs")
    program = ["differential", "--seed", "7000", "--operations", "40"]
    result = other.run(RANKS, program, timeout_s=120).ok()
    assert "no difference" in result.out
    assert result.offloaded() > 0


def test_waits_sleep_over_libfabric(other):
    """Without the MPI's own yielding. The system's MPICH has UCX only."""
    if other.installed.implementation != "mpich":
        pytest.skip("other MPIs have settings of their own")
    if not (other.programs / "waits").exists():
        pytest.skip(f"build the target mpiabi_programs for the {other.name} programs")
    env = {"OUTRIGGER_WAIT": "polite", "MPIR_CVAR_CH4_NETMOD": "ofi", "MPIR_CVAR_CH4_PROGRESS_THROTTLE": "0"}
    result = other.run(2, ["waits", "10"], services=0, env=env, timeout_s=150).ok()
    assert "no difference" in result.out
    found = sleeps(result)
    assert found.keys() == {"receive", "send", "reduction", "duplication"} and min(found.values()) > 50, found
