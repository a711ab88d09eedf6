"""`outriggerd dpu` on this machine in place of DPUs, and checks of jobs on it."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ONE_MPI = pytest.mark.parametrize("mpi", ("mpich",), indirect=True)  # the tested part does not depend on the MPI

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
    """DPUs of this machine, and their addresses for ranks."""

    def __init__(
        self, daemon: Path, transports: str, log: Path, environment: dict[str, str], under: tuple[str, ...] = ()
    ) -> None:
        self.daemon = daemon
        self.under = under
        self.log = log
        self.secret = secrets.token_hex(16)
        self.environment = {"LD_LIBRARY_PATH": str(ucx_libraries()), "UCX_TLS": BY_CMA, **environment}
        if transports != BY_CMA:  # not the MPI's: over TCP ranks of MPICH 4.0 may hang in MPI_Finalize, natively
            self.environment["OUTRIGGER_UCX_TLS"] = transports
        self.running: list[subprocess.Popen[bytes]] = []
        self.ports: list[int] = []

    def start(self, services: int) -> None:
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [*self.under, str(self.daemon), "dpu", "--services", str(services)],
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
        return {**self.environment, "OUTRIGGER_DPUS": f"{self.secret}@{addresses}"}

    def probe(self) -> subprocess.CompletedProcess[str]:
        """Tests the first one's access to memory of this machine, as `outrigger info` does."""
        return subprocess.run(
            [str(self.daemon), "dpu-probe", f"127.0.0.1:{self.ports[0]}"],
            input=f"{self.secret}\n",
            env=os.environ | self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def end(self) -> None:
        for process in self.running:
            assert process.stdin is not None
            process.stdin.close()
        for process in self.running:
            process.wait(ENDS_WITHIN_S)


@contextmanager
def dpus(
    mpi,
    count: int = 1,
    services: int = 1,
    transports: str = BY_CMA,
    environment: dict[str, str] | None = None,
    under: tuple[str, ...] = (),
) -> Iterator[Dpus]:
    """`environment`: for the DPUs and, by told(), for ranks. `under`: a command that starts them."""
    started = Dpus(mpi.daemon, transports, mpi.directory / "dpu.log", environment or {}, under)
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
    "ialltoall=scatter_dest,ialltoallv=scatter_dest,ialltoallw=scatter_dest,iallgather=node_pull,"
    "iallgatherv=node_pull,ibcast=hierarchical"
)
