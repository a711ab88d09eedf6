"""`outrigger report`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from outrigger import formats, report
from outrigger.terminal import console


def show_report(
    written: Annotated[Path, typer.Argument(metavar="FILE.json", help="The report of run --report FILE.json.")],
    json: Annotated[bool, typer.Option("--json", help="The first lines and the advice as JSON.")] = False,
) -> None:
    """Show a report: what was hidden, every collective that was called, what was offloaded, and what else could be."""
    read = report.read(written)
    if json:
        print(formats.as_json(report.as_data(read)))
    else:
        report.show(console(), read)
