"""For all tests here."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from matplotlib.figure import Figure

from outrigger import artifacts
from outrigger.artifacts import Artifacts

# A shell's background job ignores it, and would pass that on to the programs that are interrupted here.
signal.signal(signal.SIGINT, signal.default_int_handler)

# These tests must not depend on the cores of other jobs on this machine.
os.environ["OUTRIGGER_CORE_CLAIMS"] = "off"

# The time to make or run an example depends only on the load of the machine.
settings.register_profile("outrigger", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("outrigger")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium. Tests are skipped without it."""
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Figure]]:
    """The figures that are saved, which stay open to be looked at."""
    from matplotlib import pyplot

    figures: list[Figure] = []
    monkeypatch.setattr(pyplot, "close", figures.append)
    yield figures
    monkeypatch.undo()
    pyplot.close("all")


@pytest.fixture
def built() -> Artifacts:
    """The build that knows the library's tables."""
    return artifacts.find()


@pytest.fixture
def write_programs(tmp_path: Path, built: Artifacts) -> Callable[[Mapping[str, str]], None]:
    """Writes shell scripts, by their paths below `tmp_path`: a build as it looks from outside, or an mpirun.

    Whatever else an outriggerd of them says, it has the tables of the real one, and starts launchers as that does.
    """
    tables = f'case $1 in tables | rules | launch) exec {built.daemon} "$@" ;; esac\n'

    def write(programs: Mapping[str, str]) -> None:
        for name, body in programs.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            body = tables + body if path.name == "outriggerd" else body
            path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
            path.chmod(0o755)

    return write
