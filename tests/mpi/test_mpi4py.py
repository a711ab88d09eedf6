"""mpi4py's own tests of collectives and requests, from its source distribution, offloaded as far as possible."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from conftest import Mpi
from installed import SYSTEM_MPIS
from test_languages import python_environment

RANKS = 3
MODULES = "(test_cco_(nb_)?buf|test_request).py"
LEFT_OUT = ("Self", "WorldDup", "Scan")
"""Always native, or repetitions. docs/inside/testing.md describes the complete run, with the v- and w-forms, which have
ten times as many operations.
"""
FETCH_S = 60.0


def fetch(directory: Path) -> Path:
    """The source distribution of the installed mpi4py, by pip; skips if pip cannot fetch it."""
    version = importlib.metadata.version("mpi4py")
    archive = directory / f"mpi4py-{version}.tar.gz"
    if not archive.exists():
        # pip inspects it; an environment of its own would cost ten times as much.
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-build-isolation", "--no-deps"]
        command += ["--no-binary", "mpi4py", "--disable-pip-version-check", "--dest", str(directory)]
        command += [f"mpi4py=={version}"]
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_S)
        except subprocess.TimeoutExpired:
            pytest.skip(f"pip did not fetch the source distribution of mpi4py {version} within {FETCH_S:.0f} s")
        if result.returncode != 0 or not archive.exists():
            lines = [line.strip() for line in result.stderr.splitlines() if "error: " in line.lower()]
            pytest.skip(f"pip cannot fetch the source distribution of mpi4py {version}: {'; '.join(lines)}")
    return archive


@pytest.fixture(scope="session")
def suite(build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of mpi4py's tests. The archive is kept beside the build."""
    pytest.importorskip("mpi4py", reason="mpi4py is not installed beside pytest")
    archive = fetch(build)
    directory = tmp_path_factory.mktemp("mpi4py")
    with tarfile.open(archive) as files:
        files.extractall(directory, filter="data")
    return directory / archive.name.removesuffix(".tar.gz") / "test"


def yielding(mpi: Mpi) -> dict[str, str]:
    """MPICH 4.0's ranks never yield if they share cores: thousands of operations would take too long."""
    if mpi.name != "mpich":
        return {}
    library = mpi.build / "tests" / "mpi" / "yield" / "libmpich4-yield.so"
    assert library.exists(), f"{library} is not built: build the target mpi_programs"
    return {"LD_PRELOAD": f"{mpi.library}:{library}:libucp.so.0"}


@pytest.mark.slow
@SYSTEM_MPIS
def test_collectives(offload: Mpi, suite: Path) -> None:
    """With two service processes, blocking forms too: all tests pass, and were offloaded."""
    program = [sys.executable, str(suite / "main.py"), "--quiet", "-i", MODULES]
    program += [word for name in LEFT_OUT for word in ("-x", name)]
    env = python_environment(offload) | yielding(offload) | {"OUTRIGGER_BLOCKING": "on"}
    result = offload.run(RANKS, program, services=2, env=env, timeout_s=300).ok()
    counts = {int(count) for count in re.findall(r"^Ran (\d+) tests", result.out, re.MULTILINE)}
    assert len(counts) == 1 and counts.pop() >= 20, result.out
    assert result.offloaded() > 1000, result.report
