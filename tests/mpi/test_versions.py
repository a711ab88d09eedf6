"""Builds of different versions reject each other: one line names both, and the program runs natively.

The other build is a copy of this one with another release written into it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import Mpi, wait_until
from local_dpus import ENDS_WITHIN_S, ONE_MPI, READY

from outrigger import __version__
from outrigger.live import keepers
from outrigger.live.snapshot import Service

OTHER = "0.9.7"
MARK = b"outrigger release "
WITHIN_S = 20.0

pytestmark = pytest.mark.one_machine


def other_version(of: Path, directory: Path) -> Path:
    """A copy with another release number."""
    content = of.read_bytes()
    mine, others = (MARK + version.encode() for version in (__version__, OTHER))
    assert len(mine) == len(others) and content.count(mine) == 1, of
    copy = directory / of.name
    copy.write_bytes(content.replace(mine, others))
    copy.chmod(copy.stat().st_mode | stat.S_IXUSR)
    return copy


def named(said: str) -> bool:
    return f"{__version__} (protocol " in said and f"{OTHER} (protocol " in said


def must_name_both(mpi: Mpi, ranks: str, having: dict[str, dict[str, str]]) -> None:
    result = mpi.start_mixed(ranks, "mixed", having).wait(WITHIN_S)
    mpi.nothing_left()
    assert f"mixed: {len(ranks)} ranks received their own" in result.ok().out
    (said,) = [line for line in result.out.splitlines() if "outrigger: " in line]
    assert "running natively: " in said and named(said), said


@pytest.mark.parametrize("ranks", ["YYO", "OYY"])
def test_rank_and_rank(offload: Mpi, tmp_path: Path, ranks: str) -> None:
    library = other_version(offload.library, tmp_path)
    preload = offload._preload(heap=False)["LD_PRELOAD"].replace(str(offload.library), str(library))
    must_name_both(offload, ranks, {"Y": {}, "O": {"LD_PRELOAD": preload, "OUTRIGGER_DAEMON": str(offload.daemon)}})


@ONE_MPI
@pytest.mark.parametrize("nodes", [1, 2])
def test_rank_and_keeper(offload: Mpi, tmp_path: Path, nodes: int) -> None:
    """On two nodes only the second one's keeper and service processes differ: none of them meets the first's."""
    offload.pretend_nodes = nodes
    daemon = {"OUTRIGGER_DAEMON": str(other_version(offload.daemon, tmp_path))}
    must_name_both(offload, "YYOO", {"Y": daemon if nodes == 1 else {}, "O": daemon})


@ONE_MPI
def test_an_upgrade_meanwhile_does_not_mix_builds(offload: Mpi, tmp_path: Path) -> None:
    """A replacement service process is of its keeper's build, even if the file has been replaced."""
    daemon = Path(shutil.copy2(offload.daemon, tmp_path))
    (tmp_path / "next").mkdir()
    env = {"OUTRIGGER_DAEMON": str(daemon), "OUTRIGGER_LIVE": "on", "OUTRIGGER_REPORT": ""}
    job = offload.start(3, ["watched", "20", "10"], env=env)
    job.wait_for("watched: goes on")

    def runs_it(keeper: int) -> bool:
        try:
            return os.readlink(f"/proc/{keeper}/exe").startswith(str(daemon))
        except FileNotFoundError:  # another job's, which has ended meanwhile
            return False

    def service() -> Service:
        (mine,) = [node for node in keepers.read().nodes if runs_it(node.keeper)]
        return mine.services[0]

    former = service()
    os.replace(other_version(daemon, tmp_path / "next"), daemon)
    os.kill(former.pid, signal.SIGKILL)
    assert wait_until(lambda: service().restarts == 1 and service().pid not in (0, former.pid), WITHIN_S)
    assert os.readlink(f"/proc/{service().pid}/exe") == f"{daemon} (deleted)"
    job.end_soon()
    assert OTHER not in job.wait(40).ok().out
    offload.nothing_left()


@contextmanager
def dpu_of(daemon: Path, secret: str, log: Path) -> Iterator[int]:
    """Its port."""
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [str(daemon), "dpu", "--services", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
        )
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(f"{secret}\n".encode())
        process.stdin.flush()
        line = process.stdout.readline().decode()
        yield int(dict(word.split("=") for word in line.removeprefix(READY).split())["port"])
    finally:
        process.stdin.close()
        process.wait(ENDS_WITHIN_S)


@ONE_MPI
def test_host_and_dpu(offload: Mpi, tmp_path: Path) -> None:
    """`outriggerd dpu-probe`, which `outrigger info --dpufile` runs; and a job, which has its host's cores then."""
    secret = secrets.token_hex(16)
    with dpu_of(other_version(offload.daemon, tmp_path), secret, tmp_path / "dpu.log") as port:
        probe = subprocess.run(
            [str(offload.daemon), "dpu-probe", f"127.0.0.1:{port}"],
            input=f"{secret}\n", capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert probe.returncode != 0 and named(probe.stderr + probe.stdout), probe
        told = {"OUTRIGGER_DPUS": f"{secret}@localhost=127.0.0.1:{port}"}
        result = offload.start_mixed("YY", "mixed", {"Y": told}).wait(WITHIN_S)
    offload.nothing_left()
    assert "mixed: 2 ranks received their own" in result.ok().out
    said = [line for line in result.out.splitlines() if "the DPUs are not used: " in line]
    assert len(said) == 1 and named(said[0]), result.out
