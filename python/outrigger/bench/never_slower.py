"""`outrigger bench never-slower`: is switching Outrigger on ever slower than leaving it off?"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn

from outrigger import artifacts, formats, options, pictures, settings
from outrigger import sizes as sizes_of
from outrigger.bench import command, never_slower_plot, never_slower_sites, never_slower_table
from outrigger.bench.never_slower_cells import VERSION, Grid, read
from outrigger.bench.never_slower_runs import Runs, Step, arguments
from outrigger.bench.never_slower_sites import PLACEMENTS, Group, Sites
from outrigger.durations import parse_duration
from outrigger.errors import UserError, or_known
from outrigger.mpis import Mpi
from outrigger.out import directory
from outrigger.terminal import console

_NONBLOCKING = command.COLLECTIVES
_BLOCKING = tuple(name.removeprefix("i") for name in _NONBLOCKING)
_ALL = (*_NONBLOCKING, *_BLOCKING)
_UNLESS_NAMED = (*_NONBLOCKING, "alltoall", "allgather", "bcast", "allreduce", "barrier")
_SIZES = "1,64,1K,8K,64K,256K,1M,4M"
_BUDGET = "15m"
NUMBERS = ("int32", "double")
_EACH_FOUND = "auto"
_LARGEST = 1 << 28
_MOST_SIZES = 32
_LEAST_BUDGET_S, _MOST_BUDGET_S = 10, 24 * 3600
_FIGURES, _TABLE, _CSV = "never-slower.json", "never-slower.md", "never-slower.csv"


def _budget_s(text: str) -> float:
    seconds = parse_duration("--budget", text)
    if not _LEAST_BUDGET_S <= seconds <= _MOST_BUDGET_S:
        raise UserError(f"--budget {text}: from {_LEAST_BUDGET_S}s to {_MOST_BUDGET_S // 3600}h")
    return seconds


def _numbers(text: str) -> str:
    if text not in NUMBERS:
        raise UserError(f"--type {text}: {or_known(text, NUMBERS)}")
    return text


def parse_collectives(words: Sequence[str]) -> tuple[str, ...]:
    """Checked names, of nonblocking and blocking forms."""
    if list(words) == ["all"]:
        return _ALL
    for word in words:
        if word not in _ALL:
            raise UserError(f"collective '{word}': there are {', '.join(_ALL)}; or all, alone")
    return tuple(dict.fromkeys(words)) or _UNLESS_NAMED


def parse_sizes(text: str) -> tuple[int, ...]:
    """Checked block sizes in bytes."""
    found = tuple(sizes_of.parse_sizes(text))
    if found[-1] > _LARGEST:
        raise UserError(f"--sizes: {sizes_of.format_size(found[-1])} is more than {sizes_of.format_size(_LARGEST)}")
    if len(found) > _MOST_SIZES:
        raise UserError(f"--sizes: {len(found)} sizes, of which there can be {_MOST_SIZES}; name fewer")
    return found


@dataclass(frozen=True)
class Request:
    """The measurement's options."""

    collectives: tuple[str, ...]
    sizes: tuple[int, ...]
    sites: Sites
    placements: tuple[str, ...] | None
    """None: all possible ones, and progress threads if there is Intel MPI."""
    budget_s: float
    command: str
    numbers: str = NUMBERS[0]
    """Type of the numbers that reductions add."""


def _mpis(wanted: str, found: artifacts.Artifacts) -> tuple[list[Mpi], list[str]]:
    """The requested MPIs, plus Intel's for `auto`, and notes about them."""
    if wanted != _EACH_FOUND:
        return command.choose_mpis(wanted), []
    intel = never_slower_sites.intel(found)
    chosen = command.choose_mpis(wanted)
    if intel is None:
        return chosen, [never_slower_sites.NO_INTEL]
    return ([*chosen, intel] if intel not in chosen else chosen), []


def _groups(request: Request, mpis: Sequence[Mpi], found: artifacts.Artifacts) -> tuple[list[Group], list[str]]:
    notes: list[str] = []
    names = request.placements
    if names is None:
        names, notes = request.sites.default()
    else:
        request.sites.check(names)
    groups = []
    for mpi in mpis:
        told = arguments(request.collectives, request.sizes, request.numbers)
        program = (str(found.benchmark(mpi.family, "orbench")), *told)
        own = (never_slower_sites.THREADS,) if request.placements is None and mpi.implementation == "intel" else ()
        for name in (*names, *own):
            if (group := request.sites.group(mpi, name, program, found)) is not None:
                groups.append(group)
            else:
                notes.append(f"{mpi.title} has no progress threads, or there is no core for them: no panel 'threads'.")
    if not groups:
        raise UserError("nothing to measure: " + " ".join(notes))
    return groups, notes


@contextmanager
def _progress(screen: Console) -> Iterator[Callable[[Step], None]]:
    columns = (
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total} figures"),
        TextColumn("{task.fields[left]} left"),
    )  # fmt: skip
    with Progress(*columns, console=screen, transient=True, redirect_stderr=False) as progress:
        task = progress.add_task("", total=None, left="")

        def show(step: Step) -> None:
            minutes, seconds = divmod(int(step.left_s), 60)
            progress.update(
                task, description=step.what, completed=step.cells, total=step.of_cells, left=f"{minutes}:{seconds:02}"
            )

        yield show


class _Writer:
    """Saves a grid as it grows."""

    def __init__(self, place: Path) -> None:
        self.directory = directory(place)

    def _write(self, name: str, text: str) -> Path:
        path = self.directory / name
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UserError(f"cannot write {path}: {error.strerror}") from error
        return path

    def figures(self, grid: Grid) -> None:
        """As JSON."""
        self._write(_FIGURES, formats.as_json(grid) + "\n")

    def pictures(self, grid: Grid) -> list[Path]:
        """And the tables, which are all where there is nothing to draw with."""
        drawn = [] if pictures.why_none() else never_slower_plot.save(grid, self.directory)
        tables = {_TABLE: never_slower_table.markdown(grid), _CSV: never_slower_table.csv_of(grid)}
        return [*drawn, *(self._write(name, text) for name, text in tables.items())]


def _as_grid(request: Request, groups: Sequence[Group], runs: Runs, notes: Sequence[str]) -> Grid:
    names = dict.fromkeys(group.placement for group in groups)
    return Grid(
        version=VERSION,
        command=request.command,
        host=os.uname().nodename,
        cores=len(request.sites.cores),
        date=time.strftime("%Y-%m-%d"),
        budget_s=request.budget_s,
        took_s=round(runs.took_s, 1),
        complete=runs.complete,
        collectives=request.collectives,
        sizes=request.sizes,
        placements={name: PLACEMENTS[name] for name in names},
        cells=runs.cells(),
        notes=tuple(dict.fromkeys([*notes, *runs.unended])),
        failures=tuple(runs.failures),
        launchers=runs.commands,
    )


def _measure(screen: Console, request: Request, wanted: str, found: artifacts.Artifacts, writer: _Writer) -> Grid:
    mpis, notes = _mpis(wanted, found)
    groups, more = _groups(request, mpis, found)
    notes = [*notes, *more]
    cells = len(request.collectives) * len(request.sizes)
    with _progress(screen) as show:
        runs = Runs(groups, cells, found, request.budget_s, show)
        runs.measure(lambda: writer.figures(_as_grid(request, groups, runs, notes)))
    if runs.interrupted:
        notes.append("Interrupted: cells have the figures of the time until then.")
    elif not runs.complete and not runs.failures:
        notes.append("The budget was over before every cell had all its launches; --budget gives more.")
    grid = _as_grid(request, groups, runs, notes)
    writer.figures(grid)
    if not grid.cells:
        raise UserError("nothing was measured: " + ("; ".join(grid.failures) or "interrupted before the first figure"))
    return grid


def _show(screen: Console, grid: Grid, written: Sequence[Path]) -> None:
    never_slower_table.show(screen, grid)
    never_slower_table.close(screen, grid)
    for path in written:
        screen.print(f"Written: [bold]{escape(str(path))}[/]", soft_wrap=True)
    if why := pictures.why_none():
        screen.print(f"No pictures: {why}.", style="yellow", soft_wrap=True)


def exit_code(grid: Grid) -> int:
    """0: no cell is slower beyond noise. 1: some are. 3: none is, but placements could not be measured."""
    return 1 if grid.slower else 3 if grid.failures else 0


def _read_file(path: Path) -> Grid:
    try:
        return read(path.read_text(encoding="utf-8"), f"--from {path}")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--from {path}: {getattr(error, 'strerror', None) or 'is no text'}") from error


def measure_never_slower(
    collectives: Annotated[
        list[str] | None,
        typer.Argument(
            help="Collectives, such as ibcast or bcast; all: every one.",
            show_default="all nonblocking, alltoall allgather bcast allreduce barrier",
        ),
    ] = None,
    size_list: Annotated[
        str, typer.Option("--sizes", metavar="LIST", help="Bytes of a block, like 4K,16K:1M.")
    ] = _SIZES,
    placement: Annotated[
        str | None,
        typer.Option(
            "--placement",
            metavar="LIST",
            help="extra, equal, shared, alone, nodes, threads.",
            show_default="all",
        ),
    ] = None,
    numbers: Annotated[
        str, typer.Option("--type", metavar="int32|double", help="Numbers that reductions add.")
    ] = NUMBERS[0],
    mpi: options.EachMpi = _EACH_FOUND,
    ranks: options.MeasuredRanks = None,
    intranode: options.Intranode = None,
    budget: Annotated[
        str, typer.Option("--budget", metavar="TIME", help="Time for the whole measurement: 90s, 15m, 1h.")
    ] = _BUDGET,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Directory for figures, table and pictures.")
    ] = Path("never-slower-out"),
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE.json", help="Measure nothing: draw these figures again."),
    ] = None,
    build: options.Build = None,
) -> None:
    """Measure if anything is slower with Outrigger: each collective, size, placement and MPI against native.

    There are six placements. In extra, a core is left to service processes. In equal, native may use that core, too. In
    shared, no core is left. In alone, there are no service processes. In nodes, there are two pretended nodes and TCP.
    In threads, native has progress threads on the core that is left.

    A program with Outrigger's default settings and a native one do the same work, in turn; --intranode changes the
    default. Ctrl-C keeps what was measured.

    Exit code 0: no cell is slower beyond noise; 1: some cells are, and are listed; 2: wrong options or nothing
    measured; 3: no cell is slower, but placements failed.
    """
    screen = console()
    if source is not None:
        given = (size_list, mpi, budget, numbers)
        if collectives or placement or ranks or intranode or given != (_SIZES, _EACH_FOUND, _BUDGET, NUMBERS[0]):
            raise UserError("--from draws earlier measurements and allows only --out")
        grid = _read_file(source)
        _show(screen, grid, _Writer(out).pictures(grid))
        raise typer.Exit(exit_code(grid))
    words = ["outrigger", "bench", "never-slower", *(collectives or []), "--sizes", size_list, "--mpi", mpi]
    words += [*(["--placement", placement] if placement else []), *(["-n", str(ranks)] if ranks else [])]
    words += ["--type", numbers] if numbers != NUMBERS[0] else []
    words += ["--intranode", intranode] if intranode else []
    request = Request(
        parse_collectives(collectives or []),
        parse_sizes(size_list),
        Sites.make(ranks, settings.Settings(intranode=settings.parse_intranode(intranode))),
        never_slower_sites.parse_placements(placement),
        _budget_s(budget),
        shlex.join([*words, "--budget", budget]),
        _numbers(numbers),
    )
    writer = _Writer(out)
    grid = _measure(screen, request, mpi, artifacts.find(build), writer)
    _show(screen, grid, [writer.directory / _FIGURES, *writer.pictures(grid)])
    raise typer.Exit(exit_code(grid))
