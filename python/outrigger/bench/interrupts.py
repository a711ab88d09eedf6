"""Measurements that end early at Ctrl-C, with the results so far, and with exit code 130."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

import typer
from rich.console import Console

SAID = "Interrupted: these are the figures until then."
NOTHING = "Interrupted before there was a figure."
EXIT_CODE = 130
_said = False


class Measures(Protocol):
    """A measurement under one MPI."""

    @property
    def interrupted(self) -> bool:
        """Its results are incomplete."""


def say(console: Console) -> None:
    """Printed before incomplete results."""
    global _said
    _said = True
    console.print(SAID, style="yellow")


def leave() -> None:
    """Called at the end of a command, after all output: exits with an interrupted command's code if it was
    interrupted.
    """
    global _said
    if _said:
        _said = False
        raise typer.Exit(EXIT_CODE)


B = TypeVar("B", bound=Measures)
R = TypeVar("R")


def each(console: Console, benches: Iterable[B], measure: Callable[[B], R]) -> Iterator[tuple[B, R]]:
    """Measures each in sequence, until a Ctrl-C; KeyboardInterrupt: nothing was measured."""
    any_there = False
    for bench in benches:
        try:
            found = measure(bench)
        except KeyboardInterrupt:
            if not any_there:
                console.print(NOTHING, style="yellow")
                raise
            say(console)
            return
        any_there = True
        yield bench, found
        if bench.interrupted:
            say(console)
            return
