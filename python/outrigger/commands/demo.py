"""`outrigger demo`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from outrigger import artifacts, demo, mpis, options
from outrigger.errors import UserError
from outrigger.terminal import console


def show_demo(
    ranks: Annotated[
        int | None,
        typer.Option("--ranks", "-n", "-np", help="Number of ranks.", show_default="all cores but one, from 2 to 4"),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Directory for the plot.")] = Path("demo-out"),
    json: options.Figures = None,
    build: options.Build = None,
) -> None:
    """See it work, in half a minute: an unmodified all-to-all benchmark, native and offloaded side by side."""
    count = demo.usual_ranks() if ranks is None else ranks
    if count < 2:
        raise UserError(f"--ranks {count}: one rank exchanges nothing; the demo needs 2 or more")
    demo.run(console(), artifacts.find(build), mpis.find_mpis(), count, out, json)
