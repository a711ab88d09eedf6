"""A command line of `outrigger`, run in this process."""

from __future__ import annotations

from collections.abc import Sequence

from typer.testing import CliRunner, Result

from outrigger.cli import make_app, needed


def typed(words: Sequence[str], columns: int = 120) -> Result:
    """Runs `outrigger` with these words."""
    return CliRunner().invoke(make_app(needed(list(words))), words, env={"COLUMNS": str(columns)})
