"""`outrigger run` of several programs in one job."""

from __future__ import annotations

import json
import shutil

import pytest
from test_run import run_dir, start

__all__ = ["run_dir"]
pytestmark = [pytest.mark.one_machine, pytest.mark.any_mpi]


def test_all_programs_have_the_library(offload, run_dir):
    """A rank without it would make the job native."""
    other = run_dir / "other"
    shutil.copy(offload.programs / "checked", other)
    report = run_dir / "report.json"
    words = [str(offload.programs / "checked"), "1000", ":", "-n", "2", str(other), "1000"]
    options = ["--algorithm", "all=on", "--choice", "fixed", "--report-to", str(report)]
    result = start(offload, run_dir, words, *options, ranks=1).wait(60).ok()
    assert result.out.count("checked: rank") == 3, result.out
    found = json.loads(report.read_text())
    assert found["ranks"] == 3
    assert sum(entry["offloaded"] for entry in found["collectives"]) > 0, result.out
    offload.nothing_left()
