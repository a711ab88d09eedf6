"""Memory from malloc that service processes map: every byte is correct; children and parents are independent."""

import os
import subprocess
import sys

import pytest
from conftest import with_copiers

pytestmark = [pytest.mark.one_machine, pytest.mark.any_mpi]
ON = {"OUTRIGGER_SHARED_HEAP": "on"}


def received(result, reach: str) -> int:
    return sum(entry["bytes"][reach] for entry in result.report["collectives"])


def test_soak(offload):
    """As without it, except that large allocations are mapped."""
    result = offload.run(2, ["soak", "400", "2"], env=with_copiers() | ON, timeout_s=120).ok()
    assert result.out.count("400 operations, seed 2: all right") == 2
    assert result.report["shared_heap"]["allocations"] > 300
    assert result.report["shared_heap"]["refused"] == 0
    assert received(result, "mapped") > received(result, "copier")


@pytest.mark.parametrize("services", (1, 2))
def test_children_are_apart(offload, services):
    result = offload.run(2, ["heap", "fork"], services=services, env=ON).ok()
    assert "heap: fork: all right" in result.out
    assert result.report["shared_heap"]["forks"] == 2 * 6  # 2 ranks, 6 rounds; started programs are no forks
    # Memory allocated after a fork is mapped again: in each round 600 kB of the 680 kB that a rank receives.
    assert received(result, "mapped") > 2 * 6 * 300_000


def test_children_are_apart_natively(mpi):
    mpi.run(2, ["heap", "fork"], services=None).ok()


def test_churn(offload):
    result = offload.run(1, ["heap", "churn", "800", "1"], env=ON).ok()
    assert "heap: churn: all right" in result.out
    assert result.report["shared_heap"]["allocations"] > 800


@pytest.mark.parametrize("mpi", ("openmpi",), indirect=True)
def test_without_room_it_says_so(offload):
    """With a limit on address space nothing can be reserved; the program runs as without a heap."""
    command = f"ulimit -v 20000000; exec {offload.programs}/soak 100"
    result = offload.run(2, ["/bin/sh", "-c", command], env=ON).ok()
    assert result.out.count("100 operations, seed 1: all right") == 2
    assert "no shared heap: the address space is limited (ulimit -v)" in result.out
    assert result.report["shared_heap"]["allocations"] == 0


@pytest.mark.parametrize("mpi", ("openmpi",), indirect=True)
def test_without_its_library_it_says_so(offload):
    result = offload.run(2, ["soak", "100"], env=ON | {"LD_PRELOAD": str(offload.library)}).ok()
    assert "no shared heap: liboutrigger-heap.so of the same build must be in LD_PRELOAD" in result.out


PYTHON = """
import multiprocessing, os, subprocess
import numpy

array = numpy.arange(1_000_000)

def change(step):
    seen = int(array[step])
    array[:] = step
    return seen, int(array.sum())

def main():
    assert subprocess.run(["echo", "hello"], capture_output=True).stdout == b"hello\\n"
    for context in ("fork", "spawn"):
        with multiprocessing.get_context(context).Pool(2) as pool:
            for step, (seen, total) in zip((5, 6), pool.map(change, (5, 6), chunksize=1)):
                assert total == step * 1_000_000
    assert array.sum() == 499_999_500_000
    os.closerange(3, 2000)  # as daemons do
    later = numpy.ones(3_000_000)
    child = os.fork()
    if child == 0:
        assert later.sum() == 3_000_000 and array.sum() == 499_999_500_000
        later[:] = 2
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert later.sum() == 3_000_000
    print("all right")

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("mpi", ("openmpi",), indirect=True)
def test_python(offload, tmp_path):
    """numpy's arrays, subprocess and multiprocessing; without MPI, as only memory is tested."""
    if not offload.heap.exists():
        pytest.skip(f"{offload.heap} is not built")
    script = tmp_path / "heap.py"
    script.write_text(PYTHON)
    env = {**os.environ, **ON, "LD_PRELOAD": str(offload.heap)}
    done = subprocess.run(
        [sys.executable, str(script)], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.returncode) == ("all right\n", 0), done.stderr
