"""Buffers that collectives send often are moved to huge pages, and every byte stays correct."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from conftest import with_copiers

pytestmark = [pytest.mark.one_machine, pytest.mark.any_mpi]
OFF = {"OUTRIGGER_HUGE_PAGES": "off"}
BLOCK_BYTES = 350_001 * 8
"""Block size of `huge again`."""


@pytest.fixture
def kernel(offload):
    """Has huge pages on request, for copiers, which have work within a node."""
    if offload.pretend_nodes > 1:
        pytest.skip("of one node")
    command = [str(offload.daemon), "info", "--json"]
    huge = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["huge_pages"]
    if not huge["bytes"]:
        assert huge["why_not"]
        pytest.skip(huge["why_not"])
    if huge["bytes"] > 16 << 20:
        pytest.skip("this kernel's huge pages take too long to make")


def kib_in_huge_pages(result) -> int:
    """According to the kernel."""
    found = re.search(r"huge: (\d+) of \d+ KiB in huge pages", result.out)
    assert found, result.out
    return int(found[1])


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("ranks", (2, 4))
def test_buffers_are_moved(offload, ranks):
    result = offload.run(ranks, ["huge", "again", "24"], env=with_copiers()).ok()
    assert "huge: again: all right" in result.out
    # After pages that took too long on a busy machine the rest may stay.
    assert 0 < result.report["in_huge_pages"] <= ranks * ranks * BLOCK_BYTES
    assert kib_in_huge_pages(result) > 0


@pytest.mark.usefixtures("kernel")
def test_children_are_apart(offload):
    result = offload.run(2, ["huge", "fork", "40"], env=with_copiers()).ok()
    assert "huge: fork: all right" in result.out
    assert result.report["in_huge_pages"] > 0


@pytest.mark.usefixtures("kernel")
def test_memory_is_freed_and_allocated_again(offload):
    result = offload.run(2, ["huge", "free", "72"], env=with_copiers()).ok()
    assert "huge: free: all right" in result.out
    assert result.report["in_huge_pages"] > 0


def mappings(result) -> int:
    found = re.search(r"huge: (\d+) mappings", result.out)
    assert found, result.out
    return int(found[1])


@pytest.mark.parametrize("settings", ({}, OFF), ids=("on", "off"))
def test_the_program_decides_where_its_buffers_come_from(offload, settings):
    """Arrays of a few hundred KiB side by side in a heap have addresses between which copying is slow."""
    native = offload.run(2, ["huge", "medium", "1"], services=None).ok()
    result = offload.run(2, ["huge", "medium", "24"], env=with_copiers() | settings).ok()
    assert "huge: medium: all right" in result.out
    assert mappings(result) == mappings(native)


@pytest.mark.parametrize("mode", ("again", "medium", "fork", "free"))
def test_the_program_natively(mpi, mode):
    assert f"huge: {mode}: all right" in mpi.run(2, ["huge", mode, "14"], services=None).ok().out


def test_switched_off_they_stay(offload):
    result = offload.run(2, ["huge", "again", "16"], env=with_copiers() | OFF).ok()
    assert "huge: again: all right" in result.out
    assert result.report["in_huge_pages"] == 0
    setting = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not setting.exists() or "[always]" not in setting.read_text():
        assert kib_in_huge_pages(result) == 0


def test_without_copiers_they_stay(offload):
    result = offload.run(2, ["huge", "again", "16"], env=with_copiers() | {"OUTRIGGER_REACH": "mapped,cma"}).ok()
    assert "huge: again: all right" in result.out
    assert result.report["in_huge_pages"] == 0


def test_shared_memory_is_not_counted(offload):
    result = offload.run(2, ["huge", "allocated", "16"], env=with_copiers()).ok()
    assert "huge: allocated: all right" in result.out
    assert result.report["in_huge_pages"] == 0


def test_the_shared_heap_is_not_counted(offload):
    result = offload.run(2, ["huge", "again", "16"], env=with_copiers() | {"OUTRIGGER_SHARED_HEAP": "on"}).ok()
    assert "huge: again: all right" in result.out
    assert result.report["shared_heap"]["allocations"] > 0
    assert result.report["in_huge_pages"] == 0


@pytest.mark.parametrize("mpi", ("mpich",), indirect=True)  # the library is the same
def test_a_bad_value_is_named(offload):
    result = offload.run(2, ["huge", "again", "1"], env={"OUTRIGGER_REACH": "mapped,perhaps"}).ok()
    assert "OUTRIGGER_REACH=perhaps is not valid: use mapped, " in result.out
    assert result.report is not None and result.report["native_because"] and not result.report["collectives"]
