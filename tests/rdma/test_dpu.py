"""Service processes on DPUs: machines of their own, which share nothing with their hosts but a network."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rdma_guests import Guest
from rdma_jobs import SOFT_ROCE, VERBS, Dpu, Jobs, Watch, counters, must_be_gone

MPI_S = 300
LOST_WITHIN_S = 10.0
ALGORITHMS = {
    "first": "ialltoall=ring_pull,ialltoallv=ring_pull,ialltoallw=ring_pull,iallgather=flat,iallgatherv=flat,"
    "ibcast=flat",
    "second": "ialltoall=scatter_dest,ialltoallv=scatter_dest,ialltoallw=scatter_dest,iallgather=node_ring,"
    "iallgatherv=node_ring,ibcast=hierarchical",
    "third": "iallgather=hierarchical,iallgatherv=hierarchical",
}
"""Each algorithm of each collective once."""


@pytest.fixture(params=["openmpi", "mpich"])
def mpi(request: pytest.FixtureRequest, build: Path) -> str:
    if not (build / "lib" / f"liboutrigger-{request.param}.so").exists():
        pytest.skip(f"{request.param} is not installed")
    return request.param


class Site:
    """Hosts with a DPU each."""

    def __init__(self, jobs: Jobs, dpus: list[Dpu]) -> None:
        self.jobs = jobs
        self.dpus = dpus

    @contextmanager
    def started(self, environment: dict[str, str]) -> Iterator[dict[str, str]]:
        """What ranks must know of the DPUs, which end with the context and leave nothing."""
        secret = secrets.token_hex(16)
        ports = [dpu.start(secret, environment) for dpu in self.dpus]
        places = zip(self.jobs.guests, self.dpus, ports, strict=True)
        addresses = ",".join(f"{host.name}={dpu.guest.name}:{port}" for host, dpu, port in places)
        yield {"OUTRIGGER_DPUS": addresses, "OUTRIGGER_DPU_SECRET": secret, **environment}
        for dpu in filter(lambda dpu: dpu.guest.is_up(), self.dpus):
            dpu.end()

    def run(self, program: str, environment: dict[str, str]) -> str:
        """What a program printed that ended well, offloaded."""
        with self.started(environment) as told:
            outcome = self.jobs.run(program, told, MPI_S)
        output = outcome.output + "".join(dpu.log() for dpu in self.dpus)
        assert outcome.status == 0, output
        return output


def reaches(jobs: Jobs) -> set[str]:
    """By which bytes travelled."""
    return {reach for entry in jobs.report()["collectives"] for reach, count in entry["bytes"].items() if count}


@pytest.fixture
def one(boot, build: Path, mpi: str) -> Site:
    host, dpu = boot("h0", "d0")
    return Site(Jobs(mpi, build, [host], 2), [Dpu(dpu, build / "bin" / "outriggerd")])


@pytest.fixture
def two(boot, build: Path, mpi: str) -> Site:
    hosts, dpus = boot("h0", "h1"), boot("d0", "d1")
    return Site(Jobs(mpi, build, hosts, 1), [Dpu(dpu, build / "bin" / "outriggerd") for dpu in dpus])


@pytest.fixture
def arm(boot, build: Path, arm_build: Path, mpi: str) -> Site:
    host, dpu = boot("h0", "arm0")
    return Site(Jobs(mpi, build, [host], 2), [Dpu(dpu, arm_build / "bin" / "outriggerd")])


@pytest.mark.parametrize("algorithms", ALGORITHMS)
@pytest.mark.parametrize("size", ["one", "two", "arm"])
def test_random_operations(request, size, algorithms):
    """The same bytes in the same places as natively, and all of them by RDMA."""
    site = request.getfixturevalue(size)
    settings = {"OUTRIGGER_ALGORITHM": ALGORITHMS[algorithms], "OUTRIGGER_BLOCKING": "on"}
    before = [counters(dpu.guest)["sent_pkts"] for dpu in site.dpus]
    output = site.run("differential --seed 2 --operations 20 --stall-s 120", VERBS | settings)
    assert "no difference" in output and "natively" not in output, output
    assert "rdma" in reaches(site.jobs), site.jobs.report()
    for dpu, earlier in zip(site.dpus, before, strict=True):
        assert counters(dpu.guest)["sent_pkts"] > earlier


@pytest.mark.parametrize("size", ["one", "two", "arm"])
def test_hosts_that_stand_still_are_served(request, size):
    site = request.getfixturevalue(size)
    output = site.run("stopped 262144 60", VERBS)
    assert output.count("was served while it stood still") == 2, output


def test_a_network_without_rdma_is_refused(one):
    """Ranks would have to help. The job runs all the same."""
    output = one.run("differential --seed 2 --operations 10 --stall-s 120", SOFT_ROCE | {"OUTRIGGER_UCX_TLS": "tcp"})
    assert "no difference" in output, output
    assert any("d0" in line for line in output.splitlines() if line.startswith("outrigger: ")), output
    assert "rdma" not in reaches(one.jobs) if (one.jobs.share / "report.json").exists() else True


def amid_operations(site: Site, told: dict[str, str]) -> Watch:
    """Of the first host."""
    # A guest that has just started reads every program for the first time, slowly.
    site.jobs.run("differential --seed 2 --operations 5 --stall-s 120", SOFT_ROCE, MPI_S).ok()
    site.jobs.start("steady operations 300", told)
    assert "natively" not in site.jobs.output(), site.jobs.output()
    return Watch.of(site.jobs.guests[0])


def must_end(site: Site, since: float, watch: Watch, named: str) -> None:
    seconds = watch.ended(LOST_WITHIN_S + 10) - since
    print(f"gone after {seconds:.1f} s")
    assert named in site.jobs.output(), site.jobs.output()
    assert seconds < LOST_WITHIN_S
    must_be_gone(watch.guest, 5)


def test_a_service_process_is_killed(one):
    with one.started(VERBS) as told:
        watch = amid_operations(one, told)
        since = time.time()
        one.dpus[0].kill_service_process()
        must_end(one, since, watch, "d0")


def test_a_dpu_without_power(one):
    with one.started(VERBS) as told:
        watch = amid_operations(one, told)
        since = time.time()
        one.dpus[0].guest.power_off()
        must_end(one, since, watch, "d0")


def guests_of(site: Site) -> list[Guest]:
    return [*site.jobs.guests, *(dpu.guest for dpu in site.dpus)]


def test_a_host_without_power(one, laboratory):
    """Its DPU is free again: nothing of the job is left there."""
    with one.started(VERBS) as told:
        amid_operations(one, told)
        one.jobs.guests[0].power_off()
        assert [guest.is_up() for guest in guests_of(one)] == [False, True]
        gone = "for p in /proc/[0-9]*/exe; do case $(readlink $p) in */outriggerd) exit 1 ;; esac; done"
        one.dpus[0].guest.run(f"for i in $(seq 150); do ({gone}) && exit; sleep 0.1; done; ps; exit 1", 60).ok()
