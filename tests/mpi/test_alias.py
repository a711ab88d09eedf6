"""Service processes on a DPU whose network moves memory by exported handles: as in test_dpu.py, with a stand-in for the
hardware (exports/fake_exports.cpp) in front of its UCX.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from local_dpus import ONE_MPI, SECOND, dpus, reached, ucx_libraries

pytestmark = pytest.mark.one_machine

ALL_BUT_ALIAS = "mapped,xpmem,cma,copier,rdma"


def with_fake(offload, wrong: str = "") -> dict[str, str]:
    """Environment of DPUs and ranks with the stand-in, which has the fault `wrong`."""
    fake = offload.build / "tests" / "mpi" / "exports"
    assert (fake / "libucp.so.0").exists(), f"{fake} is not built: build the target mpi_programs"
    # The real one under another name of the same length, on the same path.
    renamed = Path(offload.directory) / "libucq.so.0"
    ucx = ucx_libraries()
    renamed.write_bytes((ucx / "libucp.so.0").read_bytes().replace(b"\0libucp.so.0\0", b"\0libucq.so.0\0"))
    return {"LD_LIBRARY_PATH": f"{fake}:{renamed.parent}:{ucx}", "OUTRIGGER_TEST_EXPORTS": wrong}


def differential(offload, wrong: str, ranks: int = 3, services: int = 1, **more: str):
    program = ["differential", "--seed", "78", "--operations", "40"]
    with dpus(offload, services=services, environment=with_fake(offload, wrong)) as started:
        env = started.told() | {"OUTRIGGER_LOG": "info"} | more
        result = offload.start(ranks, program, services=services, env=env).wait(150).ok()
    assert "no difference" in result.out
    assert "on a DPU" in result.out, result.out
    offload.nothing_left()
    return result


@pytest.mark.parametrize("wrong", ["", "late=1"])
@pytest.mark.parametrize(("ranks", "services", "algorithms"), [(3, 1, ""), (4, 2, SECOND)])
def test_no_difference(offload, ranks, services, algorithms, wrong):
    """`late`: with only the ordering that a network guarantees."""
    result = differential(offload, wrong, ranks, services, OUTRIGGER_ALGORITHM=algorithms)
    by_reach = reached(result)
    assert "by exported handles" in result.out
    assert by_reach["alias"] > by_reach["rdma"], by_reach
    assert by_reach["mapped"] == by_reach["cma"] == by_reach["relay"] == 0, by_reach


@ONE_MPI
def test_between_nodes(offload):
    """By alias within a node, as usual between DPUs."""
    offload.pretend_nodes = 2
    program = ["differential", "--seed", "79", "--operations", "30"]
    with dpus(offload, 2, environment=with_fake(offload, "late=1")) as started:
        result = offload.start(4, program, env=started.told()).wait(150).ok()
    assert "no difference" in result.out
    by_reach = reached(result)
    assert by_reach["alias"] > 0, by_reach
    assert by_reach["wire"] > 0, by_reach
    offload.nothing_left()


@ONE_MPI
@pytest.mark.parametrize("wrong", ["pack=1", "import=1", "read=1", "lie=1", "hang=1"])
def test_what_does_not_work_is_not_used(offload, wrong):
    """Detected before first use, without messages: data is staged."""
    result = differential(offload, wrong)
    by_reach = reached(result)
    assert by_reach["alias"] == 0, by_reach
    assert by_reach["rdma"] > 0, by_reach
    assert "exported" not in result.out


@ONE_MPI
@pytest.mark.parametrize("wrong", ["import=8", "read=20", "odd=10", "odd=10,late=1"])
def test_what_fails_later_is_staged(offload, wrong):
    by_reach = reached(differential(offload, wrong))
    assert by_reach["alias"] > 0, by_reach
    assert by_reach["rdma"] > 0, by_reach


@ONE_MPI
def test_it_can_be_left_out(offload):
    by_reach = reached(differential(offload, "", OUTRIGGER_REACH=ALL_BUT_ALIAS))
    assert by_reach["alias"] == 0, by_reach
    assert by_reach["rdma"] > 0, by_reach


@ONE_MPI
def test_memory_comes_and_goes(offload, tmp_path):
    """No handle of deregistered memory is used: the stand-in would note it."""
    live = tmp_path / "live"
    live.mkdir()
    fake = with_fake(offload) | {"OUTRIGGER_TEST_EXPORTS_LIVE": str(live)}
    with dpus(offload, environment=fake) as started:
        result = offload.start(2, ["soak", "250", "5"], env=started.told()).wait(150).ok()
    assert reached(result)["alias"] > 0
    left = sorted(path.name for path in live.iterdir())
    assert "stale" not in left
    assert not left, "ranks have exported memory and never taken it back"
    offload.nothing_left()


@ONE_MPI
@pytest.mark.parametrize(
    ("wrong", "reach"), [("", "alias"), ("pack=1", "rdma"), ("import=1", "rdma"), ("lie=1", "rdma"), ("hang=1", "rdma")]
)
def test_probe(offload, wrong, reach):
    with dpus(offload, environment=with_fake(offload, wrong)) as started:
        probed = started.probe()
    assert probed.returncode == 0, probed.stderr
    assert json.loads(probed.stdout)["reach"] == reach
    assert probed.stderr == ""
    offload.nothing_left()
