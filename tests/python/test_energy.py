"""Energy counters of the kernel, as files of the test."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from waiting import wait_until

from outrigger import energy, report
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


def test_counters_are_looked_at_before_they_wrap_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(energy.time, "monotonic", lambda: now)
    counter = package(tmp_path, "0", "package-0", 100)
    with metering(tmp_path) as meter:
        for later, microjoules in ((1.0, 400), (20.0, 900), (21.0, 950), (41.0, 300)):
            now = 100.0 + later
            counter.write_text(f"{microjoules}\n")
            meter.look_in_time()
    assert meter.joules == pytest.approx((800 + 401) * 1e-6)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_job_in_order_while_energy_is_measured(
    tmp_path: Path, write_programs: Callable[[Mapping[str, str]], None], number: int
) -> None:
    """mpiexec gets the signal, and this command ends with it."""
    counter = package(tmp_path / "counters", "0", "package-0", 100, most=10**9)
    version = 'case $1 in --version) echo "HYDRA build details:"; echo "Version: 4.0.2"; exit ;; esac'
    ends = f"trap 'echo 2000100 >{counter}; exit 7' TERM HUP; touch {tmp_path}/ready; while :; do sleep 0.05; done"
    placement = '{"version":1,"cores":[],"ranks":[],"services":[],"service_cpus":[]}'
    write_programs(
        {
            "bin/outriggerd": f"echo '{placement}'",
            "lib/liboutrigger-mpich.so": "",
            "mpi/bin/mpiexec": f"{version}\n{ends}",
        }
    )
    written = tmp_path / "report.json"
    words = [*("run", "--build", str(tmp_path), "--mpi", str(tmp_path / "mpi")), "--report-to", str(written), "true"]
    start = (
        "import pathlib, sys; from outrigger import cli, energy; energy.POWERCAP = pathlib.Path(sys.argv.pop(1)); "
        "cli.main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", start, str(tmp_path / "counters"), *words],
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # under nohup SIGHUP would be ignored
    )
    try:
        wait_until((tmp_path / "ready").exists)
        process.send_signal(number)
        assert process.wait(60) == 7
    finally:
        process.kill()
        process.wait()
    assert report.read(written).energy_joules == 2.0
