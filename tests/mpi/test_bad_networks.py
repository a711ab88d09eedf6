"""Networks that lose, duplicate, delay and reorder packets, and hosts that are cut off for a while. Jobs end correctly
or, after a long cut, with a message; never with a wrong byte, and never in a hang.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
from conftest import Job, Mpi, Stopwatch, made
from hosts import Hosts

from outrigger.cluster.state import Faults

pytestmark = [pytest.mark.one_machine, pytest.mark.any_mpi]  # it has hosts of its own

SHORT_CUT_S = 2.0
"""A cut that all processes survive: TCP retransmits, and no process counts as dead."""
LONG_CUT_S = 10.0
ENDS_WITHIN_S = 60.0


@pytest.fixture(scope="module")
def bad_hosts() -> Iterator[Hosts]:
    with made(Hosts(3, f"bad{os.getpid()}", Faults(loss=0.01, duplicate=0.01, reorder=0.02))) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with made(Hosts(2, f"cut{os.getpid()}")) as cluster:
        yield cluster


def test_no_difference_over_bad_cables(offload, bad_hosts):
    offload.hosts = bad_hosts
    program = ["differential", "--seed", "7100", "--operations", "40"]
    result = offload.run(4, program, services=2, timeout_s=240).ok()
    assert "no difference" in result.out
    assert result.offloaded() > 0


def cut_for(seconds: float, mpi: Mpi, hosts: Hosts) -> Job:
    """A job that checks received bytes, whose second host is cut off for a while."""
    mpi.hosts = hosts
    job = mpi.start(4, ["steady", "operations", "6"])
    job.wait_for("steady: under way")
    hosts.cut_link("n1")
    time.sleep(seconds)
    hosts.join_link("n1")
    return job


def test_a_short_cut_is_waited_for(offload, hosts):
    job = cut_for(SHORT_CUT_S, offload, hosts)
    job.wait(ENDS_WITHIN_S).ok()
    offload.nothing_left()


def test_a_long_cut_ends_well_or_is_named(offload, hosts):
    job = cut_for(LONG_CUT_S, offload, hosts)
    since = Stopwatch()
    result = job.wait(ENDS_WITHIN_S)
    assert since.seconds() < ENDS_WITHIN_S
    assert "WRONG" not in result.out, result.out
    assert result.returncode == 0 or "is lost" in result.out, result.out
    offload.nothing_left()
