"""Draws papers' figures and predictions side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.papers.points import Band
from bench.papers.table import Comparison, with_unit

from outrigger import legends
from outrigger.bench.plot import GRID, INK, NATIVE, OFFLOADED, style, write

_BAND = "#c9ced6"
_CALIBRATED = "#8a7f70"
_OUT = NATIVE
_PAPER = "#22262b"


def _edges(value: float, band: Band, sign: int) -> float:
    if band.kind == "points":
        return value + sign * band.width
    if band.kind == "percent":
        return float(value * (1 + sign * band.width / 100))
    return float(value * 2 ** (sign * band.width))


def _row(axis: Any, y: int, comparison: Comparison, limits: tuple[float, float]) -> None:
    """The band in grey, the paper's figure as a line or a bar in it, the prediction as a dot."""
    point = comparison.point
    low = limits[0] if point.at_least is None else _edges(point.at_least, point.band, -1)
    high = limits[1] if point.at_most is None else _edges(point.at_most, point.band, 1)
    axis.plot([max(low, limits[0]), min(high, limits[1])], [y, y], color=_BAND, linewidth=9, solid_capstyle="butt")
    for stated in {point.at_least, point.at_most} - {None}:
        axis.plot([stated, stated], [y - 0.3, y + 0.3], color=_PAPER, linewidth=2.2, solid_capstyle="butt")
    if comparison.prediction is None:
        axis.text(limits[0], y, "  none", va="center", ha="left", fontsize=7.5, color=_OUT)
        return
    calibrated = point.use == "calibrate"
    colour = _CALIBRATED if calibrated else OFFLOADED if comparison.is_in else _OUT
    axis.plot(
        [comparison.prediction], [y], marker="s" if calibrated else "o", markersize=6, color=colour,
        markeredgecolor="white", markeredgewidth=0.8, linestyle="none",
    )  # fmt: skip


_KINDS: tuple[tuple[str, bool, Callable[[Comparison], bool]], ...] = (
    ("overlap, %", False, lambda c: "overlap" in c.point.quantity),
    ("time saved, overall or of an FFT, %", False, lambda c: "gain_percent" in c.point.quantity),
    (
        "ratios of latencies and of FFT communication (how many times as fast)",
        True,
        lambda c: c.point.quantity in ("latency_ratio", "growth", "service_gain", "fft_communication_ratio"),
    ),
    ("service processes that are enough", True, lambda c: c.point.quantity == "best_services"),
    ("crossover, KiB", True, lambda c: c.point.quantity == "crossover_kib"),
    ("latency (us) and rates (GB/s) that cluster files are made of", True, lambda c: c.point.use == "calibrate"),
)


def _limits(rows: Sequence[Comparison], logarithmic: bool) -> tuple[float, float]:
    values = [row.prediction for row in rows if row.prediction is not None]
    for row in rows:
        values += [
            _edges(stated, row.point.band, sign)
            for stated in (row.point.at_least, row.point.at_most)
            if stated is not None
            for sign in (-1, 1)
        ]
    low, high = min(values), max(values)
    if logarithmic:
        return low / 1.25, high * 1.25
    margin = 0.05 * (high - low) + 1
    return low - margin, high + margin


def _panel(axis: Any, rows: Sequence[Comparison], title: str, logarithmic: bool) -> None:
    style(axis, title)
    axis.grid(axis="y", visible=False)
    axis.grid(axis="x", color=GRID, linewidth=0.8)
    if logarithmic:
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter(lambda value, _: with_unit(value, "best_services"))
        axis.minorticks_off()
    limits = _limits(rows, logarithmic)
    for y, row in enumerate(rows):
        _row(axis, y, row, limits)
    axis.set_xlim(*limits)
    axis.set_ylim(len(rows) - 0.4, -0.6)
    axis.set_yticks(range(len(rows)), [row.point.id + ("*" if row.point.differs else "") for row in rows])
    axis.tick_params(axis="y", labelsize=8)


def save(comparisons: Sequence[Comparison], path: Path) -> None:
    """One panel per kind of quantity, one row per point."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    panels = [
        (title, logarithmic, rows)
        for title, logarithmic, belongs in _KINDS
        if (rows := [comparison for comparison in comparisons if belongs(comparison)])
    ]
    heights = [1.2 + len(rows) for _, _, rows in panels]
    figure, axes = pyplot.subplots(
        len(panels), 1, figsize=(9, 1.2 + 0.25 * sum(heights)), squeeze=False, height_ratios=heights,
        layout=ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.1),
    )  # fmt: skip
    for axis, (title, logarithmic, rows) in zip(axes[:, 0], panels, strict=True):
        _panel(axis, rows, title, logarithmic)
    dots: dict[str, Any] = {"linestyle": "none", "markersize": 6}
    figure.suptitle("Papers and predictions", x=0.01, ha="left", fontsize=13, fontweight="bold", color=INK)
    figure.legend(
        handles=[
            Line2D([], [], color=_PAPER, linewidth=2.2, label="paper"),
            Patch(color=_BAND, label="band"),
            Line2D([], [], color=OFFLOADED, marker="o", label="prediction, in", **dots),
            Line2D([], [], color=NATIVE, marker="o", label="prediction, out", **dots),
            Line2D([], [], color=_CALIBRATED, marker="s", label="calibrated", **dots),
        ],
        loc=legends.below(figure, "center"), ncols=5, frameon=False, fontsize=9, labelcolor=INK,
    )  # fmt: skip
    write(figure, path)
