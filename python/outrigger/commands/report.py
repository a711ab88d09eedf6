"""`outrigger report`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from outrigger import formats, options, report
from outrigger.errors import UserError
from outrigger.out import check_place
from outrigger.terminal import console, note


def _write_page(read: report.AnyReport, place: Path) -> None:
    try:
        place.write_text(report.as_page(read), encoding="utf-8")
    except OSError as error:
        raise UserError(f"the page {place} cannot be written: {error.strerror}") from error
    note(f"the page is in {place}")


def show_report(
    written: Annotated[
        Path,
        typer.Argument(
            metavar="FILE.json",
            help="Report written by run --report-to FILE.json, or OUTRIGGER_REPORT's directory.",
        ),
    ],
    json: Annotated[
        bool, typer.Option("--json", help="Print the first lines, advice and efficiencies as JSON.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            metavar="FILE.html",
            help="Write a page that needs no other file.",
            callback=check_place,
            rich_help_panel=options.RESULT,
        ),
    ] = None,
) -> None:
    """Show a report: what was offloaded, what was hidden, and what to change."""
    read = report.read_any(written)
    if html is not None:
        _write_page(read, html)
    if json:
        print(formats.as_json(report.as_data(read)))
    elif html is None:
        report.show(console(), read)
