"""Service processes on DPUs: machines of their own, which share nothing with their hosts but a network.

That bytes went by way of the DPUs is seen in two places: in the report, which counts them by the way that they took,
and in the packets that the DPUs' RDMA devices have sent.
"""

from __future__ import annotations

import os
import random
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import slurm_site
from rdma_guests import PATIENCE, Guest, Outcome
from rdma_jobs import LOST_WITHIN_S, SOFT_ROCE, STALL_S, TCP, VERBS, Dpu, Jobs, Watch, counters, must_be_gone, sweep
from slurm_site import Slurm
from waiting import wait_until

MPI_S = 400
KILLS = int(os.environ.get("OUTRIGGER_KILLS", "2"))
"""The number of service processes to kill, one after the other, during a program's operations."""
KILLS_APART_S = 13.0
"""Time between many kills: fewer than six within a minute in the same place."""
RESTARTED_S = 45 * PATIENCE + KILLS * KILLS_APART_S
"""Time limit of a program whose service processes are killed; it ends soon after the last kill."""
ALONE_WITHIN_S = 60.0 * PATIENCE
"""Time until nothing may be left on a host that has lost all its networks, also to its DPU."""
KEPT = f"restarted kept {RESTARTED_S:.0f} 1"
"""Operations of every kind, all bytes checked."""
SOAK_OPERATIONS = int(os.environ.get("OUTRIGGER_SOAK_OPERATIONS", "400"))
"""With memory that comes and goes between them."""
PACKET_BYTES = 4096
TAKEN_PLACE = "replaced another service process"
"""In the log of `outriggerd dpu`, once for each replacement."""
TAKEN_BY_HOST = "service processes on this node replace it"
"""In the message about a lost DPU."""
ON_DPU = "service process(es) on a DPU"
"""In the log of OUTRIGGER_LOG=info, if the job uses its DPUs."""
BY_PROCESSES_OF_THE_HOST = {"mapped", "xpmem", "cma", "copier", "relay"}
DPUS_ALONE = VERBS | {"OUTRIGGER_WAIT_COPIES": "off"}
"""Ranks that wait do not copy for the DPU, which they do by default."""
NOT_USED = "outrigger: the DPUs are not used: "
ALGORITHMS = {
    "first": "ialltoall=ring_pull,ialltoallv=ring_pull,ialltoallw=ring_pull,iallgather=flat,iallgatherv=flat,"
    "ibcast=flat",
    "second": "ialltoall=scatter_dest,ialltoallv=scatter_dest,ialltoallw=scatter_dest,iallgather=node_pull,"
    "iallgatherv=node_pull,ibcast=hierarchical",
    "third": "iallgather=hierarchical,iallgatherv=hierarchical",
}
"""Each algorithm of each collective once."""


@dataclass(frozen=True)
class Size:
    """Which guests, and how many ranks on each host."""

    hosts: tuple[str, ...]
    dpus: tuple[str, ...]
    ranks_each: int


SIZES = {
    "one": Size(("h0",), ("d0",), 2),
    "two": Size(("h0", "h1"), ("d0", "d1"), 1),
    "arm": Size(("h0",), ("arm0",), 2),
}


@pytest.fixture(params=["mpich", "openmpi"])
def mpi(request: pytest.FixtureRequest, build: Path) -> str:
    name: str = request.param
    if not (build / "lib" / f"liboutrigger-{name}.so").exists():
        pytest.skip(f"{name} is not installed")
    return name


class Site:
    """Hosts with a DPU each."""

    def __init__(self, jobs: Jobs, dpus: list[Dpu]) -> None:
        self.jobs = jobs
        self.dpus = dpus

    def guests(self) -> list[Guest]:
        return [*self.jobs.guests, *(dpu.guest for dpu in self.dpus)]

    @contextmanager
    def started(self, *environments: dict[str, str]) -> Iterator[dict[str, str]]:
        """Starts the DPUs and gives the ranks' settings for them. The DPUs end with the context and leave nothing. The
        first environment is the ranks'; the others, if any, are those of the DPUs."""
        secret = secrets.token_hex(16)
        for_ranks, *others = environments
        for_dpus = others or [for_ranks] * len(self.dpus)
        ports = [dpu.start(secret, each) for dpu, each in zip(self.dpus, for_dpus, strict=True)]
        places = zip(self.jobs.guests, self.dpus, ports, strict=True)
        addresses = ",".join(f"{host.name}={dpu.guest.name}:{port}" for host, dpu, port in places)
        yield {"OUTRIGGER_DPUS": f"{secret}@{addresses}", **for_ranks}
        for dpu in filter(lambda dpu: dpu.guest.is_up(), self.dpus):
            dpu.end()

    def run(self, program: str, *environments: dict[str, str]) -> str:
        """Runs a program, which must succeed, and returns its output."""
        with self.started(*environments) as told:
            outcome = self.jobs.run(program, told, MPI_S)
        assert outcome.status == 0, outcome.output + self.said()
        return outcome.output

    def said(self) -> str:
        """The messages of keepers and DPUs."""
        logs = [("keepers", self.jobs.log()), *((dpu.guest.name, dpu.log()) for dpu in self.dpus)]
        return "".join(f"\n---- {name}\n{log}" for name, log in logs)

    def packets(self) -> list[int]:
        """That each DPU has sent."""
        return [counters(dpu.guest)["sent_pkts"] for dpu in self.dpus]

    def must_have_carried(self, output: str, packets_before: list[int]) -> None:
        """The DPUs: every byte that went from one rank to another, and as many as their devices have counted."""
        assert ON_DPU in output, output + self.said()
        carried = self.jobs.carried()
        way = "wire" if len(self.jobs.guests) > 1 else "rdma"
        assert carried.get(way, 0) > 1 << 19, carried
        assert not carried.keys() & BY_PROCESSES_OF_THE_HOST, carried
        sent = sum(self.packets()) - sum(packets_before)
        assert sent * PACKET_BYTES >= carried[way], f"{sent} packets are too few for {carried}"
        print(f"{carried} bytes, {sent} packets of the DPUs")


@pytest.fixture
def site(request: pytest.FixtureRequest, boot: Callable[..., list[Guest]], build: Path, mpi: str) -> Iterator[Site]:
    """A site of the size in the test's parameter, else one host with its DPU."""
    name = getattr(request, "param", "one")
    size = SIZES[name]
    of_dpus: Path = request.getfixturevalue("arm_build") if name == "arm" else build
    guests = boot(*size.hosts, *size.dpus)
    hosts, dpus = guests[: len(size.hosts)], guests[len(size.hosts) :]
    site = Site(Jobs(mpi, build, hosts, size.ranks_each), [Dpu(dpu, of_dpus / "bin" / "outriggerd") for dpu in dpus])
    yield site
    for guest in site.guests():
        sweep(guest)


@pytest.mark.parametrize("algorithms", ALGORITHMS)
@pytest.mark.parametrize("site", SIZES, indirect=True)
def test_random_operations(site, algorithms):
    """The same bytes in the same places as natively, and all of them by the DPUs."""
    settings = {"OUTRIGGER_ALGORITHM": ALGORITHMS[algorithms], "OUTRIGGER_BLOCKING": "on"}
    before = site.packets()
    output = site.run(f"differential --seed 2 --operations 20 --stall-s {STALL_S}", DPUS_ALONE | settings)
    assert "no difference" in output, output
    site.must_have_carried(output, before)


def test_ranks_that_wait_copy_for_the_dpu(site):
    """How much depends on when they wait; the bytes are the same."""
    settings = {"OUTRIGGER_BLOCKING": "on"}
    output = site.run(f"differential --seed 5 --operations 40 --stall-s {STALL_S}", VERBS | settings)
    assert "no difference" in output, output
    assert ON_DPU in output, output
    assert site.jobs.carried().keys() & BY_PROCESSES_OF_THE_HOST <= {"copier"}


@pytest.mark.parametrize("site", SIZES, indirect=True)
def test_launcher_starts_dpus(site):
    """`outrigger run` with hosts and DPUs from files, as a user starts it: it starts the DPUs by ssh, and ends them."""
    before = site.packets()
    program = f"differential --seed 3 --operations 20 --stall-s {STALL_S}"
    must_have_run(site, site.jobs.ran(site.jobs.by_ssh(program, site.dpus, DPUS_ALONE), MPI_S), before)


def must_have_run(site: Site, outcome: Outcome, packets_before: list[int]) -> None:
    """On the DPUs, which are free again."""
    assert outcome.status == 0, outcome.output + site.said()
    assert "no difference" in outcome.output, outcome.output
    site.must_have_carried(outcome.output, packets_before)
    for dpu in site.dpus:
        dpu.must_be_free(10)


@contextmanager
def under_slurm(site: Site) -> Iterator[Slurm]:
    """Hosts and DPUs are its nodes."""
    if reason := slurm_site.why_not():
        pytest.skip(reason)
    guests = site.guests()
    directory = site.jobs.share / "slurm"
    shutil.rmtree(directory, ignore_errors=True)
    slurm = Slurm(directory, [guest.name for guest in guests], Path("/tmp/slurm"))
    slurm.write()
    try:
        for guest in guests:
            for service in slurm.services(guest.name):
                guest.run(f"({service}) >/dev/null 2>&1 &", 60).ok()
        guests[0].run(slurm.until_up(60 * PATIENCE), 90).ok()
        yield slurm
    finally:
        for guest in filter(Guest.is_up, guests):
            guest.run("pkill -9 slurm", 30)


@pytest.mark.parametrize("site", ["one", "two"], indirect=True)
def test_slurm_starts_dpus(site):
    """`outrigger run` in an allocation of hosts and DPUs, by srun."""
    with under_slurm(site) as slurm:
        before = site.packets()
        program = f"differential --seed 4 --operations 20 --stall-s {STALL_S}"
        must_have_run(site, site.jobs.ran(site.jobs.by_slurm(slurm, program, site.dpus, DPUS_ALONE), MPI_S), before)


@pytest.mark.parametrize("site", SIZES, indirect=True)
def test_hosts_that_stand_still_are_served(site):
    before = site.packets()
    output = site.run(f"stopped 262144 {STALL_S}", DPUS_ALONE)
    assert output.count("was served while it stood still") == 2, output
    site.must_have_carried(output, before)


def test_memory_comes_and_goes(site):
    """Registered memory that is freed, unmapped, remapped, inherited between operations: the device finds the pages
    that are there now. Every byte is checked."""
    before = site.packets()
    output = site.run(f"soak {SOAK_OPERATIONS} 5 20", DPUS_ALONE)
    assert output.count("all right") == 2, output
    site.must_have_carried(output, before)


def must_have_gone_without(site: Site, output: str, packets_before: list[int], named: str) -> None:
    """All ranks alike; one line says why."""
    assert "no difference" in output, output
    said = [line for line in output.splitlines() if line.startswith(NOT_USED)]
    assert len(said) == 1, output
    assert named in said[0], said
    assert ON_DPU not in output, output
    if (site.jobs.share / "report.json").exists():  # offloaded all the same, on cores of the hosts
        assert "rdma" not in site.jobs.carried()
    assert site.packets()[-1] == packets_before[-1]  # others may have connected before they were told


def test_a_network_without_rdma_is_refused(site):
    """Ranks would have to help. The job runs all the same."""
    before = site.packets()
    quick = {"OUTRIGGER_INIT_TIMEOUT_MS": "40000"}  # a fifth of which passes until it is known
    output = site.run(f"differential --seed 2 --operations 10 --stall-s {STALL_S}", SOFT_ROCE | TCP | quick)
    must_have_gone_without(site, output, before, "d0")


@pytest.mark.parametrize("site", ["one", "two"], indirect=True)
def test_ranks_that_one_dpu_cannot_reach(site):
    """It and they have no transport in common. No rank uses a DPU then, and none is harmed."""
    before = site.packets()
    of_dpus = [VERBS] * (len(site.dpus) - 1) + [SOFT_ROCE | TCP]
    output = site.run(f"differential --seed 2 --operations 10 --stall-s {STALL_S}", VERBS, *of_dpus)
    must_have_gone_without(site, output, before, site.dpus[-1].guest.name)


def amid_operations(site: Site, told: dict[str, str], program: str = "steady operations 600") -> list[Watch]:
    """Starts a program, and returns a watch for each host once the first DPU sends packets for its operations."""
    site.jobs.start(program, told)
    assert ON_DPU in site.jobs.output(), site.jobs.output() + site.said()
    before = site.packets()
    assert wait_until(lambda: site.packets()[0] - before[0] >= 100, 30 * PATIENCE), site.said()
    return [Watch.of(guest) for guest in site.jobs.guests]


def must_end(site: Site, since: float, watches: list[Watch], *named: str, alone: Guest | None = None) -> None:
    """On all hosts, and one of these is named. Neither they nor the DPUs that have power keep anything of the job.

    Alone: a host that reaches neither its DPU nor the others, and tries to go on by itself.
    """
    limits = [ALONE_WITHIN_S if watch.guest is alone else LOST_WITHIN_S for watch in watches]
    seconds = [watch.ended(limit + 20) - since for watch, limit in zip(watches, limits, strict=True)]
    print("gone after", *(f"{each:.1f} s" for each in seconds))
    assert any(name in site.jobs.output() for name in named), site.jobs.output() + site.said()
    assert all(each < limit for each, limit in zip(seconds, limits, strict=True)), site.said()
    for watch in watches:
        must_be_gone(watch.guest, 5)
    for dpu in filter(lambda dpu: dpu.guest.is_up(), site.dpus):
        dpu.must_be_free(15)


def right_output(site: Site, watches: list[Watch]) -> str:
    """Lets KEPT end without further disturbance, checks its result and returns its output."""
    site.jobs.end_soon()
    for watch in watches:
        watch.ended(200 * PATIENCE)
    output = site.jobs.output()
    assert "operations" in output and "WRONG" not in output, output + site.said()
    return output


def must_go_on(site: Site, watches: list[Watch], named: str) -> None:
    """On cores of that DPU's host, to the right end. Nothing of the job is kept where there is power."""
    taken = wait_until(lambda: TAKEN_BY_HOST in site.jobs.output(), 60 * PATIENCE, pause_s=0.2)
    assert taken, site.jobs.output() + site.said()
    output = right_output(site, watches)
    assert [named in line for line in output.splitlines() if TAKEN_BY_HOST in line] == [True], output + site.said()
    for watch in watches:
        must_be_gone(watch.guest, 10)
    for dpu in filter(lambda dpu: dpu.guest.is_up(), site.dpus):
        dpu.must_be_free(15)


@pytest.mark.parametrize("site", SIZES, indirect=True)
def test_service_processes_are_killed(site):
    """By one that stands by, and then by one that ranks have let connect since, each place is taken."""
    with site.started(VERBS) as told:
        site.jobs.start(KEPT, told)
        watches = [Watch.of(guest) for guest in site.jobs.guests]
        for killed in range(KILLS):
            dpu = site.dpus[killed % len(site.dpus)] if KILLS > 2 else site.dpus[-1]
            moment = time.monotonic()
            taken = dpu.log().count(TAKEN_PLACE)
            dpu.kill_service_process()
            again = lambda dpu=dpu, taken=taken: dpu.log().count(TAKEN_PLACE) > taken  # noqa: E731
            assert wait_until(again, 25 * PATIENCE, pause_s=0.2), site.jobs.output() + site.said()
            if KILLS > 5:
                time.sleep(max(0.0, moment + random.uniform(0.9, 1.1) * KILLS_APART_S - time.monotonic()))
        output = right_output(site, watches)
        assert "died" not in output, output + site.said()
        assert sum(service["restarts"] for service in site.jobs.report()["services"]) == KILLS
        for guest in site.jobs.guests:
            must_be_gone(guest, 10)


@pytest.mark.parametrize("site", SIZES, indirect=True)
def test_a_dpu_without_power(site):
    with site.started(VERBS) as told:
        watches = amid_operations(site, told, KEPT)
        site.dpus[-1].guest.power_off()
        must_go_on(site, watches, f"DPU {site.dpus[-1].guest.name}")


@pytest.mark.parametrize("site", SIZES, indirect=True)
def test_a_daemon_is_killed(site):
    """Its service processes end with it, and the DPU is as good as lost."""
    with site.started(VERBS) as told:
        watches = amid_operations(site, told, KEPT)
        site.dpus[-1].guest.run("kill -9 $(cat /tmp/dpu.pid)", 30).ok()
        must_go_on(site, watches, f"DPU {site.dpus[-1].guest.name}")


@pytest.mark.parametrize("site", SIZES, indirect=True)
def test_a_link_goes_down_and_up(site, laboratory):
    """That of a DPU, for less time than it takes until a DPU counts as lost. The DPU goes on with what it had."""
    with site.started(VERBS) as told:
        watches = amid_operations(site, told, KEPT)
        name = site.dpus[-1].guest.name
        for _ in range(2):
            laboratory.switch.plug(name, plugged=False)
            time.sleep(1.5)
            laboratory.switch.plug(name, plugged=True)
            time.sleep(6 * PATIENCE)
        output = right_output(site, watches)
        assert "died" not in output, output + site.said()
        assert TAKEN_BY_HOST not in output, output + site.said()
        for guest in site.jobs.guests:
            must_be_gone(guest, 10)


@pytest.mark.parametrize("end", ["host", "dpu"])
@pytest.mark.parametrize("site", ["one", "two"], indirect=True)
def test_a_cable_is_cut(site, laboratory, end):
    """Cuts the cable of the last host or its DPU; all machines stay up. The job goes on if its hosts reach each other.
    Otherwise it ends, and the machines in reach report the loss of the DPU, or of the node that it serves."""
    cut = (site.jobs.guests if end == "host" else [dpu.guest for dpu in site.dpus])[-1]
    lasts = end == "dpu" or len(site.dpus) == 1
    with site.started(VERBS) as told:
        watches = amid_operations(site, told, *([KEPT] if lasts else []))
        since = time.time()
        laboratory.switch.plug(cut.name, plugged=False)
        try:
            if lasts:
                must_go_on(site, watches, f"DPU d{len(site.dpus) - 1}")
            else:
                must_end(site, since, watches, "DPU d1", "node h1 is lost", alone=cut)
        finally:
            laboratory.switch.plug(cut.name, plugged=True)
            site.jobs.end_launcher()


@pytest.mark.parametrize("site", ["one", "two"], indirect=True)
def test_a_host_without_power(site):
    """Its DPU is free again: nothing of the job is left there. The other host hears of it by way of the DPUs."""
    with site.started(VERBS) as told:
        watches = amid_operations(site, told)
        since = time.time()
        site.jobs.guests[-1].power_off()
        try:
            if others := watches[:-1]:
                must_end(site, since, others, "node h1 is lost")
            assert [dpu.guest.is_up() for dpu in site.dpus] == [True] * len(site.dpus)
            site.dpus[-1].must_be_free(15)
        finally:
            site.jobs.end_launcher()
