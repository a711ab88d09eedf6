"""Reading and showing the library's report."""

from __future__ import annotations

import copy
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from outrigger import report
from outrigger.errors import UserError

SPREAD = {"sum": 0.5, "min": 0.1, "max": 0.2}
EXAMPLE: dict[str, Any] = {
    "version": 1,
    "mpi": "MPICH",
    "ranks": 4,
    "nodes": 1,
    "wire": [],
    "service": {"processes": 1, "core": 1, "core_is_free": True, "cross_memory_attach": True},
    "collectives": [
        {
            "collective": "ialltoall",
            "communicator": "MPI_COMM_WORLD",
            "group": "0" * 32,
            "size": 4,
            "calls": 4000,
            "offloaded": 3996,
            "algorithms": {"ring_pull": 3000, "scatter_dest": 996},
            "native": {"blocks below": 4},
            "bytes": {"mapped": 3 << 20, "cma": 0, "relay": 0, "own": 1 << 20, "bounce": 0},
            "late_announcements": 17,
            "post_seconds": SPREAD,
            "completion_seconds": SPREAD,
        }
    ],
    "rank_cpu_seconds": {"offloaded_calls": SPREAD, "process": {"sum": 8.0, "min": 1.9, "max": 2.1}},
}


def shown(data: dict[str, Any]) -> str:
    console = Console(file=io.StringIO(), width=140)
    report.show(console, report.parse(json.dumps(data)))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def changed(**fields: Any) -> dict[str, Any]:
    data = copy.deepcopy(EXAMPLE)
    data["collectives"][0] |= fields
    return data


def test_everything_counted_is_shown() -> None:
    text = shown(EXAMPLE)
    for word in (
        "ialltoall",
        "MPI_COMM_WORLD, 4 ranks",
        "4,000",
        "3,996",
        "996 scatter_dest",
        "4 blocks below",
        "3 MiB mapped",
        "1 MiB own",
    ):
        assert word in text
    for word in ("125 ms (200 ms)", "17", "4 ranks under MPICH", "1 service process per node on CPU 1", "2 s (2.1 s)"):
        assert word in text
    assert "cma" not in text


def test_what_is_not_well_is_said() -> None:
    data = copy.deepcopy(EXAMPLE)
    data["service"] |= {"core_is_free": False, "cross_memory_attach": False}
    text = shown(data)
    assert "which ranks use too" in text
    assert "cross-memory attach is not available" in text


def test_service_processes_on_dpus_are_said() -> None:
    data = copy.deepcopy(EXAMPLE)
    data["service"] |= {"core": -1, "cross_memory_attach": False}
    data["collectives"][0]["bytes"]["rdma"] = 5 << 20
    text = shown(data)
    assert "1 service process per node on DPUs" in text and "5 MiB rdma" in text
    assert "cross-memory" not in text


@pytest.mark.parametrize(
    ("uses", "line"),
    [
        ([], "wire: not used"),
        ([{"kind": "rdma", "transports": "rc_verbs/rxe0:1", "nodes": 3}], "wire: rdma (rc_verbs/rxe0:1)"),
        (
            [
                {"kind": "rdma", "transports": "rc_verbs/rxe0:1", "nodes": 2},
                {"kind": "messages", "transports": "tcp/eth0", "nodes": 3},
            ],
            "wire: rdma (rc_verbs/rxe0:1) on 2 of 3 nodes; messages (tcp/eth0)",
        ),
    ],
)
def test_wire_is_named(uses: list[dict[str, Any]], line: str) -> None:
    assert line in shown(EXAMPLE | {"nodes": 3, "wire": uses}).splitlines()
    assert "wire:" not in shown(EXAMPLE)


def test_nothing_called() -> None:
    assert "No collective that can be offloaded was called" in shown(EXAMPLE | {"collectives": []})


def test_verdict() -> None:
    offloaded = report.parse(json.dumps(EXAMPLE))
    native = report.parse(json.dumps(changed(offloaded=0, native={"group too large": 4000})))
    assert report.offload_verdict(offloaded, ["ialltoall"]) == ""
    assert report.offload_verdict(offloaded, ["ialltoall", "ialltoallv"]) == (
        "ialltoallv stayed native: it was not called"
    )
    assert report.offload_verdict(native, ["ialltoall"]) == "ialltoall stayed native: group too large"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 1}', json.dumps(changed(calls=None))])
def test_what_is_not_a_report_is_a_clear_error(text: str) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        report.parse(text)


def test_the_shared_heap_has_a_line() -> None:
    counts = {"allocations": 1200, "bytes": 3 << 30, "refused": 2, "forks": 1}
    assert "shared heap" not in shown(EXAMPLE)
    assert (
        "shared heap: 1,200 large allocations, 3 GiB; 2 more became ordinary memory; "
        "1 forks made what was there ordinary memory"
    ) in shown(changed() | {"shared_heap": counts})


def test_what_waiting_ranks_copied_has_a_line() -> None:
    assert "waited" not in shown(EXAMPLE) and "waited" not in shown(EXAMPLE | {"copied_while_waiting": 0})
    line = "copied by ranks while they waited: 3 MiB, counted with copier"
    assert line in shown(EXAMPLE | {"copied_while_waiting": 3 << 20}).splitlines()


def test_buffers_in_huge_pages_have_a_line() -> None:
    assert "huge" not in shown(EXAMPLE) and "huge" not in shown(EXAMPLE | {"in_huge_pages": 0})
    assert "buffers moved to huge pages: 3 MiB" in shown(EXAMPLE | {"in_huge_pages": 3 << 20}).splitlines()


def test_another_version_is_named() -> None:
    with pytest.raises(UserError, match="version 2, this command reads version 1"):
        report.parse(json.dumps(EXAMPLE | {"version": 2}))


def test_file_and_field_of_a_bad_report_are_named(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(json.dumps(changed(calls="many")))
    with pytest.raises(UserError, match=r"the report .*bad\.json cannot be read: .*`\$\.collectives\[0\]\.calls`"):
        report.read(tmp_path / "bad.json")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.json cannot be read"):
        report.read(tmp_path / "none.json")


@given(st.integers(0, 1 << 50))
def test_bytes_are_close_to_what_they_say(count: int) -> None:
    value, unit = report.format_bytes(count).split()
    size = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}[unit]
    assert float(value) * size == pytest.approx(count, rel=0.006)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0, "0"), (5e-7, "500 ns"), (1.5e-6, "1.5 µs"), (0.0123, "12.3 ms"), (75.0, "75 s")]
)
def test_seconds(seconds: float, text: str) -> None:
    assert report.format_seconds(seconds) == text
