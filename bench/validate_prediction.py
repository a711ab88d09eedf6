"""Measures times of collectives, and compares the model's predictions with them.

    .venv/bin/python bench/validate_prediction.py measure box-node --set spring --sizes 3K,24K,96K,384K --rounds 4 \
        --out bench/predictions/box-node-spring.csv
    .venv/bin/python bench/validate_prediction.py compare bench/predictions/*.csv

`measure` runs the programs of `outrigger bench` on this machine, native and offloaded alternating. On a cluster in a
box, call it by `outrigger lab cluster exec n0 --`. It starts only if the cluster file of the site is calibrated and
committed, so that no set is known before the numbers that it tests. `compare` runs the model on the same cells.
bench/predictions/README.md describes the files.
"""

from __future__ import annotations

import argparse
import csv
import io
import math
import shlex
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from itertools import combinations, groupby, pairwise
from pathlib import Path

from rich.console import Console

from outrigger import artifacts, binding, settings, sizes
from outrigger.bar import Bar
from outrigger.bench import jobs
from outrigger.bench.command import choose_one_mpi
from outrigger.bench.runner import Request, Runner
from outrigger.calibrate import command, model
from outrigger.calibrate.measuring import Measuring
from outrigger.calibrate.readings import Cell, Measured, Readings, Times
from outrigger.errors import UserError
from outrigger.hosts import Hosts
from outrigger.launchers import SSH

PROJECT = Path(__file__).resolve().parents[1]
NATIVE = "native"
NOISE = math.log1p(0.05)
"""Times have no order if the logarithm of their ratio is smaller."""
_HEADER = ("site", "set", "machine", "date", "command", "rounds", "noise_percent")
_SURE = "sure_against"
_COLUMNS = (*(one.name for one in fields(Cell)), *(one.name for one in fields(Times)), _SURE)
_DECIMALS = 3
"""Rounds have two; a median of two rounds has one more."""
_ITERATIONS = 200
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Site:
    """A machine on which jobs run."""

    cluster: str
    hosts: bool
    bind: str
    ranks: tuple[int, ...]


SITES = {
    "box": Site("clusters/box.toml", hosts=True, bind="none", ranks=(2, 4)),
    "box-node": Site("clusters/box-node.toml", hosts=False, bind="bunch", ranks=(2, 4, 8)),
    "box-node-shared": Site("clusters/box-node-shared.toml", hosts=False, bind="none", ranks=(2, 4, 8)),
    "sixteen-cores": Site("clusters/sixteen-cores.toml", hosts=False, bind="bunch", ranks=(2, 4, 8)),
}
LANES = (
    ("ialltoall", "ring_pull"), ("ialltoall", "scatter_dest"),
    ("iallgather", "flat"), ("iallgather", "node_pull"), ("iallgather", "hierarchical"),
    ("ibcast", "flat"), ("ibcast", "hierarchical"),
)  # fmt: skip


def site_of(name: str) -> Site:
    """Raises UserError: there is no such site."""
    if name not in SITES:
        raise UserError(f"there is no site {name}; the sites are {', '.join(SITES)}")
    return SITES[name]


@dataclass(frozen=True)
class Row:
    """A cell and the medians of its rounds."""

    cell: Cell
    times: Times
    sure_against: frozenset[str] = frozenset()
    """Native (by totals) and algorithms (by pure latencies) whose order with this one was the same in all rounds."""


@dataclass(frozen=True)
class Set:
    """One CSV file."""

    about: dict[str, str]
    rows: list[Row]


@dataclass(frozen=True)
class Compared:
    """A row, and the predicted times of its cell."""

    row: Row
    predicted: Times

    @property
    def errors(self) -> dict[str, float]:
        """Relative errors of the four times."""
        names = ("native pure", "native total", "offloaded pure", "offloaded total")
        pairs = zip(names, self.predicted.four, self.row.times.four, strict=True)
        return {name: predicted / measured - 1 for name, predicted, measured in pairs}


@dataclass(frozen=True)
class Crossover:
    """Offloading is better from `measured` bytes on; the smallest size if always; None if never."""

    what: str
    measured_bytes: float | None
    predicted_bytes: float | None

    @property
    def octaves(self) -> float | None:
        """Octaves between the two; None if one is missing."""
        if self.measured_bytes is None or self.predicted_bytes is None:
            return None
        return abs(math.log2(self.predicted_bytes / self.measured_bytes))


@dataclass(frozen=True)
class Verdict:
    """Figures over all cells of a set."""

    errors: dict[str, float]
    """Medians of absolute errors. For both totals, of ratios minus 1, so that half counts as much as double."""
    pairs: int
    """Pairs of ways to do the same collective whose measured times differ by more than noise."""
    pairs_right: int
    sure_pairs: int
    """The pairs whose order was the same in each round of the measurement."""
    sure_pairs_right: int
    crossovers: tuple[Crossover, ...]

    @property
    def crossovers_near(self) -> int:
        """The number of crossovers predicted within an octave."""
        return sum(one.octaves is not None and one.octaves <= 1 for one in self.crossovers)


_Two = tuple[float, float]


def _totals(times: Times) -> _Two:
    return (times.native_total_us, times.offloaded_total_us)


def _pures(first: Times, second: Times) -> _Two:
    """Only pure latencies, because the work, and so the total, differs between two runs."""
    return (first.offloaded_pure_us, second.offloaded_pure_us)


def _first_is_less(times: _Two) -> bool:
    return times[0] < times[1]


def _always(median: _Two, rounds: Iterable[_Two]) -> bool:
    return all(_first_is_less(one) == _first_is_less(median) for one in rounds)


def _job(cell: Cell) -> tuple[str, int, int, int]:
    return (cell.collective, cell.nodes, cell.ranks_per_node, cell.services)


def row_of(measured: Measured, all_cells: Sequence[Measured]) -> Row:
    """The medians of its rounds, and the orders on which all rounds agree."""
    median = measured.median
    sure = {NATIVE} if _always(_totals(median), map(_totals, measured.rounds)) else set()
    for other in all_cells:
        same = (_job(other.cell), other.cell.bytes) == (_job(measured.cell), measured.cell.bytes)
        rounds = [_pures(*both) for both in zip(measured.rounds, other.rounds, strict=False)]
        if same and other is not measured and _always(_pures(median, other.median), rounds):
            sure.add(other.cell.algorithm)
    return Row(measured.cell, median, frozenset(sure))


def noise_percent(cells: Iterable[Measured]) -> float | None:
    """The median difference between totals of even and odd rounds; None if there is one round."""
    errors: list[float] = []
    for one in cells:
        if len(one.rounds) > 1:
            halves = [_totals(Measured(one.cell, one.rounds[start::2]).median) for start in (0, 1)]
            for first, second in zip(*halves, strict=True):
                errors += [abs(second / first - 1), abs(first / second - 1)]
    return 100 * statistics.median(errors) if errors else None


def set_of(site: str, name: str, readings: Sequence[Readings]) -> Set:
    """The part of a measurement that is kept."""
    cells = [measured for one in readings for measured in one.cells if measured.rounds]
    if not cells:
        raise UserError(f"set {name} of {site}: nothing was measured")
    first, noise = readings[0], noise_percent(cells)
    rounds = "-".join(map(str, sorted({len(one.rounds) for one in cells})))
    texts = (
        site, name, f"{first.machine}, {first.mpi}", first.date, first.command, rounds,
        UNKNOWN if noise is None else f"{noise:.1f}",
    )  # fmt: skip
    return Set(dict(zip(_HEADER, texts, strict=True)), [row_of(one, cells) for one in cells])


def text_of(kept: Set) -> str:
    """The content of the CSV file."""
    file = io.StringIO()
    for key, value in kept.about.items():
        file.write(f"# {key}: {value}\n")
    table = csv.writer(file, lineterminator="\n")
    table.writerow(_COLUMNS)
    for row in kept.rows:
        times = (f"{time:.{_DECIMALS}f}".rstrip("0").rstrip(".") for time in astuple(row.times))
        table.writerow((*astuple(row.cell), *times, " ".join(sorted(row.sure_against))))
    return file.getvalue()


def read(path: Path) -> Set:
    """Raises UserError: not such a file."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from error
    head = [line[2:].partition(": ") for line in lines if line.startswith("# ")]
    about = {key: value for key, _, value in head}
    if missing := [key for key in _HEADER if key not in about]:
        raise UserError(f"{path}: the header has no line '# {missing[0]}: ...'")
    table = csv.reader(line for line in lines if not line.startswith("#"))
    if (columns := tuple(next(table, ()))) != _COLUMNS:
        raise UserError(f"{path}: the columns are {','.join(columns)}; they have to be {','.join(_COLUMNS)}")
    rows = []
    for number, words in enumerate(table, start=len(head) + 2):
        try:
            collective, *counts, algorithm = words[: len(fields(Cell))]
            size, nodes, ranks, services = map(int, counts)
            *times, sure = words[len(fields(Cell)) :]
            cell = Cell(collective, size, nodes, ranks, services, algorithm)
            rows.append(Row(cell, Times(*map(float, times)), frozenset(sure.split())))
        except (ValueError, TypeError) as error:
            raise UserError(f"{path}:{number}: {','.join(words)}: {error}") from error
    return Set(about, rows)


def _pairs(compared: Sequence[Compared]) -> Iterator[tuple[bool, bool]]:
    """Pairs of native and an algorithm, or of two algorithms: the model has their order right, and is sure of it."""

    def pair(measured: _Two, predicted: _Two, *, sure: bool) -> Iterator[tuple[bool, bool]]:
        if abs(math.log(measured[0] / measured[1])) > NOISE:
            yield _first_is_less(predicted) == _first_is_less(measured), sure

    for one in compared:
        yield from pair(_totals(one.row.times), _totals(one.predicted), sure=NATIVE in one.row.sure_against)
    for first, second in combinations(compared, 2):
        if (_job(first.row.cell), first.row.cell.bytes) == (_job(second.row.cell), second.row.cell.bytes):
            yield from pair(
                _pures(first.row.times, second.row.times), _pures(first.predicted, second.predicted),
                sure=second.row.cell.algorithm in first.row.sure_against,
            )  # fmt: skip


def crossing(points: Sequence[tuple[int, float]]) -> float | None:
    """The size from which on the logarithms in points of (bytes, logarithm of a ratio) stay below 0.

    The smallest size if all are; None if the last one is not.
    """
    ordered = sorted(points)
    if not ordered or ordered[-1][1] >= 0:
        return None
    found = float(ordered[0][0])
    for (first, before), (second, after) in pairwise(ordered):
        if (before > 0) == (after > 0):
            continue
        part = before / (before - after)
        found = math.exp(math.log(first) + part * math.log(second / first))
    return found


def _crossovers(compared: Sequence[Compared]) -> Iterator[Crossover]:
    key: Callable[[Compared], tuple[object, ...]] = lambda one: (*_job(one.row.cell), one.row.cell.algorithm)  # noqa: E731
    for _, group in groupby(sorted(compared, key=key), key=key):
        same = list(group)
        cell = same[0].row.cell
        measured, predicted = (
            crossing([(size, math.log(times.offloaded_total_us / times.native_total_us)) for size, times in both])
            for both in (
                [(one.row.cell.bytes, one.row.times) for one in same],
                [(one.row.cell.bytes, one.predicted) for one in same],
            )
        )
        if measured is not None or predicted is not None:
            name = f"{cell.collective} by {cell.algorithm}, {cell.nodes} x {cell.ranks_per_node} ranks"
            yield Crossover(name, measured, predicted)


def _logarithms(one: Compared) -> list[float]:
    both = zip(_totals(one.predicted), _totals(one.row.times), strict=True)
    return [math.log(predicted / measured) for predicted, measured in both]


def judge(compared: Sequence[Compared]) -> Verdict:
    """Needs at least one set."""
    errors = {name: [abs(one.errors[name]) for one in compared] for name in compared[0].errors}
    errors["both totals"] = [math.exp(abs(off)) - 1 for one in compared for off in _logarithms(one)]
    pairs = list(_pairs(compared))
    sure = [right for right, is_sure in pairs if is_sure]
    return Verdict(
        {name: statistics.median(some) for name, some in errors.items()},
        len(pairs), sum(right for right, _ in pairs), len(sure), sum(sure), tuple(_crossovers(compared)),
    )  # fmt: skip


def check_frozen(cluster: Path) -> None:
    """Raises UserError: the cluster file under test is not measured, or not committed yet."""
    if "confidence" not in tomllib.loads(cluster.read_text(encoding="utf-8")):
        raise UserError(
            f"{cluster} is not calibrated; run outrigger lab calibrate before you measure a set that tests it"
        )
    git = ("git", "-C", str(PROJECT))
    changed = subprocess.run(
        [*git, "status", "--porcelain", "--", str(cluster)], capture_output=True, check=True
    ).stdout
    known = subprocess.run([*git, "ls-files", "--error-unmatch", str(cluster)], capture_output=True, check=False)
    if changed or known.returncode != 0:
        raise UserError(f"{cluster} is not committed; commit it before you measure a set that tests it")


def _measured(console: Console, options: argparse.Namespace, site: Site) -> Iterator[Readings]:
    """Yields the cells of each number of ranks, until a Ctrl-C."""
    found = artifacts.find(None)
    place = jobs.Site(Hosts(hostfile=options.hostfile, agent=SSH), binding.parse_bind(site.bind))
    mpi = choose_one_mpi(options.mpi, "a validation")
    for ranks in site.ranks:
        request = Request(
            tuple(dict.fromkeys(name for name, _ in LANES)), ("alloc_mem",), tuple(sizes.parse_sizes(options.sizes)),
            ranks, _ITERATIONS, options.seconds, settings.make(found, choice=settings.FIXED),
        )  # fmt: skip
        runner = Runner(request, mpi, found, place)
        measuring = Measuring([runner], command.empty_readings(runner), LANES, rounds=options.rounds, messages=False)
        measuring.readings.command = shlex.join(sys.argv)
        with Bar(console, draws_itself=True) as bar:
            measuring.measure(bar.shows)
        yield measuring.readings
        if measuring.interrupted:
            console.print("Interrupted: this is what there is.", style="yellow")
            return


def measure(console: Console, options: argparse.Namespace) -> None:
    site = SITES[options.site]
    if options.calibration is not None:
        options.out.write_text(text_of(set_of(options.site, options.set, [command.read(options.calibration)])))
        return
    if site.hosts != (options.hostfile is not None):
        raise UserError(f"{options.site}: {'name its hosts by --hostfile' if site.hosts else 'it has no hosts'}")
    check_frozen(PROJECT / site.cluster)
    readings: list[Readings] = []
    for one in _measured(console, options, site):
        readings.append(one)
        options.out.write_text(text_of(set_of(options.site, options.set, readings)), encoding="utf-8")


def compare(kept: Set, simulator: Path, cluster: Path) -> Verdict:
    """Runs the model on each cell, with the measured work."""
    rows = kept.rows
    return judge([Compared(row, model.predict(row.cell, row.times.work_us, simulator, cluster)) for row in rows])


_TITLES = (
    "site", "set", "cells", "totals off: native", "offloaded", "both", "alone: native", "offloaded", "noise",
    "pairs right", "sure pairs right", "crossovers within an octave",
)  # fmt: skip
_ERRORS = ("native total", "offloaded total", "both totals", "native pure", "offloaded pure")


def table_of(verdicts: Sequence[tuple[Set, Verdict]]) -> str:
    """A Markdown table for docs/inside/prediction-accuracy.md."""
    lines = [_TITLES, ("---", "---", *["--:"] * (len(_TITLES) - 2))]
    for kept, verdict in verdicts:
        noise = kept.about["noise_percent"]
        lines.append((
            kept.about["site"], kept.about["set"], str(len(kept.rows)),
            *(f"{100 * verdict.errors[name]:.0f} %" for name in _ERRORS),
            noise if noise == UNKNOWN else f"{float(noise):.0f} %",
            f"{verdict.pairs_right} of {verdict.pairs}", f"{verdict.sure_pairs_right} of {verdict.sure_pairs}",
            f"{verdict.crossovers_near} of {len(verdict.crossovers)}",
        ))  # fmt: skip
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _compare_all(options: argparse.Namespace) -> None:
    simulator = model.simulator_of(artifacts.find(None))
    verdicts = []
    for kept in map(read, options.files):
        site = site_of(kept.about["site"])
        verdicts.append((kept, compare(kept, simulator, options.cluster or PROJECT / site.cluster)))
    print(table_of(verdicts))
    for kept, verdict in verdicts if options.crossovers else ():
        for one in verdict.crossovers:
            both = (one.measured_bytes, one.predicted_bytes)
            pays = ["nowhere" if size is None else f"{size:.0f} B" for size in both]
            print(f"{kept.about['site']}, {kept.about['set']}: {one.what}: measured {pays[0]}, predicted {pays[1]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    measuring = verbs.add_parser("measure", help="measure a set and write its CSV file")
    measuring.add_argument("site", choices=tuple(SITES))
    measuring.add_argument("--set", required=True, help="its name")
    measuring.add_argument("--out", type=Path, required=True)
    what = measuring.add_mutually_exclusive_group(required=True)
    what.add_argument("--sizes", help="bytes of a block, like 3K,24K")
    what.add_argument(
        "--calibration", type=Path, help="measure nothing: take what outrigger lab calibrate --json wrote"
    )
    measuring.add_argument("--mpi", default="openmpi")
    measuring.add_argument("--hostfile", type=Path)
    measuring.add_argument("--rounds", type=int, default=4)
    measuring.add_argument("--seconds", type=int, default=1, help="for each cell, at most about")
    comparing = verbs.add_parser("compare", help="hold the model against CSV files; prints a table in Markdown")
    comparing.add_argument("files", type=Path, nargs="+")
    comparing.add_argument("--cluster", type=Path, help="another file than the sites' own")
    comparing.add_argument("--crossovers", action="store_true", help="also print from which sizes on offloading pays")
    options = parser.parse_args()
    try:
        if options.verb == "measure":
            measure(Console(), options)
        else:
            _compare_all(options)
    except UserError as error:
        print(f"validate_prediction: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
