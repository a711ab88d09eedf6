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
        help="Address of `outrigger exporter` on another node, or `local`; may be repeated.",
    ),
]
Hosts = Annotated[
    list[str] | None,
    typer.Option(
        "--hosts",
        metavar="NAMES",
        help="Read these hosts by ssh, without a password; outrigger must have the same path there.",
    ),
]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", metavar="FILE", help="File with the token of the exporters.")
]
Feed = Annotated[
    Path | None,
    typer.Option(
        "--feed",
        metavar="FILE",
        help="Play back recorded output of `outrigger exporter` under /nodes, a line per second.",
    ),
]
