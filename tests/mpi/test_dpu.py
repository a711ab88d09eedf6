"""Service processes on a DPU: `outriggerd dpu` on this machine stands for it. It shares no segment with ranks, and
reaches their memory only by UCX, through the kernel (CMA) instead of a network, without their help.

That needs a UCX that reads and writes by CMA without the other side's help, as 1.15 and later do: the one that `./dev
build ucx122` puts into build/ucx-1.22, or the one of OUTRIGGER_TEST_UCX.
"""

from __future__ import annotations

import json
import os
import signal

import pytest
from conftest import Stopwatch
from installed import SYSTEM_MPIS
from local_dpus import ENDS_WITHIN_S, ONE_MPI, SECOND, dpus, reached

pytestmark = pytest.mark.one_machine
SOAK_OPERATIONS = int(os.environ.get("OUTRIGGER_SOAK_OPERATIONS", "250"))
"""With memory that comes and goes between them."""
IDLE_US = "5000"
"""kPatienceOnFreeCore of service/loop/sleeper.cpp: after this time without work, a service process begins to announce
its sleep.
"""


@pytest.mark.parametrize(
    ("ranks", "nodes", "services", "algorithms"),
    [(3, 1, 1, ""), (4, 1, 2, SECOND), (4, 2, 1, ""), (5, 2, 2, "iallgather=hierarchical,iallgatherv=hierarchical")],
)
def test_no_difference(offload, ranks, nodes, services, algorithms):
    program = ["differential", "--seed", "77", "--operations", "40"]
    offload.pretend_nodes = nodes
    with dpus(offload, nodes, services) as started:
        env = started.told() | {"OUTRIGGER_ALGORITHM": algorithms, "OUTRIGGER_LOG": "info"}
        result = offload.start(ranks, program, services=services, env=env).wait(150).ok()
    assert "no difference" in result.out
    assert "on a DPU" in result.out
    by_reach = reached(result)
    assert by_reach["wire" if nodes > 1 else "rdma"] > 0, by_reach
    assert by_reach["mapped"] == by_reach["cma"] == by_reach["relay"] == 0, by_reach
    offload.nothing_left()


@pytest.mark.parametrize(("ranks", "nodes", "services"), [(3, 1, 1), (4, 1, 2), (5, 2, 1), (6, 3, 2)])
def test_reductions(offload, ranks, nodes, services):
    """On the DPUs' cores, from data of the hosts."""
    offload.pretend_nodes = nodes
    with dpus(offload, nodes, services) as started:
        program = ["reductions", "--seed", f"{78 + ranks}", "--operations", "60"]
        env = started.told() | {"OUTRIGGER_LOG": "info"}
        result = offload.start(ranks, program, services=services, env=env).wait(150).ok()
    assert "no difference" in result.out
    assert "on a DPU" in result.out
    assert result.offloaded() > 60
    by_reach = reached(result)
    assert by_reach["rdma"] > 0 and (nodes == 1 or by_reach["wire"] > 0), by_reach
    assert by_reach["mapped"] == by_reach["cma"] == by_reach["relay"] == 0, by_reach
    offload.nothing_left()


@SYSTEM_MPIS
def test_memory_comes_and_goes(offload):
    """Registered memory that is freed, unmapped, remapped, inherited between operations; every byte is checked."""
    with dpus(offload) as started:
        program = ["soak", str(SOAK_OPERATIONS), "5", "20"]
        result = offload.start(2, program, env=started.told()).wait(150 + SOAK_OPERATIONS / 20).ok()
    assert result.offloaded() > 0
    offload.nothing_left()


@ONE_MPI
def test_over_tcp_it_is_refused(offload):
    """UCX's reads over TCP need the rank's help: a line reports it, and the job continues without the DPU."""
    with dpus(offload, transports="tcp") as started:
        result = offload.start(2, ["differential", "--operations", "20"], env=started.told()).wait(90).ok()
    assert "no difference" in result.out
    said = [line for line in result.out.splitlines() if "DPUs are not used" in line]
    assert len(said) == 1, result.out
    offload.nothing_left()


@ONE_MPI
def test_more_transports_than_reach_it_are_no_setting(offload):
    """A truncated value is reported, and the job continues without the DPU."""
    with dpus(offload) as started:
        env = started.told() | {"OUTRIGGER_UCX_TLS": "tcp," * 40 + "self"}
        result = offload.start(2, ["differential", "--operations", "20"], env=env).wait(90).ok()
    said = [line for line in result.out.splitlines() if "DPUs are not used" in line]
    assert len(said) == 1 and "OUTRIGGER_UCX_TLS has 164 characters" in said[0], result.out
    assert "no difference" in result.out
    offload.nothing_left()


@ONE_MPI
def test_a_dpu_that_is_not_there(offload):
    told = {"OUTRIGGER_DPUS": "0" * 32 + "@localhost=127.0.0.1:9"}
    result = offload.run(2, ["differential", "--operations", "20"], env=told).ok()
    assert "127.0.0.1:9" in result.out, result.out
    result = offload.run(2, ["differential", "--operations", "20"], env=told | {"OUTRIGGER_REACH": "-rdma"}).ok()
    assert "127.0.0.1:9" not in result.out, result.out
    assert result.offloaded() > 0


@ONE_MPI
def test_the_daemon_is_killed_where_nobody_else_may_reach_memory(offload):
    """So it is not replaced (test_dpu_lost.py): the job ends soon."""
    with dpus(offload, environment={"OUTRIGGER_REACH": "-cma"}) as started:
        job = offload.start(2, ["steady", "operations", "60"], env=started.told())
        job.wait_for("steady: under way")
        os.kill(offload.daemons("dpu")[-1].pid, signal.SIGKILL)
        since = Stopwatch()
        result = job.wait(ENDS_WITHIN_S + 30)
        assert since.seconds() < ENDS_WITHIN_S, result.out
    assert result.returncode != 0
    assert "DPU" in result.out and "is lost" in result.out, result.out
    offload.nothing_left()


@ONE_MPI
def test_probe(offload):
    """Without hardware UCX rejects exported memory handles, without messages."""
    with dpus(offload) as started:
        probed = started.probe()
    assert probed.returncode == 0, probed.stderr
    assert json.loads(probed.stdout)["reach"] == "rdma"
    assert probed.stderr == ""
    offload.nothing_left()


@pytest.mark.parametrize(("ranks", "services"), [(3, 1), (4, 2)])
def test_posts_while_service_processes_go_to_sleep(offload, ranks, services):
    """Ranks post when idle service processes are announcing their sleep."""
    program = ["differential", "--seed", "80", "--operations", "120", "--stall-s", "30", "--pause-us", IDLE_US]
    with dpus(offload, services=services) as started:
        result = offload.start(ranks, program, services=services, env=started.told()).wait(150).ok()
    assert "no difference" in result.out
    assert reached(result)["rdma"] > 0
    offload.nothing_left()
