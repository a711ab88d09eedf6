"""Places of a program in its report, and their names."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from test_report import EXAMPLE
from test_report_page import read, spread

from outrigger import code_places, report, report_sites
from outrigger.code_places import CodePlace, Named, named

COMPILER = shutil.which("cc")


def site(name: str, place: dict[str, Any] | None, *seconds: float, **more: Any) -> dict[str, Any]:
    figures = {"calls": 4, "sum": 32, "min": 8, "max": 8}
    known = {"call": name, "waits": False, "place": place, "caller": None, "calls": 4, "offloaded": 0, "by_ranks": 0}
    return known | {"bytes": figures, "seconds": spread(*seconds)} | more


def on_terminal(*sites: dict[str, Any]) -> str:
    console = Console(file=io.StringIO(), width=200)
    report.show(console, read(EXAMPLE | {"run_seconds": spread(10, 10), "sites": list(sites)}))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_places_with_the_most_time_come_first() -> None:
    solver = {"object": "/nowhere/solver", "offset": 0x1234}
    library = {"object": "/nowhere/libfft.so", "offset": 0x88}
    text = on_terminal(
        site("MPI_Bcast", solver, 0.001, 0.002),
        site("MPI_Alltoall", library, 1.0, 3.0, caller=solver),
        site("MPI_Ibcast", None, 3.0, 3.0, waits=True),
    )
    assert text.index("(unknown code)") < text.index("libfft.so+0x88") and "solver+0x1234\n" not in text
    assert "MPI_Alltoall, called by solver+0x1234" in text and "waits for MPI_Ibcast" in text
    assert "not on this machine" in text and "MPI_Bcast " not in text.split("(unknown code)")[1]


def test_starts_of_persistent_collectives_are_named_so() -> None:
    place = {"object": "/nowhere/solver", "offset": 8}
    text = on_terminal(site("MPI_Bcast_init", place, 1.0, 1.0), site("MPI_Bcast_init", place, 1.0, 1.0, waits=True))
    assert "starts of MPI_Bcast_init" in text and "waits for MPI_Bcast_init" in text


def test_without_addr2line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_sites, "finder", lambda: None)
    text = on_terminal(site("MPI_Bcast", {"object": "/nowhere/solver", "offset": 8}, 1.0, 1.0))
    assert "`addr2line` of the binutils names them" in text


def test_without_places() -> None:
    assert "not on this machine" not in on_terminal() and "place" not in on_terminal().split()


@pytest.mark.skipif(COMPILER is None or shutil.which("addr2line") is None, reason="no compiler, or no addr2line")
def test_names(tmp_path: Path) -> None:
    source = tmp_path / "code.c"
    source.write_text("int other(int);\n\nint known(int x) {\n  return other(x) + 1;\n}\n")
    for flags, text in ((["-g"], "code.c:4 in known"), ([], "code.so in known"), (["-s"], "code.so+{offset:#x}")):
        library = tmp_path / "code.so"
        command = [str(COMPILER), "-O0", "-shared", "-fPIC", *flags, "-o", str(library), str(source)]
        subprocess.run(command, check=True)
        if "-s" not in flags:
            table = subprocess.run(["nm", str(library)], check=True, capture_output=True, text=True).stdout
            start = next(int(line.split()[0], 16) for line in table.splitlines() if line.endswith(" known"))
        place = CodePlace(str(library), start + 16)
        if "-s" in flags:  # its dynamic symbols are still there
            assert named([place])[place].line == 0
        else:
            assert named([place, place])[place].text == text


@pytest.mark.skipif(COMPILER is None or shutil.which("addr2line") is None, reason="no compiler, or no addr2line")
def test_code_without_a_name_gets_no_neighbors_name(tmp_path: Path) -> None:
    """A stripped library keeps the names of exported functions, and addr2line gives them to the code behind them."""
    source, library = tmp_path / "code.c", tmp_path / "code.so"
    source.write_text(
        "int other(int);\nint known(int x) {\n  return other(x) + 1;\n}\n"
        "static int hidden(int x) {\n  return other(x) + 2;\n}\nint (*used)(int) = hidden;\n"
    )
    subprocess.run([str(COMPILER), "-O0", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    table = subprocess.run(["nm", str(library)], check=True, capture_output=True, text=True).stdout
    starts = {words[2]: int(words[0], 16) for line in table.splitlines() if len(words := line.split()) == 3}
    subprocess.run(["strip", str(library)], check=True)
    known, hidden = (CodePlace(str(library), starts[name] + 16) for name in ("known", "hidden"))
    names = named([known, hidden])
    assert names[known].text == "code.so in known"
    assert names[hidden].text == f"code.so+{hidden.offset:#x}"


@pytest.mark.skipif(COMPILER is None or shutil.which("addr2line") is None, reason="no compiler, or no addr2line")
def test_sources_may_have_spaces_and_brackets_in_their_names(tmp_path: Path) -> None:
    source = tmp_path / "my code (2)" / "a b.c"
    source.parent.mkdir()
    source.write_text("int other(int);\nint known(int x) {\n  return other(x) + 1;\n}\n")
    library = tmp_path / "code.so"
    subprocess.run([str(COMPILER), "-O0", "-g", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    table = subprocess.run(["nm", str(library)], check=True, capture_output=True, text=True).stdout
    start = next(int(line.split()[0], 16) for line in table.splitlines() if line.endswith(" known"))
    place = CodePlace(str(library), start + 16)
    assert named([place])[place].text == "a b.c:3 in known"


def test_files_that_may_not_be_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_more: object) -> os.stat_result:
        raise PermissionError(13, "Permission denied")

    place = CodePlace("/home/somebody/solver", 8)
    monkeypatch.setattr(os, "stat", refuse)
    monkeypatch.setattr(code_places, "finder", lambda: "addr2line")
    assert named([place]) == {place: Named(place)}


def test_names_of_nothing(tmp_path: Path) -> None:
    """Files that are gone, or no programs."""
    gone, text = tmp_path / "gone", tmp_path / "text"
    text.write_text("no program")
    for place in (CodePlace(str(gone), 8), CodePlace(str(text), 8)):
        assert named([place]) == {place: Named(place)}
        assert Named(place).text == f"{Path(place.object).name}+0x8"
