"""Prints the sections of a report on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from outrigger.report_data import plural
from outrigger.report_model import Cell, Column, Line, Narrow, Pieces, Section, Table, Tone

WIDE = 100
"""Minimum width for the figures of a row on one line."""
MOST_ROWS = 30
"""Limit for a table. The page has more, and the report itself has all."""
_LEAST_NAME = 24
_LEAST_WRAPPED = 11
_BETWEEN = 3
"""Spaces between columns."""
_STYLES = {Tone.PLAIN: "", Tone.DIM: "dim", Tone.GOOD: "green", Tone.WARNING: "yellow", Tone.STRONG: "bold"}


def _text(lines: Iterable[Pieces]) -> Text:
    rows = (Text.assemble(*((piece.text, _STYLES[piece.tone]) for piece in line)) for line in lines)
    return Text("\n").join(rows)


def _line(line: Line) -> Text:
    text = Text(line.text, _STYLES[line.tone])
    if line.more:
        text = Text.assemble(text, " ", line.more)
    return Text.assemble(("*", "bold"), " ", text) if line.is_item else text


def _groups(columns: Sequence[Column]) -> list[list[int]]:
    """Numbers of the columns that share a column of a narrow table."""
    groups: list[list[int]] = []
    for number, column in enumerate(columns):
        if column.narrow is Narrow.OWN:
            groups.append([number])
        elif column.narrow is Narrow.UNDER:
            groups[-1].append(number)
    return groups


def _stacked(cells: Sequence[Cell]) -> Text:
    each = [one.short or one.lines for one in cells]
    return _text(each[0] if len(each) == 1 else [line for lines in each for line in lines[:1]])


def _add_column(made: RichTable, heading: str, column: Column, least: int | None = None) -> None:
    made.add_column(
        heading,
        justify="left" if column.is_text else "right",
        no_wrap=not column.wraps or least is not None,
        overflow="fold",
        min_width=least,
    )


def _new_table() -> RichTable:
    return RichTable(box=box.SIMPLE_HEAD, header_style="dim", pad_edge=False, padding=(0, 1))


def _wide(table: Table) -> RichTable:
    made = _new_table()
    for column in table.columns:
        _add_column(made, "\n".join(filter(None, (column.title, column.unit))), column)
    for row in table.rows:
        made.add_row(*(_text(cell.lines) for cell in row))
    return made


def _narrow(table: Table) -> RichTable:
    made = _new_table()
    groups = _groups(table.columns)
    for group in groups:
        columns = [table.columns[number] for number in group]
        names = [column.short or column.title for column in columns]
        if len(columns) == 1 and columns[0].is_text:
            names.append(columns[0].unit)
        is_name = group == [0]
        _add_column(made, "\n".join(filter(None, names)), columns[0], _LEAST_NAME if is_name else None)
    for row in table.rows:
        made.add_row(*(_stacked([row[number] for number in group]) for group in groups))
    return made


def _least_width(table: Table) -> int:
    """Width in which no figure is cut and few words wrap."""
    width = 0
    for number, column in enumerate(table.columns):
        lines = [column.title, column.unit]
        lines += ["".join(piece.text for piece in line) for row in table.rows for line in row[number].lines]
        longest = max(map(len, lines))
        word = max((len(word) for line in lines for word in line.split()), default=0)
        width += (min(longest, max(word, _LEAST_WRAPPED), _LEAST_NAME) if column.wraps else longest) + _BETWEEN
    return width


def _fitting(table: Table, width: int) -> RichTable:
    return _wide(table) if width >= max(WIDE, _least_width(table)) else _narrow(table)


def _show_table(console: Console, table: Table) -> None:
    """The first rows, and how many are left out."""
    console.print(_fitting(replace(table, rows=table.rows[:MOST_ROWS]), console.width))
    left = len(table.rows) - MOST_ROWS
    if left > 0:
        console.print(_line(Line(f"And {plural(left, 'more row')}: `--report-to` writes all.", Tone.DIM)))


def show(console: Console, sections: Sequence[Section]) -> None:
    """Prints those of the terminal."""
    for section in sections:
        if not section.on_terminal:
            continue
        for block in section.blocks:
            if isinstance(block, Table):
                _show_table(console, block)
            elif block.on_terminal:
                console.print(_line(block))
