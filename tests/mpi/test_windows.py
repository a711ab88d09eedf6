"""How long data stay unused after collectives, and that measuring it changes nothing in a program."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

import pytest
from conftest import Mpi
from test_sites import lines_of

from outrigger import report
from outrigger.code_places import named
from outrigger.report_data import Windows

RANKS = 2
ROUNDS = 8
CALLS = RANKS * ROUNDS
MOST_MAPPINGS = 200_000
UNDISTURBED = (
    "system-calls", "handlers", "forks", "memory", "threads", "passed-on", "overflow", "foreign-signals", "interrupted",
    "old-calls",
)  # fmt: skip

pytestmark = [
    pytest.mark.one_machine,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="guards need Syscall User Dispatch"),
    pytest.mark.skipif(shutil.which("addr2line") is None, reason="addr2line is not installed"),
]


def windows_of(offload: Mpi, tmp_path: Path, way: str, services: int = 0, **more: str) -> dict[str, Windows]:
    """By the remarks of the program's lines. The program checks its bytes, system calls and signals itself."""
    path = tmp_path / "report.json"
    told = {"OUTRIGGER_REPORT": str(path), "OUTRIGGER_WINDOWS": "on", **more}
    result = offload.run(RANKS, ["windows", way], services=services, env=told)
    result.ok()
    assert f"{way} is right" in result.out
    places = {line: name for name, line in lines_of("windows.c").items()}
    sites = [site for site in report.read(path).sites if site.place is not None and site.windows is not None]
    names = named(site.place for site in sites if site.place is not None)
    found: dict[str, Windows] = {}
    for site in sites:
        assert site.place is not None and site.windows is not None
        line = names[site.place].text.split(" in ")[0]
        if line in places:
            found[places[line]] = site.windows
    return found


@pytest.mark.parametrize("services", (0, 1))
def test_first_use_ends_a_window(offload: Mpi, tmp_path: Path, services: int) -> None:
    """The sender reads its data, and writes them in the next round; after the last one its window stays open."""
    windows = windows_of(offload, tmp_path, "use", services)["receives"]
    assert windows.calls == CALLS
    assert windows.ends["used"] == CALLS - 1


@pytest.mark.any_mpi
def test_computing_before_the_use_is_in_the_window(offload: Mpi, tmp_path: Path) -> None:
    windows = windows_of(offload, tmp_path, "compute")["receives"]
    assert windows.ends["used"] == CALLS - 1
    assert windows.unused_seconds >= CALLS * 0.005
    assert 0 < windows.hidden_seconds <= min(windows.unused_seconds, windows.spent_seconds)


def test_the_next_collective_ends_it(offload: Mpi, tmp_path: Path) -> None:
    windows = windows_of(offload, tmp_path, "nothing")["receives"]
    assert windows.calls == CALLS
    assert windows.ends["used"] == ROUNDS - 1 and windows.ends["mpi_call"] >= ROUNDS


@pytest.mark.parametrize("services", (0, 1))
def test_waits_have_windows(offload: Mpi, tmp_path: Path, services: int) -> None:
    found = windows_of(offload, tmp_path, "nonblocking", services)
    assert found["waits"].calls == CALLS
    assert found["waits_later"].ends == {"used": CALLS, "mpi_call": 0, "system_call": 0}


def test_writing_sent_data_ends_it(offload: Mpi, tmp_path: Path) -> None:
    windows = windows_of(offload, tmp_path, "sender")["sends"]
    assert windows.ends == {"used": CALLS, "mpi_call": 0, "system_call": 0}


@pytest.mark.any_mpi
@pytest.mark.parametrize("way", UNDISTURBED)
def test_a_program_is_not_disturbed(offload: Mpi, tmp_path: Path, way: str) -> None:
    assert windows_of(offload, tmp_path, way)["receives"].calls > 0


@pytest.mark.parametrize("intranode", ("off", "always"))
def test_data_may_be_passed_on(offload: Mpi, tmp_path: Path, intranode: str) -> None:
    assert windows_of(offload, tmp_path, "passed-on", 1, OUTRIGGER_INTRANODE=intranode)["receives"].calls > 0


@pytest.mark.any_mpi
@pytest.mark.parametrize(
    ("way", "reason"),
    (
        ("blocked", "signals"),
        ("alarms", "signals"),
        ("stack", "memory"),
        ("own-stack", "memory"),
        ("one-sided", "others"),
        ("own-call-handler", "system"),
        ("small-stack", "signals"),
        ("allocated", "others"),
        ("files", "others"),
        ("shared", "memory"),
        ("of-a-file", "memory"),
        ("mappings", "memory"),
        ("filter", "system"),
        ("another-thread", "threads"),
    ),
)
def test_what_cannot_be_guarded_is_left_alone(offload: Mpi, tmp_path: Path, way: str, reason: str) -> None:
    if way == "mappings" and int(Path("/proc/sys/vm/max_map_count").read_text()) > MOST_MAPPINGS:
        pytest.skip("it takes too long to make as many mappings as the kernel allows")
    assert windows_of(offload, tmp_path, way)["receives"].without[reason] >= CALLS


@pytest.mark.any_mpi
def test_read_only_memory_stays_read_only(offload: Mpi, tmp_path: Path) -> None:
    assert windows_of(offload, tmp_path, "read-only")["sends_read_only"].without["memory"] == CALLS


@pytest.mark.any_mpi
def test_drivers_end_windows(offload: Mpi, tmp_path: Path) -> None:
    assert windows_of(offload, tmp_path, "device")["receives"].ends["system_call"] == CALLS


@pytest.mark.any_mpi
@pytest.mark.parametrize(
    ("library", "reason"),
    (
        ("calls-shmem_init", "others"),
        ("calls-MPIX_Isend_enqueue", "calls"),
        ("calls-MPIX_Comm_agree", ""),
        ("cuda", "others"),
    ),
)
def test_libraries_that_reach_memory_otherwise(offload: Mpi, tmp_path: Path, library: str, reason: str) -> None:
    """The functions are never called: that code refers to them is enough."""
    path = offload.build / "tests" / "mpi" / library.partition("-")[0] / f"lib{library}.so"
    loaded = f"{path}.1" if library == "cuda" else str(path)
    windows = windows_of(offload, tmp_path, "use", LD_PRELOAD=f"{offload.preloaded()}:{loaded}")["receives"]
    if reason:
        assert windows.without == {reason: CALLS} and windows.calls == 0
    else:
        assert windows.calls == CALLS


@pytest.mark.any_mpi
@pytest.mark.parametrize(("value", "reason"), (("1", "threads"), ("0", "")))
def test_progress_threads_might_meet_a_guarded_page(offload: Mpi, tmp_path: Path, value: str, reason: str) -> None:
    """The MPI that runs does not read this variable: the library only sees that one may."""
    windows = windows_of(offload, tmp_path, "use", MV2_ASYNC_PROGRESS=value)["receives"]
    assert windows.calls == (0 if reason else CALLS)
    assert windows.without == ({reason: CALLS} if reason else {})


@pytest.mark.any_mpi
def test_places_without_windows_cost_little(offload: Mpi, tmp_path: Path) -> None:
    """After 1000 refusals of a place, further calls are only counted."""
    assert windows_of(offload, tmp_path, "often")["receives"].without == {"memory": RANKS * 1000, "limit": RANKS * 200}


def test_only_data_without_holes_are_guarded(offload: Mpi, tmp_path: Path) -> None:
    found = windows_of(offload, tmp_path, "types")
    assert found["holed"].without == {"layout": CALLS} and found["holed"].calls == 0
    assert found["whole"].calls == CALLS
    assert "barriers" not in found


@pytest.mark.parametrize("mpi", ("mpich",), indirect=True)
def test_a_partition_that_is_ready_is_not_guarded(offload: Mpi, tmp_path: Path) -> None:
    windows = windows_of(offload, tmp_path, "partitions")["receives"]
    assert windows.calls == CALLS and windows.ends["mpi_call"] >= ROUNDS


def test_programs_find_no_calls_that_their_mpi_lacks(offload: Mpi, tmp_path: Path) -> None:
    assert windows_of(offload, tmp_path, "names")["receives"].calls == CALLS
