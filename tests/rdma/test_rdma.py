"""The wire over RDMA verbs (soft RoCE), in guests that have nothing else in common than a link.

Emulated machines: what is shown is that it works, not how fast.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from rdma_guests import Guest, Outcome

# UCX 1.13 drops what soft RoCE sends by datagrams unless told not to look at its addresses.
DATAGRAMS = {"UCX_UD_VERBS_ETH_DGID_CHECK": "n"}
VERBS = {"OUTRIGGER_UCX_TLS": "rc,ud", **DATAGRAMS}
SENT_AT_ONCE_BYTES = 8 << 10
"""The most that a send carries; all that is longer is fetched by the network (WireOptions::eager_bytes)."""
PACKET_BYTES = 4096
MPI_S = 240
LOST_WITHIN_S = 10.0


def counters(guest: Guest) -> dict[str, int]:
    """What soft RoCE has counted since the guest is up."""
    output = guest.run("cd /sys/class/infiniband/rxe0/ports/1/hw_counters && grep . *", 30).ok().output
    return {name: int(value) for name, value in re.findall(r"^(\w+):(\d+)$", output, re.MULTILINE)}


def lanes(share: Path) -> list[str]:
    """The connections that UCX has logged, as used by service processes."""
    logs = "".join(path.read_text(errors="replace") for path in share.glob("ucx-*.log"))
    return re.findall(r"lane\[\d\]: .*", logs)


def mpirun(build: Path, share: Path, program: str, environment: dict[str, str]) -> str:
    """The command that runs an offloaded program on both guests, one rank each. The MPI itself goes over TCP."""
    for_ranks = {
        "LD_PRELOAD": f"{build}/lib/liboutrigger-openmpi.so",
        "OUTRIGGER_SERVICES": "1",
        "OUTRIGGER_MIN_BYTES": "0",
        "OUTRIGGER_REPORT": f"{share}/report.json",
        "OUTRIGGER_LOG_FILE": f"{share}/outrigger.log",
        **environment,
    }
    for_mpirun = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_plm_rsh_agent": f"{share}/agent.sh",
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "tcp,self",
        "OMPI_MCA_mpi_yield_when_idle": "1",
    }
    before = " ".join(f"{name}={shlex.quote(value)}" for name, value in for_mpirun.items())
    exports = " ".join(f"-x {name}={shlex.quote(value)}" for name, value in for_ranks.items())
    return f"{before} mpirun.openmpi --host g0:1,g1:1 --bind-to none -n 2 {exports} {build}/tests/mpi/openmpi/{program}"


def wire_bytes(share: Path) -> int:
    report = json.loads((share / "report.json").read_text())
    return sum(entry["bytes"]["wire"] for entry in report["collectives"])


def run_tests_of_the_wire(guest: Guest, build: Path, tests: str, environment: dict[str, str]) -> Outcome:
    variables = " ".join(f"{name}={value}" for name, value in environment.items())
    return guest.run(f"{variables} {build}/bin/ucx_test --gtest_filter='{tests}'", 240)


def test_ucx_reports_rdma(guests, build):
    """It is seen that the network moves memory; without it the wire would go on as over TCP."""
    output = run_tests_of_the_wire(guests[0], build, "Endpoints.*", DATAGRAMS).ok().output
    assert "[       OK ] Endpoints.RdmaMovesMemory" in output, output


@pytest.mark.parametrize(
    "tests",
    [
        "*Wires.EverySizeFromAndToMappedAndPrivateMemory/MovesMemory",
        "*Wires.MessagesThatWaitAreSeen/*:*Wires.NothingIsMissedBySleepers/MovesMemory",
        "*Cancelling.AtEveryStageOfAPull/MovesMemory:*Cancelling.AtEveryStageOfAPush/MovesMemory",
    ],
    ids=("bytes", "sleepers", "cancelling"),
)
def test_tests_of_the_wire(guests, build, tests):
    before = counters(guests[1])
    output = run_tests_of_the_wire(guests[1], build, tests, VERBS).ok().output
    assert re.search(r"PASSED  \] [1-9]", output), output
    assert counters(guests[1])["sent_pkts"] > before["sent_pkts"]


@pytest.mark.parametrize("seed", [2, 4])
@pytest.mark.parametrize("transports", ["rc", "all"])
def test_mpi_program_across_guests(guests, build, seed, transports):
    """Random operations put the same bytes in the same places, and the large blocks are read by the network."""
    share = guests[0].directory.parent
    for old in (*share.glob("ucx-*.log"), share / "report.json"):
        old.unlink(missing_ok=True)
    before = [counters(guest) for guest in guests]
    environment = VERBS if transports == "rc" else DATAGRAMS
    environment = environment | {"UCX_LOG_LEVEL": "debug", "UCX_LOG_FILE": f"{share}/ucx-%h-%p.log"}
    program = f"differential --seed {seed} --operations 20 --stall-s 120"
    output = guests[0].run(mpirun(build, share, program, environment), MPI_S).ok().output
    assert "no difference" in output, output

    crossed = wire_bytes(share)
    assert crossed > 1 << 20
    assert any("rc_verbs" in lane and "rma_bw#0" in lane for lane in lanes(share)), lanes(share)
    packets, sends = 0, 0
    for guest, earlier in zip(guests, before, strict=True):
        now = counters(guest)
        packets += now["sent_pkts"] - earlier["sent_pkts"]
        sends += now["rdma_sends"] - earlier["rdma_sends"]
    assert packets * PACKET_BYTES >= crossed, "not all of it went over the RDMA device"
    assert packets > 2 * sends, "packets that belong to no send are those of RDMA reads and writes"
    print(f"{crossed} bytes on the wire, {packets} packets, {sends} sends")


def test_guest_is_killed(guests, build):
    """As a power cut: the other side names the node, and nothing of ours stays there. The last test: g1 is gone."""
    share = guests[0].directory.parent
    here, there = guests
    starting = mpirun(build, share, "steady operations 60", VERBS)
    here.run(f"({starting}) > {share}/steady.output 2>&1 & sleep 1", 30).ok()
    ready = f"until grep -q 'steady: ready' {share}/steady.output; do sleep 0.2; done"
    here.run(f"timeout 100 bash -c {shlex.quote(ready)}", 120).ok()
    output = (share / "steady.output").read_text()
    assert "natively" not in output, output
    there.process.kill()
    gone = "until ! pgrep -x outriggerd && ! pgrep -x steady; do sleep 0.2; done"
    here.run(f"timeout {LOST_WITHIN_S + 5} bash -c {shlex.quote(gone)}", 60).ok()
    output = (share / "steady.output").read_text()
    assert "outrigger: node g1 is lost" in output, output
