"""Ranks that give their cores away while they wait in their MPI."""

import os
import re

import pytest
from conftest import with_copiers

POLITE = {"OUTRIGGER_WAIT": "polite"}


def sleeps(result) -> dict[str, int]:
    return {name: int(number) for name, number in re.findall(r"^(\w+): (\d+) sleeps$", result.out, re.MULTILINE)}


def run(offload, ranks, *words, wait="polite", services=0):
    env = {"OUTRIGGER_WAIT": wait}
    result = offload.run(ranks, ["waits", *words], services=services, env=env, timeout_s=150).ok()
    assert "no difference" in result.out
    return result


@pytest.mark.parametrize("services", (0, 1))
@pytest.mark.parametrize("ranks", (2, 3, 4))
def test_no_difference(offload, ranks, services):
    run(offload, ranks, "300", services=services)


def test_with_threads(offload):
    run(offload, 3, "200", "threads")


def test_waits_sleep(offload):
    """In calls that are not intercepted, too. Open MPI only yields."""
    found = sleeps(run(offload, 2, "10"))
    assert found.keys() == {"receive", "send", "reduction", "duplication"}
    if offload.installed.implementation == "mpich":
        assert min(found.values()) > 50, found


def test_native_waits_do_not_sleep(offload):
    if offload.installed.implementation != "mpich":
        pytest.skip("MPICH 4 never sleeps by itself")
    found = sleeps(run(offload, 2, "10", wait="native"))
    assert max(found.values()) < 50, found


def test_threads(mpi, services):
    result = mpi.run(2, ["threads", "20"], services=services, env=POLITE, timeout_s=130).ok()
    assert "all right" in result.out


@pytest.mark.parametrize("services", (0, 1))
def test_waits_are_counted(offload, services):
    report = run(offload, 2, "10", services=services).report
    assert report is not None
    waits = report["waits"]
    if offload.installed.implementation != "mpich":
        assert waits["kind"] == ("own setting" if waits["setting"] else "native")
        return
    assert waits["kind"] == "polite" and waits["naps"] > 0
    slept, yielded, waited = (waits[name] for name in ("slept_seconds", "yielded_seconds", "seconds"))
    assert min(slept["sum"], yielded["sum"]) > 0 and slept["ranks"] == 2
    assert slept["sum"] + yielded["sum"] < waited["sum"] + 1e-6


@pytest.mark.parametrize("mpi", ("openmpi",), indirect=True)
def test_the_users_setting_in_a_file_stays(offload):
    home = offload.directory / "home"
    (home / ".openmpi").mkdir(parents=True)
    (home / ".openmpi" / "mca-params.conf").write_text("mpi_yield_when_idle = 0\n")
    program = ["/usr/bin/env", "-u", "OMPI_MCA_mpi_yield_when_idle", str(offload.programs / "waits"), "10"]
    settings = {}
    for name, env in {"without": {}, "with": {"HOME": str(home)}}.items():
        result = offload.run(2, program, services=0, env=POLITE | env, timeout_s=150).ok()
        settings[name] = result.report["waits"]["setting"]
    assert settings == {"without": "mpi_yield_when_idle=1", "with": ""}


def test_native_waits_are_not_counted(offload):
    report = run(offload, 2, "10", wait="native").report
    assert report is not None
    assert report["waits"]["kind"] != "polite" and report["waits"]["naps"] == 0


def test_waits_become_polite_on_a_busy_core(offload):
    """A rank with a core of its own, on which something else computes."""
    if offload.installed.implementation != "mpich":
        pytest.skip("Open MPI only yields")
    result = offload.run(2, ["shared_core"], services=0, env={"OUTRIGGER_WAIT": "auto"}, timeout_s=150).ok()
    assert "rank 1 sleeps" in result.out
    assert result.report is not None
    assert result.report["waits"]["kind"] == "polite" and result.report["waits"]["naps"] >= 100


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="the service process needs a core of its own")
def test_last_rank_to_post_keeps_its_core(offload):
    """All others have posted: a turn of theirs moves nothing."""
    ranks_cpu = min(os.sched_getaffinity(0))
    result = offload.run(3, ["yields", str(ranks_cpu), "last"], env=with_copiers()).ok()
    said = sorted(line for line in result.out.splitlines() if line.startswith("rank "))
    assert said == ["rank 0 yields 1 times", "rank 1 yields 1 times", "rank 2 yields 0 times"]
