"""Content of a report, for the terminal and for the page: sections of lines and tables, without a form."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Tone(Enum):
    """How a text stands out."""

    PLAIN = ""
    DIM = "dim"
    GOOD = "good"
    WARNING = "warning"
    STRONG = "strong"


@dataclass(frozen=True)
class Piece:
    """Part of a line."""

    text: str
    tone: Tone = Tone.PLAIN


Pieces = tuple[Piece, ...]


@dataclass(frozen=True)
class Cell:
    """Field of a table."""

    lines: tuple[Pieces, ...]
    short: tuple[Pieces, ...] | None = None
    """In a narrow table. None: the same."""
    bar: float | None = None
    """Fraction that the page also draws."""


class Narrow(Enum):
    """Place of a column in a narrow table."""

    OWN = "own"
    UNDER = "under"
    """Below the figures of the column before; first lines only."""
    NONE = "none"


@dataclass(frozen=True, kw_only=True)
class Column:
    """Column of a table."""

    title: str
    unit: str = ""
    """Second line of the heading."""
    short: str = ""
    """Heading in a narrow table; empty: the title."""
    narrow: Narrow = Narrow.OWN
    is_text: bool = False
    """Aligned to the left."""
    wraps: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of cells, one cell for each column."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Line:
    """A paragraph. Words in backquotes are commands."""

    text: str
    tone: Tone = Tone.PLAIN
    is_item: bool = False
    """Item of a list."""
    on_terminal: bool = True
    more: str = ""
    """Plain sentences behind it."""


@dataclass(frozen=True)
class Section:
    """A titled part; the terminal shows it without its title."""

    title: str
    blocks: tuple[Line | Table, ...]
    on_terminal: bool = True


def pieces(text: str | Piece | Pieces) -> Pieces:
    """One line."""
    if isinstance(text, tuple):
        return text
    return (text,) if isinstance(text, Piece) else (Piece(text),)


def dim(text: str) -> Piece:
    """Stands back behind other text."""
    return Piece(text, Tone.DIM)


def cell(*lines: str | Piece | Pieces, short: str = "", bar: float | None = None) -> Cell:
    """A field with these lines."""
    return Cell(tuple(map(pieces, lines)), (pieces(short),) if short else None, bar)
