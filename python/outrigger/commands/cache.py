"""`outrigger cache`"""

from __future__ import annotations

from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from outrigger import learned
from outrigger.errors import UserError
from outrigger.report_data import format_bytes, plural
from outrigger.terminal import console


def _table(kept: learned.Kept) -> Table:
    made = Table(box=box.SIMPLE_HEAD, header_style="dim", pad_edge=False, padding=(0, 1))
    columns = ("call", "block up to", "ranks", "nodes", "choice", "learned on")
    for name, right in zip(columns, (False, True, True, True, False, False), strict=True):
        made.add_column(name, justify="right" if right else "left", no_wrap=True)
    for choice in kept.choices:
        name = f"MPI_{choice.collective.capitalize()}"
        call = f"MPI_{choice.collective[1:].capitalize()}" if choice.form == "blocking" else name
        size = format_bytes(1 << choice.size_class)
        made.add_row(call, size, f"{choice.ranks:,}", f"{choice.nodes:,}", choice.way, f"{choice.since:%Y-%m-%d}")
    return made


def show(out: Console, kept: list[learned.Kept]) -> None:
    """One table per kind of machine, MPI and placement."""
    for each in kept:
        when = f"{each.changed:%Y-%m-%d %H:%M}"
        if not each.readable:
            out.print(f"[yellow]{escape(str(each.path))}, {when}: not a decision file; it stays unchanged.[/]")
            continue
        out.print(f"[bold]{escape(each.mpi)}[/] on {escape(each.machine)}", soft_wrap=True)
        out.print(f"{escape(each.cores)}; last changed {when}", style="dim", soft_wrap=True)
        out.print(_table(each))


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove all decisions: later runs measure again.")] = False,
) -> None:
    """List the choices that earlier runs have measured and later runs start with."""
    directory = learned.place()
    if directory is None:
        raise UserError("nothing is saved: neither XDG_CACHE_HOME nor HOME names a directory")
    out = console()
    if clear:
        try:
            removed = learned.clear(directory)
        except OSError as error:
            raise UserError(f"{error.filename} cannot be removed: {error.strerror}") from error
        return out.print(f"Removed {plural(removed, 'file')} in {directory}.", soft_wrap=True)
    kept = learned.read_all(directory)
    show(out, kept)
    if not kept:
        out.print(f"No run has saved a decision in {directory}.", soft_wrap=True)
    return None
