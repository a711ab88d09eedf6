"""The grid of `outrigger bench never-slower` as tables, on the terminal and in Markdown, and its closing lines."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from statistics import median

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from outrigger.bench.never_slower_cells import LIMIT, Cell, Grid
from outrigger.bench.table import microseconds
from outrigger.sizes import format_size

_FASTER = 1 / LIMIT


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:.0f}"


def band(cell: Cell) -> str:
    """Its two ends."""
    return f"{_ratio(cell.judged.low)}-{_ratio(cell.judged.high)}"


def _style(cell: Cell) -> str:
    return "bold red" if cell.is_slower else "green" if cell.judged.high < _FASTER else ""


def _text(cell: Cell | None) -> Text:
    if cell is None:
        return Text("·", style="dim")
    mark = "!" if cell.is_slower else ""
    return Text.assemble((f"{_ratio(cell.judged.ratio)}{mark}", _style(cell)), "\n", (band(cell), "dim"))


def panels(grid: Grid) -> Iterator[tuple[str, str, dict[tuple[str, int], Cell]]]:
    """MPI, placement and cells, if there are any."""
    for mpi in grid.mpis:
        for placement in grid.placements:
            if cells := grid.of(mpi, placement):
                yield mpi, placement, cells


def heading(placement: str, means: str, ranks: int) -> str:
    """Heading of a table or panel."""
    return f"{placement} ({ranks} ranks): {means}"


def _table(grid: Grid, title: str, cells: dict[tuple[str, int], Cell]) -> Table:
    result = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", header_style="dim", pad_edge=False)
    result.add_column("", no_wrap=True)
    for size in grid.sizes:
        result.add_column(format_size(size), justify="right", no_wrap=True)
    for collective in grid.collectives:
        result.add_row(collective, *(_text(cells.get((collective, size))) for size in grid.sizes))
    return result


def _ranks(cells: dict[tuple[str, int], Cell]) -> int:
    return next(iter(cells.values())).ranks


def show(console: Console, grid: Grid) -> None:
    """All tables."""
    for mpi, placement, cells in panels(grid):
        title = f"{mpi}, {heading(placement, grid.placements[placement], _ranks(cells))}"
        console.print(_table(grid, title, cells))


def floor_line(grid: Grid) -> str:
    """Difference of native from native."""
    if not grid.cells:
        return "Nothing was measured."
    away = sorted(max(cell.floor.ratio, 1 / cell.floor.ratio) - 1 for cell in grid.cells)
    width = [(cell.judged.high - cell.judged.low) / cell.judged.ratio for cell in grid.cells]
    half, most = 100 * median(away), 100 * away[int(0.95 * (len(away) - 1))]
    return (
        f"Noise floor: native against native differs by {half:.1f} % in the median cell, and by {most:.1f} % or more "
        f"in one of twenty. A cell's band is {100 * median(width):.0f} % wide (median)."
    )


def slower_lines(grid: Grid) -> list[str]:
    """The slower cells, by name."""
    count = len(grid.cells)
    if not count:
        return []
    if not grid.slower:
        return [f"No cell of {count} is slower than native beyond noise (ratio over {LIMIT} in all of its band)."]
    lines = [f"{len(grid.slower)} of {count} cells are slower than native beyond noise (band over {LIMIT}):"]
    for cell in grid.slower:
        figures = cell.judged
        lines.append(
            f"  {cell.name}: {figures.ratio:.2f} ({band(cell)}), {microseconds(figures.offloaded_us)} us against "
            f"native's {microseconds(figures.native_us)}; pure {cell.pure.ratio:.2f}"
        )
    return lines


def median_line(grid: Grid) -> str:
    """The middle of all cells."""
    ratios = [cell.judged.ratio for cell in grid.cells]
    return f"Median of {len(ratios)} cells: {median(ratios):.2f} of native's time." if ratios else ""


LEGEND = (
    "Ratio of a program's time with Outrigger switched on to its native time, and the noise band below it. Both do the "
    "same work: post, compute as long as native's pure latency, wait. Blocking forms have the call alone. ! slower "
    "beyond noise."
)


def close(console: Console, grid: Grid) -> None:
    """Conclusions of the tables, in lines."""
    console.print(LEGEND, style="dim")
    for failure in grid.failures:
        console.print(f"[bold red]Not measured:[/] {escape(failure)}", soft_wrap=True)
    for note in grid.notes:
        console.print(note, style="yellow", markup=False)
    console.print(floor_line(grid), markup=False)
    if line := median_line(grid):
        console.print(line, markup=False)
    style = "bold red" if grid.slower else "bold green"
    for number, line in enumerate(slower_lines(grid)):
        console.print(Text(line, style=style if number == 0 else ""), soft_wrap=True)


_COLUMNS = (
    "mpi", "case", "call", "bytes", "ratio", "ratio_low", "ratio_high", "slower", "outrigger_us", "native_us",
    "pure_ratio",
)  # fmt: skip


def csv_of(grid: Grid) -> str:
    """A line for each cell, as docs/using/never-slower.csv."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for cell in grid.cells:
        found = cell.judged
        writer.writerow([
            cell.mpi, cell.placement, f"MPI_{cell.collective.capitalize()}", cell.bytes,
            *(f"{value:.2f}" for value in (found.ratio, found.low, found.high)), "yes" if cell.is_slower else "no",
            *(f"{value:.2f}" for value in (found.offloaded_us, found.native_us, cell.pure.ratio)),
        ])  # fmt: skip
    return text.getvalue()


def _markdown_cell(cell: Cell | None) -> str:
    if cell is None:
        return "-"
    words = f"{cell.judged.ratio:.2f} ({band(cell)})"
    return f"**{words}**" if cell.is_slower else words


def markdown(grid: Grid) -> str:
    """For docs: all tables, and the closing lines."""
    parts = [f"`{grid.command}` on {grid.host}, {grid.cores} cores, {grid.date}."]
    for mpi, placement, cells in panels(grid):
        parts.append(f"**{mpi}**, {heading(placement, grid.placements[placement], _ranks(cells))}")
        rows = [["collective", *map(format_size, grid.sizes)], ["---", *(["---:"] * len(grid.sizes))]]
        rows += [[name, *(_markdown_cell(cells.get((name, size))) for size in grid.sizes)] for name in grid.collectives]
        parts.append("\n".join(f"| {' | '.join(row)} |" for row in rows))
    lines = slower_lines(grid)
    parts += [LEGEND.replace("! slower", "Bold: slower"), floor_line(grid), median_line(grid), *lines[:1]]
    parts += ["\n".join(f"* {line.strip()}" for line in lines[1:])] if lines[1:] else []
    return "\n\n".join(parts) + "\n"
