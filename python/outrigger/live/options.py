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
        help="Address of an exporter, or local; repeatable.",
    ),
]
Hosts = Annotated[
    list[str] | None,
    typer.Option(
        "--hosts",
        metavar="NAMES",
        help="Hosts to ask by ssh, without a password.",
    ),
]
TokenFile = Annotated[Path | None, typer.Option("--token-file", metavar="FILE", help="File with the exporters' token.")]
Feed = Annotated[
    Path | None,
    typer.Option("--feed", metavar="FILE", help="Play back the output of exporter --lines."),
]
Interval = Annotated[
    float, typer.Option("--interval", metavar="SECONDS", min=0.1, max=60, help="Time between two updates.")
]
