"""Tests of plans that avoid other jobs' cores, and of how these cores are found. Needs a build with outriggerd."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from outrigger import binding, claims, info
from outrigger.artifacts import Artifacts
from outrigger.binding import BoundRank, BoundService, NodeBinding, OtherJob
from outrigger.launch import _notes
from outrigger.settings import CORE_CLAIMS, JOB

EIGHT = "numa:1 core:8 pu:1"
HOLDER = """
import sys
from outrigger import binding, claims
node = binding.ask(sys.argv[2:])
print(claims.hold(node, [int(cpu) for cpu in sys.argv[1].split()]), *node.rank_cpus, *node.service_cpus, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def mine(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Claims of this test alone."""
    scope = f"py-{os.getpid()}"
    monkeypatch.setenv(CORE_CLAIMS, scope)
    monkeypatch.setenv(JOB, "mine")
    yield scope
    claims.drop()


def command(built: Artifacts, ranks: int, bind: str = "bunch") -> list[str]:
    place = binding.place_command(built.daemon, bind, None, ranks)
    return ["env", f"HWLOC_SYNTHETIC={EIGHT}", *place, binding.HEED_OTHERS]


class Other:
    """Another job's command, which has planned."""

    def __init__(self, place: list[str], job: str = "other", copy_cpus: str = "") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, copy_cpus, *place], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, JOB: job},
        )  # fmt: skip
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline().split()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def other(built: Artifacts) -> Iterator[Other]:
    started = Other(command(built, 2))
    yield started
    started.kill()


def test_cores_are_not_promised_twice(built: Artifacts, other: Other) -> None:
    assert other.said == ["True", "0", "1", "7"]
    node = binding.ask(command(built, 2))
    assert node.rank_cpus == (2, 3) and node.service_cpus == (6,)
    assert node.services[0].core_is_free
    assert {(job.cpu, job.by, job.pid) for job in node.other_jobs} == {
        (0, "ranks", other.process.pid), (1, "ranks", other.process.pid), (7, "service", other.process.pid),
    }  # fmt: skip
    assert binding.others_options(node) == ["--others-ranks", "0-1", "--others-services", "7"]
    assert claims.hold(node)
    assert _notes_of(node) == []


def test_exec_is_told_what_place_saw(built: Artifacts, other: Other) -> None:
    node = binding.ask(command(built, 2))
    told = [*binding.place_command(built.daemon, "bunch", None, 2), *binding.others_options(node)]
    assert binding.ask(["env", f"HWLOC_SYNTHETIC={EIGHT}", *told]).ranks == node.ranks


def test_what_is_too_little_is_shared_and_said(built: Artifacts, other: Other) -> None:
    node = binding.ask(command(built, 7))
    assert node.service_cpus and node.services[0].cpu not in (0, 1)
    notes = _notes_of(node)
    assert any(
        f"(process {other.process.pid}: " in note and "CPUs 0-1,7, where ranks of this job run" in note
        for note in notes
    ), notes


def test_copy_cores_are_claimed_as_those_of_service_processes(built: Artifacts) -> None:
    beside_dpu = [*command(built, 2), binding.KEEP_NO_CORE, "--copy-cpus", "0"]
    other = Other(beside_dpu, copy_cpus="0")
    assert other.said == ["True", "1", "2"]
    node = binding.ask([*command(built, 2), binding.KEEP_NO_CORE])
    assert {(job.cpu, job.by) for job in node.other_jobs} == {(0, "service"), (1, "ranks"), (2, "ranks")}
    assert node.rank_cpus == (3, 4)
    other.kill()


def test_who_comes_second_at_the_same_moment_plans_again(built: Artifacts) -> None:
    before = binding.ask(command(built, 2))
    other = Other(command(built, 2))
    assert not claims.hold(before), "the other was faster"
    after = binding.ask(command(built, 2))
    assert claims.hold(after) and not set(after.service_cpus) & set(before.service_cpus)
    other.kill()


def test_ranks_leave_others_cores_alone_also_where_none_is_spare(built: Artifacts, other: Other) -> None:
    node = binding.ask([*command(built, 5), binding.KEEP_SPARE_ONLY])
    assert node.rank_cpus == (2, 3, 4, 5, 6) and node.service_cpus == ()


def test_ranks_that_have_every_core_claim_them_all(built: Artifacts, other: Other) -> None:
    other.kill()
    assert claims.hold(binding.ask([*command(built, 8), binding.KEEP_SPARE_ONLY]))
    found = binding.ask(["env", f"{JOB}=late", *command(built, 1)])
    assert {job.cpu for job in found.other_jobs if job.by == "ranks"} == set(range(8))


def test_ranks_are_not_promised_the_same_cores_at_the_same_moment_either(built: Artifacts) -> None:
    """Without a core for service processes, which only one could have."""
    native = [*command(built, 2), binding.KEEP_NO_CORE]
    before = binding.ask(native)
    assert before.rank_cpus == (0, 1) and before.service_cpus == ()
    other = Other(native)
    assert other.said == ["True", "0", "1"]
    assert not claims.hold(before), "the other was faster"
    after = binding.ask(native)
    assert claims.hold(after) and after.rank_cpus == (2, 3)
    other.kill()


def test_keepers_of_other_jobs_are_told(built: Artifacts, other: Other, mine: str) -> None:
    """They need not look by themselves: somebody connects to them, and has gone when the command ends."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as keeper:
        keeper.bind(b"\0" + f"outrigger-keeper:{mine}:other:{other.process.pid}".encode())
        keeper.listen()
        keeper.settimeout(30)
        assert claims.hold(binding.ask(command(built, 2)))
        keeper.setblocking(False)
        with pytest.raises(BlockingIOError):
            keeper.accept()  # nothing is shared
        claims.drop()
        keeper.settimeout(30)
        assert claims.hold(binding.ask(command(built, 7)))
        guest, _ = keeper.accept()
        with guest:
            guest.settimeout(30)
            claims.drop()
            assert guest.recv(1) == b""


def test_what_a_killed_command_had_is_free(built: Artifacts, other: Other) -> None:
    other.kill()
    node = binding.ask(command(built, 2))
    assert node.service_cpus == (7,) and node.other_jobs == ()
    assert claims.hold(node)


def test_a_job_does_not_mind_itself(built: Artifacts) -> None:
    node = binding.ask(command(built, 2))
    assert claims.hold(node) and claims.hold(node)
    again = binding.ask(command(built, 2))
    assert again == node and again.other_jobs == ()
    inner = Other(command(built, 2), job="mine")
    assert inner.said == ["True", "0", "1", "7"]
    inner.kill()


def test_off_is_off(built: Artifacts, other: Other, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CORE_CLAIMS, "off")
    node = binding.ask(command(built, 2))
    assert node.service_cpus == (7,) and node.other_jobs == ()
    assert claims.hold(node) and not claims._held


def test_ranks_that_are_not_bound_claim_nothing(built: Artifacts) -> None:
    assert claims.hold(binding.ask(command(built, 2, "none")))
    assert not claims._held


def _notes_of(node: NodeBinding) -> list[str]:
    from outrigger.launch import Job
    from outrigger.mpis import Mpi

    return _notes(Job(program=("./app",), ranks=len(node.ranks), mpi=Mpi("mpich", "4", Path("mpiexec"), None)), node)


def test_a_shared_core_is_named() -> None:
    node = NodeBinding(
        domains=(((0,), (1, 3)),), ranks=(BoundRank((0,), 1, False, 0, 0),), services=(BoundService(1, False),),
        service_cpus=(1,), other_jobs=(OtherJob(1, "service", -1),),
    )  # fmt: skip
    assert _notes_of(node) == ["another job also has CPU 1, where service processes yield"]
    assert "on CPU 1, which another job has, too" in str(binding._service_line(0, node, 0))


def test_info_shows_who_has_what() -> None:
    found = info.job_findings(
        [info.Claim(0, "ranks", "a", 42), info.Claim(7, "service", "a", 43), info.Claim(6, "service", "b", 44)]
    )
    assert [finding.value for finding in found] == [
        "ranks on CPU 0, service processes on CPU 7", "service processes on CPU 6",
    ]  # fmt: skip
    assert found[0].remark == "processes 42, 43, a" and found[1].remark == "process 44, b"
