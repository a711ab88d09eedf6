"""MPI_Init with Outrigger takes little longer than without, also if all ranks share one core."""

import os
import re
from statistics import median

import pytest
from conftest import Job, Mpi

pytestmark = pytest.mark.one_machine

RANKS = 4
STARTS = 5
MORE_CPU_MS = 60.0
"""CPU time that the start of service processes may add to a rank."""
STALL_MS = 200.0
"""And to its time: less than a wait that only a timeout ends."""


def took_ms(mpi: Mpi, services: int | None) -> tuple[float, float]:
    """The longest of the ranks' times, and the most CPU time."""
    out = mpi.run(RANKS, ["start", str(min(os.sched_getaffinity(0)))], services=services).ok().out
    said = re.search(r"^start: ([0-9.]+) ms, ([0-9.]+) ms of CPU time$", out, re.MULTILINE)
    assert said, out
    return float(said[1]), float(said[2])


@pytest.mark.parametrize("nodes", [1, 2])
def test_ranks_that_share_a_core_start_soon(offload: Mpi, nodes: int) -> None:
    """Ranks that spin while others need their core show in the CPU time, even on a busy machine.

    Other programs make all starts longer, as they take turns with the ranks; a stall here takes a second.
    """
    offload.pretend_nodes = nodes
    pairs = [(took_ms(offload, None), took_ms(offload, 1)) for _ in range(STARTS)]
    more_ms = min(ours[0] - native[0] for native, ours in pairs)
    more_cpu_ms = median(ours[1] - native[1] for native, ours in pairs)
    assert more_ms <= STALL_MS * Job.patience, pairs
    assert more_cpu_ms <= MORE_CPU_MS, pairs
