"""A Slurm allocation, as a scontrol and an srun that are not Slurm's show it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrigger import slurm
from outrigger.errors import UserError
from outrigger.hostfile import Host

FOUR = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "thor[001-002],bf[1-2]", "SLURM_JOB_CPUS_PER_NODE": "32(x2),8(x2)"}


def program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a scontrol and an srun, first on PATH."""
    program(
        tmp_path / "scontrol",
        '[ "$1 $2 $3" = "show hostnames thor[001-002],bf[1-2]" ] || { echo "bad: $*" >&2; exit 1; }\n'
        "printf 'thor001\\nthor002\\nbf1\\nbf2\\n'",
    )
    program(tmp_path / "srun", "printf 'MPI plugin types are...\\n\\tnone\\n\\tpmi2\\n\\tpmix\\n' >&2")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def repeated(counts: list[tuple[int, int]]) -> str:
    return ",".join(str(count) if times == 1 else f"{count}(x{times})" for count, times in counts)


@given(st.lists(st.tuples(st.integers(0, 999), st.integers(1, 20)), min_size=1, max_size=10))
def test_counts_are_read_back(counts: list[tuple[int, int]]) -> None:
    assert slurm.expand_counts(repeated(counts), "X") == [count for count, times in counts for _ in range(times)]


@pytest.mark.parametrize("text", ["", "x", "2(x", "2(3)", "2,,3"])
def test_what_are_no_counts_is_named(text: str) -> None:
    with pytest.raises(UserError, match="SLURM_TASKS_PER_NODE="):
        slurm.expand_counts(text, "SLURM_TASKS_PER_NODE")


@pytest.mark.usefixtures("commands")
def test_dpus_are_told_by_their_names() -> None:
    found = slurm.allocation(FOUR, "^bf")
    assert found.hosts == (Host("thor001", 32), Host("thor002", 32))
    assert found.dpus == ("bf1", "bf2")


@pytest.mark.usefixtures("commands")
def test_without_a_pattern_all_are_hosts() -> None:
    assert slurm.allocation(FOUR, None).hosts[2:] == (Host("bf1", 8), Host("bf2", 8))


@pytest.mark.usefixtures("commands")
def test_tasks_that_were_asked_for_are_the_slots() -> None:
    asked = FOUR | {"SLURM_NTASKS": "6", "SLURM_TASKS_PER_NODE": "2(x2),1(x2)"}
    assert [host.slots for host in slurm.allocation(asked, "bf").hosts] == [2, 2]


@pytest.mark.usefixtures("commands")
@pytest.mark.parametrize(
    ("environment", "pattern", "message"),
    [
        ({}, "(", "--dpu-pattern (: not a regular expression"),
        ({}, ".", "all of thor"),
        ({}, "dpu", "--dpu-pattern dpu: none of thor"),
        ({"SLURM_JOB_CPUS_PER_NODE": "32(x3)"}, None, "is for 3 nodes, but the allocation has 4"),
        ({"SLURM_JOB_NODELIST": "other"}, None, "bad: show hostnames other"),
        ({"SLURM_JOB_NODELIST": ""}, None, "name hosts with --hostfile"),
    ],
)
def test_what_does_not_fit_is_said(environment: dict[str, str], pattern: str | None, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        slurm.allocation(FOUR | environment, pattern)


def test_a_missing_scontrol_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="scontrol: No such file"):
        slurm.allocation(FOUR, None)


@pytest.mark.usefixtures("commands")
def test_the_ways_to_connect_ranks_are_asked_for() -> None:
    offered = slurm.offered_mpi_types()
    assert offered == ["none", "pmi2", "pmix"]
    assert slurm.choose_mpi_type("openmpi", offered) == "pmix"
    assert slurm.choose_mpi_type("mpich", offered) == "pmi2"
    assert slurm.choose_mpi_type("mpich", ["none"]) is None
