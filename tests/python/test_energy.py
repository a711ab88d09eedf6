"""Energy counters of the kernel, as files of the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrigger.energy import Meter, metering


def package(root: Path, number: str, name: str, microjoules: int, most: int = 1000) -> Path:
    """A counter's file."""
    directory = root / f"intel-rapl:{number}"
    directory.mkdir(parents=True)
    (directory / "name").write_text(f"{name}\n")
    (directory / "max_energy_range_uj").write_text(f"{most}\n")
    (directory / "energy_uj").write_text(f"{microjoules}\n")
    return directory / "energy_uj"


def test_packages_are_added(tmp_path: Path) -> None:
    first, second = package(tmp_path, "0", "package-0", 100), package(tmp_path, "1", "package-1", 900)
    package(tmp_path, "0:0", "core", 5)
    package(tmp_path, "2", "psys", 5)
    meter = Meter(tmp_path)
    first.write_text("150\n")
    second.write_text("950\n")
    meter.look()
    second.write_text("49\n")  # behind 1000
    meter.look()
    assert meter.joules == pytest.approx((50 + 50 + 100) * 1e-6)


def test_no_counters_no_energy(tmp_path: Path) -> None:
    with metering(tmp_path) as meter:
        pass
    assert meter.joules is None


def test_counters_that_cannot_be_read_any_more(tmp_path: Path) -> None:
    counter = package(tmp_path, "0", "package-0", 100)
    meter = Meter(tmp_path)
    counter.unlink()
    meter.look()
    assert meter.joules is None


def test_energy_is_measured_to_the_end(tmp_path: Path) -> None:
    counter = package(tmp_path, "0", "package-0", 100)
    with metering(tmp_path) as meter:
        counter.write_text("300\n")
    assert meter.joules == pytest.approx(200e-6)
