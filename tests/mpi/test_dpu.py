"""Service processes elsewhere: `outriggerd dpu` on this machine stands for a DPU. It shares no segment with ranks, and
reaches their memory by UCX alone, through the kernel (CMA) instead of a network, while they do not progress it.

That takes a UCX that reads and writes by CMA without the other side's help, as 1.15 and later do: the one that
`./dev build ucx122` puts into build/ucx-1.22, or what OUTRIGGER_TEST_UCX names.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.one_machine

ONE_MPI = pytest.mark.parametrize("mpi", ("mpich",), indirect=True)  # what is tested has no MPI in it

READY = "outriggerd: dpu ready "
BY_CMA = "cma,sysv,posix,self"
ENDS_WITHIN_S = 10.0


def ucx_libraries() -> Path:
    default = Path(__file__).parents[2] / "build" / "ucx-1.22" / "libucx" / "lib"
    found = Path(os.environ.get("OUTRIGGER_TEST_UCX", default))
    if not (found / "libucp.so.0").exists():
        pytest.skip(f"no UCX of 1.15 or later in {found}; ./dev build ucx122 installs one")
    return found


class Dpus:
    """DPUs of this machine, and what ranks must be told of them."""

    def __init__(self, daemon: Path, transports: str, log: Path) -> None:
        self.daemon = daemon
        self.log = log
        self.secret = secrets.token_hex(16)
        self.environment = {"LD_LIBRARY_PATH": str(ucx_libraries()), "UCX_TLS": transports}
        self.running: list[subprocess.Popen[bytes]] = []
        self.ports: list[int] = []

    def start(self, services: int) -> None:
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [str(self.daemon), "dpu", "--services", str(services)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=os.environ | self.environment,
            )
        self.running.append(process)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{self.secret}\n".encode())
        process.stdin.flush()
        line = process.stdout.readline().decode()
        assert line.startswith(READY), line
        self.ports.append(int(dict(word.split("=") for word in line[len(READY) :].split())["port"]))

    def told(self) -> dict[str, str]:
        addresses = ",".join(f"localhost=127.0.0.1:{port}" for port in self.ports)
        return {**self.environment, "OUTRIGGER_DPUS": addresses, "OUTRIGGER_DPU_SECRET": self.secret}

    def end(self) -> None:
        for process in self.running:
            assert process.stdin is not None
            process.stdin.close()
        for process in self.running:
            process.wait(ENDS_WITHIN_S)


@contextmanager
def dpus(mpi, count: int = 1, services: int = 1, transports: str = BY_CMA) -> Iterator[Dpus]:
    started = Dpus(mpi.daemon, transports, mpi.directory / "dpu.log")
    try:
        for _ in range(count):
            started.start(services)
        yield started
    finally:
        started.end()


def reached(result) -> dict[str, int]:
    """Bytes by reach, of all collectives."""
    total: dict[str, int] = {}
    for entry in result.report["collectives"]:
        for name, count in entry["bytes"].items():
            total[name] = total.get(name, 0) + count
    return total


SECOND = (
    "ialltoall=scatter_dest,ialltoallv=scatter_dest,ialltoallw=scatter_dest,iallgather=node_ring,"
    "iallgatherv=node_ring,ibcast=hierarchical"
)


@pytest.mark.parametrize(
    ("ranks", "nodes", "services", "algorithms"),
    [(3, 1, 1, ""), (4, 1, 2, SECOND), (4, 2, 1, ""), (5, 2, 2, "iallgather=hierarchical,iallgatherv=hierarchical")],
)
def test_no_difference(offload, ranks, nodes, services, algorithms):
    program = ["differential", "--seed", "77", "--operations", "40"]
    offload.pretend_nodes = nodes
    with dpus(offload, nodes, services) as started:
        env = started.told() | {"OUTRIGGER_ALGORITHM": algorithms, "OUTRIGGER_VERBOSE": "1"}
        result = offload.start(ranks, program, services=services, env=env).wait(150).ok()
    assert "no difference" in result.out
    assert "on a DPU" in result.out
    by_reach = reached(result)
    assert by_reach["wire" if nodes > 1 else "rdma"] > 0, by_reach
    assert by_reach["mapped"] == by_reach["cma"] == by_reach["relay"] == 0, by_reach
    offload.nothing_left()


@ONE_MPI
def test_memory_comes_and_goes(offload):
    """Registered memory that is freed, unmapped, remapped between operations; every byte is checked."""
    with dpus(offload) as started:
        result = offload.start(2, ["soak", "250", "5"], env=started.told()).wait(150).ok()
    assert result.offloaded() > 0
    offload.nothing_left()


@ONE_MPI
def test_over_tcp_it_is_refused(offload):
    """UCX's reads over TCP need the rank's help: a line says so, and the job goes on without the DPU."""
    with dpus(offload, transports="tcp") as started:
        result = offload.start(2, ["differential", "--operations", "20"], env=started.told()).wait(90).ok()
    assert "no difference" in result.out
    said = [line for line in result.out.splitlines() if "DPUs are not used" in line]
    assert len(said) == 1, result.out
    offload.nothing_left()


@ONE_MPI
def test_a_dpu_that_is_not_there(offload):
    told = {"OUTRIGGER_DPUS": "localhost=127.0.0.1:9", "OUTRIGGER_DPU_SECRET": "0" * 32}
    result = offload.run(2, ["differential", "--operations", "20"], env=told).ok()
    assert "127.0.0.1:9" in result.out, result.out
    result = offload.run(2, ["differential", "--operations", "20"], env=told | {"OUTRIGGER_USE_DPU": "0"}).ok()
    assert "127.0.0.1:9" not in result.out, result.out
    assert result.offloaded() > 0


@ONE_MPI
@pytest.mark.parametrize("victim", ["dpu", "serve"])
def test_killed(offload, victim):
    with dpus(offload) as started:
        job = offload.start(2, ["steady", "operations", "60"], env=started.told())
        job.wait_for("steady: ready")
        time.sleep(0.5)
        os.kill(offload.daemons(victim)[-1].pid, signal.SIGKILL)
        since = time.monotonic()
        result = job.wait(ENDS_WITHIN_S + 30)
        assert time.monotonic() - since < ENDS_WITHIN_S, result.out
    assert result.returncode != 0
    assert "DPU" in result.out, result.out
    offload.nothing_left()
