"""The check of the algorithms' headers finds what it is there to find, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "check_algorithms.py"
REGISTRY = "Task gather_ring(Operation& operation, LocalRank& rank);\n"
HEADER = """// ring: a gather, as other.hpp has it.
//
// Source and code (steps):
//     1 the host tells its service process, which takes | core/operation.cpp `algorithm(*this, rank)`: the start
//        the block                                      |    of all, and `take`
//     2 the host is told                                | `operation.complete(rank)`, other.hpp `by  turns`
//
"""
CODE = "Task gather_ring() {\n  take(rank);  // not give()\n  operation.complete(rank);\n}\n"


def check(engine: Path, header: str = HEADER, code: str = CODE) -> subprocess.CompletedProcess[str]:
    files = {
        "registry.hpp": REGISTRY,
        "core/operation.cpp": "Task task = algorithm(*this,\n                      rank);\n",
        "algorithms/other.hpp": "void by turns();\n",
        "algorithms/gather_ring.cpp": header + code,
    }
    for name, text in files.items():
        path = engine / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return subprocess.run([sys.executable, SCRIPT, engine], capture_output=True, text=True, check=False)


def test_a_right_header_passes(tmp_path: Path) -> None:
    result = check(tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "1 algorithms, 0 problems in their headers\n"


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("`take`", "`give`", "gather_ring.cpp:4: gather_ring.cpp has no `give`"),
        ("`take`", "`tak`", "gather_ring.cpp:4: gather_ring.cpp has no `tak`"),
        ("`operation.complete(rank)`, other.hpp `by  turns`", "the end", "gather_ring.cpp:6: the row names no code"),
        ("other.hpp `by", "core/operation.cpp `by", "gather_ring.cpp:6: operation.cpp has no `by  turns`"),
        ("as other.hpp", "as another.hpp", "gather_ring.cpp:1: another.hpp is no file under"),
        ("// Source and code", "// Source", "gather_ring.cpp:1: no table"),
    ],
)
def test_a_wrong_header_is_found(tmp_path: Path, right: str, wrong: str, message: str) -> None:
    assert right in HEADER
    result = check(tmp_path, HEADER.replace(right, wrong))
    assert result.returncode == 1
    assert message in result.stderr


def test_code_that_goes_is_missed(tmp_path: Path) -> None:
    result = check(tmp_path, code=CODE.replace("operation.complete(rank);", "operation.complete(other);"))
    assert result.returncode == 1
    assert "gather_ring.cpp:6: gather_ring.cpp has no `operation.complete(rank)`" in result.stderr


def test_an_algorithm_without_a_file_is_found(tmp_path: Path) -> None:
    check(tmp_path)
    (tmp_path / "algorithms" / "gather_ring.cpp").unlink()
    result = subprocess.run([sys.executable, SCRIPT, tmp_path], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "registry.hpp declares gather_ring, which has no file of its own" in result.stderr
