"""Pictures are drawn where there is something to draw them with, and else that is said before anything is measured."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from rich.console import Console
from typed import typed

from outrigger import demo, pictures
from outrigger.bench import lanes_plot, plot
from outrigger.bench.figures import Side
from outrigger.bench.lanes import Group, Lane
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


@pytest.mark.parametrize(
    ("low", "high", "numbers"),
    [
        (0.8, 1.1, [0.5, 1, 2]),
        (3, 480, [2, 5, 10, 20, 50, 100, 200, 500]),
        (1, 1, [1, 2]),
        (0.012, 0.02, [0.01, 0.02]),
    ],
)
def test_logarithmic_axes_have_round_numbers(low: float, high: float, numbers: list[float]) -> None:
    assert plot.round_numbers(low, high) == pytest.approx(numbers)


def test_no_bar_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Far above the others, it makes the axis logarithmic."""
    drawn: list[Figure] = []
    monkeypatch.setattr(lanes_plot, "write", lambda figure, _: drawn.append(figure))
    side = Side(pure_us=100, total_us=130, exposed_us=30, overlap_percent=50, cpu_us=20)
    lane = Lane("mpich", "MPICH", offloaded=False, side=side, work_us=100, goodput=None, service=None)
    far = replace(lane, offloaded=True, side=replace(side, exposed_us=900))
    group = Group("ialltoall", "malloc", 65536, "2 ranks", (lane, far))
    lanes_plot.save([group], tmp_path / "a.png", "heading", None)
    axis = drawn[0].axes[0]
    assert [round(bar.get_height()) for bar in axis.patches] == [30, 900] and axis.get_yscale() == "symlog"
    assert axis.get_ylim()[1] > 900 and "logarithmic" in axis.get_title(loc="left")
    assert [text.get_text() for text in axis.texts] == ["30", "900"]
