"""Sections of a report as one page of HTML: no script, no other file, readable on a phone and in print."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby

from outrigger.report_model import Cell, Column, Line, Pieces, Section, Table, Tone

MOST_ROWS = 100
"""Limit for a table. The report itself has all rows."""
_CODE = re.compile(r"`([^`]+)`")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """
:root { color-scheme: light dark; --text: #1c2024; --dim: #5d6670; --line: #d8dce0; --back: #fff; --card: #f5f6f8;
  --bar: #3b76b5; --good: #1d7a43; --warning: #9a5b00; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e7ea; --dim: #9aa4ae; --line: #3a4149; --back: #16191c;
  --card: #1f2429; --bar: #5f9bdc; --good: #5cc48a; --warning: #e2a648; } }
body { margin: 0 auto; padding: 1rem; max-width: 70rem; background: var(--back); color: var(--text);
  font: 1rem/1.45 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.2rem; margin: 0 0 .5rem; } h2 { font-size: 1.05rem; margin: 1.6rem 0 .4rem; }
p { margin: .4rem 0; max-width: 50rem; } ul { margin: .4rem 0; padding-left: 1.2rem; max-width: 50rem; }
li { margin: .3rem 0; }
code { font: .92em ui-monospace, monospace; background: var(--card); padding: 0 .2em; border-radius: 3px; }
table { border-collapse: collapse; width: 100%; margin: .6rem 0; font-size: .9rem; }
th { text-align: right; font-weight: 500; color: var(--dim); vertical-align: bottom; }
td, th { padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line); }
td { text-align: right; vertical-align: top; font-variant-numeric: tabular-nums; }
td { white-space: nowrap; } td.text, th.text { text-align: left; white-space: normal; overflow-wrap: anywhere; }
table.pairs td:first-child { color: var(--dim); white-space: nowrap; width: 8rem; }
svg { display: block; width: 100%; min-width: 4rem; height: 6px; margin-top: 4px; }
rect { fill: var(--bar); } rect.whole { fill: var(--line); }
.dim { color: var(--dim); } .good { color: var(--good); } .warning { color: var(--warning); }
p.strong { font-size: 1.15rem; font-weight: 600; }
@media (max-width: 40rem) {
  table.rows, .rows tbody, .rows tr { display: block; } .rows thead { display: none; }
  .rows tr { background: var(--card); border-radius: 6px; padding: .4rem .7rem; margin: .5rem 0; }
  .rows td { display: block; text-align: left; border: 0; padding: .15rem 0; }
  .rows td:first-child { font-weight: 500; }
  .rows td[data-label] { display: flex; justify-content: space-between; gap: 1rem; text-align: right; }
  .rows td[data-label]::before { content: attr(data-label); color: var(--dim); flex: none; }
  .rows td > div { min-width: 0; } .rows td[data-label] svg { width: 7rem; margin-left: auto; }
}
@media print { :root { color-scheme: light; --text: #000; --dim: #444; --line: #bbb; --back: #fff; --card: #fff;
  --bar: #3b76b5; --good: #000; --warning: #000; } body { font-size: 10pt; padding: 0; max-width: none; }
  h2 { break-after: avoid; } table { font-size: 8pt; } td, th { padding-right: .5rem; }
  p.strong { font-size: 12pt; } tr, li, p { break-inside: avoid; } thead { display: table-header-group; } }
"""


def _words(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(text))


def _pieces(line: Pieces) -> str:
    return "".join(
        escape(piece.text)
        if piece.tone is Tone.PLAIN
        else f'<span class="{piece.tone.value}">{escape(piece.text)}</span>'
        for piece in line
    )


def _bar(part: float) -> str:
    width = 100 * min(max(part, 0.0), 1.0)
    whole, filled = '<rect class="whole" width="100" height="6"/>', f'<rect width="{width:.1f}" height="6"/>'
    return f'<svg viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">{whole}{filled}</svg>'


def _cell(cell: Cell, column: Column, *, is_first: bool) -> str:
    kind = ' class="text"' if column.is_text else ""
    name = "" if is_first else " ".join(filter(None, (column.title, column.unit)))
    label = f' data-label="{escape(name)}"' if name else ""
    bar = "" if cell.bar is None else _bar(cell.bar)
    return f"<td{kind}{label}><div>{'<br>'.join(map(_pieces, cell.lines))}{bar}</div></td>"


def _heading(column: Column) -> str:
    kind = ' class="text"' if column.is_text else ""
    return f"<th{kind}>{'<br>'.join(escape(text) for text in (column.title, column.unit) if text)}</th>"


def _table(table: Table) -> str:
    named = any(column.title for column in table.columns)
    head = f"<thead><tr>{''.join(map(_heading, table.columns))}</tr></thead>\n" if named else ""
    rows = (
        "".join(
            _cell(cell, column, is_first=column is table.columns[0])
            for cell, column in zip(row, table.columns, strict=True)
        )
        for row in table.rows[:MOST_ROWS]
    )
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    left = len(table.rows) - MOST_ROWS
    more = f'\n<p class="dim">{left:,} more rows are in the report.</p>' if left > 0 else ""
    kind = "rows" if named else "pairs"
    return f'<table class="{kind}">\n{head}<tbody>\n{body}\n</tbody></table>{more}'


def _line(line: Line) -> str:
    kind = f' class="{line.tone.value}"' if line.tone is not Tone.PLAIN else ""
    name = "li" if line.is_item else "p"
    more = f"\n<p>{_words(line.more)}</p>" if line.more else ""
    return f"<{name}{kind}>{_words(line.text)}</{name}>{more}"


def _blocks(blocks: Iterable[Line | Table]) -> str:
    parts = []
    for in_list, group in groupby(blocks, lambda block: isinstance(block, Line) and block.is_item):
        shown = "\n".join(_table(block) if isinstance(block, Table) else _line(block) for block in group)
        parts.append(f"<ul>\n{shown}\n</ul>" if in_list else shown)
    return "\n".join(parts)


def _section(section: Section) -> str:
    return f"<section>\n<h2>{escape(section.title)}</h2>\n{_blocks(section.blocks)}\n</section>"


def page(title: str, sections: Sequence[Section]) -> str:
    """The page with all sections."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{escape(title)}</h1>\n"
        + "\n".join(map(_section, sections))
        + "\n</body>\n</html>\n"
    )
