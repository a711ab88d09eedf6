"""The report has every collective that a program calls, and the job's end, of any kind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from conftest import Mpi, wait_until

from outrigger import report
from outrigger.report_data import Call

RANKS = 3
ROUNDS = 4
BLOCK = 1000
BLOCKING = [
    "Barrier",
    "Bcast",
    "Gather",
    "Gatherv",
    "Scatter",
    "Scatterv",
    "Allgather",
    "Allgatherv",
    "Alltoall",
    "Alltoallv",
    "Alltoallw",
    "Reduce",
    "Allreduce",
    "Reduce_scatter",
    "Reduce_scatter_block",
    "Scan",
    "Exscan",
    "Neighbor_allgather",
    "Neighbor_allgatherv",
    "Neighbor_alltoall",
    "Neighbor_alltoallv",
    "Neighbor_alltoallw",
]
TO_ALL = ("Alltoall", "Alltoallv", "Alltoallw", "Reduce_scatter", "Reduce_scatter_block")
NO_CORE = {"OUTRIGGER_DAEMON": "/bin/false"}
"""No keeper starts: the job runs natively."""

pytestmark = [pytest.mark.one_machine, pytest.mark.any_mpi]


def bytes_of(name: str) -> int:
    """Bytes that a rank sends in a call of the program."""
    if name == "Barrier":
        return 0
    if name in TO_ALL:
        return RANKS * BLOCK
    return 2 * BLOCK if name.startswith("Neighbor_alltoall") else BLOCK


def named(found: report.Report, call: str) -> Call:
    """The entry with several ranks."""
    (entry,) = (entry for entry in found.calls if entry.call == call and entry.size > 1)
    return entry


def read(written: dict | None) -> report.Report:
    assert written is not None
    return report.parse(json.dumps(written))


def check_calls(found: report.Report, offloaded: bool) -> None:
    for name in BLOCKING:
        for call in (f"MPI_{name}", f"MPI_I{name.lower()}"):
            entry = named(found, call)
            assert entry.calls == RANKS * ROUNDS, entry
            assert entry.bytes.calls == entry.calls and entry.bytes.sum == entry.calls * bytes_of(name), entry
            assert entry.seconds.ranks == RANKS and 0 < entry.seconds.min <= entry.seconds.max, entry
            can = entry.collective is not None and entry.form == "nonblocking"
            assert entry.offloaded == (entry.calls if can and offloaded else 0), entry
            assert entry.offloaded + entry.by_ranks + sum(entry.native.values()) == entry.calls, entry
    assert not [entry for entry in found.calls if entry.communicator == "(other communicators)" and entry.bytes.calls]


def test_every_collective_is_counted(offload: Mpi) -> None:
    """Also blocking forms without a rule."""
    env = {"OUTRIGGER_INTRANODE": "off"}
    found = read(offload.run(RANKS, ["counted", "all", str(ROUNDS)], env=env).ok().report)
    check_calls(found, offloaded=True)
    assert named(found, "MPI_Alltoall").native == {"blocking form": RANKS * ROUNDS}
    assert found.ended.how == "finalized" and found.counted_ranks == ((0, RANKS - 1),) and not found.native_because
    # MPI_COMM_SELF and its duplicates.
    alone = {entry.call: entry.native for entry in found.calls if entry.size == 1}
    assert alone == {"MPI_Bcast": {"group of one": RANKS}, "MPI_Ialltoall": {"group of one": RANKS}}
    assert "unknown communicator" not in json.dumps([dict(entry.native) for entry in found.calls])


def test_persistent_collectives_are_counted_when_they_start(offload: Mpi) -> None:
    found = read(offload.run(RANKS, ["counted", "persistent", str(ROUNDS)]).ok().report)
    calls = Counter({entry.call: entry.calls for entry in found.calls if entry.form == "persistent"})
    if not calls:
        assert offload.name == "openmpi", "only Open MPI's header has no persistent collectives"
        pytest.skip("the program is built with a header that has no persistent collectives")
    assert calls == {"MPI_Allreduce_init": 2 * RANKS * ROUNDS, "MPI_Barrier_init": RANKS * ROUNDS}
    assert named(found, "MPI_Allreduce_init").bytes.sum == 2 * RANKS * ROUNDS * BLOCK
    assert named(found, "MPI_Allreduce").calls == RANKS  # MPI_Allreduce_c


def test_blocking_forms_that_are_offloaded(offload: Mpi) -> None:
    env = {"OUTRIGGER_BLOCKING": "on"}
    found = read(offload.run(RANKS, ["counted", "all", str(ROUNDS)], env=env).ok().report)
    for name in ("Alltoall", "Alltoallv", "Alltoallw", "Allgather", "Allgatherv", "Bcast"):
        entry = named(found, f"MPI_{name}")
        assert entry.offloaded == entry.calls == RANKS * ROUNDS, entry
        assert entry.seconds.sum > 0 and entry.bytes.sum == entry.calls * bytes_of(name), entry


def test_a_job_that_runs_natively_is_counted(offload: Mpi) -> None:
    """On all its ranks, with the reason."""
    found = read(offload.run(RANKS, ["counted", "all", str(ROUNDS)], env=NO_CORE).ok().report)
    check_calls(found, offloaded=False)
    assert "/bin/false" in found.native_because and found.ended.how == "finalized"
    assert found.counted_ranks == ((0, RANKS - 1),) and found.service.processes == 0
    assert not found.collectives


@pytest.mark.parametrize("env", [{}, NO_CORE], ids=["offloaded", "native"])
def test_tests_and_what_lies_before_waits_are_counted(offload: Mpi, env: dict[str, str]) -> None:
    """Computation after a post can hide it; tests are counted if they are there."""
    entry = named(read(offload.run(RANKS, ["counted", "tests", str(ROUNDS)], env=env).ok().report), "MPI_Ialltoall")
    assert entry.offloaded == (0 if env else entry.calls)
    assert entry.tests.calls == 3 * RANKS * ROUNDS and entry.tests.seconds > 0
    assert entry.before_wait.operations == RANKS * ROUNDS
    assert 0.005 <= entry.before_wait.mean < 1
    blocking = read(offload.run(RANKS, ["counted", "all", "1"], env=env).ok().report)
    assert named(blocking, "MPI_Alltoall").before_wait.operations == 0


def test_who_comes_last_waits_least(offload: Mpi) -> None:
    entry = named(read(offload.run(RANKS, ["counted", "late"]).ok().report), "MPI_Barrier")
    assert entry.seconds.min_rank == 1 and entry.seconds.max > 0.2 > entry.seconds.min


def final_report(job_directory: Path) -> report.Report:
    """When the keeper has written it."""
    path = job_directory / "report.json"
    assert wait_until(lambda: path.exists() and report.read(path).ended.how != "running", 10), path.read_text()
    return report.read(path)


@pytest.mark.parametrize(
    ("end", "how", "code", "number"),
    [
        (("abort", "0"), "aborted", 0, None),
        (("abort", "7"), "aborted", 7, None),
        (("signal",), "signal", None, signal.SIGKILL),
        (("exit", "5"), "exited", 5, None),
    ],
)
def test_a_job_that_ends_otherwise_has_a_report(offload: Mpi, end, how, code, number) -> None:
    job = offload.start(RANKS, ["counted", "end", *end])
    job.wait(40)
    offload.nothing_left()
    found = final_report(job.directory)
    assert (found.ended.how, found.ended.code, found.ended.signal, found.ended.rank) == (how, code, number, 1)
    assert found.counted_ranks is not None and sum(last - first + 1 for first, last in found.counted_ranks) >= 1
    assert named(found, "MPI_Allreduce").calls == 3 * RANKS
    assert not [name for name in os.listdir(job.directory) if name.endswith(".part")]


def test_a_lost_service_process_is_said(offload: Mpi) -> None:
    job = offload.start(RANKS, ["steady", "operations", "60"])
    job.wait_for("steady: ready")
    offload.kill_services_for_good()
    assert job.wait(40).returncode != 0
    offload.nothing_left()
    found = final_report(job.directory)
    assert found.ended.how == "ended" and "signal 9" in found.ended.text, found.ended
    assert any(entry.offloaded for entry in found.calls)


def test_native_ranks_that_abort_tell_of_themselves(offload: Mpi) -> None:
    job = offload.start(RANKS, ["counted", "end", "abort", "7"], env=NO_CORE)
    job.wait(40)
    found = final_report(job.directory)
    assert (found.ended.how, found.ended.code, found.ended.rank) == ("aborted", 7, 1)
    assert found.counted_ranks == ((1, 1),) and named(found, "MPI_Allreduce").calls == 3


def outrigger(mpi: Mpi, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "outrigger", "run", "--build", str(mpi.build), "-n", str(RANKS), "--no-bind"]
    environment = {**os.environ, "COLUMNS": "80"}
    return subprocess.run(
        [*command, *words], capture_output=True, text=True, env=environment, timeout=60 * 3, check=False
    )


@pytest.mark.parametrize("end", [("signal",), ("exit", "5")])
def test_the_launcher_says_how_a_native_job_ended(offload: Mpi, tmp_path: Path, end) -> None:
    if offload.installed.libraries is not None:
        pytest.skip("the command finds the system's MPI for this program")
    path = tmp_path / "report.json"
    path.write_text('{"of": "an earlier job"}')
    words = (
        "--report-to",
        str(path),
        "-x",
        "OUTRIGGER_DAEMON=/bin/false",
        "--",
        str(offload.programs / "counted"),
        "end",
    )
    result = outrigger(offload, *words, *end)
    found = report.read(path)
    assert found.ended.how in ("signal", "exited") and found.ended.how != "running", result.stderr
    assert "/bin/false" in found.native_because and found.counted_ranks == ()


def test_the_terminal_shows_it_all(offload: Mpi) -> None:
    if offload.installed.libraries is not None:
        pytest.skip("the command finds the system's MPI for this program")
    result = outrigger(offload, "--report", "--", str(offload.programs / "counted"), "late")
    assert result.returncode == 0, result.stderr
    for words in ("MPI_Barrier", "MPI_COMM_WORLD, 3 ranks", "too few calls", "the last rank waits least"):
        assert words in " ".join(result.stdout.split()), result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_a_report_needs_a_name(offload: Mpi) -> None:
    result = offload.run(RANKS, ["counted", "late"], env={"OUTRIGGER_REPORT": "-"}).ok()
    assert "OUTRIGGER_REPORT=- is not valid: name a file; `outrigger report FILE` shows it" in result.out


@pytest.mark.parametrize("mpi", ("mpich",), indirect=True)  # the library is the same
def test_a_running_job_is_shown_by_a_variable_of_its_own(offload: Mpi) -> None:
    result = offload.run(RANKS, ["counted", "late"], env={"OUTRIGGER_REPORT": "live"}).ok()
    assert (
        "OUTRIGGER_REPORT=live is not valid: " in result.out and "OUTRIGGER_LIVE=on shows a running job" in result.out
    )


def test_what_is_no_file_is_written_to(offload: Mpi, tmp_path: Path) -> None:
    """A pipe is not replaced by a file."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    both_ends = os.open(pipe, os.O_RDWR)  # so neither end waits for the other
    with open(pipe) as end, subprocess.Popen(["cat"], stdin=end, stdout=subprocess.PIPE, text=True) as reader:
        try:
            offload.run(RANKS, ["counted", "late"], env={"OUTRIGGER_REPORT": str(pipe)}).ok()
        finally:
            os.close(both_ends)
        text, _ = reader.communicate(timeout=20)
    assert pipe.is_fifo() and named(report.parse(text), "MPI_Barrier").calls == 10 * RANKS


@pytest.mark.parametrize("which", ["send", "receive"])
def test_a_bad_buffer_is_named_by_its_rank(offload: Mpi, which: str) -> None:
    """With the argument and the address."""
    result = offload.run(RANKS, ["counted", "bad", which])
    (address,) = (line.split()[-1] for line in result.out.splitlines() if line.startswith("bad address"))
    use = "read" if which == "send" else "written"
    words = f"not accessible; this rank's {which} buffer cannot be {use} at address {address}, byte {31 * 4096} of the"
    assert [line for line in result.out.splitlines() if "outrigger: rank 1: ibcast" in line and words in line], (
        result.out
    )
    others = [line for line in result.out.splitlines() if "this rank's buffers are well" in line]
    assert all("outrigger: rank 1:" not in line for line in others)
