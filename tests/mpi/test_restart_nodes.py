"""Service processes of several nodes are killed at any moment and replaced, unnoticed by the program; those of other
nodes are told the new addresses.

Cases that also apply to one node are in test_restart.py, which `pytest --pretend-nodes 2` runs between nodes.
"""

import os
import random
import re
import signal
import time
from collections.abc import Iterator

import pytest
from conftest import Mpi, Stopwatch, made, with_copiers
from hosts import Hosts
from test_restart import GONE_WITHIN_S, LASTS_S, RESTARTS_WITHIN_S, kill, services_of
from test_restart import must_be_right as must_be_right_after

pytestmark = [pytest.mark.one_machine, pytest.mark.any_mpi]

STOPPED_FOR_S = 12.0  # until a stopped one is replaced
CUT_OFF_FOR_S = 2.0

ALGORITHMS = {
    "default": "",
    "pushes": "ialltoall=scatter_dest,ialltoallv=scatter_dest",
    "hierarchical": "ibcast=hierarchical,iallgather=hierarchical,iallgatherv=hierarchical",
    "node-pull": "iallgather=node_pull,iallgatherv=node_pull,ibcast=flat",
}


UCX_GIVES_UP = re.compile(r"signal 6 \(Aborted\), saying \"(?=[^\"]*wireup)[^\"]*Assertion")
"""UCX ends a process whose connection breaks while it is being made."""


@pytest.fixture
def two_nodes(offload: Mpi) -> Mpi:
    offload.pretend_nodes = 2
    return offload


def start(mpi: Mpi, mode: str, seconds: int, seed: int, *, ranks: int = 4, services: int = 1, algorithms="default"):
    log = mpi.directory / f"log{len(mpi.jobs)}"
    env = {**with_copiers(), "OUTRIGGER_ALGORITHM": ALGORITHMS[algorithms], "OUTRIGGER_LOG": f"warn:{log}"}
    job = mpi.start(ranks, ["restarted", mode, str(seconds), str(seed)], services=services, env=env)
    job.wait_for("restarted: ready")
    return job


def must_be_right(mpi: Mpi, job, deaths: int):
    log = mpi.directory / f"log{mpi.jobs.index(job)}"

    def said() -> str:
        return log.read_text() if log.exists() else ""

    try:
        return must_be_right_after(mpi, job, deaths, others=lambda: len(UCX_GIVES_UP.findall(said())))
    except AssertionError as wrong:
        wrong.add_note(said())
        raise


@pytest.mark.parametrize("algorithms", ALGORITHMS)
@pytest.mark.parametrize("services", (1, 2))
def test_killed_at_random_moments(two_nodes, services, algorithms):
    """On alternating nodes."""
    moments = random.Random(f"{services} {algorithms}")
    job = start(two_nodes, "calls", LASTS_S, services, services=services, algorithms=algorithms)
    for turn in range(4):
        job.goes_on(moments.randrange(60))
        kill(two_nodes, [moments.choice(two_nodes.serving_by_keeper()[turn % 2])])
    must_be_right(two_nodes, job, 4)


@pytest.mark.parametrize("services", (1, 2))
def test_all_of_both_nodes_are_killed_at_once(two_nodes, services):
    """No process with the former state is left."""
    for seed in range(2):
        job = start(two_nodes, "calls", LASTS_S, seed, services=services)
        job.goes_on(10 + 20 * seed)
        kill(two_nodes, services_of(two_nodes))
        must_be_right(two_nodes, job, 2 * services)


def test_two_of_four_of_each_node_are_killed_at_once(two_nodes):
    job = start(two_nodes, "calls", LASTS_S, 3, ranks=8, services=4)
    job.goes_on(20)
    kill(two_nodes, [pid for node in two_nodes.serving_by_keeper() for pid in node[1:3]])
    must_be_right(two_nodes, job, 4)


@pytest.mark.parametrize("pause_s", (0.0, 0.03, 0.2))
def test_one_is_killed_while_another_is_being_replaced(two_nodes, pause_s):
    job = start(two_nodes, "calls", LASTS_S, 7, services=2)
    job.goes_on(20)
    here, there = two_nodes.serving_by_keeper()
    os.kill(here[0], signal.SIGKILL)
    time.sleep(pause_s)
    os.kill(there[1], signal.SIGKILL)
    time.sleep(pause_s)
    kill(two_nodes, [here[1]], of=4)
    must_be_right(two_nodes, job, 3)


def test_one_in_the_place_of_another_is_killed_before_it_is_known(two_nodes):
    """Others may be told of the second one, of the third one, or of both."""
    moments = random.Random(5)
    for seed in range(2):
        job = start(two_nodes, "calls", LASTS_S, seed)
        job.goes_on(20)
        here, there = (node[0] for node in two_nodes.serving_by_keeper())
        os.kill(here, signal.SIGKILL)
        since = Stopwatch()
        assert since.sees(lambda there=there, here=here: set(services_of(two_nodes)) - {there, here}, RESTARTS_WITHIN_S)
        (second,) = set(services_of(two_nodes)) - {there, here}
        job.goes_on(moments.randrange(20))
        kill(two_nodes, [second], of=2)
        must_be_right(two_nodes, job, 2)


@pytest.mark.parametrize("mode", ("compute", "native"))
def test_killed_while_ranks_do_something_else(two_nodes, mode):
    moments = random.Random(mode)
    job = start(two_nodes, mode, LASTS_S, 5)
    for node in range(2):
        job.goes_on(moments.randrange(60))
        kill(two_nodes, two_nodes.serving_by_keeper()[node])
    must_be_right(two_nodes, job, 2)


@pytest.mark.parametrize("algorithms", ALGORITHMS)
@pytest.mark.parametrize("which", ("first node", "second node", "both"))
def test_killed_with_operations_of_every_kind_outstanding(two_nodes, which, algorithms):
    """A part of each is placed, the rest comes after the death."""
    job = start(two_nodes, "holding", LASTS_S, 0, algorithms=algorithms)
    time.sleep(0.5)
    first, second = two_nodes.serving_by_keeper()
    victims = {"first node": first, "second node": second, "both": first + second}[which]
    kill(two_nodes, victims)
    must_be_right(two_nodes, job, len(victims))


def test_killed_while_it_starts(two_nodes):
    """Before nodes know each other, during the exchange, and just after."""
    for delay_s in (0.0, 0.005, 0.02, 0.05, 0.1, 0.15):
        job = two_nodes.start(4, ["restarted", "calls", "1", "1"], services=1, env=with_copiers())
        since = Stopwatch()
        assert since.sees(lambda: bool(services_of(two_nodes)), 30)
        time.sleep(delay_s)
        os.kill(services_of(two_nodes)[-1], signal.SIGKILL)
        must_be_right(two_nodes, job, 1)


def test_stopped_for_a_while(two_nodes):
    """Longer than the timeout of a node whose keeper does not answer."""
    job = start(two_nodes, "calls", LASTS_S, 2)
    victim = services_of(two_nodes)[0]
    os.kill(victim, signal.SIGSTOP)
    time.sleep(8)
    assert victim in services_of(two_nodes)
    os.kill(victim, signal.SIGCONT)
    must_be_right(two_nodes, job, 0)


def test_stopped_for_long(two_nodes):
    job = start(two_nodes, "calls", LASTS_S, 2)
    victim = services_of(two_nodes)[-1]
    os.kill(victim, signal.SIGSTOP)
    since = Stopwatch()
    assert since.sees(lambda: victim not in services_of(two_nodes), STOPPED_FOR_S + 8)
    assert since.seconds() > STOPPED_FOR_S - 2
    must_be_right(two_nodes, job, 1)


# --- on a cluster ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def three_hosts() -> Iterator[Hosts]:
    with made(Hosts(3, f"restart{os.getpid()}")) as hosts:
        yield hosts


@pytest.fixture
def on_hosts(offload: Mpi, three_hosts: Hosts) -> Mpi:
    offload.hosts = three_hosts
    return offload


@pytest.mark.parametrize("services", (1, 2))
def test_killed_on_hosts(on_hosts, services):
    """Keepers reach each other only by the hosts' own network."""
    moments = random.Random(services)
    job = start(on_hosts, "calls", LASTS_S, services, ranks=6, services=services)
    for turn in range(4):
        job.goes_on(moments.randrange(60))
        kill(on_hosts, [moments.choice(on_hosts.serving_by_keeper()[turn % 3])])
    must_be_right(on_hosts, job, 4)


def test_all_hosts_lose_theirs_at_once(on_hosts):
    job = start(on_hosts, "calls", LASTS_S, 1, ranks=6)
    job.goes_on(20)
    kill(on_hosts, services_of(on_hosts))
    must_be_right(on_hosts, job, 3)
    on_hosts.nothing_left(GONE_WITHIN_S)


@pytest.mark.parametrize("where", ("elsewhere", "there", "everywhere"))
def test_killed_while_a_host_is_cut_off(on_hosts, where):
    """Connections to replacements begin while no packets pass. A process started on the cut-off host finds no network,
    and is replaced once there is one.
    """
    hosts = on_hosts.hosts
    job = start(on_hosts, "calls", LASTS_S, 2, ranks=6)
    hosts.cut_link("n2")
    victims = {"elsewhere": ("n0", "n1"), "there": ("n2",), "everywhere": ("n0", "n1", "n2")}[where]
    kill(on_hosts, [pid for pid in services_of(on_hosts) if hosts.of(pid) in victims])
    time.sleep(CUT_OFF_FOR_S)
    hosts.join_link("n2")
    must_be_right(on_hosts, job, len(victims) + ("n2" in victims))
