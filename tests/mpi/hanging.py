"""Programs that hang on purpose, and what `outrigger stuck` says of them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from conftest import Job, Mpi, wait_until
from test_live import nodes_of

from outrigger import formats
from outrigger.live import sources, stuck

LIVE = {"OUTRIGGER_LIVE": "on", "OUTRIGGER_REPORT": ""}
WORLD = "MPI_COMM_WORLD"
MARKS = [
    pytest.mark.one_machine,
    pytest.mark.skipif(shutil.which("addr2line") is None, reason="addr2line is not installed"),
]


def place_in(source: Path, name: str) -> str:
    """FILE:LINE of the line with this name in a comment."""
    pattern = re.compile(rf"place: {name}\b")
    (number,) = (at for at, line in enumerate(source.read_text().splitlines(), 1) if pattern.search(line))
    return f"{source.name}:{number}"


INTERVAL_S = 0.1
"""Between two looks at a job."""


def _jobs(*words: str) -> list[dict[str, Any]]:
    """By the command."""
    command = [sys.executable, "-m", "outrigger", *words, "--json"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return json.loads(said.stdout)["jobs"]  # type: ignore[no-any-return]


def _name(job: Job) -> str:
    (name,) = {node.job for node in nodes_of(job)}
    return name


def state_of(job: Job) -> dict[str, Any]:
    """The job, as `outrigger stuck` has it, without the start of an interpreter: the job's ranks compute meanwhile."""
    states = stuck.look(sources.of([], None, None, []), _name(job), INTERVAL_S)
    (state,) = json.loads(formats.as_json(asdict(states)))["jobs"]
    return state  # type: ignore[no-any-return]


def must_be_in_stuck(job: Job, text: str) -> None:
    """The command `outrigger stuck` says it."""

    def said() -> bool:
        (state,) = _jobs("stuck", _name(job), "--interval", str(INTERVAL_S))
        return text in state["verdict"]

    assert wait_until(said, 30)


def must_be_in_top(job: Job, text: str) -> None:
    """`outrigger top` says it, once the job has been seen to stand still."""
    name = _name(job)
    assert wait_until(lambda: text in {one["job"]: one["standstill"] for one in _jobs("top")}[name], 30)


@contextmanager
def hanging(mpi: Mpi, ranks: int, words: list[str], ready: str, env: dict[str, str]) -> Iterator[Job]:
    """A job that has printed that it is ready. It is killed at the end."""
    job = mpi.start(ranks, words, env=LIVE | env)
    try:
        job.wait_for(ready)
        yield job
    finally:
        job.kill()


def must_become(job: Job, check: Callable[[dict[str, Any]], None]) -> None:
    """Checks its state, for as long as ranks may still be on their way to where they hang."""
    errors: list[Exception] = []

    def as_checked() -> bool:
        try:
            check(state_of(job))
        except (AssertionError, KeyError, ValueError) as error:
            errors.append(error)
            return False
        return True

    if not wait_until(as_checked, 30):
        raise errors[-1]
