"""Private memory by XPMEM, with a stand-in for its library that attaches shared anonymous memory (xpmem/)."""

import json
import os
import subprocess

import pytest


def with_fake(offload, **more: str) -> dict[str, str]:
    path = [str(offload.build / "tests" / "mpi" / "xpmem"), os.environ.get("LD_LIBRARY_PATH", "")]
    return {"LD_LIBRARY_PATH": ":".join(filter(None, path)), **more}


def bytes_by_reach(result) -> dict[str, int]:
    (entry,) = result.report["collectives"]
    return entry["bytes"]


@pytest.mark.one_machine
def test_private_memory_is_attached(offload):
    """Memory that cannot be attached is copied as without XPMEM."""
    env = with_fake(offload, OUTRIGGER_LOG="info")
    result = offload.run(2, ["odd", "shared_memory"], services=2, env=env).ok()
    if not result.report["service"]["xpmem"] and os.geteuid() != 0:
        pytest.skip("the stand-in needs CAP_CHECKPOINT_RESTORE for /proc/PID/map_files")
    assert "cross-memory attach available, XPMEM" in result.out
    # 40 rounds: four blocks of each shared buffer, and as many of private memory
    found = bytes_by_reach(result)
    assert found["xpmem"] == 40 * 4 * 120_000
    assert found["relay"] + found["copier"] + found["own"] == 40 * 4 * 80_000


@pytest.mark.one_machine
@pytest.mark.parametrize("mpi", ("mpich",), indirect=True)
def test_it_can_be_left_out(offload):
    env = with_fake(offload, OUTRIGGER_REACH="mapped,cma")
    result = offload.run(2, ["odd", "shared_memory"], env=env).ok()
    assert not result.report["service"]["xpmem"]
    assert bytes_by_reach(result)["xpmem"] == 0


@pytest.mark.one_machine
@pytest.mark.parametrize("mpi", ("mpich",), indirect=True)
def test_info_says_whether_it_is_there(offload):
    def reach(**env: str) -> dict:
        command = [str(offload.daemon), "info", "--json"]
        done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)["reach"]

    there = reach(**with_fake(offload))
    assert there["xpmem"] == there["cma"]
    without = reach()
    assert without["xpmem"] or without["xpmem_why_not"]
