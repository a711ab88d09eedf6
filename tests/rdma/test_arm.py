"""A DPU with Arm cores: service processes built for it find its RDMA device, and reach the memory of an x86-64 host."""

from __future__ import annotations

import json
import re

import pytest
from rdma_guests import PATIENCE
from rdma_jobs import SOFT_ROCE, assignments, counters, run_tests_of_the_wire

PORT = 13337


@pytest.fixture
def dpu(boot, arm_build):
    return boot("arm0")[0]


def test_its_service_processes_find_the_device(dpu, arm_build):
    output = dpu.run(f"{assignments(SOFT_ROCE)} {arm_build}/bin/outriggerd info --json", 60).ok().output
    info = json.loads(output)
    assert info["machine"] == "aarch64"
    assert info["wire"] == {"kind": "rdma", "transports": "rc_verbs/rxe0:1"}, output


def test_tests_of_the_wire(dpu, arm_build):
    if not (arm_build / "bin" / "ucx_test").exists():
        pytest.skip(f"{arm_build}/bin/ucx_test is not there")
    tests = "*Wires.EverySizeFromAndToMappedAndPrivateMemory/MovesMemory"
    output = run_tests_of_the_wire(dpu, arm_build, tests, {"OUTRIGGER_UCX_TLS": "rc,ud", **SOFT_ROCE}).ok().output
    assert re.search(r"PASSED  \] [1-9]", output), output


@pytest.mark.parametrize("test", ["ucp_get", "ucp_put_bw"])
def test_it_reaches_memory_of_a_host(boot, dpu, test):
    """UCX's own test program at both ends: one reads and writes the other's memory by verbs."""
    host = boot("h0")[0]
    program = f"{assignments(SOFT_ROCE)} UCX_TLS=rc timeout {60 * PATIENCE:.0f} ucx_perftest -p {PORT}"
    before = counters(dpu)["sent_pkts"], counters(host)["sent_pkts"]
    host.run(f"({program}) >/tmp/perftest.log 2>&1 &", 30).ok()
    started = f"for i in $(seq 100); do grep -q :{PORT:04X} /proc/net/tcp && exit; sleep 0.1; done; exit 1"
    host.run(started, 30).ok()
    output = dpu.run(f"{program} h0 -t {test} -s 65536 -n 40 -w 2 -f", 90).ok().output
    assert re.search(r"^\s*40\b", output, re.MULTILINE), output
    sent = counters(dpu)["sent_pkts"] - before[0], counters(host)["sent_pkts"] - before[1]
    packets = 40 * 65536 // 4096
    assert sent[1 if test == "ucp_get" else 0] >= packets, f"sent {sent}, not {packets}\n{output}"
