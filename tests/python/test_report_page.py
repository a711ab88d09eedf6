"""A report as one page, and its efficiencies: the same words as on the terminal, in a form for browsers."""

from __future__ import annotations

import html
import io
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from test_report import ALLTOALLV, CALLS, EXAMPLE, RUN, call, with_calls
from typer.testing import CliRunner

from outrigger import cli, report, report_efficiency, report_sections
from outrigger.report_model import Cell, Line

SHOTS = os.environ.get("OUTRIGGER_TEST_SHOTS")
"""A directory: pictures stay there, for people."""
MOST_BYTES = 1_000_000


def spread(*values: float) -> dict[str, Any]:
    """Figures of ranks 0, 1, ..."""
    least, most = min(values), max(values)
    return {
        "sum": sum(values), "min": least, "max": most, "min_rank": values.index(least), "max_rank": values.index(most),
        "ranks": len(values),
    }  # fmt: skip


# Four ranks, 10 s. They compute 6, 8, 4 and 6 s and are in collectives for the rest.
BY_HAND = EXAMPLE | {
    "run_seconds": spread(10, 10, 10, 10),
    "outside_seconds": spread(6, 8, 4, 6),
    "calls": [
        call("MPI_Allreduce", (0, 0, 0)) | {"seconds": spread(3.0, 0.5, 4.0, 3.0)},
        call("MPI_Alltoall", (0, 0, 0)) | {"seconds": spread(1.0, 1.5, 2.0, 1.0)},
    ],
}

# Four ranks spend 5 s in it, rank 2 only 4 s. The bounds of the transfer: 0.5 s in meetings, and 0.2 s in other calls.
PHASE = {
    "phase": "solve", "entered": 4, "calls": 8, "offloaded": 0, "bytes": 0, "seconds": spread(5, 5, 4, 5),
    "collective_seconds": spread(2, 1, 2, 3), "outside_seconds": spread(3, 4, 2, 2), "meetings": spread(7, 7, 7, 7),
    "meeting_seconds": spread(1.9, 0.5, 1.8, 2.9), "other_seconds": spread(0.1, 0.1, 0.2, 0.1),
}  # fmt: skip
OLD_PHASE = {name: PHASE[name] for name in list(PHASE)[:7]}

STARTED = {
    "command": "OUTRIGGER_SUMS=any outrigger run -n 4 -- ./solver 'a b'", "version": "0.1.0", "mpi": "MPICH 4.0.2",
    "machine": "node7, AMD EPYC, 64 cores", "started": "2026-11-28 21:30:00 +0000",
}  # fmt: skip


def read(data: dict[str, Any]) -> report.Report:
    return report.parse(json.dumps(data))


def on_terminal(data: dict[str, Any], width: int = 900) -> str:
    console = Console(file=io.StringIO(), width=width)
    report.show(console, read(data))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_efficiencies_by_hand() -> None:
    found = report_efficiency.of_report(read(BY_HAND))
    assert found is not None
    assert found.load_balance == pytest.approx(6 / 8)  # mean of the longest
    assert found.communication == pytest.approx(8 / 10)
    assert found.parallel == pytest.approx(6 / 10)  # mean of the run
    # Rank 1 was in MPI_Allreduce for 0.5 s, ranks 0 and 3 in MPI_Alltoall for 1 s: no transfer took longer.
    assert found.least_transfer == pytest.approx(8.5 / 10)
    assert found.most_serialization == pytest.approx(8 / 8.5)
    assert found.most_serialization * found.least_transfer == pytest.approx(found.communication)
    data = report.as_data(read(BY_HAND))["efficiency"]
    assert (data["parallel"], data["transfer_at_least"]) == (pytest.approx(0.6), pytest.approx(0.85))
    assert report.as_data(read(EXAMPLE))["efficiency"] is None


def test_only_calls_in_which_all_meet_bound_the_transfer() -> None:
    def bound(**fields: Any) -> float | None:
        rows = [BY_HAND["calls"][0] | {"seconds": spread(0.1, 0.1, 0.1, 0.1)}, BY_HAND["calls"][1] | fields]
        found = report_efficiency.of_report(read(BY_HAND | {"calls": rows}))
        assert found is not None
        return found.least_transfer

    assert bound(seconds=spread(1.0, 1.5, 1.7, 1.0)) == pytest.approx(0.89)
    longest = pytest.approx(0.82)  # the rank with the longest time may have moved data all the time
    assert bound(seconds=spread(1.0, 1.5, 1.7, 1.0), call="MPI_Bcast") == longest
    assert bound(seconds=spread(1.0, 1.5, 1.7, 1.0), form="nonblocking", call="MPI_Ialltoall") == longest
    assert bound(seconds=spread(1.0, 1.5, 1.7, 1.0), size=2) == longest
    assert bound(seconds=spread(1.0, 1.5, 5.0, 1.0), call="MPI_Bcast") is None  # that tells nothing


def test_efficiencies_of_a_phase_by_hand() -> None:
    """The ranks compute 3, 4, 2 and 2 s of the phase's 5 s."""

    def found(**fields: Any) -> report_efficiency.Efficiencies | None:
        read_phases = read(BY_HAND | {"phases": [PHASE | fields]})
        return report_efficiency.of_phase(read_phases.phases[0], read_phases)

    solve = found()
    assert solve is not None
    assert solve.load_balance == pytest.approx(2.75 / 4) and solve.communication == pytest.approx(4 / 5)
    assert solve.parallel == pytest.approx(2.75 / 5)
    assert solve.least_transfer == pytest.approx(4.3 / 5)
    assert solve.most_serialization == pytest.approx(4 / 4.3)
    for unlike in ({"meetings": spread(7, 6, 7, 7)}, {"meetings": spread(7, 7, 7)}):  # rank 1 met them elsewhere, too
        bound = found(**unlike, collective_seconds=spread(0.7, 0.1, 0.2, 0.3))
        assert bound is not None and bound.least_transfer == pytest.approx(4.3 / 5)
        unknown = found(**unlike)
        assert unknown is not None and unknown.least_transfer is None
    assert found(outside_seconds=spread(3)) is None  # one rank
    assert found(outside_seconds=spread(0, 0, 0, 0)) is None


def test_phases_are_shown_with_their_efficiencies() -> None:
    data = BY_HAND | {"phases": [PHASE, PHASE | {"phase": "short", "seconds": spread(4.5, 4.5, 4.5, 4.5)}]}
    text = on_terminal(data, 100)
    row = next(line for line in text.splitlines() if "solve" in line and "%" in line)
    assert row.replace("│", " ").split() == ["solve", "55%", "69%", "80%", "93%", "86%"]
    assert text.index("solve") < text.index("short") and "without inner phases" in text
    assert report.as_data(read(data))["phases"]["solve"]["parallel"] == pytest.approx(0.55)
    old = on_terminal(BY_HAND | {"phases": [OLD_PHASE]})
    assert "solve" in old and "without inner phases" not in old
    assert report.as_data(read(BY_HAND))["phases"] == {} and "Phases" not in report.as_page(read(BY_HAND))


@pytest.mark.parametrize(
    "fields",
    [
        {"outside_seconds": spread(10)},  # one rank
        {"outside_seconds": None},  # of an earlier version
        {"outside_seconds": spread(0, 0, 0, 0)},
        {"run_seconds": None},
    ],
)
def test_without_figures_there_are_no_efficiencies(fields: dict[str, Any]) -> None:
    assert report_efficiency.of_report(read(BY_HAND | fields)) is None
    assert "parallel efficiency" not in on_terminal(BY_HAND | fields)


def test_threads_that_add_up_to_more_than_the_run_have_no_efficiencies() -> None:
    """Four threads of rank 1 are in a reduction for 10 s each; its run counts as without computation."""
    rows = [call("MPI_Allreduce", (0, 0, 0)) | {"seconds": spread(4.0, 40.0, 6.0, 4.0)}]
    threads = BY_HAND | {"calls": rows, "outside_seconds": spread(6, 0, 4, 6)}
    words = "Times of several threads of a rank add up"
    for data in (threads, threads | {"outside_seconds": None}):
        text = on_terminal(data)
        assert words in text and "parallel efficiency" not in text and "135%" in text
        assert report.as_data(read(data))["efficiency"] is None
    assert words not in on_terminal(BY_HAND) and words in text_of(report.as_page(read(threads)))


def even(computed: float) -> dict[str, Any]:
    """All ranks compute so long, and are in one call for the rest of the run."""
    rest = {"seconds": spread(*[10 - computed] * 4)}
    return BY_HAND | {"outside_seconds": spread(*[computed] * 4), "calls": [call("MPI_Bcast", (0, 0, 0)) | rest]}


def test_efficiencies_are_shown_with_what_they_count() -> None:
    text = on_terminal(BY_HAND)
    lines = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    assert "60%" in lines["parallel"] and "6 s, of the run's 10 s" in lines["parallel"]
    assert "75%" in lines["load"] and "8 s of rank 1" in lines["load"]
    assert "80%" in lines["communication"]
    assert "at most 94%" in lines["serialization"] and "at least 85%" in lines["transfer"]
    assert "Uneven computation costs most: the others wait for rank 1" in text
    assert "All else counts as computation, also MPI_Send" in text
    assert "Communication costs most" in on_terminal(even(8.0))
    assert "would gain little" in on_terminal(even(9.8))


@pytest.mark.parametrize("width", [80, 90, 100, 110, 120, 130, 150])
def test_no_figure_is_cut_on_the_terminal(width: int) -> None:
    data = with_calls(calls=[ALLTOALLV, *with_calls()["calls"]], outside_seconds=spread(1, 1, 1.5, 1))
    text = on_terminal(data, width)
    assert max(map(len, text.splitlines())) <= width
    for words in ("996 scatter_dest", "3 MiB", "mapped", "1,408", "1 s (2)", "4 s (0)", "MPI_COMM_WORLD, 4"):
        assert words in text, words


def words_of(cell: Cell) -> list[str]:
    return ["".join(piece.text for piece in line) for line in cell.lines]


def text_of(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", page))


@pytest.mark.parametrize(
    "data",
    [BY_HAND, EXAMPLE | CALLS, with_calls(), BY_HAND | {"phases": [PHASE]}],
    ids=["by-hand", "calls", "offloaded", "phases"],
)
def test_the_page_says_all_that_the_terminal_says(data: dict[str, Any]) -> None:
    page = text_of(report.as_page(read(data)))
    terminal = on_terminal(data)
    for section in report_sections.of_report(read(data)):
        assert section.title in page
        for block in section.blocks:
            if isinstance(block, Line):
                assert block.text.replace("`", "") in page and block.more.replace("`", "") in page
                assert (block.text in terminal) == (block.on_terminal and section.on_terminal)
                continue
            for words in (words for row in block.rows for cell in row for words in words_of(cell)):
                assert words in page
                assert not section.on_terminal or words in terminal


def test_the_verdict_comes_first() -> None:
    page = report.as_page(read(with_calls(run=STARTED)))
    first = text_of(page.partition("<h2>Verdict</h2>")[2]).strip().splitlines()[0]
    assert first.startswith("96 of 108 collective calls offloaded: a rank computed for 384 ms")
    titles = re.findall("<h2>(.*)</h2>", page)
    assert titles == ["Verdict", "Calls", "Offloaded collectives", "Service processes and memory", "The run"]


def test_command_versions_and_machine_are_on_the_page() -> None:
    page = text_of(report.as_page(read(BY_HAND | {"run": STARTED})))
    assert all(value in page for value in STARTED.values())
    assert "are not known" not in page
    assert "The command and the machine are not known" in text_of(report.as_page(read(BY_HAND)))


def test_late_ranks_are_named() -> None:
    late = spread(0, 0.4, 0.1, 0.2)
    offloaded = EXAMPLE["collectives"][0] | {"calls": 400, "offloaded": 400, "late_seconds": late}
    page = report.as_page(read(BY_HAND | {"collectives": [offloaded]}))
    part = page.partition("<h2>Late ranks</h2>")[2].partition("</section>")[0]
    rows = [text_of(row) for row in re.findall("<tr>(.*)</tr>", part)]
    assert any(row.startswith("MPI_Allreduce") and "2.12 s" in row and "500 ms (1)" in row for row in rows), rows
    assert any(row.startswith("ialltoall") and row.endswith("14 ms") for row in rows), (
        rows
    )  # rank 1, 0.4 s in 100 calls
    killed = offloaded | {"offloaded": 300, "late_seconds": late | {"ranks": 3}}  # the last of four ranks
    assert "14 ms" in text_of(report.as_page(read(BY_HAND | {"collectives": [killed]})))
    alone = BY_HAND | {"calls": [ALLTOALLV | {"size": 2}], "collectives": []}
    assert "Late ranks" not in report.as_page(read(alone))


def test_savings_of_calls_by_ranks_are_on_the_page() -> None:
    row = call("MPI_Bcast", (1.0, 0.1, 0.4), by_ranks=1400, native={"in trials": 8}, saved_seconds=10.0)
    page = text_of(report.as_page(read(EXAMPLE | {"calls": [row], "run_seconds": RUN})))
    part = page.partition("Saved by the ranks themselves")[2]
    assert "1,400" in part and "2.5 s" in part and "20%" in part


def test_the_page_needs_no_other_file_and_runs_nothing() -> None:
    page = report.as_page(read(BY_HAND | {"run": STARTED}))
    assert not re.search(r"https?://|<script|<link|<img|src=|href=|url\(|@import", page)
    assert "default-src 'none'" in page


def test_names_of_the_program_are_text() -> None:
    evil = "</td><script>alert(1)</script>\"'&"
    data = BY_HAND | {"program": evil, "native_because": evil, "run": STARTED | {"command": evil}}
    data["calls"] = [row | {"communicator": evil} for row in BY_HAND["calls"]]
    page = report.as_page(read(data))
    assert "<script" not in page and evil in text_of(page)


def test_a_report_with_all_rows_makes_a_small_page() -> None:
    rows = [ALLTOALLV | {"communicator": f"communicator {number} {'x' * 40}"} for number in range(4096)]
    phases = [
        {"phase": f"phase {number}", "entered": 1, "calls": 1, "offloaded": 0, "bytes": 0, "seconds": RUN,
         "collective_seconds": RUN}
        for number in range(1024)
    ]  # fmt: skip
    page = report.as_page(read(EXAMPLE | {"calls": rows, "run_seconds": RUN, "phases": phases}))
    assert len(page.encode()) < MOST_BYTES
    assert "3,996 more rows are in the report." in page and "communicator 99 " in page


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(json.dumps(BY_HAND))
    words = ["report", str(tmp_path / "r.json"), "--html"]
    done = CliRunner().invoke(cli.make_app(["report"]), [*words, str(tmp_path / "out.html")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out.html").read_text(encoding="utf-8") == report.as_page(read(BY_HAND))
    nowhere = CliRunner().invoke(cli.make_app(["report"]), [*words, str(tmp_path / "none" / "out.html")])
    assert nowhere.exit_code != 0 and "there is no directory" in str(nowhere.exception)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1200])
def test_nothing_sticks_out_in_a_browser(browser: Any, tmp_path: Path, width: int, scheme: str) -> None:
    place = tmp_path / "page.html"
    offloaded = with_calls(run=STARTED, outside_seconds=spread(1, 1, 1.5, 1))
    place.write_text(report.as_page(read(offloaded)), encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("request", lambda request: request.url.startswith("file:") or problems.append(request.url))
    page.goto(place.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    cut = "[...document.querySelectorAll('td')].filter(one => one.scrollWidth > one.clientWidth + 1).length"
    assert page.evaluate(cut) == 0
    assert not problems
    if SHOTS:
        page.screenshot(path=f"{SHOTS}/report-{width}-{scheme}.png", full_page=True)
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    page.close()
