"""Measuring that Ctrl-C ends early, with what there is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from rich.console import Console

SAID = "Interrupted: these are the figures until then."


class Measures(Protocol):
    """Under one MPI."""

    @property
    def interrupted(self) -> bool:
        """What it gave is not all."""


B = TypeVar("B", bound=Measures)
R = TypeVar("R")


def each(console: Console, benches: Iterable[B], measure: Callable[[B], R]) -> Iterator[tuple[B, R]]:
    """What is measured of each, one after the other. After a Ctrl-C no more; where there is nothing yet it goes on."""
    any_there = False
    for bench in benches:
        try:
            found = measure(bench)
        except KeyboardInterrupt:
            if not any_there:
                raise
            console.print(SAID, style="yellow")
            return
        any_there = True
        yield bench, found
        if bench.interrupted:
            console.print(SAID, style="yellow")
            return
