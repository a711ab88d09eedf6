"""Reports of PyTorch jobs from files with counts, without torch: reading, words, and the page."""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from outrigger import cli, report, report_end, report_torch, report_torch_ranks, run_torch, torch_layout
from outrigger.errors import UserError
from outrigger.report_data import Ended, Run
from outrigger.report_torch_data import TorchReport
from outrigger.torch_layout import Form, Group, Number, Process, Slot, State

MOST_BYTES = 1_000_000
SECOND = 1_000_000_000
WORLD = Group(name="f00d", label="0", size=4, ranks=())
PAIR = Group(name="beef", label="3", size=2, ranks=((0, 1, 1),))


def head(rank: int, **fields: Any) -> Process:
    facts = {
        "version": torch_layout.VERSION, "rank": rank, "world_size": 4, "host": "node0", "pid": 7, "local_rank": rank,
        "local_world_size": 4, "restarts": 0, "attempt": "f00d", "started": 1000.0 + rank, "program": "train.py",
        "outrigger": "0.1.0", "torch": "2.15.0", "python": "3.11.7",
    }  # fmt: skip
    return Process(**(facts | fields))


def row(name: str, group: int = 0, **numbers: int) -> tuple[str, dict[Number, int]]:
    """Calls of an operation of a type. Times are in nanoseconds."""
    known = {"form": Form.BLOCKING, "least_bytes": 64, "most_bytes": 64, "calls": 1, "bytes": 64} | numbers
    return name, {Number.GROUP: group} | {Number[key.upper()]: value for key, value in known.items()}


def written(
    directory: Path,
    process: Process,
    rows: list[tuple[str, dict[Number, int]]],
    groups: tuple[Group, ...] = (WORLD, PAIR),
    **slots: int,
) -> Path:
    """A file as a process leaves it, after 10 s."""
    data = bytearray(torch_layout.FILE_BYTES)
    text = json.dumps(asdict(process)).encode()
    data[: len(text)] = text
    known = {"state": State.EXITED, "began": SECOND, "last": 9 * SECOND, "ended": 11 * SECOND} | slots
    known |= {"groups": len(groups), "rows": len(rows)}
    for name, value in known.items():
        struct.pack_into("=q", data, torch_layout.HEAD_BYTES + 8 * Slot[name.upper()], value)
    for number, group in enumerate(groups):
        text = json.dumps(asdict(group)).encode()
        at = torch_layout.GROUPS_AT_BYTE + number * torch_layout.GROUP_BYTES
        data[at : at + len(text)] = text
    for number, (title, numbers) in enumerate(rows):
        at = torch_layout.NAMES_AT_BYTE + number * torch_layout.NAME_BYTES
        data[at : at + len(title)] = title.encode()
        for key, value in numbers.items():
            struct.pack_into("=q", data, 8 * (torch_layout.ROWS_AT + number * torch_layout.ROW_NUMBERS + key), value)
    path = directory / f"rank{process.rank}-{len(list(directory.iterdir()))}.counts"
    path.write_bytes(data)
    return path


REDUCE = "all_reduce float32"


def four_ranks(directory: Path) -> TorchReport:
    """A run of 10 s: 1 to 4 s in all_reduce; 6 s in asynchronous ones, of which 1.5 s block."""
    for rank in range(4):
        flying = {"flight_ns": 6 * SECOND, "waited_flight_ns": 6 * SECOND, "wait_ns": SECOND, "waited": 2}
        called = {"call_ns": SECOND // 2, "hidden_ns": 9 * SECOND // 2, "calls": 2, "completed": 2}
        written(
            directory,
            head(rank),
            [
                row(REDUCE, calls=100, bytes=6400, call_ns=(rank + 1) * SECOND),
                row("all_gather int64", form=Form.ASYNC, **flying, **called),
            ],
        )
    return report_torch.of_directory(directory)


def on_terminal(found: TorchReport, width: int = 200) -> str:
    console = Console(file=io.StringIO(), width=width)
    report.show(console, found)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_figures_by_hand(tmp_path: Path) -> None:
    found = four_ranks(tmp_path)
    reduced, gathered = found.operations
    assert (reduced.calls, reduced.bytes.sum, reduced.bytes.mean) == (400, 25600, 64)
    assert (reduced.seconds.mean, reduced.seconds.min_rank, reduced.seconds.max_rank) == (2.5, 0, 3)
    assert gathered.hidden_seconds.sum == pytest.approx(4 * 4.5) and gathered.seconds.mean == pytest.approx(1.5)
    assert found.run_seconds is not None and found.run_seconds.mean == pytest.approx(10)
    assert report_torch.sentences(found) == [
        "408 calls of 4 ranks: a rank was blocked for 4 s (40% of the run).",
        "75% of the time of 8 asynchronous operations was hidden: the program did something else meanwhile.",
    ]
    text = on_terminal(found)
    assert "node0 (ranks 0 to 3)" in text and "killed" not in text and "Missing" not in text
    line = next(line for line in text.splitlines() if line.startswith(" all_reduce"))
    assert line.split() == [
        "all_reduce",
        "400",
        "64",
        "B",
        "2.5",
        "s",
        "25%",
        "1",
        "s",
        "(0)",
        "4",
        "s",
        "(3)",
        "-",
        "-",
    ]


def test_a_report_is_the_same_after_writing_and_reading(tmp_path: Path) -> None:
    found, path = four_ranks(tmp_path), tmp_path / "r.json"
    report_end.write(path, report_torch.as_json(found))
    assert report.read_any(path) == found and report.read_any(tmp_path) == found
    assert list(tmp_path.glob("*.part")) == []
    with pytest.raises(UserError, match="is of a PyTorch job"):
        report.read(path)


def test_a_pipe_gets_the_report_once(tmp_path: Path) -> None:
    found, pipe = four_ranks(tmp_path), tmp_path / "r.json"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        text = pool.submit(pipe.read_text)
        report_end.write(pipe, report_torch.as_json(found))
        assert json.loads(text.result())["kind"] == "torch" and pipe.is_fifo()


def test_the_page_has_what_the_terminal_shows(tmp_path: Path) -> None:
    four_ranks(tmp_path)
    run = Run("outrigger run --report-to 'a<b>.json' torchrun train.py", "0.1.0", "", "node0, 64 cores", "today")
    page = report.as_page(report_torch.of_directory(tmp_path, Ended("exited", code=0), run))
    assert len(page) < MOST_BYTES and "<script" not in page and "a&lt;b&gt;.json" in page
    for word in ("Outrigger: train.py on 4 ranks", "all_gather (async)", "75%", "<h2>The run</h2>", "torch", "2.15.0"):
        assert word in page
    # The rank with the least time comes last: ranks wait for 2.5 s - 1 s of it.
    late = page.split("<h2>Late ranks</h2>")[1].split("</section>")[0]
    assert "all_reduce" in late and "1.5 s" in late and "15%" in late and "all_gather" not in late


@pytest.mark.parametrize("width", [40, 80, 120])
def test_it_fits_terminals(tmp_path: Path, width: int) -> None:
    assert max(map(len, on_terminal(four_ranks(tmp_path), width).splitlines())) <= width


def test_the_command_shows_a_directory_and_writes_the_page(tmp_path: Path) -> None:
    four_ranks(tmp_path)
    page = tmp_path / "out.html"
    done = CliRunner().invoke(cli.make_app(["report"]), ["report", str(tmp_path), "--html", str(page)])
    assert done.exit_code == 0 and "all_reduce" in page.read_text()
    said = json.loads(CliRunner().invoke(cli.make_app(["report"]), ["report", str(tmp_path), "--json"]).stdout)
    assert (said["calls"], said["blocked_seconds"], said["hidden_seconds"]) == (
        408,
        pytest.approx(4),
        pytest.approx(4.5),
    )
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"there are no counts of a PyTorch job"):
        report.read_any(tmp_path / "empty")


def test_a_killed_rank_is_named_with_its_call(tmp_path: Path) -> None:
    written(tmp_path, head(0), [row(REDUCE)])
    written(tmp_path, head(1), [row(REDUCE)], state=State.RUNNING, current=torch_layout.ROWS_AT, ended=0)
    found = report_torch.of_directory(tmp_path, Ended("exited", code=1))
    assert [(one.rank, one.operation) for one in found.stopped] == [(1, "all_reduce")]
    assert found.missing_ranks == (2, 3)
    assert found.run_seconds is not None and found.run_seconds.min == pytest.approx(8)  # to its last call
    text = " ".join(on_terminal(found).split())
    assert (
        "torchrun ends all others when one fails. Ended by Python's exit, without destroy_process_group: rank 0" in text
    )
    still = " ".join(on_terminal(report_torch.of_directory(tmp_path)).split())
    assert "Rank 1 (in all_reduce) still ran, was killed, or ended without Python's exit" in still
    assert "torchrun ends" not in still
    assert (
        "Rank 1 (in all_reduce) was killed, or ended without Python's exit: its figures end with its last call." in text
    )
    assert "Missing: ranks 2 to 3, without counts" in text and "torchrun ended with exit code 1." in text


def test_a_launcher_sees_its_own_machine(tmp_path: Path) -> None:
    for rank in (2, 3):
        written(tmp_path, head(rank, host="node1", local_rank=rank - 2, local_world_size=2), [row(REDUCE)])
    found = report_torch.of_directory(tmp_path)
    assert found.missing_ranks == () and found.counted_ranks == ((2, 3),)
    assert "Counted: ranks 2 to 3 of 4, on node1. 2 other ranks ran on other machines" in " ".join(
        on_terminal(found).split()
    )
    assert "Late ranks" not in report.as_page(found)  # half of the group is unknown


def test_groups_have_rows_of_their_own(tmp_path: Path) -> None:
    for rank in (0, 1):
        written(tmp_path, head(rank), [row(REDUCE, calls=2), row(REDUCE, group=1, calls=3)])
    found = report_torch.of_directory(tmp_path)
    assert sorted((entry.group.size, entry.calls) for entry in found.operations) == [(2, 6), (4, 4)]
    assert "group 3, ranks 0 to 1" in on_terminal(found) and found.calls == 10


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        ((), ()),
        ((5,), ((5, 5, 1),)),
        (tuple(range(500)), ((0, 499, 1),)),
        (tuple(range(1, 1000, 2)), ((1, 999, 2),)),
        ((0, 1, 2, 8, 9, 10), ((0, 2, 1), (8, 10, 1))),
        ((7, 3), ((3, 7, 4),)),
        ((0, 1, 5), ((0, 1, 1), (5, 5, 1))),
    ],
)
def test_ranks_are_kept_as_runs(ranks: tuple[int, ...], expected: tuple[torch_layout.Run, ...]) -> None:
    assert torch_layout.runs(ranks) == expected
    assert torch_layout.numbers_of(expected) == sorted(ranks)


def test_victims_are_named_by_operation(tmp_path: Path) -> None:
    for rank in range(3):
        written(tmp_path, head(rank), [row(REDUCE)], state=State.RUNNING, current=torch_layout.ROWS_AT)
    written(tmp_path, head(3), [row(REDUCE)], state=State.RUNNING)
    text = " ".join(on_terminal(report_torch.of_directory(tmp_path, Ended("exited", code=1))).split())
    assert "Ranks 0 to 2 (in all_reduce), rank 3 were killed" in text


@pytest.mark.parametrize("hidden_ns", [0, SECOND])
def test_messages_are_said_to_be_messages(tmp_path: Path, hidden_ns: int) -> None:
    flying = {"flight_ns": 2 * SECOND, "waited_flight_ns": 2 * SECOND, "waited": 100, "calls": 100}
    written(tmp_path, head(0), [row("send float32", form=Form.MESSAGE, hidden_ns=hidden_ns, **flying)])
    more = report_torch.sentences(report_torch.of_directory(tmp_path))[1:]
    said = "50% of the time of 100 operations and messages was hidden: the program did something else meanwhile."
    assert more == ([said] if hidden_ns else [])


def test_rows_of_groups_without_names_are_added(tmp_path: Path) -> None:
    unknown = [Group(name="", label="unknown", size=0, ranks=())] * 2
    first = row(REDUCE, calls=2, bytes=128, call_ns=SECOND, least_bytes=16)
    written(tmp_path, head(0), [first, row(REDUCE, group=1, calls=3, bytes=192, call_ns=SECOND)], tuple(unknown))
    (found,) = report_torch.of_directory(tmp_path).operations
    assert (found.calls, found.bytes.sum, found.bytes.min, found.bytes.max) == (5, 320, 16, 64)
    assert found.seconds.sum == pytest.approx(2)


def test_a_group_of_many_ranges_is_shortened(tmp_path: Path) -> None:
    even = Group(name="even", label="4", size=500, ranks=((0, 998, 2),))
    lost = Group(name="lost", label="5", size=300, ranks=())
    rows = [row(REDUCE), row(REDUCE, group=1)]
    written(tmp_path, head(0, world_size=1000), rows, (even, lost))
    text = on_terminal(report_torch.of_directory(tmp_path))
    assert "group 4, ranks 0 to 998 (500 of them)" in text and "group 5, 300 ranks" in text


def test_the_last_start_counts(tmp_path: Path) -> None:
    for restarts, calls in ((0, 5), (1, 7)):
        for rank in range(4):
            process = head(rank, restarts=restarts, attempt=f"attempt{restarts}", started=1000.0 + 100 * restarts)
            written(
                tmp_path, process, [row(REDUCE, calls=calls)], state=State.RUNNING if restarts == 0 else State.EXITED
            )
    found = report_torch.of_directory(tmp_path)
    assert found.calls == 28 and found.restarts == 1 and found.stopped == ()
    (earlier,) = found.earlier
    assert earlier.calls == 20 and len(earlier.stopped) == 4
    text = on_terminal(found)
    assert "in 2 starts. All figures are of the last one alone" in text and "0 to 3 of 4" in text


def test_ranks_without_a_common_name_are_told_apart(tmp_path: Path) -> None:
    """Two runs in one directory, of programs whose first groups are subgroups."""
    for second in range(2):
        for rank in range(2):
            written(tmp_path, head(rank, attempt="/", started=1000.0 * second + rank), [row(REDUCE, calls=1 + second)])
    assert [one.calls for one in report_torch.of_directory(tmp_path).earlier] == [2]


def test_processes_that_ended_too_soon_are_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, head(0), [])
    whole = path.read_bytes()
    for broken in (b"", whole[:5000], bytes(len(whole)), whole[:30] + bytes(len(whole) - 30)):
        path.write_bytes(broken)
        assert report_torch_ranks.read_rank(path) is None
    written(tmp_path, head(1, version=9), [])
    with pytest.raises(UserError, match="has version 9"):
        report_torch.of_directory(tmp_path)


def test_a_job_without_groups_has_a_report(tmp_path: Path) -> None:
    found = report_torch.of_directory(tmp_path, Ended("exited", code=0))
    assert "no process has made a process group of Outrigger" in on_terminal(found)
    assert "no process has made" in report.as_page(found)


@pytest.fixture
def torchrun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A torchrun that only writes which directory it got, and fails without one."""
    program = tmp_path / "torchrun"
    program.write_text('#!/bin/sh\ntest -d "$OUTRIGGER_REPORT" && echo "$OUTRIGGER_REPORT" > "$1" && exit 3\n')
    program.chmod(0o755)
    (tmp_path / "scratch").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return program


def run_words(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "outrigger", "run", *words]
    return subprocess.run(command, text=True, capture_output=True, check=False)


def test_run_starts_torchrun_itself(tmp_path: Path, torchrun: Path) -> None:
    got, path = tmp_path / "got", tmp_path / "r.json"
    done = run_words("--report-to", path, "--", "torchrun", got)
    assert done.returncode == 3, done.stderr
    assert not Path(got.read_text().strip()).exists() and list((tmp_path / "scratch").iterdir()) == []
    found = report.read_any(path)
    assert isinstance(found, TorchReport) and found.ended == Ended("exited", code=3) and found.counted == 0
    assert found.run is not None and found.run.command.endswith(f"-- torchrun {got}")


@pytest.mark.usefixtures("torchrun")
@pytest.mark.parametrize(
    "option", ["--bind scatter", "--no-bind", "--oversubscribe", "--launcher srun", "--launch-agent rsh", "--dpufile d"]
)
def test_options_of_mpi_jobs_are_not_ignored(tmp_path: Path, option: str) -> None:
    done = run_words(*option.split(), "--report", "--", "torchrun", tmp_path / "got")
    assert done.returncode != 0 and "are for MPI jobs" in " ".join(done.stderr.split())
    assert option.split()[0] in done.stderr and not (tmp_path / "got").exists()


def test_a_full_disk_does_not_prevent_the_report_on_the_terminal(tmp_path: Path, torchrun: Path) -> None:
    got, path = tmp_path / "got", tmp_path / "r.json"
    torchrun.write_text(torchrun.read_text().replace("&& exit 3", f"&& mkdir {path} && exit 3"))
    done = run_words("--report", "--report-to", path, "--", "torchrun", got)
    assert done.returncode == 3 and "Nothing was counted" in done.stdout
    assert "cannot be written" in done.stderr


def test_a_dry_run_starts_nothing(tmp_path: Path, torchrun: Path) -> None:
    done = run_words("--report", "--dry-run", "--", "torchrun", tmp_path / "got")
    assert done.stdout == f"OUTRIGGER_REPORT=counts {torchrun} {tmp_path / 'got'}\n"
    assert done.returncode == 0 and not (tmp_path / "got").exists()


@pytest.mark.usefixtures("torchrun")
def test_without_a_report_torchrun_is_started_as_any_program(tmp_path: Path) -> None:
    done = run_words("--dry-run", "--", "torchrun", tmp_path / "got")
    if "no MPI was found" in done.stderr:
        pytest.skip("no MPI is installed")
    assert "mpiexec" in done.stdout or "mpirun" in done.stdout
    assert "OUTRIGGER_REPORT" not in done.stdout


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (["torchrun", "train.py"], True),
        (["/opt/venv/bin/torchrun", "train.py"], True),
        (["python3", "-m", "torch.distributed.run", "train.py"], True),
        (["python", "-m", "torch.distributed.launch", "train.py"], True),
        (["python", "train.py"], False),
        (["python", "-m", "pytest"], False),
        (["./torchrunner"], False),
    ],
)
def test_torchrun_is_recognized(program: list[str], expected: bool) -> None:
    assert run_torch.is_torchrun(program) is expected
