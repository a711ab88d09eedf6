"""Reading and showing the library's report."""

from __future__ import annotations

import copy
import io
import json
import os
import re
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from typer.main import get_command

from outrigger import cli, itself, learned, report, report_advice, report_end, report_headline
from outrigger.errors import UserError
from outrigger.report_reasons import NO_SERVICES, REASONS, because

SPREAD = {"sum": 0.5, "min": 0.1, "max": 0.2, "ranks": 4}
EXAMPLE: dict[str, Any] = {
    "version": 1,
    "mpi": "MPICH",
    "program": "solver",
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
    "rank_cpu_seconds": {"offloaded_calls": SPREAD, "process": {"sum": 8.0, "min": 1.9, "max": 2.1, "ranks": 4}},
}


def shown(data: dict[str, Any], width: int = 140) -> str:
    console = Console(file=io.StringIO(), width=width)
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


def test_means_are_over_the_ranks_of_each_sum() -> None:
    """A rank was killed, one rank was in the phase, and the collective was on communicators of several sizes."""
    three, one = ({"sum": 6.0, "min": 0.5, "max": 6.0, "ranks": ranks} for ranks in (3, 1))
    data = changed(size=0, communicator="(other communicators)", post_seconds=three, completion_seconds=three)
    cpu = {"offloaded_calls": three, "process": SPREAD}
    phase = {"phase": "write", "entered": 1, "calls": 0, "offloaded": 0, "bytes": 0, "seconds": one}
    text = shown(data | {"rank_cpu_seconds": cpu, "phases": [phase | {"collective_seconds": one}]})
    assert text.count("2 s (6 s)") == 3 and text.count("6 s (6 s)") == 2
    assert "CPU time of a rank, mean (max): 2 s (6 s) in offloaded calls" in text


def test_what_is_not_well_is_said() -> None:
    data = copy.deepcopy(EXAMPLE)
    data["service"] |= {"core_is_free": False, "cross_memory_attach": False}
    text = shown(data)
    assert text.startswith("No spare core: the service process shares the ranks' cores")
    assert "which ranks use too" in text
    other = {"node": 0, "number": 0, "core": 1, "core_is_free": False, "other_job": 7}
    assert "No spare core" not in shown(data | {"services": [other]}) and "No spare core" not in shown(EXAMPLE)
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
    assert "No collective was called in a form that is offloaded." in shown(EXAMPLE | {"collectives": []})


def call(name: str, seconds: tuple[float, float, float], **fields: Any) -> dict[str, Any]:
    """A row of calls, of which rank 2 spent least and rank 0 most."""
    total, least, most = seconds
    spread = {"sum": total, "min": least, "max": most, "min_rank": 2, "max_rank": 0, "ranks": 4}
    return {
        "call": name,
        "form": "blocking",
        "collective": None,
        "communicator": "MPI_COMM_WORLD",
        "group": "0" * 32,
        "size": 4,
        "calls": 1408,
        "offloaded": 0,
        "native": {"blocking form": 1408},
        "bytes": {"calls": 1408, "sum": 1408 * 98304, "min": 98304, "max": 98304},
        "seconds": spread,
    } | fields


RUN = {"sum": 40.0, "min": 10.0, "max": 10.0, "min_rank": 0, "max_rank": 0, "ranks": 4}
ALLTOALLV = call("MPI_Alltoallv", (12.4, 1.0, 4.0), collective="ialltoallv")
CALLS = {
    "calls": [call("MPI_Allreduce", (0.4, 0.1, 0.1), native={"no offloaded form": 1408}), ALLTOALLV],
    "run_seconds": RUN,
}


@pytest.mark.parametrize("width", [80, 120])
def test_every_call_is_shown_the_longest_first(width: int) -> None:
    text = shown(EXAMPLE | CALLS, width)
    assert max(map(len, text.splitlines())) <= width
    assert 0 < text.index("MPI_Alltoallv") < text.index("MPI_Allreduce")
    for words in ("1,408", "96 KiB", "3.1 s", "31%", "1 s (2)", "4 s (0)", "blocking form", "no offloaded form"):
        assert words in text, words


def test_advice_has_figures_of_this_run_only() -> None:
    (line,) = report_advice.advice(report.parse(json.dumps(EXAMPLE | CALLS)))
    assert line == (
        "1,408 calls of MPI_Alltoallv of 96 KiB, 31% of the run time, native because blocking calls are left to the "
        "MPI unless asked for. `--blocking on` offloads it; posted earlier as MPI_Ialltoallv, up to 3.1 s of a rank "
        "could be hidden behind its computation."
    )


@pytest.mark.parametrize(
    ("name", "fields", "said"),
    [
        ("MPI_Alltoall", {}, True),
        ("MPI_Reduce_scatter_block", {}, True),
        ("MPI_Ialltoall", {"form": "nonblocking"}, False),  # its transfer may be hidden
        ("MPI_Alltoallv", {}, False),  # a rank may have nothing to wait for
        ("MPI_Bcast", {}, False),
        ("MPI_Alltoall", {"size": 2}, False),  # of a native job: two communicators of the same name
        ("MPI_Alltoall", {"size": 0}, False),
        ("MPI_Alltoall", {"size": 5}, False),  # a rank was killed
    ],
)
def test_the_last_rank_is_named_where_all_ranks_meet(name: str, fields: dict[str, Any], said: bool) -> None:
    rows = [call(name, (12.4, 1.0, 4.0), **fields)]
    read = report.parse(json.dumps(EXAMPLE | {"calls": rows, "run_seconds": RUN, "collectives": []}))
    (line,) = report_advice.advice(read)
    words = " Rank 2 was in it for 1 s, rank 0 for 4 s: the last rank waits least."
    assert line.endswith(words) if said else "waits least" not in line
    assert ("Late ranks" in report.as_page(read)) == said


def test_small_blocking_calls_are_not_told_to_be_offloaded() -> None:
    """--blocking on leaves blocks of up to 8 KiB to the MPI."""

    def advised(name: str, each: int) -> str:
        bytes_of = {"calls": 4, "sum": 4 * each, "min": each, "max": each}
        collective = f"i{name.removeprefix('MPI_').lower()}"
        row = call(name, (12.4, 1.0, 4.0), collective=collective, bytes=bytes_of)
        (line,) = report_advice.advice(report.parse(json.dumps(EXAMPLE | {"calls": [row], "run_seconds": RUN})))
        return line

    assert "--blocking" not in advised("MPI_Allreduce", 8)  # bytes, as a sum of one double
    assert "--blocking" not in advised("MPI_Alltoall", 4 * 8192)  # to four ranks
    assert "`--blocking on` offloads it; posted" in advised("MPI_Alltoall", 4 * 8193)
    assert "`--blocking on` offloads it, floating-point sums and products only with `--algorithm iallreduce=on`" in (
        advised("MPI_Allreduce", 8193)
    )


def test_calls_by_ranks_are_named_and_advised() -> None:
    def advised(**fields: Any) -> str:
        bytes_of = {"calls": 4, "sum": 4 * 4096, "min": 4096, "max": 4096}
        row = call("MPI_Bcast", (12.4, 1.0, 4.0), collective="ibcast", bytes=bytes_of, **fields)
        (line,) = report_advice.advice(report.parse(json.dumps(EXAMPLE | {"calls": [row], "run_seconds": RUN})))
        return line

    assert "native because blocking calls are left" in advised() and "--intranode" not in advised()
    assert ", 1,000 of them done by the ranks themselves." in advised(by_ranks=1000, native={"order not learned": 408})
    by_ranks = advised(by_ranks=1400, native={"blocking form": 8})
    assert "of them" not in by_ranks
    assert "done by the ranks themselves" in by_ranks and "native" not in by_ranks and "--intranode" not in by_ranks


def test_the_first_line_says_what_ranks_saved() -> None:
    def first_line(**fields: Any) -> str:
        row = call("MPI_Bcast", (12.4, 1.0, 4.0), native={"in trials": 8}, **fields)
        data = EXAMPLE | {"calls": [row], "collectives": [], "run_seconds": RUN, "native_because": "no services"}
        return shown(data).splitlines()[0]

    done = "1,400 of 1,408 collective calls done by the ranks themselves through shared memory"
    saved = first_line(by_ranks=1400, saved_seconds=10.0)
    assert saved == f"{done}, which saved about 2.5 s (20% of the 12.5 s without)."
    little = first_line(by_ranks=1400, saved_seconds=0.01)
    assert little.startswith(f"{done}, which saved about 2.5 ms (less than 0.1% of the 10 s")
    assert first_line(by_ranks=1400) == f"{done}."  # nothing was measured
    assert first_line(by_ranks=0).startswith("Nothing was offloaded: all 1,408")


def test_sums_without_an_order_are_advised() -> None:
    row = call("MPI_Allreduce", (12.4, 1.0, 4.0), collective="iallreduce", native={"order not found": 1400})
    (line,) = report_advice.advice(report.parse(json.dumps(EXAMPLE | {"calls": [row], "run_seconds": RUN})))
    assert "the order of the MPI's sums cannot be learned" in line and "`--sums any`" in line


def names_in_the_library() -> list[str]:
    header = Path(__file__).parents[2] / "src/report/native_reason.hpp"
    list_of_names = header.read_text().partition("kReasonNames{")[2].partition("}")[0]
    return re.findall(r'"([^"]+)"', list_of_names)


def test_every_reason_of_the_library_has_words() -> None:
    first, *names = names_in_the_library()
    assert first == "none" and len(names) >= 23
    assert list(REASONS) == names


def test_every_reason_is_in_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs/using/report.md").read_text()
    rows = " ".join(re.findall(r"^\| ([^|]+) \|", page, re.MULTILINE))
    for name in REASONS:
        assert ("your --algorithm rule" if name == "your rule" else name.removeprefix("measured ")) in rows, name


def test_remedies_name_commands_and_options_that_exist() -> None:
    run = get_command(cli.make_app(["run"])).commands["run"]  # type: ignore[attr-defined]
    options = {name for one in run.params for name in one.opts}
    named = [words for reason in REASONS.values() for words in re.findall(r"`([^`]+)`", reason.remedy)]
    assert len(named) >= 8
    for words in named:
        first, *rest = words.split()
        known = cli.name_of(rest) if first == "outrigger" else first in options
        assert known, words


@pytest.mark.parametrize(
    ("reason", "fields", "changes", "words"),
    [
        ("blocking form", {"collective": "ialltoall"}, {}, "`--blocking on` offloads it"),
        ("blocking form", {"collective": "ialltoall"}, {"native_because": "no keeper"}, ""),
        ("native job", {"collective": "ialltoall"}, {"native_because": "no keeper"}, ""),
        ("native job", {"collective": "ialltoall"}, {"native_because": NO_SERVICES}, "`--services 1` starts"),
        ("native job", {}, {"native_because": NO_SERVICES}, ""),  # there is no offloaded form
        ("not tried", {"calls": 4 * 139}, {}, ""),
        ("not tried", {"calls": 4 * 140}, {}, "`--choice early` tries it sooner"),
        ("rounding", {"collective": "iallreduce"}, {}, "`--algorithm iallreduce=on` offloads it"),
        ("your rule", {}, {}, "`--blocking off` leaves all blocking calls to the MPI"),
        ("MPI as fast", {}, {}, ""),
        ("of a later version", {}, {}, ""),
    ],
)
def test_a_remedy_is_named_only_where_it_works(
    reason: str, fields: dict[str, Any], changes: dict[str, Any], words: str
) -> None:
    calls = fields.get("calls", 1408)
    row = call("MPI_Alltoall", (12.4, 1.0, 4.0), native={reason: calls}, **fields)
    read = report.parse(json.dumps(EXAMPLE | {"calls": [row], "run_seconds": RUN} | changes))
    remedy = report_advice.remedy(reason, read.calls[0], read)
    assert words in remedy and bool(words) == bool(remedy)
    assert because(reason)


def test_without_service_processes_no_call_is_told_to_be_offloaded() -> None:
    row = call("MPI_Alltoall", (12.4, 1.0, 4.0), collective="ialltoall", native={"MPI as fast": 1408})
    changes = {"calls": [row], "run_seconds": RUN, "service": EXAMPLE["service"] | {"processes": 0}}
    (line,) = report_advice.advice(report.parse(json.dumps(EXAMPLE | changes)))
    assert "trials found the MPI as fast" in line and "--blocking" not in line


def split(count: int, **fields: Any) -> list[dict[str, Any]]:
    """Rows of so many communicators of four ranks that one MPI_Comm_split made."""
    one = call("MPI_Alltoallv", (12.4, 1.0, 4.0), collective="ialltoallv", communicator="row", **fields)
    return [one | {"group": f"{number:032x}"} for number in range(count)]


def test_communicators_of_a_split_have_one_line_of_advice() -> None:
    other = call("MPI_Bcast", (4.0, 1.0, 1.0), collective="ibcast", native={"order not learned": 1408})
    rows = [*split(16), *split(2, native={"rounding": 1408}), other]
    lines = report_advice.advice(report.parse(json.dumps(EXAMPLE | {"calls": rows, "run_seconds": RUN})))
    assert [line.partition(" The same for ")[2] for line in lines] == [
        "15 more such communicators.", "1 more such communicator.", ""
    ]  # fmt: skip
    assert "MPI_Bcast" in lines[-1]


def test_tables_on_the_terminal_end_with_what_they_leave_out() -> None:
    def rows(count: int) -> str:
        collectives = [changed(group=f"{number:032x}")["collectives"][0] for number in range(count)]
        return shown(EXAMPLE | {"calls": split(count), "collectives": collectives, "run_seconds": RUN})

    assert rows(30).count("MPI_Alltoallv ") - 1 == rows(30).count(" 3,996 ") == 30 and "more row" not in rows(30)
    cut = rows(1031)
    assert cut.count(" 3,996 ") == 30 and cut.count("And 1,001 more rows: `--report-to` writes all.") == 2


@pytest.mark.parametrize(
    "other",
    [
        call("MPI_Bcast", (12.4, 1.0, 4.0), size=1, native={"group of one": 1408}),  # nothing to be done
        call("MPI_Barrier", (1.9, 0.1, 1.5)),  # too little
    ],
)
def test_no_advice_where_there_is_nothing_to_say(other: dict[str, Any]) -> None:
    assert not report_advice.advice(report.parse(json.dumps(EXAMPLE | {"calls": [other], "run_seconds": RUN})))


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        ({"how": "aborted", "code": 0, "rank": 2}, "The job was ended by MPI_Abort with code 0 by rank 2."),
        ({"how": "signal", "signal": 11, "rank": 1}, "The job was ended by SIGSEGV, rank 1 first."),
        ({"how": "exited", "code": 5}, "The job ended without MPI_Finalize, with exit code 5."),
        ({"how": "ended", "text": "a cable is cut"}, "The job could not go on: a cable is cut."),
        ({"how": "lost", "rank": 3}, "The job ended without MPI_Finalize, rank 3 first."),
    ],
)
def test_an_end_is_said(ended: dict[str, Any], words: str) -> None:
    text = shown(EXAMPLE | CALLS | {"ended": ended, "counted_ranks": [[0, 1], [3, 3]]})
    assert words in text and "Counted are ranks 0 to 1, 3 of 4." in text


def test_a_running_job_is_not_said_to_have_ended() -> None:
    """As world rank 0 writes it in MPI_Init: the ranks may still call collectives."""
    begun = {"ended": {"how": "running"}, "counted_ranks": [], "collectives": []}
    text = shown(EXAMPLE | begun)
    assert "The job is still running, or ended without a message." in text and "No rank has counted anything." in text
    assert "No collective was called" not in text
    assert "No collective was called" in shown(EXAMPLE | begun | {"counted_ranks": [[0, 3]]})


def test_a_whole_end_needs_no_words() -> None:
    text = shown(EXAMPLE | CALLS | {"ended": {"how": "finalized"}, "counted_ranks": [[0, 3]]})
    assert "ended" not in text and "Counted" not in text


def test_a_native_job_says_why() -> None:
    service = EXAMPLE["service"] | {"processes": 0}
    text = shown(EXAMPLE | CALLS | {"native_because": "no core", "service": service, "collectives": []})
    assert "The whole job ran natively: no core." in text and "No service process." in text
    native = report.parse(json.dumps(EXAMPLE | {"native_because": "no core", "collectives": []}))
    assert report.offload_verdict(native, ["ibcast"]) == "ibcast stayed native, as the whole job: no core"


def test_a_service_process_without_its_core_is_said() -> None:
    process = {"node": 0, "number": 1, "core": 3, "core_is_free": True}
    text = shown(EXAMPLE | {"services": [process | {"core_taken": 0.63}, process | {"core_taken": None}]})
    assert text.count("the service's core was taken by others for 63% of the time") == 1


def test_the_launcher_waits_for_the_keeper(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(EXAMPLE | {"ended": {"how": "running"}}))
    ended = json.dumps(EXAMPLE | {"ended": {"how": "aborted", "code": 3, "rank": 1}})
    keeper = threading.Timer(0.2, lambda: path.write_text(ended))
    keeper.start()
    report_end.settle(path, 3, mpi="MPICH", ranks=4)
    keeper.join()
    assert report.read(path).ended.how == "aborted"


@pytest.mark.parametrize(("code", "how", "number"), [(139, "signal", 11), (3, "exited", None), (0, "exited", None)])
def test_the_launcher_says_how_it_ended_where_nobody_else_does(
    tmp_path: Path, code: int, how: str, number: int | None
) -> None:
    path = tmp_path / "report.json"
    report_end.settle(path, code, mpi="MPICH", ranks=4)
    none = report.read(path)
    assert (none.ended.how, none.ended.signal, none.counted_ranks) == (how, number, ())
    assert "no rank has reached MPI_Init" in none.ended.text
    assert ("linked to it statically" in none.ended.text) == (code == 0)
    native = EXAMPLE | {
        "ended": {"how": "running"},
        "native_because": "no core",
        "service": EXAMPLE["service"] | {"processes": 0},
    }
    path.write_text(json.dumps(native))
    report_end.settle(path, code, mpi="MPICH", ranks=4)
    assert (report.read(path).ended.how, report.read(path).ended.signal) == (how, number)
    assert report.read(path).native_because == "no core" and report.read(path).collectives


def test_a_report_that_cannot_be_removed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As another user's in /tmp."""

    def refused(path: Path) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    path = tmp_path / "report.json"
    path.touch()
    monkeypatch.setattr(Path, "unlink", refused)
    with pytest.raises(UserError, match=r"report\.json of an earlier job cannot be removed: Operation not permitted"):
        report_end.forget(path)


def test_a_report_has_the_command_and_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(EXAMPLE))
    monkeypatch.setattr("sys.argv", ["/opt/bin/outrigger", "run", "-n", "4", "--", "./a b"])
    monkeypatch.setenv("OUTRIGGER_SUMS", "any thing")
    command = itself.as_given()
    assert "OUTRIGGER_SUMS='any thing' " in command and command.endswith(" outrigger run -n 4 -- './a b'")
    report_end.note_run(path, command, "MPICH 4.0.2", datetime(2026, 11, 28, tzinfo=UTC))
    run = report.read(path).run
    assert run is not None and (run.command, run.mpi) == (command, "MPICH 4.0.2")
    assert run.started == "2026-11-28 00:00:00 +0000" and run.version and run.machine
    assert json.loads(path.read_text()).items() >= EXAMPLE.items()
    report_end.note_run(tmp_path / "none.json", command, "", datetime.now(UTC))
    assert not (tmp_path / "none.json").exists()


def test_a_command_that_is_not_unicode_leaves_its_report_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(EXAMPLE))
    monkeypatch.setattr("sys.argv", ["outrigger", "run", "--", "./prog", os.fsdecode(b"in_\xe9.dat")])
    report_end.note_run(path, itself.as_given(), "MPICH 4.0.2", datetime.now(UTC))
    run = report.read(path).run
    assert run is not None and "in_\ufffd.dat" in run.command


def test_the_launcher_leaves_a_report_that_says_its_end(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    text = json.dumps(EXAMPLE | {"ended": {"how": "finalized"}})
    path.write_text(text)
    report_end.settle(path, 1, mpi="MPICH", ranks=4)
    assert path.read_text() == text


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
        "1 fork made what was there ordinary memory"
    ) in shown(changed() | {"shared_heap": counts})


def test_what_waiting_ranks_copied_has_a_line() -> None:
    assert "waited" not in shown(EXAMPLE) and "waited" not in shown(EXAMPLE | {"copied_while_waiting": 0})
    line = "copied by ranks while they waited: 3 MiB, counted with copier"
    assert line in shown(EXAMPLE | {"copied_while_waiting": 3 << 20}).splitlines()


def test_what_was_copied_on_spare_cores_has_a_line() -> None:
    assert "spare cores" not in shown(EXAMPLE)
    line = "copied on spare cores (--copy-cpus): 5 MiB, counted with copier"
    assert line in shown(EXAMPLE | {"copied_on_spare_cores": 5 << 20}).splitlines()


def waits(kind: str, setting: str = "", seconds: float = 0.0) -> dict[str, Any]:
    spread = {"sum": seconds, "min": 0.0, "max": seconds}
    return {
        "kind": kind,
        "setting": setting,
        "naps": 3,
        "slept_seconds": spread | {"sum": 0.75 * seconds},
        "yielded_seconds": spread | {"sum": 0.125 * seconds},
        "seconds": spread,
    }


def test_polite_waits_have_a_line() -> None:
    line = "Polite waits: 4 ranks waited 16 s in all, 12 s asleep and 2 s in yields."
    assert line in shown(EXAMPLE | {"waits": waits("polite", seconds=16.0)}).splitlines()
    alone = EXAMPLE["service"] | {"processes": 0}
    assert line in shown(EXAMPLE | {"service": alone, "waits": waits("polite", seconds=16.0)}).splitlines()


def test_polite_waits_without_a_pause_have_no_line() -> None:
    for kind in ("native", "polite"):
        assert "polite" not in shown(EXAMPLE | {"waits": waits(kind)})
    assert "polite" not in shown(EXAMPLE)


def test_own_setting_of_the_mpi_is_named() -> None:
    line = "Waits: the MPI yields by its own setting, I_MPI_THREAD_YIELD=3."
    assert line in shown(EXAMPLE | {"waits": waits("own setting", "I_MPI_THREAD_YIELD=3")}).splitlines()


def test_energy_has_a_line_where_it_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(EXAMPLE))
    report_end.note_energy(path, None)
    assert report.read(path).energy_joules is None and "Energy" not in shown(EXAMPLE)
    report_end.note_energy(path, 12345.6)
    assert "processors during the run: 12,346 J" in shown(json.loads(path.read_text()))
    report_end.note_energy(tmp_path / "none.json", 1.0)
    assert not (tmp_path / "none.json").exists()


def test_buffers_in_huge_pages_have_a_line() -> None:
    assert "huge" not in shown(EXAMPLE) and "huge" not in shown(EXAMPLE | {"in_huge_pages": 0})
    assert "buffers moved to huge pages: 3 MiB" in shown(EXAMPLE | {"in_huge_pages": 3 << 20}).splitlines()


def test_another_version_is_named() -> None:
    with pytest.raises(UserError, match="version 2, this command reads version 1"):
        report.parse(json.dumps(EXAMPLE | {"version": 2}))
    with pytest.raises(UserError, match="it has no version, so it is a different format"):
        report.parse("{}")


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


def with_calls(**fields: Any) -> dict[str, Any]:
    """A nonblocking row and a blocking one; 1.6 s before waits, 0.4 s in calls and waits, of four ranks together."""
    bytes_of = {"calls": 4, "sum": 4096, "min": 1024, "max": 1024}
    seconds = {"sum": 0.4, "min": 0.1, "max": 0.1, "min_rank": 0, "max_rank": 1, "ranks": 4}
    row = {
        "call": "MPI_Ialltoall", "form": "nonblocking", "collective": "ialltoall", "communicator": "MPI_COMM_WORLD",
        "group": "0" * 32, "size": 4, "calls": 100, "offloaded": 96, "native": {"measured choice": 4},
        "bytes": bytes_of, "seconds": seconds, "before_wait": {"operations": 100, "seconds": 1.6},
    }  # fmt: skip
    blocking = row | {
        "call": "MPI_Bcast", "form": "blocking", "calls": 8, "offloaded": 0, "native": {"blocking form": 8},
        "before_wait": {"operations": 0, "seconds": 0.0},
    }  # fmt: skip
    process = {"node": 0, "number": 0, "core": 1, "core_is_free": True}
    run = {"sum": 8.0, "min": 2.0, "max": 2.0, "min_rank": 0, "max_rank": 0, "ranks": 4}
    served = changed(post_seconds=SPREAD | {"sum": 0.02}, completion_seconds=SPREAD | {"sum": 0.3})
    return {**served, "run_seconds": run, "services": [process], "calls": [row, blocking], **fields}


def test_the_first_line_says_what_was_hidden_and_what_it_cost() -> None:
    first = shown(with_calls(), 400).splitlines()[0]
    assert first == (
        "96 of 108 collective calls offloaded: a rank computed for 384 ms meanwhile, and 80 ms (4% of the run) was "
        "not hidden. Cost: 1 service process on CPU 1, 125 ms of a rank's CPU time. `outrigger advise` measures "
        "whether that pays."
    )


def test_the_first_line_of_what_stayed_native() -> None:
    calls = with_calls()["calls"]
    stayed = [calls[1]]
    left = "Nothing was offloaded: all 8 collective calls ran natively: blocking calls are left to the MPI"
    assert " ".join(shown(with_calls(calls=stayed)).split()).startswith(f"{left}. ")  # too small to be offloaded
    long = calls[1] | {"bytes": {"calls": 4, "sum": 4 << 20, "min": 1 << 20, "max": 1 << 20}}
    assert " ".join(shown(with_calls(calls=[long])).split()).startswith(f"{left}; `--blocking on` changes that. ")
    job = with_calls(calls=stayed, native_because="no core")
    assert shown(job).startswith("Nothing was offloaded: all 8 collective calls ran natively, as the whole job did.")
    assert report_headline.headline(report.parse(json.dumps(EXAMPLE))) == ""  # it has no such rows


def test_a_rule_of_the_user_is_named_by_its_option() -> None:
    native = {"your rule": 8}
    rows = [row | {"offloaded": 0, "calls": 8, "native": native} for row in with_calls()["calls"]]
    assert "ran natively: your --algorithm rule." in shown(with_calls(calls=rows[:1]), 400)
    assert "ran natively: your --blocking or --algorithm rule." in shown(with_calls(calls=rows[1:]), 400)
    (line, _) = report_advice.advice(report.parse(json.dumps(with_calls(calls=rows))))
    assert "native because of your --algorithm rule." in line
    assert "your rule" not in shown(with_calls(calls=rows), 400)


def test_the_same_as_json() -> None:
    data = report.as_data(report.parse(json.dumps(with_calls())))
    assert (data["calls"], data["offloaded"]) == (108, 96)
    assert data["computed_seconds"] == pytest.approx(0.384) and data["not_hidden_seconds"] == pytest.approx(0.08)
    assert data["headline"] and isinstance(data["advice"], list)


def test_few_offloaded_calls_have_their_share_of_the_first_line() -> None:
    """A quarter of the calls: of 1.6 s before waits 0.4 s; 0.32 s in posts and waits."""
    row = with_calls()["calls"][0] | {"offloaded": 25, "native": {"measured choice": 75}}
    data = report.as_data(report.parse(json.dumps(with_calls(calls=[row]))))
    assert data["computed_seconds"] == pytest.approx(0.4 / 4)
    assert data["not_hidden_seconds"] == pytest.approx(0.32 / 4)
    assert "and 80 ms (4% of the run) was" in data["headline"]


def timed(before_wait: float, **fields: Any) -> dict[str, Any]:
    """Four ranks, 1 s each, all calls offloaded: 0.15 s in the call and 0.16 s in waits, a rank."""
    seconds = {"sum": 1.24, "min": 0.31, "max": 0.31, "ranks": 4}
    row = with_calls()["calls"][0] | {
        "calls": 400, "offloaded": 400, "native": {}, "seconds": seconds,
        "before_wait": {"operations": 400, "seconds": before_wait},
    }  # fmt: skip
    served = changed(
        calls=400,
        offloaded=400,
        native={},
        post_seconds=SPREAD | {"sum": 0.6, "max": 0.2},
        completion_seconds=SPREAD | {"sum": 0.64},
    )
    run = {"sum": 4.0, "min": 1.0, "max": 1.0, "ranks": 4}
    return served | {"run_seconds": run, "calls": [row | fields]}


def test_computed_and_not_hidden_are_no_more_than_the_run() -> None:
    """Each rank computed for 0.67 s between its calls."""
    data = report.as_data(report.parse(json.dumps(timed(4 * 0.67))))
    assert data["computed_seconds"] == pytest.approx(0.67) and data["not_hidden_seconds"] == pytest.approx(0.31)
    several = report.as_data(report.parse(json.dumps(timed(40.0))))  # operations at the same time
    assert several["computed_seconds"] == pytest.approx(1.0 - 0.31)


def test_computation_of_several_threads_is_no_more_than_the_run() -> None:
    """Two threads of each rank were in calls for 0.62 s each: that says nothing about the rest of the run."""
    seconds = {"sum": 4.96, "min": 1.24, "max": 1.24, "ranks": 4}
    data = report.as_data(report.parse(json.dumps(timed(4 * 0.67, seconds=seconds))))
    assert data["computed_seconds"] == pytest.approx(0.67)
    several = report.as_data(report.parse(json.dumps(timed(40.0, seconds=seconds))))
    assert several["computed_seconds"] == pytest.approx(1.0)


def test_tests_are_no_computation() -> None:
    tests = {"calls": 4000, "seconds": 0.4}
    data = report.as_data(report.parse(json.dumps(timed(4 * 0.57 + 0.4, tests=tests))))
    assert data["computed_seconds"] == pytest.approx(0.57)


@pytest.mark.parametrize("width", [80, 140])
def test_the_whole_starting_call_is_shown(width: int) -> None:
    assert " 150 ms" in shown(timed(3.0), width)


def test_one_rank_without_a_core_and_without_offloaded_calls() -> None:
    process = {"node": 2, "number": 0, "core": -1, "core_is_free": False, "core_taken": 0.5, "other_job": 7}
    cpu = {"offloaded_calls": SPREAD, "process": {"sum": 8.0, "min": 1.9, "max": 2.1, "ranks": 1}}
    data = changed(offloaded=0, native={"blocking form": 4000}) | {"ranks": 1, "services": [process]}
    data |= {"rank_cpu_seconds": cpu}
    text = shown(data)
    assert "1 rank under MPICH" in text and "-1" not in text
    assert "Service process 0, node 2: the service's core was taken by others for 50% of the time." in text
    assert "CPU time of a rank, mean (max): 8 s (2.1 s) in all." in text


def short_run(calls: int, **fields: Any) -> report.Report:
    """Two ranks without a spare core, in 1.6 s; each made so many calls of 64 KiB to each, and one more."""
    bytes_of = {"calls": 2 * calls, "sum": 2 * calls << 17, "min": 1 << 17, "max": 1 << 17}
    seconds = {"sum": 0.4, "min": 0.1, "max": 0.3, "ranks": 2}
    row = with_calls()["calls"][0] | {
        "calls": 2 * calls, "size": 2, "offloaded": 0, "native": {"not tried": 2 * calls}, "bytes": bytes_of,
        "seconds": seconds,
    }  # fmt: skip
    other = with_calls()["calls"][1] | {"calls": 2, "size": 2, "native": {"blocking form": 2}, "seconds": seconds}
    service = EXAMPLE["service"] | {"core": -1, "core_is_free": False}
    run = {"sum": 3.2, "min": 1.6, "max": 1.6, "ranks": 2}
    data = changed(offloaded=0, algorithms={}) | {"ranks": 2, "run_seconds": run, "calls": [row, other]}
    return report.parse(json.dumps(data | {"service": service, "services": []} | fields))


def test_a_short_run_says_that_nothing_was_tried() -> None:
    assert report_headline.headline(short_run(300)) == (
        "Nothing was offloaded: all 602 collective calls ran natively: too short to try offloading, 300 MPI_Ialltoall "
        "of a rank in 1.6 s: `--choice early` tries it early, for later runs."
    )
    assert "too few calls to try offloading, 100 MPI_Ialltoall of a rank in 1.6 s; it is tried after 140." in (
        report_headline.headline(short_run(100))
    )
    console = Console(file=io.StringIO(), width=200)
    report.show(console, short_run(300))
    assert isinstance(console.file, io.StringIO)
    assert "not tried" in console.file.getvalue() and "measured choice" not in console.file.getvalue()


def test_a_single_rank_has_nothing_to_offload() -> None:
    row = call("MPI_Ialltoall", (1.0, 1.0, 1.0), form="nonblocking", size=1, native={"group of one": 1408})
    read = report.parse(json.dumps(EXAMPLE | {"ranks": 1, "calls": [row], "run_seconds": RUN}))
    assert report_headline.headline(read).startswith("Nothing to offload: the program ran with one rank")
    assert report_headline.headline(replace(read, ranks=2)) == ""


def test_calls_by_ranks_without_service_processes_are_no_native_job() -> None:
    row = call("MPI_Bcast", (1.0, 1.0, 1.0), collective="ibcast", by_ranks=1400, native={"native job": 8})
    data = EXAMPLE | {"calls": [row], "run_seconds": RUN, "native_because": "no service processes were requested"}
    text = shown(data)
    assert "No call was offloaded: no service processes were requested." in text and "whole job" not in text


def test_calls_by_ranks_are_counted_without_a_claim() -> None:
    """The report does not tell if they were faster: with --intranode always nothing was measured."""
    read = short_run(300)
    by_ranks = replace(read, calls=(replace(read.calls[0], by_ranks=500, native={}), *read.calls[1:]))
    done = "500 of 602 collective calls done by the ranks themselves through shared memory."
    assert report_headline.headline(by_ranks) == done
    both = replace(read, calls=(replace(read.calls[0], offloaded=100, by_ranks=500, native={}), *read.calls[1:]))
    assert "through shared memory. 100 of 602 collective calls offloaded: " in report_headline.headline(both)


def test_what_was_learned_has_its_date() -> None:
    date = datetime(2026, 11, 28, tzinfo=UTC)
    choice = learned.Choice("ialltoall", "nonblocking", 16, 2, 1, 2, 1, "native", date)
    kept = learned.Kept(Path("x"), date, "machine", "MPICH Version:\t4", "", "solver", (choice,))
    line = report_headline.headline(short_run(300), [kept])
    assert line.endswith("ran natively: as learned on 2026-11-28, which `outrigger cache` lists.")
    others = (
        replace(choice, size_class=17), replace(choice, ranks=4), replace(choice, form="blocking"),
        replace(choice, way="ring_pull"),
    )  # fmt: skip
    for other in (
        replace(kept, choices=others),
        replace(kept, mpi="Open MPI v4.1.4"),
        replace(kept, program="halo.py"),
    ):
        assert "too short" in report_headline.headline(short_run(300), [other])
    row = short_run(300).calls[0]
    tried = replace(short_run(300), calls=(replace(row, native={"measured choice": 600}),))
    assert "as earlier runs have shown" in report_headline.headline(tried)
    console = Console(file=io.StringIO(), width=200)
    report.show(console, short_run(300), [kept])
    assert isinstance(console.file, io.StringIO)
    assert " as learned on 2026-11-28" in console.file.getvalue().split("native, why")[1]
