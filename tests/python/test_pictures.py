"""Pictures are drawn where there is something to draw them with, and else that is said before anything is measured."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from rich.console import Console
from typed import typed

from outrigger import demo, pictures
from outrigger.errors import UserError


@pytest.fixture
def _nothing_to_draw_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)


def test_only_formats_that_can_be_written() -> None:
    pictures.check("--plot", Path("out/a.svg"))
    with pytest.raises(UserError, match=r"^--plot a.gif: write .png, .svg or .pdf at its end$"):
        pictures.check("--plot", Path("a.gif"))


@pytest.mark.usefixtures("_nothing_to_draw_with")
@pytest.mark.parametrize(
    "words",
    [
        ("bench", "ialltoall", "--plot", "a.png"),
        ("bench", "fft3d", "--plot", "a.png"),
        ("lab", "tune"),  # which draws unless told otherwise
        ("lab", "predict", "ialltoall", "--plot", "a.png"),
        ("lab", "replay", "trace.json"),
    ],
)
def test_who_asks_for_one_is_told_first(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("trace.json").write_text('{"traceEvents": []}')
    result = typed(words)
    assert isinstance(result.exception, UserError), result.output
    assert str(result.exception) == pictures.why_none()
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]


@pytest.mark.usefixtures("_nothing_to_draw_with")
def test_the_demo_goes_without(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=110)
    demo._draw(console, [], 2, tmp_path / "out" / "a.png")
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().startswith("\nNo plot: pictures need the Python package matplotlib")
    assert list(tmp_path.iterdir()) == []
