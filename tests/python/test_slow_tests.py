"""tests/slow.txt names unit tests that there are."""

from __future__ import annotations

import subprocess
from pathlib import Path

from outrigger.artifacts import Artifacts

LIST = Path(__file__).resolve().parents[1] / "slow.txt"


def patterns() -> list[str]:
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def names_tests(program: Path, pattern: str) -> bool:
    words = [str(program), "--gtest_list_tests", f"--gtest_filter={pattern}"]
    listed = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout
    return any(line.startswith("  ") for line in listed.splitlines())


def test_each_line_names_tests(built: Artifacts) -> None:
    programs = sorted(path for path in (built.root / "bin").glob("*_test*") if path.is_file())
    assert programs
    unknown = [pattern for pattern in patterns() if not any(names_tests(program, pattern) for program in programs)]
    assert unknown == []
