"""Reports of jobs under torchrun, and events in torch's profiler."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from conftest import LIMIT_S, Ranks
from torch.profiler import ProfilerActivity, profile

import outrigger.torch  # noqa: F401
from outrigger import report_torch, report_torch_ranks, torch_layout
from outrigger.report_torch_data import TorchReport
from outrigger.settings import REPORT
from outrigger.torch import counting, observed
from outrigger.torch.process_group import OutriggerProcessGroup
from outrigger.torch_layout import State

ROOT = Path(__file__).resolve().parents[2]


def outrigger_command(*words: str | Path, **variables: str | Path) -> subprocess.CompletedProcess[str]:
    """`outrigger` with these words and variables."""
    return python("-m", "outrigger", *words, **variables)


def python(*words: str | Path, **variables: str | Path) -> subprocess.CompletedProcess[str]:
    """Python with these words and variables."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", **{k: str(v) for k, v in variables.items()}}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT / "python"), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, timeout=LIMIT_S,
    )  # fmt: skip


def torchrun(ranks: int, *words: str | Path) -> list[str | Path]:
    return [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), *words
    ]  # fmt: skip


class Job:
    """A program under `outrigger run`, with its report."""

    def __init__(self, directory: Path, ranks: int, text: str, *options: str, command: tuple[str, ...] = ()) -> None:
        program, self.path, self.scratch = directory / "train.py", directory / "r.json", directory / "scratch"
        self.scratch.mkdir()
        program.write_text(BEGIN + text)
        self.done = outrigger_command(
            "run", *(command or ("--report-to", str(self.path))), "--", *torchrun(ranks, *options, program),
            TMPDIR=self.scratch,
        )  # fmt: skip

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.path.read_text())
        return found

    def rows(self) -> dict[tuple[str, str, str, int], dict[str, Any]]:
        """By operation, form, type and size of the group."""
        found = {}
        for row in self.data["operations"]:
            key = (row["operation"], row["form"], row["type"], row["group"]["size"])
            assert key not in found
            found[key] = row
        return found

    def ours_in_scratch(self) -> list[Path]:
        """Temporary files that the command has left; torchrun leaves directories of its own."""
        return [path for path in self.scratch.iterdir() if path.name.startswith("outrigger")]


BEGIN = """
import os, signal, sys, time
import torch, torch.distributed as dist
import outrigger.torch
dist.init_process_group("outrigger")
rank, attempt = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
"""

COUNTED = """
ones = torch.ones(1000)
for _ in range(7):
    dist.all_reduce(ones)
dist.all_reduce(torch.ones(1001))               # another size of the same range
dist.all_reduce(torch.ones(100_000))            # and of another
works = [dist.all_reduce(torch.ones(50, dtype=torch.int64), async_op=True) for _ in range(3)]
for work in works[:2]:
    work.wait()
    work.wait()                                 # counts once
works[2].get_future().wait()
with dist._coalescing_manager(async_ops=False):
    for _ in range(4):
        dist.all_reduce(torch.ones(10, dtype=torch.float64))
outputs = [torch.empty(6), torch.empty(6)]
dist.all_gather(outputs, torch.ones(6))
dist.reduce_scatter_tensor(torch.empty(3), torch.ones(6))
dist.all_to_all_single(torch.empty(4), torch.ones(4))
dist.broadcast(torch.ones(5), 0)
dist.reduce(torch.ones(5), 1)
dist.gather(torch.ones(5), [torch.empty(5)] * 2 if rank == 0 else None, 0)
dist.scatter(torch.ones(5), [torch.ones(5)] * 2 if rank == 0 else None, 0)
dist.barrier()
dist.monitored_barrier()
alone = [dist.new_group([one]) for one in range(2)][rank]
for _ in range(2 + rank):
    dist.all_reduce(ones, group=alone)
if rank == 0:
    dist.send(ones, 1)
    dist.isend(ones, 1).wait()
else:
    dist.recv(ones, 0)
    dist.recv(ones)
"""


def test_each_call_is_counted(tmp_path: Path) -> None:
    """The program neither destroys its groups nor needs to."""
    job = Job(tmp_path, 2, COUNTED)
    assert job.done.returncode == 0, job.done.stdout
    data = job.data
    every = [row for row in data["operations"] if row["form"] == "blocking" and row["group"]["size"] == 2]
    reduced = {(row["type"], row["bytes"]["min"], row["bytes"]["max"]): row for row in every}
    small, large = reduced["float32", 4000, 4004], reduced["float32", 400_000, 400_000]
    assert (small["calls"], small["bytes"]["sum"]) == (16, 2 * (7 * 4000 + 4004))
    assert (large["calls"], large["bytes"]["sum"]) == (2, 800_000)
    counts = {}
    for row in data["operations"]:
        if row["operation"] != "all_reduce":
            counts[row["operation"]] = (row["form"], row["type"], row["calls"], row["bytes"]["sum"])
    assert counts == {
        "all_gather": ("blocking", "float32", 2, 48),
        "reduce_scatter_tensor": ("blocking", "float32", 2, 48),
        "all_to_all_single": ("blocking", "float32", 2, 32),
        "broadcast": ("blocking", "float32", 2, 40),
        "reduce": ("blocking", "float32", 2, 40),
        "gather": ("blocking", "float32", 2, 40),
        "scatter": ("blocking", "float32", 2, 40),
        "barrier": ("blocking", "-", 2, 0),
        "monitored_barrier": ("blocking", "-", 2, 0),
        "send": ("message", "float32", 2, 8000),
        "recv": ("message", "float32", 2, 8000),
    }
    queued = next(row for row in data["operations"] if row["type"] == "int64")
    assert (queued["form"], queued["calls"], queued["completed"]) == ("async", 6, 6)
    assert (queued["waited"], queued["futures"]) == (4, 2)
    coalesced = next(row for row in data["operations"] if row["type"] == "float64")
    assert (coalesced["calls"], coalesced["bytes"]["sum"]) == (2, 2 * 4 * 80)
    alone = [row for row in data["operations"] if row["group"]["size"] == 1]
    assert sorted((row["group"]["ranks"], row["calls"]) for row in alone) == [([[0, 0]], 2), ([[1, 1]], 3)]
    assert data["stopped"] == [] and data["missing_ranks"] == [] and data["earlier"] == []
    assert data["counted_ranks"] == [[0, 1]] and data["world_size"] == 2
    assert data["versions"]["torch"] == torch.__version__ and data["program"] == "train.py"
    assert data["ended"]["code"] == 0 and "torch.distributed.run" in data["run"]["command"]
    blocked, run = data["blocked_seconds"], data["run_seconds"]
    assert 0 < blocked["sum"] < run["sum"] and run["ranks"] == 2
    assert job.ours_in_scratch() == []


KILLED = """
for _ in range(4):
    dist.all_reduce(torch.ones(10))
if rank == 1:
    os.{how}
dist.all_reduce(torch.ones(10))
"""


@pytest.mark.parametrize("how", ["kill(os.getpid(), signal.SIGKILL)", "_exit(3)"])
def test_a_killed_rank_is_named(tmp_path: Path, how: str) -> None:
    job = Job(tmp_path, 3, KILLED.format(how=how))
    assert job.done.returncode == 1, job.done.stdout
    data = job.data
    (row,) = data["operations"]
    assert data["counted_ranks"] == [[0, 2]] and data["ended"]["code"] == 1
    assert {"rank": 1, "operation": ""} in data["stopped"]
    # The calls of ranks 0 and 2 in which they noticed it have failed, or torchrun has ended them there.
    assert row["calls"] == 12 + row["failed"] and row["failed"] <= 2
    text = outrigger_command("report", job.path).stdout
    assert "killed, or ended without Python's exit" in text and "exit code 1" in text
    assert job.ours_in_scratch() == []


RESTARTED = """
for _ in range(3 + attempt):
    dist.all_reduce(torch.ones(10))
if attempt == 0 and rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
dist.barrier()
dist.destroy_process_group()
os._exit(0)  # also leaves out the functions of atexit
"""


def test_the_last_start_of_restarted_ranks_is_reported(tmp_path: Path) -> None:
    job = Job(tmp_path, 2, RESTARTED, "--max-restarts", "1")
    assert job.done.returncode == 0, job.done.stdout
    data = job.data
    assert {row["operation"]: row["calls"] for row in data["operations"]} == {"all_reduce": 8, "barrier": 2}
    assert data["restarts"] == 1 and data["stopped"] == []
    (earlier,) = data["earlier"]
    assert earlier["ranks"] == [[0, 1]] and {"rank": 1, "operation": ""} in earlier["stopped"]
    assert earlier["calls"] in (6, 7)  # rank 0 may have failed in the barrier before torchrun ended it
    assert "in 2 starts. All figures are of the last one alone" in outrigger_command("report", job.path).stdout


SPAWNED = """
import os, socket, sys
import torch, torch.distributed as dist, torch.multiprocessing as multiprocessing
import outrigger.torch
def rank(number, port):
    dist.init_process_group("outrigger", init_method=f"tcp://127.0.0.1:{port}", rank=number, world_size=2)
    dist.all_reduce(torch.ones(3))
if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    multiprocessing.spawn(rank, (port,), 2)
"""


def test_spawned_ranks_end_without_destroying_their_groups(tmp_path: Path) -> None:
    """multiprocessing leaves out the functions of atexit."""
    program, counts = tmp_path / "spawned.py", tmp_path / "counts"
    program.write_text(SPAWNED)
    counts.mkdir()
    output = python(program, **{REPORT: counts})
    assert output.returncode == 0, output.stdout
    found = report_torch.read_directory(counts)
    assert found.calls == 2 and found.stopped == () and found.counted_ranks == ((0, 1),)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


@pytest.mark.parametrize("shared", [False, True])
def test_each_launcher_reports_its_own_ranks(tmp_path: Path, shared: bool) -> None:
    """Two launchers on this machine, with a rank each. With a shared directory there is one report."""
    program, counts, port = tmp_path / "train.py", tmp_path / "counts", free_port()
    program.write_text(BEGIN + "dist.all_reduce(torch.ones(3))\n")
    counts.mkdir()

    def start(node: int) -> subprocess.CompletedProcess[str]:
        words = [
            "-m", "torch.distributed.run", "--nnodes", "2", "--node-rank", str(node), "--nproc-per-node", "1",
            "--master-addr", "127.0.0.1", "--master-port", str(port), str(program),
        ]  # fmt: skip
        if shared:
            return python(*words, **{REPORT: counts})
        return outrigger_command("run", "--report-to", tmp_path / f"{node}.json", "--", sys.executable, *words)

    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(start, range(2)))
    assert [one.returncode for one in done] == [0, 0], done
    if shared:
        whole = report_torch.read_directory(counts)
        assert whole.counted_ranks == ((0, 1),) and whole.calls == 2 and whole.earlier == ()
        return
    for node in range(2):
        found = json.loads((tmp_path / f"{node}.json").read_text())
        assert found["counted_ranks"] == [[node, node]] and found["world_size"] == 2
        assert found["missing_ranks"] == [] and found["operations"][0]["calls"] == 1
    text = " ".join(outrigger_command("report", tmp_path / "1.json").stdout.split())
    assert "Counted: rank 1 of 2" in text and "1 other rank ran on other machines" in text


def test_the_report_is_printed(tmp_path: Path) -> None:
    job = Job(tmp_path, 2, "dist.all_reduce(torch.ones(1024))\n", command=("--report",))
    assert job.done.returncode == 0 and not job.path.exists()
    assert "2 calls of 2 ranks: a rank was blocked for" in job.done.stdout
    (row,) = [line.split() for line in job.done.stdout.splitlines() if line.startswith(" all_reduce")]
    assert row[:4] == ["all_reduce", "2", "4", "KiB"]
    assert job.ours_in_scratch() == []


@pytest.mark.parametrize("place", ["nowhere/r.json", "r.txt", "/proc/r.json"])
def test_a_report_that_cannot_be_written_is_an_error_before_the_start(tmp_path: Path, place: str) -> None:
    started = tmp_path / "started"
    job = Job(tmp_path, 1, f"open({str(started)!r}, 'w')\n", command=("--report-to", str(tmp_path / place)))
    assert job.done.returncode != 0 and "--report-to" in job.done.stdout
    assert not started.exists() and job.ours_in_scratch() == []


def test_options_of_mpi_jobs_are_rejected(tmp_path: Path) -> None:
    done = outrigger_command("run", "-n", "2", "--report", "--", "torchrun", "train.py")
    assert done.returncode != 0 and "-n: such options are for MPI jobs" in " ".join(done.stdout.split())


def test_a_directory_that_cannot_be_written_is_an_error_of_the_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REPORT, f"{tmp_path}/missing/")
    with pytest.raises(RuntimeError, match=r"OUTRIGGER_REPORT=.*cannot write there: No such file"):
        OutriggerProcessGroup(dist.HashStore(), 0, 1, timedelta(minutes=1))


def test_a_full_directory_is_an_error_of_the_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setenv(REPORT, str(tmp_path))
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(RuntimeError, match="No space left on device"):
        counting.for_group("name", "0", 0, 1, ())
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_for_mpi_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REPORT, str(tmp_path / "r.json"))
    assert counting.for_group("name", "0", 0, 1, ()) is None
    monkeypatch.setenv(REPORT, str(tmp_path / "out.txt"))
    assert counting.for_group("name", "0", 0, 1, ()) is None
    monkeypatch.setenv(REPORT, str(tmp_path / "r.json"))
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    with pytest.warns(UserWarning, match="must name a directory for PyTorch"):
        assert counting.for_group("name", "0", 0, 1, ()) is None


def counted(
    ranks: Ranks, directory: Path, monkeypatch: pytest.MonkeyPatch, size: int, program: Callable[[int, int], None]
) -> TorchReport:
    """The report of forked processes that find the directory in their environment."""
    directory.mkdir()
    monkeypatch.setenv(REPORT, str(directory))
    ranks.run(size, program)
    return report_torch.read_directory(directory)


def test_ranks_count_without_torchrun(ranks: Ranks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def program(rank: int, _size: int) -> None:
        ours = dist.new_group([0, 2], backend="outrigger")
        if rank != 1:
            dist.all_reduce(torch.ones(2), group=ours)
        dist.destroy_process_group()

    found = counted(ranks, tmp_path / "counts", monkeypatch, 3, program)
    (row,) = found.operations
    assert row.calls == 2 and row.group.ranks == ((0, 0), (2, 2)) and found.world_size == 3
    assert found.counted_ranks == ((0, 0), (2, 2)) and found.stopped == () and found.restarts is None
    shown = outrigger_command("report", tmp_path / "counts").stdout
    assert "1 other rank ran on other machines, or made no group of Outrigger" in " ".join(shown.split())


@pytest.mark.parametrize("backend", ["file", "tcp"])
def test_ranks_with_different_first_groups_are_of_one_start(
    ranks: Ranks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    """Ranks 0 and 1 have a group of their own before that of all ranks."""
    port = free_port()

    def program(rank: int, size: int) -> None:
        if backend == "tcp":
            dist.destroy_process_group()
            dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
        dist.new_group([0, 1], backend="outrigger")
        ours = dist.new_group(backend="outrigger")
        dist.all_reduce(torch.ones(2), group=ours)
        dist.barrier()
        dist.destroy_process_group()

    found = counted(ranks, tmp_path / "counts", monkeypatch, 4, program)
    assert found.earlier == () and found.counted_ranks == ((0, 3),) and found.calls == 4


def test_waits_for_futures_are_said_to_be_unknown(
    ranks: Ranks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def program(_rank: int, _size: int) -> None:
        ours = dist.new_group(backend="outrigger")
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8), process_group=ours)
        for _ in range(3):
            model(torch.ones(4, 8)).sum().backward()
        dist.destroy_process_group()

    found = counted(ranks, tmp_path / "counts", monkeypatch, 2, program)
    (buckets,) = [row for row in found.operations if row.operation == "all_reduce"]
    assert (buckets.form, buckets.calls, buckets.futures, buckets.waited) == ("async", 6, 6, 0)
    assert buckets.bytes.sum == 6 * 72 * 4 and buckets.completed == 6
    assert "at least" in report_torch.sentences(found)[0]


def nothing() -> None:
    """An operation that takes no time."""


def do(job: Callable[[], None]) -> None:
    """As the queue of a group."""
    job()


class Clock:
    """A clock that moves when a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = 1_000_000
        for module in (counting, observed):
            monkeypatch.setattr(module, "now_ns", lambda: self.now_ns)

    def spend(self, seconds: float) -> None:
        """Time passes, for example in a wait."""
        self.now_ns += round(seconds * 1e9)


def one_group(directory: Path) -> counting.GroupCounts:
    process = counting.ProcessCounts(directory, 0, 1, "attempt")
    group = torch_layout.Group(name="name", label="0", size=1, ranks=())
    return counting.GroupCounts(process, process.add_group(group))


def read_rows(directory: Path) -> dict[str, report_torch_ranks.Row]:
    (path,) = directory.iterdir()
    rank = report_torch_ranks.read_rank(path)
    assert rank is not None
    return {row.operation: row for row in rank.rows}


def test_nothing_is_hidden_if_the_program_only_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten operations of 0.1 s one after the other, all called first, and waited for in order."""
    clock, counts = Clock(monkeypatch), one_group(tmp_path)
    watches = [observed.Watch(counts, "all_reduce", [torch.ones(4)]) for _ in range(10)]
    for watch in watches:
        watch.post(nothing)

    def ends(watch: observed.Watch) -> bool:
        clock.spend(0.1)
        watch.completed(failed=False)
        return True

    for watch in watches:
        watch.wait(lambda _, watch=watch: ends(watch), timedelta())
    row = read_rows(tmp_path)["all_reduce"]
    assert row.waited == 10 and row.waited_flight_seconds == pytest.approx(5.5)
    assert row.hidden_seconds == 0 and row.wait_seconds == pytest.approx(1)


def test_the_wait_for_one_message_does_not_hide_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, counts = Clock(monkeypatch), one_group(tmp_path)
    received, sent = (observed.Watch(counts, name, [torch.ones(4)], (1, 0)) for name in ("irecv", "isend"))
    for watch in (received, sent):
        watch.post(nothing)

    def ends(watch: observed.Watch, seconds: float) -> bool:
        clock.spend(seconds)
        watch.completed(failed=False)
        return True

    received.wait(lambda _: ends(received, 1), timedelta())
    clock.spend(0.25)  # computes
    sent.wait(lambda _: ends(sent, 0), timedelta())
    rows = read_rows(tmp_path)
    assert rows["irecv"].hidden_seconds == 0
    assert rows["isend"].waited_flight_seconds == pytest.approx(1.25)
    assert rows["isend"].hidden_seconds == pytest.approx(0.25)


def test_blocking_after_the_completion_takes_nothing_from_the_hidden_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, counts = Clock(monkeypatch), one_group(tmp_path)
    watch = observed.Watch(counts, "all_reduce", [torch.ones(4)])
    watch.post(lambda: clock.spend(0.5))
    clock.spend(2)
    counts.blocking("broadcast", [torch.ones(4)], do, lambda: clock.spend(1))

    def completed_within() -> None:
        clock.spend(0.25)
        watch.completed(failed=False)
        clock.spend(4)

    counts.blocking("barrier", [], do, completed_within)
    watch.wait(lambda _: True, timedelta())
    row = read_rows(tmp_path)["all_reduce"]
    assert row.waited_flight_seconds == pytest.approx(3.75)
    assert row.hidden_seconds == pytest.approx(2)


def test_the_wait_of_another_thread_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, counts = Clock(monkeypatch), one_group(tmp_path)
    watch = observed.Watch(counts, "all_reduce", [torch.ones(4)])
    watch.post(nothing)
    clock.spend(1)

    def ends(_: timedelta) -> bool:
        clock.spend(3)
        watch.completed(failed=False)
        clock.spend(1)
        return True

    other = threading.Thread(target=watch.wait, args=(ends, timedelta()))
    other.start()
    other.join()
    row = read_rows(tmp_path)["all_reduce"]
    assert (row.waited_flight_seconds, row.hidden_seconds) == (pytest.approx(4), pytest.approx(1))


def test_counts_of_several_threads_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REPORT, str(tmp_path))
    process = counting.ProcessCounts(tmp_path, 0, 1, "attempt")
    group = torch_layout.Group(name="name", label="0", size=1, ranks=())
    counts = counting.GroupCounts(process, process.add_group(group))
    tensors, threads = [torch.ones(4)], 4
    start = threading.Barrier(threads)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def call() -> None:
        start.wait()
        for _ in range(2000):
            counts.blocking("all_reduce", tensors, do, nothing)

    try:
        each = [threading.Thread(target=call) for _ in range(threads)]
        for one in each:
            one.start()
        for one in each:
            one.join()
    finally:
        sys.setswitchinterval(before)
    (path,) = tmp_path.iterdir()
    rank = report_torch_ranks.read_rank(path)
    assert rank is not None and rank.state is State.RUNNING
    assert [(row.calls, row.bytes) for row in rank.rows] == [(8000, 8000 * 16)]


@pytest.mark.parametrize("is_regular", [True, False])
def test_groups_of_many_ranks_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_regular: bool) -> None:
    """Ranks without any order have no room. The group keeps its name and its size."""
    monkeypatch.setenv(REPORT, str(tmp_path))
    monkeypatch.setattr(counting, "_current", None)
    every = [tuple(number * number + shift for number in range(400)) for shift in range(2)]
    if is_regular:
        every = [tuple(range(shift, 800, 2)) for shift in range(2)]
    for number, ranks in enumerate(every):
        counts = counting.for_group(f"name{number}", "long " * 400, 0, 400, ranks)
        assert counts is not None
        counts.blocking("barrier", [], do, nothing)
    groups = {row.group.name: row.group for row in report_torch.read_directory(tmp_path).operations}
    assert [groups[name].size for name in ("name0", "name1")] == [400, 400]
    assert groups["name1"].ranks == (tuple((one, one) for one in range(1, 800, 2)) if is_regular else ())


def test_names_in_another_encoding_are_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REPORT, str(tmp_path))
    monkeypatch.setattr(counting, "_current", None)
    monkeypatch.setattr(sys, "argv", ["tr\udce4in.py"])
    counts = counting.for_group("name", "la\udce4bel", 0, 1, ())
    assert counts is not None
    counts.blocking("barrier", [], do, nothing)
    found = report_torch.read_directory(tmp_path)
    assert found.program == "tr?in.py" and found.operations[0].group.label == "la?bel"


def test_failed_calls_count_with_their_time(tmp_path: Path) -> None:
    process = counting.ProcessCounts(tmp_path, 0, 1, "attempt")
    counts = counting.GroupCounts(process, process.add_group(torch_layout.Group(name="", label="", size=1, ranks=())))

    def fail() -> None:
        raise ValueError("failed")

    with pytest.raises(ValueError, match="failed"):
        counts.blocking("all_reduce", [torch.ones(4)], do, fail)
    (path,) = tmp_path.iterdir()
    rank = report_torch_ranks.read_rank(path)
    assert rank is not None and rank.current == "all_reduce"
    (row,) = rank.rows
    assert (row.calls, row.failed) == (1, 1) and 0 < row.call_seconds <= rank.seconds
    counts.blocking("barrier", [], do, nothing)
    again = report_torch_ranks.read_rank(path)
    assert again is not None and again.current == ""


def test_more_kinds_of_calls_than_rows_share_the_last(tmp_path: Path) -> None:
    process = counting.ProcessCounts(tmp_path, 0, 1, "attempt")
    group = torch_layout.Group(name="name", label="0", size=1, ranks=())
    numbers = [process.add_group(group) for _ in range(torch_layout.MOST_GROUPS + 2)]
    assert numbers[-2:] == [torch_layout.MOST_GROUPS - 1] * 2
    for number in range(torch_layout.MOST_ROWS + 5):
        counts = counting.GroupCounts(process, number % torch_layout.MOST_GROUPS)
        counts.blocking(f"operation{number}", [], do, nothing)
    (path,) = tmp_path.iterdir()
    rank = report_torch_ranks.read_rank(path)
    assert rank is not None and len(rank.rows) == torch_layout.MOST_ROWS
    assert (rank.rows[-1].operation, rank.rows[-1].calls) == ("(others)", 6)
    assert rank.rows[-1].group.label == "several"
    assert rank.rows[torch_layout.MOST_GROUPS - 1].group.label == "further groups"


def events(found: Any) -> dict[str, int]:
    names = [event.name for event in found.events() if event.name.startswith("outrigger:")]
    return {name: names.count(name) for name in names}


@pytest.mark.parametrize("with_report", [False, True])
def test_the_profiler_shows_operations(
    ranks: Ranks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_report: bool
) -> None:
    if with_report:
        monkeypatch.setenv(REPORT, str(tmp_path))

    def program(rank: int, _size: int) -> None:
        ours = dist.new_group(backend="outrigger")
        dist.all_reduce(torch.ones(3), group=ours)
        with profile(activities=[ProfilerActivity.CPU]) as found:
            for _ in range(2):
                dist.all_reduce(torch.ones(256), group=ours)
            dist.all_reduce(torch.ones(512), group=ours, async_op=True).wait()
            (dist.send if rank == 0 else dist.recv)(torch.ones(4), 1 - rank, group=ours)
        dist.all_reduce(torch.ones(5), group=ours)
        message = "send" if rank == 0 else "recv"
        assert events(found) == {
            "outrigger:all_reduce 1024 bytes": 2,
            "outrigger:all_reduce 2048 bytes": 1,
            f"outrigger:{message} 16 bytes": 1,
        }
        dist.destroy_process_group()

    ranks.run(2, program)


def test_the_event_of_an_asynchronous_operation_lasts_until_its_completion(ranks: Ranks) -> None:
    def program(rank: int, _size: int) -> None:
        ours = dist.new_group(backend="outrigger")
        word = torch.ones(1)
        if rank == 1:  # comes after the message of rank 0
            dist.recv(word, 0, group=ours)
            dist.all_reduce(torch.ones(3), group=ours)
            return
        with profile(activities=[ProfilerActivity.CPU]) as found:
            work = dist.all_reduce(torch.ones(3), group=ours, async_op=True)
            dist.send(word, 1, group=ours)
            work.wait()
            torch.ones(7).cumsum(0)
        by_name = {event.name: event.time_range for event in found.events()}
        lasting, between = by_name["outrigger:all_reduce 12 bytes"], by_name["outrigger:send 4 bytes"]
        assert lasting.start < between.start < lasting.end <= by_name["aten::cumsum"].start

    ranks.run(2, program)


def test_without_a_report_nothing_is_counted(ranks: Ranks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(REPORT, raising=False)
    monkeypatch.chdir(tmp_path)

    def program(_rank: int, _size: int) -> None:
        ours = dist.new_group(backend="outrigger")
        assert ours._counts is None
        work = dist.all_reduce(torch.ones(3), group=ours, async_op=True)
        assert type(work).__name__ == "QueuedWork"
        work.wait()

    ranks.run(2, program)
    assert list(tmp_path.glob("*.counts")) == []
