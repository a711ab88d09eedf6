"""The results on the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from outrigger.advise.figures import Ratio, Results, Row, seconds_in_collectives
from outrigger.advise.given import Given, added
from outrigger.advise.sentences import Advice
from outrigger.report_calls import percent
from outrigger.report_data import Report, format_seconds

_STYLES = {-1: "bold green", 0: "bold", 1: "bold red"}


def _new_table() -> Table:
    return Table(box=box.SIMPLE_HEAD, header_style="dim", pad_edge=False, padding=(0, 1))


def _ratio(ratio: Ratio | None) -> Text:
    return Text("-") if ratio is None else Text(str(ratio), style=_STYLES[ratio.verdict])


def table(results: Results, base: Given) -> Table:
    """A row for each variant."""
    made = _new_table()
    made.add_column("variant\noptions of outrigger run")
    for heading in ("runs", "time\nmedian", "of the best native\n(noise band)", "in collectives\nof a rank"):
        made.add_column(heading, justify="right", no_wrap=True)
    for row in results.judged:
        options = added(base, row.variant.given)
        inside = results.in_collectives(row.variant.key)
        mark = "* " if row is results.best else ""
        name = f"{mark}{escape(row.variant.title)}" + (f"\n[dim]{escape(options)}[/]" if options else "")
        base_row = row is results.best_native
        made.add_row(
            name,
            str(len(row.trials)),
            format_seconds(row.seconds),
            Text("1") if base_row else _ratio(results.ratio(row)),
            "-" if inside is None else format_seconds(inside),
        )
    return made


def reports_table(reports: Sequence[tuple[str, Report]]) -> Table:
    """A row for each."""
    made = _new_table()
    made.add_column("report")
    for heading in ("ranks", "MPI_Init to the end", "in collectives\nof a rank", "of the\nrun"):
        made.add_column(heading, justify="right", no_wrap=True)
    for name, report in reports:
        run = report.run_seconds.mean if report.run_seconds is not None else 0.0
        inside = seconds_in_collectives(report)
        part = percent(inside / run) if run else "-"
        made.add_row(escape(name), str(report.ranks), format_seconds(run), format_seconds(inside), part)
    return made


def advice(console: Console, found: Sequence[Advice]) -> None:
    """The sentences."""
    for each in found:
        option = f" [bold cyan]{escape(each.option)}[/]" if each.option else ""
        console.print(f"[bold]*[/] {escape(each.text)}{option}")


def command(console: Console, line: str, what: str = "Use from now on") -> None:
    """The last line."""
    console.print(f"\n{what}:\n\n    [bold]{escape(line)}[/]", soft_wrap=True)


def _row_as_data(results: Results, row: Row) -> dict[str, Any]:
    ratio = results.ratio(row)
    return {
        "variant": row.variant.key,
        "title": row.variant.title,
        "command": row.variant.given.command(),
        "judged": row.variant.judged,
        "seconds": [trial.seconds for trial in row.trials],
        "median_s": row.seconds,
        "ratio": None
        if ratio is None
        else {"median": ratio.band.value, "low": ratio.band.low, "high": ratio.band.high},
        "in_collectives_s": results.in_collectives(row.variant.key),
    }


def advice_as_data(found: Sequence[Advice]) -> list[dict[str, str]]:
    """For --json."""
    return [{"text": each.text, "option": each.option} for each in found]


def as_data(results: Results, found: Sequence[Advice]) -> dict[str, Any]:
    """For --json."""
    return {
        "best": results.best.variant.key,
        "command": results.best.variant.given.command(),
        "variants": [_row_as_data(results, row) for row in results.rows.values()],
        "advice": advice_as_data(found),
    }
