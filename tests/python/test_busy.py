"""How busy CPUs are, from what the kernel counts."""

from pathlib import Path

import pytest

from outrigger import busy, info

FIRST = """cpu  100 0 0 300 0 0 0 0 0 0
cpu0 50 0 0 100 50 0 0 0 0 0
cpu1 50 0 0 150 0 0 0 0 0 0
intr 12 3
"""
SECOND = """cpu  200 0 0 400 0 0 0 0 0 0
cpu0 60 0 0 140 100 0 0 0 0 0
cpu1 140 0 0 150 0 0 0 10 0 0
intr 13 3
"""


@pytest.fixture
def stat(tmp_path: Path) -> Path:
    path = tmp_path / "stat"
    path.write_text(FIRST)
    return path


def test_a_share_is_of_the_time_since_the_sample(stat):
    sample = busy.Sample.take(stat)
    assert sample.busy_since(stat) == {}
    stat.write_text(SECOND)
    assert sample.busy_since(stat) == pytest.approx({0: 0.1, 1: 1.0})


def test_a_cpu_that_has_come_since_then_is_not_known(stat):
    sample = busy.Sample.take(stat)
    stat.write_text(SECOND + "cpu2 5 0 0 5 0 0 0 0 0 0\n")
    assert set(sample.busy_since(stat)) == {0, 1}


def test_where_the_kernel_does_not_say_nothing_is_known(tmp_path):
    assert busy.Sample.take(tmp_path / "none").busy_since(tmp_path / "none") == {}


def test_cpus_that_others_use_are_told_with_how_much():
    taken = busy.taken({0: 0.9, 1: 0.29, 2: 0.3}, [1, 2, 5])
    assert taken == {2: 0.3}
    assert busy.in_words({3: 0.4, 1: 0.98}) == "1 (98%), 3 (40%)"


def test_info_tells_that_the_service_processes_core_is_taken():
    cores = info.Cores(allowed=((0,), (1,)), ranks=(0,), services=(1,), taken={1: 0.98})
    finding = info._core_finding(cores)
    assert not finding.good
    assert "other processes use CPU 1 (98%): collectives are native meanwhile" in finding.remark
