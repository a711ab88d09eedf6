"""Options shared by the commands for running jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

From = Annotated[
    list[str] | None,
    typer.Option(
        "--from",
        metavar="URL",
        help="Where `outrigger exporter` listens on another node, or `local`; as often as there are nodes.",
    ),
]
Hosts = Annotated[
    list[str] | None,
    typer.Option(
        "--hosts",
        metavar="NAMES",
        help="Ask these hosts by ssh, which must need no password; outrigger has the same path there.",
    ),
]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", metavar="FILE", help="Holds the token that exporters want.")
]
Feed = Annotated[
    Path | None,
    typer.Option(
        "--feed", metavar="FILE", help="Play back what `outrigger exporter` gave under /nodes, a line a second."
    ),
]
