"""A program for the model: steps of work, posts, waits and blocking calls, as read by `outrigger-sim program`."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

VERSION = 1
WORLD = "world"
GRID = "grid"
ROWS = "rows"
COLUMNS = "columns"


def near_square(ranks: int) -> tuple[int, int]:
    """Rows and columns, as equal as possible; at least as many columns."""
    rows = next(rows for rows in range(math.isqrt(ranks), 0, -1) if ranks % rows == 0)
    return rows, ranks // rows


def grid_communicators(rows: int, columns: int) -> dict[str, dict[str, Any]]:
    """For ranks in a grid, row by row: each row, each column, and each rank with its four neighbors."""
    ranks = rows * columns
    neighbors = []
    for rank in range(ranks):
        row, column = divmod(rank, columns)
        found = [rank - columns] if row else []
        found += [rank - 1] if column else []
        found += [rank + 1] if column + 1 < columns else []
        found += [rank + columns] if row + 1 < rows else []
        neighbors.append(found)
    return {
        ROWS: {"groups": [list(range(row * columns, (row + 1) * columns)) for row in range(rows)]},
        COLUMNS: {"groups": [list(range(column, ranks, columns)) for column in range(columns)]},
        GRID: {"groups": [list(range(ranks))], "neighbors": neighbors},
    }


@dataclass(frozen=True)
class Program:
    """Repeated steps of all ranks."""

    ranks: int
    steps: Sequence[dict[str, Any]]
    communicators: dict[str, dict[str, Any]] = field(default_factory=dict)
    work_of_rank: Sequence[float] = ()
    """Factors of the steps' work for each rank; empty: one."""

    def work_us(self) -> float:
        """In a repetition, for a rank with factor one."""
        return sum(float(step.get("work_us", 0.0)) for step in self.steps)

    def text(self, repeat: int) -> str:
        """Content of the file."""
        used = {step["communicator"] for step in self.steps if "communicator" in step}
        made: dict[str, Any] = {"outrigger_program": VERSION, "ranks": self.ranks, "repeat": repeat}
        made["communicators"] = {name: self.communicators[name] for name in sorted(used - {WORLD})}
        if self.work_of_rank:
            made["work_of_rank"] = list(self.work_of_rank)
        return json.dumps(made | {"steps": list(self.steps)})


def work(time_us: float) -> dict[str, Any]:
    """A step."""
    return {"work_us": time_us}


def post(collective: str, size: int, request: str, communicator: str = WORLD) -> dict[str, Any]:
    """A nonblocking call with blocks of this many bytes."""
    return {"post": collective, "bytes": max(1, size), "communicator": communicator, "request": request}


def wait(*requests: str) -> dict[str, Any]:
    """For posted calls."""
    return {"wait": list(requests)}


def whole_elements(size: float) -> int:
    """Bytes of a reduction, rounded to elements of four."""
    return max(4, math.ceil(size / 4) * 4)
