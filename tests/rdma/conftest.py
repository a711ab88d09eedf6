"""Two guests for all tests of a session."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from rdma_guests import Guest, boot, why_not
from rdma_kernel import CannotBootError, prepare

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def build() -> Path:
    """What is tested: OUTRIGGER_BUILD, else the release build."""
    build = Path(os.environ.get("OUTRIGGER_BUILD", ROOT / "build" / "release")).resolve()
    for needed in ("bin/ucx_test", "bin/outriggerd", "tests/mpi/openmpi/differential"):
        if not (build / needed).exists():
            raise pytest.UsageError(f"{build}/{needed} is not there: build it, or set OUTRIGGER_BUILD to what is built")
    return build


@pytest.fixture(scope="module")
def guests() -> Iterator[list[Guest]]:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    try:
        running = boot(prepare(ROOT / "build" / "rdma"), ROOT / "build" / "rdma" / "share", ("g0", "g1"))
    except CannotBootError as error:
        pytest.skip(str(error))
    yield running
    for guest in running:
        guest.end()
