"""Commands of the MPIs themselves: they start ranks on the job's hosts and on no others."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from outrigger import launchers, mpis
from outrigger.errors import UserError
from outrigger.hostfile import Host
from outrigger.launchers import Start
from outrigger.mpis import Mpi
from outrigger.plan import Share

INSTALLED = Path(__file__).resolve().parents[2] / "build" / "mpis"
MPIS = [*mpis.find_mpis(), *(mpi for name in ("openmpi", "mpich", "intel") for mpi in mpis.at(INSTALLED / name)[:1])]
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
HERE = (Share(Host("localhost", 1), 0, 1), Share(Host(socket.gethostname(), 1), 1, 1))
SLURM = {
    "SLURM_JOB_ID": "7", "SLURM_JOBID": "7", "SLURM_JOB_NODELIST": "away[1-2]", "SLURM_NODELIST": "away[1-2]",
    "SLURM_JOB_NUM_NODES": "2", "SLURM_NNODES": "2", "SLURM_TASKS_PER_NODE": "2(x2)",
    "SLURM_JOB_CPUS_PER_NODE": "2(x2)",
}  # fmt: skip


def elsewhere(files: Path) -> list[dict[str, str]]:
    """Environments in which the MPIs would start ranks on other hosts."""
    hosts, slots = files / "hosts", files / "slots"
    hosts.write_text("away1:2\n")
    slots.write_text("away1 slots=2\n")
    return [
        {"HYDRA_HOST_FILE": str(hosts), "I_MPI_HYDRA_HOST_FILE": str(hosts)},
        {"OMPI_MCA_orte_default_hostfile": str(slots), "PRTE_MCA_prte_default_hostfile": str(slots)},
        {"PBS_ENVIRONMENT": "x", "PBS_JOBID": "7", "PBS_NODEFILE": str(hosts)},
        SLURM,
    ]


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """PATH of a machine without ssh."""
    for name in ("sh", "echo"):
        (tmp_path / name).symlink_to(shutil.which(name) or "")
    monkeypatch.setenv("PATH", str(tmp_path))
    return str(tmp_path)


def output(start: Start, environment: dict[str, str]) -> str:
    started = launchers.mpiexec(start)
    result = subprocess.run(
        started.command, env={**os.environ, **ROOT, **environment, **started.environment}, capture_output=True,
        text=True, timeout=120, check=False,
    )  # fmt: skip
    return result.stdout if result.returncode == 0 else result.stderr


@pytest.mark.parametrize("mpi", MPIS, ids=lambda mpi: f"{mpi.implementation}-{mpi.version}")
@pytest.mark.parametrize("shares", [(), HERE], ids=["no-hostfile", "hostfile"])
def test_a_job_of_this_machine_stays_here_and_needs_no_ssh(
    tmp_path: Path, bare: str, mpi: Mpi, shares: tuple[Share, ...]
) -> None:
    for environment in elsewhere(tmp_path):
        assert output(Start(mpi, 2, ("echo", "a rank"), shares), environment) == "a rank\n" * 2, environment


@pytest.mark.parametrize("implementation", ["openmpi", "mpich", "intel"])
def test_other_hosts_need_ssh(bare: str, implementation: str) -> None:
    mpi = Mpi("openmpi" if implementation == "openmpi" else "mpich", "4", Path("/mpiexec"), None, implementation)
    with pytest.raises(UserError, match="no ssh on PATH to reach other hosts; install it, or name another with"):
        launchers.mpiexec(Start(mpi, 2, ("echo",), (Share(Host("away1", 2), 0, 2),)))


@pytest.mark.parametrize(("version", "option", "plm"), [("4.1.4", "--mca", "rsh"), ("5.0.11", "--prtemca", "ssh")])
def test_open_mpi_asks_no_batch_system_for_hosts(tmp_path: Path, version: str, option: str, plm: str) -> None:
    agent = tmp_path / "agent"
    agent.touch(0o755)
    shares = (Share(Host("away1", 2), 0, 2),)
    command = launchers.openmpi(
        Start(Mpi("openmpi", version, Path("/mpirun"), None), 2, ("a",), shares, str(agent))
    ).command
    given = {command[i + 1]: command[i + 2] for i, word in enumerate(command) if word == option}
    assert given["plm"] == plm
    assert given["ras"].startswith("^slurm,")
    assert "none" in (given.get("orte_default_hostfile"), given.get("prte_default_hostfile"))
