"""The Debian packages of `./dev package deb`, in a root of their own: installed, used, removed. Takes minutes."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT

pytestmark = pytest.mark.slow

_PACKAGES = sorted(path for path in (ROOT / "build" / "package").glob("*.deb") if "-dbgsym_" not in path.name)
_WHY_NOT = (
    "there are no packages: ./dev package deb" if not _PACKAGES
    else "making a root takes root" if os.geteuid() != 0
    else "mmdebstrap is not installed" if shutil.which("mmdebstrap") is None
    else ""
)  # fmt: skip
_NAMES = [path.name.split("_")[0] for path in _PACKAGES]
_AS_USER = "useradd -m user; su user -c 'cd; {}'"


def _root(place: Path) -> None:
    subprocess.run(["mmdebstrap", "--mode=root", "--variant=apt", "bookworm", place], check=True, timeout=1200)
    (place / "packages").mkdir()
    (place / "dev/shm").mkdir(parents=True, exist_ok=True)
    for package in _PACKAGES:
        shutil.copy(package, place / "packages")


def _inside(place: Path, script: str) -> str:
    """With a process table and a /dev/shm of its own."""
    kinds = {"proc": "proc", "sysfs": "sys", "tmpfs": "dev/shm"}
    mounts = (f"mount -t {kind} {kind} {place}/{at}" for kind, at in kinds.items())
    mounted = " && ".join((*mounts, f"exec chroot {place} bash -ec"))
    done = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "bash", "-c", f'{mounted} "$1"', "bash", script],
        capture_output=True, text=True, timeout=1200, check=False,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A Debian with the packages and an Open MPI."""
    if _WHY_NOT:
        pytest.skip(_WHY_NOT)
    place = tmp_path_factory.mktemp("deb") / "root"
    _root(place)
    resolv = Path("/etc/resolv.conf")
    if resolv.exists():
        shutil.copy(resolv, place / "etc/resolv.conf")
    _inside(place, "apt-get update && apt-get install -y --no-install-recommends openmpi-bin /packages/*.deb")
    yield place
    shutil.rmtree(place)


def test_the_demo_runs_there(root: Path) -> None:
    shown = _inside(root, _AS_USER.format("outrigger demo --ranks 2"))
    assert "MPI_Ialltoall, 2 ranks" in shown
    assert (root / "home/user/demo-out").is_dir()


def test_nothing_is_left_when_they_are_removed(root: Path) -> None:
    _inside(root, f"apt-get purge -y {' '.join(_NAMES)}")
    left = [path for path in (root / "usr").rglob("*outrigger*") if "/doc/" not in str(path)]
    assert left == []
