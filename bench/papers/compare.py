"""Compares the model with papers' figures: makes the table and the picture of bench/papers/README.md.

    .venv/bin/python -m bench.papers.compare                                  # all points; half an hour of a core
    .venv/bin/python -m bench.papers.compare --only thor-link --only bluesmpi-fft --print
    .venv/bin/python -m bench.papers.compare --kept bench/papers/predictions.json   # only missing runs

Points, sizes and bands are in points.toml; nothing of the model depends on them. The same simulator gives the same
figures.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from bench.papers.plot import save
from bench.papers.points import Point, read
from bench.papers.quantities import needed, predict
from bench.papers.runs import Runs
from bench.papers.table import Comparison, summary, table

from outrigger.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
PAGE = Path(__file__).with_name("README.md")
PICTURE = PAGE.with_name("papers.png")
_WIDTH = 128
BEGIN, END = "<!-- papers: begin -->", "<!-- papers: end -->"


def compare(points: Sequence[Point], runs: Runs, jobs: int) -> list[Comparison]:
    """Predicts the points with `jobs` simulators at a time; with 0 jobs only the points whose runs are kept."""
    _, memory = read()
    modelled = {point: needed(point, memory) for point in points if point.use != "not_modelled"}
    if jobs:
        runs.do([run for wanted in modelled.values() for run in wanted], jobs)
    return [
        Comparison(point, predict(point, memory, runs))
        for point, wanted in modelled.items()
        if all(run in runs for run in wanted)
    ]


def page_text(points: Sequence[Point], compared: Sequence[Comparison]) -> str:
    """The summary, the table, and the points without a prediction."""
    shown = {comparison.point.id for comparison in compared}
    left = [f"`{point.id}`" for point in points if point.use != "not_modelled" and point.id not in shown]
    reasons = [f"* `{point.id}` ({point.states}): {point.why}." for point in points if point.why]
    parts = [summary(compared), table(compared)]
    if left:
        parts.append(textwrap.fill(f"Not run yet: {', '.join(left)}.", _WIDTH, break_on_hyphens=False))
    if reasons:
        parts.append("Not modelled:\n\n" + "\n".join(reasons))
    return "\n\n".join(parts)


def rewritten(page: str, text: str) -> str:
    """The page with new text between its markers."""
    before, _, rest = page.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise UserError(f"the page has no {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def chosen(points: list[Point], only: list[str]) -> list[Point]:
    unknown = set(only) - {point.id for point in points}
    if unknown:
        raise UserError(f"there is no point '{min(unknown)}' in points.toml")
    return [point for point in points if not only or point.id in only]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulator", type=Path, default=ROOT / "build/release/bin/outrigger-sim")
    parser.add_argument("--kept", type=Path, help="a file of runs, which is read and added to")
    parser.add_argument("--only", action="append", default=[], metavar="POINT", help="by id; may be given again")
    parser.add_argument("--jobs", type=int, default=1, help="simulators at a time; 0 runs none")
    parser.add_argument("--print", action="store_true", dest="prints", help="write no file, print the table")
    arguments = parser.parse_args()
    try:
        points = chosen(read()[0], arguments.only)
        compared = compare(points, Runs(arguments.simulator, arguments.kept), arguments.jobs)
        text = page_text(points, compared)
        if arguments.prints or arguments.only:
            print(text)
            return
        PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8"), text), encoding="utf-8")
        save(compared, PICTURE)
        print(f"{PAGE}, {PICTURE}")
    except UserError as error:
        sys.exit(f"compare: {error}")


if __name__ == "__main__":
    main()
