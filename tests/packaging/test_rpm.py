"""The RPMs of `./dev package rpm`: installed in a root of their own by rpm, and used from there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from conftest import ROOT, Tree, succeed

pytestmark = pytest.mark.slow

_PACKAGES = sorted((ROOT / "build" / "package").glob("*.rpm"))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without what they require, which a Debian has by another name."""
    if not _PACKAGES or shutil.which("rpm") is None:
        pytest.skip("there are no packages, or no rpm: ./dev package rpm")
    place = tmp_path_factory.mktemp("rpm") / "root"
    succeed(["rpm", "--root", place, "--nodeps", "--install", *_PACKAGES])
    return place


def _names(root: Path) -> set[str]:
    return set(succeed(["rpm", "--root", root, "--query", "--all", "--queryformat", "%{NAME}\\n"]).split())


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_a_job_runs_from_it(root: Path, tmp_path: Path, mpi: str) -> None:
    tree = Tree(root / "usr")
    program = tree.prefix / "lib64/outrigger/bench" / mpi / "alltoall_bench"
    report = tmp_path / "report.json"
    words = ("run", "-n", "2", "--mpi", mpi, "--algorithm", "on", "--report-to", report)
    tree.outrigger(*words, "--", program, "--sizes", "65536", "--seconds", "1")
    assert sum(call["offloaded"] for call in json.loads(report.read_text())["collectives"]) > 0
    found = json.loads(tree.outrigger("info", "--json"))
    assert Path(found["daemon"]["path"]).is_relative_to(root)


def test_nothing_is_left_when_they_are_removed(root: Path) -> None:
    names = _names(root)
    assert names == {"outrigger", "outrigger-libs", "outrigger-devel", "outriggerd"}
    succeed(["rpm", "--root", root, "--nodeps", "--erase", *names])
    assert [path for path in (root / "usr").rglob("*outrigger*") if path.suffix != ".pyc" and path.is_file()] == []
