"""The Debian packages of `./dev package deb`, in a root of their own: installed, used, upgraded, removed. Slow."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
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
_COMPILERS = "gcc gfortran libc6-dev libopenmpi-dev openmpi-bin pkg-config"
_LATER = "0.1.0+later"
# Records of dpkg, apt and ldconfig, and directories that belong to no package.
_NOT_THEIRS = re.compile(r"(var/lib/(dpkg|apt)|var/cache/(apt|ldconfig)|var/log|packages|home|dev|proc|sys|tmp)(/|$)")

# A program in each language of the C API, built with pkg-config's options.
_BUILD = """
cd ~
mpicc /packages/api.c $(pkg-config --cflags --libs outrigger) -o in-c
mpifort $(pkg-config --cflags outrigger) /usr/include/outrigger/outrigger.f90 /packages/api.f90 \\
  $(pkg-config --libs outrigger) -o in-fortran
outrigger run --algorithm on -n 2 -- ./in-c
mpirun -n 2 --oversubscribe ./in-c
outrigger run --algorithm on -n 2 -- ./in-fortran
"""


@dataclass(frozen=True)
class Root:
    """A Debian with the packages, and the paths that were there before them."""

    place: Path
    before: frozenset[str]

    def inside(self, script: str) -> str:
        """With a process table and a /dev/shm of its own."""
        return _inside(self.place, script)

    def as_user(self, script: str) -> str:
        """As somebody who is not root."""
        (self.place / "packages/script").write_text(f"set -e\n{script}\n")
        return self.inside("su - user -c 'bash /packages/script'")


def _inside(place: Path, script: str) -> str:
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


def _paths(place: Path) -> frozenset[str]:
    """The files in a root that a package could leave behind."""
    found = (str(path.relative_to(place)) for path in place.rglob("*"))
    return frozenset(path for path in found if not _NOT_THEIRS.match(path))


def _needed() -> str:
    """The packages' dependencies without each other, in the form for `apt-get satisfy`."""
    fields = [
        subprocess.run(["dpkg-deb", "-f", path, "Depends"], capture_output=True, text=True, check=True).stdout.strip()
        for path in _PACKAGES
    ]
    single = (word.strip() for field in fields for word in field.split(","))
    return ", ".join(sorted({word for word in single if word.split(" ")[0] not in _NAMES}))


def _make_later(package: Path, place: Path) -> None:
    """The same package, of a later version."""
    tree = place / "tree"
    subprocess.run(["dpkg-deb", "-R", package, tree], check=True)
    control = tree / "DEBIAN/control"
    control.write_text(control.read_text().replace("0.1.0", _LATER))
    subprocess.run(["dpkg-deb", "-Znone", "-b", tree, place], check=True, capture_output=True)
    shutil.rmtree(tree)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Root]:
    """With an Open MPI and compilers."""
    if _WHY_NOT:
        pytest.skip(_WHY_NOT)
    place = tmp_path_factory.mktemp("deb") / "root"
    # In a mount namespace: one that is cut short would leave /dev/shm mounted in it, and that would be emptied with it.
    words = ["unshare", "--mount", "mmdebstrap", "--mode=root", "--variant=apt", "bookworm", place]
    subprocess.run(words, check=True, timeout=1200)
    yield prepared(place)
    shutil.rmtree(place)


def prepared(place: Path) -> Root:
    """A bare root, with all that the packages need, and then with them."""
    (place / "packages").mkdir()
    (place / "dev/shm").mkdir(parents=True, exist_ok=True)
    for file in (*_PACKAGES, *(ROOT / "examples/api").glob("api.[cf]*")):
        shutil.copy(file, place / "packages")
    if Path("/etc/resolv.conf").exists():
        shutil.copy("/etc/resolv.conf", place / "etc/resolv.conf")
    _inside(place, f"apt-get update && apt-get install -y --no-install-recommends {_COMPILERS}")
    _inside(place, f"apt-get satisfy -y --no-install-recommends '{_needed()}' && useradd -m -s /bin/bash user")
    before = _paths(place)
    _inside(place, "apt-get install -y --no-install-recommends /packages/*.deb")
    return Root(place, before)


def test_the_demo_runs_there(root: Root) -> None:
    shown = root.as_user("outrigger demo -n 2")
    assert "MPI_Ialltoall, 2 ranks" in shown
    assert "No plot: pictures need the Python package matplotlib" in shown  # which is only recommended
    assert not (root.place / "home/user/demo-out").exists()


def test_programs_of_the_c_api_are_built_and_run(root: Root) -> None:
    shown = root.as_user(_BUILD)
    assert shown.count("Outrigger 0.1.0 offloads") == 2
    assert shown.count("nothing is offloaded: ") == 1
    assert shown.count("rank 0: 20 collectives, 10 offloaded, 10 switched off") == 2


def test_a_later_version_takes_their_place(root: Root, tmp_path: Path) -> None:
    for package in _PACKAGES:
        _make_later(package, tmp_path)
    for package in tmp_path.glob("*.deb"):
        shutil.move(package, root.place / "packages")
    installed = _paths(root.place)
    root.inside(f"apt-get install -y --no-install-recommends /packages/*_{_LATER}_*.deb")
    shown = root.inside(f"dpkg-query -W -f '${{Version}} ${{db:Status-Abbrev}}\\n' {' '.join(_NAMES)}")
    assert shown.splitlines() == [f"{_LATER} ii "] * len(_NAMES)
    assert _paths(root.place) == installed
    root.inside("outrigger info")  # as root, who could write bytecode beside the sources


def test_nothing_is_left_when_they_are_removed(root: Root) -> None:
    root.inside(f"apt-get purge -y {' '.join(_NAMES)}")
    assert _paths(root.place) == root.before
    known = [path for path in (root.place / "var/lib/dpkg/info").iterdir() if path.name.split(".")[0] in _NAMES]
    assert known == []
    assert "outrigger" not in (root.place / "etc/passwd").read_text() + (root.place / "etc/group").read_text()
