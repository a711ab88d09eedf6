"""`outrigger cache`"""

from __future__ import annotations

from pathlib import Path
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


def _short(mpi: str) -> str:
    """The MPI's name and version, without details of its build."""
    return " ".join(mpi.split(",")[0].replace("Version:", "").split())


def show(out: Console, kept: list[learned.Kept]) -> None:
    """One table per program and kind of machine, MPI and placement."""
    for each in kept:
        when = f"{each.changed:%Y-%m-%d %H:%M}"
        if not each.readable:
            what = "not a decision file of this version; `outrigger cache --clear` removes it"
            out.print(f"[yellow]{escape(str(each.path))}, {when}: {what}.[/]", soft_wrap=True)
            continue
        out.print(
            f"[bold]{escape(each.program)}[/] with {escape(_short(each.mpi))} on {escape(each.machine)}", soft_wrap=True
        )
        out.print(f"cores: {escape(each.cores)}; last changed {when}", style="dim", soft_wrap=True)
        out.print(_table(each))


def cache(
    program: Annotated[
        str | None, typer.Argument(metavar="PROGRAM", help="Only those of this program: an executable or a script.")
    ] = None,
    clear: Annotated[
        bool, typer.Option("--clear", help="Remove these decisions; of all programs, also the orders of sums.")
    ] = False,
) -> None:
    """List the choices that earlier runs of your programs have measured and later runs start with."""
    directory = learned.place()
    if directory is None:
        raise UserError("nothing is saved: neither XDG_CACHE_HOME nor HOME names a directory")
    name = Path(program).name if program is not None else None
    out = console()
    if clear:
        try:
            removed = learned.clear(directory, name)
        except OSError as error:
            raise UserError(f"{error.filename} cannot be removed: {error.strerror}") from error
        return out.print(f"Removed {plural(removed, 'file')} in {directory}.", soft_wrap=True)
    kept = learned.read_all(directory, name)
    show(out, kept)
    if not kept:
        whose = "No run" if name is None else f"No run of {name}"
        out.print(f"{whose} has saved a decision in {directory}.", soft_wrap=True, markup=False)
    if name is None and (orders := learned.sum_files(directory)):
        out.print(f"{plural(len(orders), 'file')} with orders in which MPIs add floating-point numbers.", style="dim")
    return None
