"""Guests for all tests of a session, booted when they are first asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rdma_guests import MACHINES, Guest, Laboratory, why_not
from rdma_kernel import AARCH64, CannotBootError

ROOT = Path(__file__).parents[2]
Boot = Callable[..., list[Guest]]
QUICK = frozenset(
    {
        "test_ucx_reports_rdma",
        "test_mpi_program_over_rdma[mpich-rc]",
        "test_random_operations[mpich-one-first]",
        "test_hosts_that_stand_still_are_served[mpich-one]",
        "test_service_processes_are_killed[mpich-one]",
    }
)
"""One of each kind: the device, the wire between hosts, a DPU's bytes, its passive ranks, deaths there."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.name in QUICK:
            item.add_marker(pytest.mark.quick)


def existing(build: Path, *needed: str) -> Path:
    """A build directory in which all that a test runs is there."""
    for name in needed:
        if not (build / name).exists():
            raise pytest.UsageError(f"{build}/{name} is not there: build it, or name another build")
    return build


@pytest.fixture(scope="session")
def build() -> Path:
    """The build under test: OUTRIGGER_BUILD, else the release build."""
    build = Path(os.environ.get("OUTRIGGER_BUILD", ROOT / "build" / "release")).resolve()
    return existing(build, "bin/ucx_test", "bin/outriggerd", "tests/mpi/openmpi/differential")


@pytest.fixture(scope="session")
def arm_build() -> Path:
    """The build for a DPU with Arm cores: OUTRIGGER_ARM_BUILD, else build/aarch64."""
    build = Path(os.environ.get("OUTRIGGER_ARM_BUILD", ROOT / "build" / "aarch64")).resolve()
    if not (build / "bin" / "outriggerd").exists():
        pytest.skip(f"{build}/bin/outriggerd is not there; ./dev build aarch64 makes it")
    return build


@pytest.fixture(scope="session")
def laboratory() -> Iterator[Laboratory]:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    laboratory = Laboratory(ROOT / "build" / "rdma")
    yield laboratory
    laboratory.end()


@pytest.fixture
def boot(laboratory: Laboratory) -> Boot:
    """The guests of these names, up; the test is skipped where there can be none."""

    def booted(*names: str) -> list[Guest]:
        architectures = {machine.architecture for machine in MACHINES if machine.name in names}
        reason = why_not([AARCH64]) if AARCH64 in architectures else None
        if reason is not None:
            pytest.skip(reason)
        try:
            return laboratory.guests(*names)
        except CannotBootError as error:
            pytest.skip(str(error))

    return booted


@pytest.fixture
def guests(boot: Boot) -> list[Guest]:
    """Two hosts."""
    return boot("h0", "h1")
