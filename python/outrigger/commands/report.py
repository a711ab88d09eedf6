"""`outrigger report`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from outrigger import formats, report
from outrigger.terminal import console


def show_report(
    written: Annotated[Path, typer.Argument(metavar="FILE.json", help="Report written by run --report-to FILE.json.")],
    json: Annotated[bool, typer.Option("--json", help="Print the first lines and the advice as JSON.")] = False,
) -> None:
    """Show a report: what was offloaded, what was hidden, and what to change."""
    read = report.read(written)
    if json:
        print(formats.as_json(report.as_data(read)))
    else:
        report.show(console(), read)
