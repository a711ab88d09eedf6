"""The grid of `outrigger bench never-slower` as a heat map for each MPI."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from outrigger.bench.never_slower_cells import LIMIT, Cell, Grid
from outrigger.bench.never_slower_table import band, heading
from outrigger.bench.plot import INK, size_label, write

# Blue and orange are distinguishable with any color vision; slower cells also have a frame and a mark.
_FASTEST, _SAME, _SLOWEST = "#1f5fa8", "#f7f7f5", "#d9701a"
_FURTHEST = 2.0
"""Ratios from 1 / this on have the full color."""
_CELL_INCHES = (0.92, 0.46)


def _shade(ratio: float) -> float:
    """0: twice as fast, 0.5: the same, 1: twice as slow."""
    return min(max(0.5 + 0.5 * math.log(ratio) / math.log(_FURTHEST), 0.0), 1.0)


def _colours() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("ratio", [_FASTEST, _SAME, _SLOWEST])


def _draw_cell(axis: Any, column: int, row: int, cell: Cell | None, colours: Any) -> None:
    from matplotlib.patches import Rectangle

    corner = (column - 0.5, row - 0.5)
    if cell is None:
        axis.add_patch(Rectangle(corner, 1, 1, facecolor="#eceef1", edgecolor="white", hatch="///", linewidth=1))
        return
    shade = _shade(cell.judged.ratio)
    ink = "white" if shade < 0.14 else INK
    axis.add_patch(Rectangle(corner, 1, 1, facecolor=colours(shade), edgecolor="white", linewidth=1))
    if cell.is_slower:
        inner = (column - 0.46, row - 0.45)
        axis.add_patch(Rectangle(inner, 0.92, 0.9, facecolor="none", edgecolor=INK, linewidth=1.8, zorder=3))
    mark = "▲ " if cell.is_slower else ""
    axis.text(column, row - 0.14, f"{mark}{cell.judged.ratio:.2f}", ha="center", va="center", fontsize=9, color=ink,
              fontweight="bold")  # fmt: skip
    axis.text(column, row + 0.24, band(cell), ha="center", va="center", fontsize=6.5, color=ink)


def _draw_panel(axis: Any, grid: Grid, cells: dict[tuple[str, int], Cell], title: str) -> None:
    colours = _colours()
    for row, collective in enumerate(grid.collectives):
        for column, size in enumerate(grid.sizes):
            _draw_cell(axis, column, row, cells.get((collective, size)), colours)
    axis.set_xlim(-0.5, len(grid.sizes) - 0.5)
    axis.set_ylim(len(grid.collectives) - 0.5, -0.5)
    axis.set_xticks(range(len(grid.sizes)), list(map(size_label, grid.sizes)), fontsize=8)
    axis.set_yticks(range(len(grid.collectives)), list(grid.collectives), fontsize=8)
    axis.tick_params(length=0, colors=INK)
    for spine in axis.spines.values():
        spine.set_visible(False)
    fitting = int(14 * _CELL_INCHES[0] * max(4, len(grid.sizes)))  # letters
    axis.set_title(textwrap.fill(title, fitting), loc="left", fontsize=9.5, color=INK, pad=7)


def _scale(figure: Any, axes: Sequence[Any]) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    ticks = (0.5, 0.7, 0.85, 1.0, 1.2, 1.4, 2.0)
    bar = figure.colorbar(ScalarMappable(Normalize(0, 1), _colours()), ax=axes, shrink=0.7, pad=0.02, aspect=30)
    bar.set_ticks([_shade(ratio) for ratio in ticks], labels=[f"{ratio:g}" for ratio in ticks], fontsize=8)
    bar.set_label("with Outrigger / native: below 1 is faster", fontsize=8, color=INK)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0)


def _save_mpi(grid: Grid, mpi: str, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    chosen = [(name, cells) for name in grid.placements if (cells := grid.of(mpi, name))]
    columns = 1 if len(chosen) == 1 else 2
    rows = math.ceil(len(chosen) / columns)
    width = columns * (1.3 + _CELL_INCHES[0] * max(4, len(grid.sizes))) + 1.2
    height = rows * (0.8 + _CELL_INCHES[1] * max(3, len(grid.collectives))) + 1.0
    figure, axes = pyplot.subplots(
        rows, columns, figsize=(width, height), squeeze=False, layout=ConstrainedLayoutEngine(h_pad=0.1, w_pad=0.1)
    )
    flat = list(axes.flat)
    for axis, (name, cells) in zip(flat, chosen, strict=False):
        ranks = next(iter(cells.values())).ranks
        _draw_panel(axis, grid, cells, heading(name, grid.placements[name], ranks))
    for axis in flat[len(chosen) :]:
        axis.set_axis_off()
    _scale(figure, flat)
    slower = sum(cell.is_slower for cell in grid.cells if cell.mpi == mpi)
    figure.suptitle(
        f"{mpi}: a program's time with Outrigger on / native's, and the noise band\n"
        f"▲ framed: slower beyond noise (band over {LIMIT}), {slower} cells; hatched: not measured",
        x=0.01, ha="left", fontsize=11, fontweight="bold", color=INK,
    )  # fmt: skip
    write(figure, path)


def file_name(mpi: str) -> str:
    """For an MPI's picture: open-mpi-4.1.4.png."""
    return re.sub(r"[^a-z0-9.]+", "-", mpi.lower()).strip("-") + ".png"


def save(grid: Grid, directory: Path) -> list[Path]:
    """A picture for each MPI."""
    paths = [directory / file_name(mpi) for mpi in grid.mpis]
    for mpi, path in zip(grid.mpis, paths, strict=True):
        _save_mpi(grid, mpi, path)
    return paths
