"""`outrigger demo`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from outrigger import artifacts, cores, demo, mpis, options
from outrigger.terminal import console


def show_demo(
    ranks: options.MeasuredRanks = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Directory for the plot.")] = Path("demo-out"),
    json: options.Figures = None,
    build: options.Build = None,
) -> None:
    """Run an unmodified all-to-all benchmark natively and offloaded, in half a minute."""
    demo.run(console(), artifacts.find(build), mpis.find_mpis(), cores.measured_ranks(ranks), out, json)
