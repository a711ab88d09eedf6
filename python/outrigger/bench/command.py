"""The `outrigger bench` command behind its options."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from outrigger import choice
from outrigger.artifacts import Artifacts
from outrigger.bar import Bar
from outrigger.bench import interrupts, jobs, lanes, lanes_plot, table
from outrigger.bench import plot as plotting
from outrigger.bench.figures import CONTIGUOUS, Measurement, Row, as_json
from outrigger.bench.runner import Request, Runner, least_work
from outrigger.cluster import units
from outrigger.errors import UserError, or_known
from outrigger.mpis import FAMILIES, INTEL, Mpi, find_all_mpis, find_mpis

ORDERS = (CONTIGUOUS, "strided")
MEMORIES = ("alloc_mem", "malloc")
_EACH_FOUND = "auto"

COLLECTIVES = (
    "ialltoall",
    "ialltoallv",
    "ialltoallw",
    "iallgather",
    "iallgatherv",
    "ibcast",
    "iallreduce",
    "ireduce",
    "ireduce_scatter_block",
    "igather",
    "igatherv",
    "iscatter",
    "iscatterv",
    "ibarrier",
    "ireduce_scatter",
    "iscan",
    "iexscan",
    "ineighbor_alltoall",
    "ineighbor_alltoallv",
    "ineighbor_alltoallw",
    "ineighbor_allgather",
    "ineighbor_allgatherv",
)
"""Collectives of `orbench`; neighbor collectives use a two-dimensional grid."""
PERSISTENT = tuple(f"{name.removeprefix('i')}_init" for name in COLLECTIVES)
"""Their persistent forms."""
_UNLESS_NAMED = COLLECTIVES[:2]
_ALL = "all"


def _of(words: Sequence[str], known: Sequence[str], what: str) -> tuple[str, ...]:
    for word in words:
        if word not in known:
            raise UserError(f"{what} '{word}': unknown; {or_known(word, known)}")
    return tuple(dict.fromkeys(words))


def parse_collectives(words: Sequence[str], known: Sequence[str] = COLLECTIVES) -> tuple[str, ...]:
    """Checked names; default: ialltoall and ialltoallv; `all`: all nonblocking ones."""
    if list(words) == [_ALL]:
        return COLLECTIVES
    return _of(words or _UNLESS_NAMED, known, "collective")


def parse_memories(text: str) -> tuple[str, ...]:
    """Checked kinds of memory."""
    return _of([word.strip() for word in text.split(",")], MEMORIES, "--memory")


def parse_order(text: str) -> str:
    """Checked order of ranks."""
    return _of([text], ORDERS, "--order")[0]


def parse_link_rate(text: str | None) -> int | None:
    """Bits per second."""
    if text is None:
        return None
    try:
        return units.parse_rate(text)
    except UserError as error:
        raise UserError(f"--link-rate{str(error).removeprefix('--rate')}") from None


def _elsewhere(word: str) -> Mpi:
    if os.sep not in word and word not in (*FAMILIES, INTEL):
        raise UserError(
            f"--mpi '{word}': there are {', '.join((_EACH_FOUND, *FAMILIES, INTEL))}, or where one is installed"
        )
    return choice.named(word, find_all_mpis())[0]


def choose_mpis(wanted: str) -> list[Mpi]:
    """The requested MPIs, by names or places separated by commas, or all found ones.

    The benchmark programs are built for the ABIs of Open MPI and MPICH, and run under all MPIs with these ABIs.
    """
    found = find_mpis()
    if wanted == _EACH_FOUND:
        if not found:
            raise UserError("no MPI was found: neither mpirun of Open MPI nor of MPICH is on PATH")
        return found
    words = tuple(dict.fromkeys(word.strip() for word in wanted.split(",")))
    if _EACH_FOUND in words:
        raise UserError(f"--mpi {wanted}: auto stands alone; it means each MPI that is found")
    by_name = {mpi.family: mpi for mpi in found}
    return [by_name.get(word) or _elsewhere(word) for word in words]


def choose_one_mpi(wanted: str, what: str) -> Mpi:
    """The MPI for `what`; for auto the first."""
    found = choose_mpis(wanted)
    if len(found) > 1 and wanted != _EACH_FOUND:
        raise UserError(f"--mpi {wanted}: {what} is of one MPI")
    return found[0]


@dataclass(frozen=True)
class Output:
    """Outputs beside the terminal."""

    json: Path | None = None
    plot: Path | None = None
    link_bits: int | None = None
    """The rate of a host's link, for comparison."""
    compares: bool = False
    """All MPIs side by side."""


class _Comparison:
    """All MPIs with the same work. One that fails is named, and the others continue."""

    def __init__(self, console: Console, runners: Sequence[Runner]) -> None:
        self.console = console
        self.runners = list(runners)

    def _left_out(self, runner: Runner, error: UserError) -> None:
        if len(self.runners) == 1:
            raise error
        self.runners.remove(runner)
        self.console.print(f"[bold red]{runner.mpi.title} is left out:[/] {escape(str(error))}")

    def _latencies(self) -> list[list[Row]]:
        found = []
        with Bar(self.console, draws_itself=True) as bar:
            for number, runner in enumerate(list(self.runners)):
                bar.counts(f"{runner.mpi.title}: duration of native", number, len(self.runners))
                try:
                    found.append(runner.native_latency())
                except UserError as error:
                    self._left_out(runner, error)
        return found

    def _measured(self, runner: Runner, work: Sequence[int]) -> Measurement | None:
        try:
            return _measured(self.console, runner, work)
        except UserError as error:
            self._left_out(runner, error)
            return None

    def measure(self) -> list[Measurement]:
        """The work takes as long as the fastest native run of each configuration.

        After a Ctrl-C only completely measured MPIs are shown, since their numbers stand side by side; for a single
        MPI, all that exist.
        """
        work = least_work(self._latencies()) if len(self.runners) > 1 else []
        measurements: list[Measurement] = []
        for runner, found in interrupts.each(self.console, list(self.runners), lambda each: self._measured(each, work)):
            if found is not None and not (runner.interrupted and measurements):
                measurements.append(found)
        if not measurements:
            raise KeyboardInterrupt
        return measurements


def _measured(console: Console, runner: Runner, work: Sequence[int] = ()) -> Measurement:
    of = runner.request.configurations
    with Bar(console, draws_itself=True) as bar:

        def shows(done: int) -> None:
            what = f"configuration {done + 1} of {of}" if done < of else "native on all cores"
            bar.counts(f"{runner.mpi.title}: {what}", done, of)

        shows(0)
        runner.shows = shows
        return runner.measure(work)


def _one_by_one(console: Console, runners: Sequence[Runner]) -> list[Measurement]:
    measurements = []
    for _, measured in interrupts.each(console, runners, lambda runner: _measured(console, runner)):
        measurements.append(measured)
        table.print_measurement(console, measured)
        console.print()
    console.print(table.legend(), style="dim")
    return measurements


def _draw(measurements: Sequence[Measurement], ranks: int, path: Path, output: Output, *, side_by_side: bool) -> None:
    heading = f"Collectives on {ranks} ranks, native and offloaded"
    if side_by_side:
        lanes_plot.save(lanes.groups(measurements), path, heading, output.link_bits)
    else:
        plotting.save(measurements, path, heading)


def run(
    console: Console, request: Request, mpis: Sequence[Mpi], artifacts: Artifacts, site: jobs.Site, output: Output
) -> None:
    """Measures under each MPI and shows the results: MPI by MPI, or all side by side with the same work."""
    runners = [Runner(request, mpi, artifacts, site) for mpi in mpis]
    if output.compares:
        measurements = _Comparison(console, runners).measure()
        lanes.show(console, measurements, output.link_bits)
    else:
        measurements = _one_by_one(console, runners)
    for note in dict.fromkeys(note for measurement in measurements for note in measurement.notes):
        console.print(note, style="yellow")
    jobs.save_json(console, output.json, as_json(measurements))
    if output.plot is not None:
        _draw(measurements, request.ranks, output.plot, output, side_by_side=output.compares)
        console.print(f"Plot: [bold]{escape(str(output.plot))}[/]", soft_wrap=True)
    interrupts.leave()
