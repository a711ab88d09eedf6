"""The wire over RDMA verbs (soft RoCE), in guests that have nothing else in common than a link.

Emulated machines: what is shown is that it works, not how fast.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from rdma_guests import Guest, Outcome
from rdma_jobs import (
    LOST_WITHIN_S,
    SOFT_ROCE,
    STALL_S,
    TCP,
    VERBS,
    Jobs,
    Watch,
    assignments,
    counters,
    must_be_gone,
    run_tests_of_the_wire,
)

PACKET_BYTES = 4096
MPI_S = 240
RDMA = {"kind": "rdma", "transports": "rc_verbs/rxe0:1"}
MESSAGES = {"kind": "messages", "transports": "tcp/eth0"}


@pytest.fixture(params=["openmpi", "mpich"])
def jobs(request: pytest.FixtureRequest, guests: list[Guest], build: Path) -> Jobs:
    jobs = Jobs(request.param, build, guests)
    if not (build / "lib" / f"liboutrigger-{jobs.mpi}.so").exists():
        pytest.skip(f"{jobs.mpi} is not installed")
    return jobs


def test_ucx_reports_rdma(guests, build):
    """It is seen that the network moves memory; without it the wire would go on as over TCP."""
    output = run_tests_of_the_wire(guests[0], build, "Endpoints.*", SOFT_ROCE).ok().output
    assert "[       OK ] Endpoints.RdmaMovesMemory" in output, output


@pytest.mark.parametrize(
    ("environment", "wire"), [(SOFT_ROCE, RDMA), (TCP, {**MESSAGES, "transports": "tcp"})], ids=("rdma", "tcp")
)
def test_info_names_the_wire(guests, build, environment, wire):
    output = guests[0].run(f"{assignments(environment)} {build}/bin/outriggerd info --json", 60).ok().output
    assert json.loads(output)["wire"] == wire, output


@pytest.mark.parametrize(
    "tests",
    [
        "*Wires.MessagesThatWaitAreSeen/*:*Wires.NothingIsMissedBySleepers/MovesMemory",
        "*Cancelling.AtEveryStageOfAPull/MovesMemory:*Cancelling.AtEveryStageOfAPush/MovesMemory",
    ],
    ids=("sleepers", "cancelling"),
)
def test_tests_of_the_wire(guests, build, tests):
    """Those of bytes in test_arm.py."""
    before = counters(guests[1])
    output = run_tests_of_the_wire(guests[1], build, tests, VERBS).ok().output
    assert re.search(r"PASSED  \] [1-9]", output), output
    assert counters(guests[1])["sent_pkts"] > before["sent_pkts"]


def run_differential(jobs: Jobs, seed: int, environment: dict[str, str]) -> tuple[Outcome, int]:
    """Random operations put the same bytes in the same places as natively. And: how many crossed."""
    program = f"differential --seed {seed} --operations 20 --stall-s {STALL_S}"
    outcome = jobs.run(program, environment, MPI_S).ok()
    assert "no difference" in outcome.output, outcome.output
    assert "natively" not in outcome.output, outcome.output
    crossed = sum(entry["bytes"]["wire"] for entry in jobs.report()["collectives"])
    assert crossed > 1 << 19
    return outcome, crossed


@pytest.mark.parametrize(("environment", "seed"), [(VERBS, 2), (SOFT_ROCE, 4)], ids=("rc", "all"))
def test_mpi_program_over_rdma(jobs, environment, seed):
    """The network reads large blocks. The report's counts of the wire agree with the device's counters."""
    before = [counters(guest) for guest in jobs.guests]
    outcome, crossed = run_differential(jobs, seed, environment)
    assert jobs.report()["wire"] == [RDMA | {"nodes": 2}]
    assert "outrigger: wire: rdma (rc_verbs/rxe0:1)\n" in outcome.output, outcome.output
    packets, sends = 0, 0
    for guest, earlier in zip(jobs.guests, before, strict=True):
        now = counters(guest)
        packets += now["sent_pkts"] - earlier["sent_pkts"]
        sends += now["rdma_sends"] - earlier["rdma_sends"]
    assert packets * PACKET_BYTES >= crossed, "not all of it went over the RDMA device"
    assert packets > 2 * sends, "packets that belong to no send are those of RDMA reads and writes"
    print(f"{crossed} bytes on the wire, {packets} packets, {sends} sends")


def test_mpi_program_over_tcp(jobs):
    """The same guests without RDMA: nothing goes over its device, and the user is told."""
    before = [counters(guest)["sent_pkts"] for guest in jobs.guests]
    outcome, _ = run_differential(jobs, 2, TCP)
    assert jobs.report()["wire"] == [MESSAGES | {"nodes": 2}]
    assert "outrigger: wire: messages (tcp/eth0)\n" in outcome.output, outcome.output
    assert [counters(guest)["sent_pkts"] for guest in jobs.guests] == before


def amid_operations(jobs: Jobs) -> list[Watch]:
    """Starts a program, and returns a watch for each guest."""
    run_differential(jobs, 2, VERBS)  # a guest that has just started reads every program for the first time, slowly
    jobs.start("steady operations 300", VERBS)
    assert "natively" not in jobs.output(), jobs.output()
    return [Watch.of(guest) for guest in jobs.guests]


def must_end(jobs: Jobs, since: float, watches: list[Watch]) -> None:
    """All that is ours there, and h1 is named. How the MPI's launcher gets along without a host is its own affair."""
    seconds = [watch.ended(LOST_WITHIN_S + 10) - since for watch in watches]
    print("gone after", *(f"{each:.1f} s" for each in seconds))
    assert "outrigger: node h1 is lost" in jobs.output(), jobs.output()
    assert max(seconds) < LOST_WITHIN_S
    for watch in watches:
        must_be_gone(watch.guest, 5)


def test_link_is_cut(jobs, laboratory):
    """Both sides go on living, each without the other."""
    watches = amid_operations(jobs)
    since = time.time()
    laboratory.switch.plug("h1", plugged=False)
    try:
        must_end(jobs, since, watches)
        assert "node h0 is lost" in jobs.log(), jobs.log()
    finally:
        laboratory.switch.plug("h1", plugged=True)
        jobs.end_launcher()


def test_guest_is_killed(jobs):
    """As a power cut: the other side names the node, and nothing of ours stays there."""
    watches = amid_operations(jobs)
    since = time.time()
    jobs.guests[1].power_off()
    try:
        must_end(jobs, since, watches[:1])
    finally:
        jobs.end_launcher()
