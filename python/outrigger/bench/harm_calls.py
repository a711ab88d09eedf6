"""The calls of `outrigger bench harm`: their cost for a program that offloads nothing, with and without Outrigger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from outrigger import artifacts, formats, launch
from outrigger.bench import pairs
from outrigger.errors import UserError

ALLOWED_PART = 0.02
ALLOWED_NS = 50.0
TIME_LIMIT_S = 120.0
_TITLES = {
    "alloc_mem_64": "Alloc_mem 64 B, touch, Free_mem",
    "alloc_mem_64k": "Alloc_mem 64 KiB, touch, Free_mem",
    "alloc_mem_1m": "Alloc_mem 1 MiB, touch, Free_mem",
    "alloc_mem_64m": "Alloc_mem 64 MiB, touch, Free_mem",
    "type_vector": "Type_vector, commit, free",
    "type_dup": "Type_dup, free",
    "attribute_get": "Comm_get_attr",
    "attribute_set": "Comm_set_attr",
    "comm_dup": "Comm_dup, free",
    "comm_split": "Comm_split, free",
    "comm_create": "Comm_create, free",
    "win_create": "Win_create, free",
    "win_allocate": "Win_allocate 64 KiB, free",
    "win_put": "Win_lock, Put, unlock, own rank",
    "sendrecv": "Sendrecv 8 B",
    "irecv_wait": "Irecv, Wait of MPI_PROC_NULL",
    "barrier": "Barrier",
    "bcast": "Bcast 8 B",
    "allreduce": "Allreduce 8 B",
    "iallreduce": "Iallreduce 8 B, Wait",
    "igather": "Igather 8 B, Wait",
}


@dataclass(frozen=True)
class Run:
    """Output of the program: medians of one rank."""

    ranks: int
    init_ms: float
    descriptors: int
    """Open after MPI_Init, like `resident_kib`."""
    resident_kib: int
    costs_ns: Mapping[str, float]


@dataclass(frozen=True)
class Compared:
    """One call over all pairs of runs."""

    call: str
    native_ns: float
    """Median of the runs, like `ours_ns`."""
    ours_ns: float
    more_ns: float
    """Ours minus native: the median of the pairs' differences."""
    low_ns: float
    """The true median of such pairs is between `low_ns` and `high_ns` in 95 of 100 cases; in fewer with few pairs."""
    high_ns: float

    @property
    def allowed_ns(self) -> float:
        """Allowed excess over native."""
        return max(ALLOWED_NS, ALLOWED_PART * self.native_ns)

    @property
    def is_slower(self) -> bool:
        """Beyond the limit and beyond noise."""
        return self.low_ns > self.allowed_ns


@dataclass(frozen=True)
class Start:
    """Medians of the runs of one side."""

    init_ms: float
    descriptors: float
    resident_kib: float


@dataclass(frozen=True)
class Calls:
    """All calls under one MPI."""

    mpi: str
    ranks: int
    pairs: int
    command: str
    native: Start
    ours: Start
    calls: tuple[Compared, ...]

    @property
    def slower(self) -> list[Compared]:
        """In the order measured."""
        return [found for found in self.calls if found.is_slower]


def read_run(output: str, ranks: int) -> Run:
    """Output of the program, checked."""
    found = formats.parse_figures(output, Run, ranks)
    if not found.costs_ns or any(cost <= 0 for cost in found.costs_ns.values()):
        raise UserError(f"the benchmark printed costs that cannot be: {output}")
    return found


def compare(runs: Sequence[tuple[Run, Run]]) -> tuple[Compared, ...]:
    """Each call, from native runs and runs with the library made in pairs."""
    names = list(runs[0][0].costs_ns)
    if any(list(run.costs_ns) != names for pair in runs for run in pair):
        raise UserError("the benchmark's runs have different calls")
    result = []
    for name in names:
        native, ours = ([pair[side].costs_ns[name] for pair in runs] for side in (0, 1))
        more = [with_library - without for without, with_library in zip(native, ours, strict=True)]
        result.append(Compared(name, median(native), median(ours), median(more), *pairs.median_interval(more)))
    return tuple(result)


def _start(runs: Sequence[Run]) -> Start:
    return Start(
        median(run.init_ms for run in runs),
        median(run.descriptors for run in runs),
        median(run.resident_kib for run in runs),
    )


def pairs_of(job: launch.Job, found: artifacts.Artifacts) -> pairs.Pairs[Run]:
    """Under the job's MPI. `job`: gets the program with the calls."""
    return pairs.Pairs(job, found, TIME_LIMIT_S, lambda output: read_run(output, job.ranks))


def measure(console: Console, running: pairs.Pairs[Run], count: int) -> Calls:
    """All pairs, or those before a Ctrl-C."""
    job = running.job
    runs = running.measure(console, count)
    native, ours = (_start([pair[side] for pair in runs]) for side in (0, 1))
    return Calls(job.mpi.title, job.ranks, len(runs), running.command(), native, ours, compare(runs))


def _time(ns: float) -> str:
    return f"{ns:.0f} ns" if abs(ns) < 10_000 else f"{ns / 1000:.1f} us"


def _more(found: Compared) -> Text:
    style = "bold red" if found.is_slower else "bold green" if found.more_ns <= found.allowed_ns else "bold yellow"
    return Text(_time(found.more_ns), style=style)


def table(calls: Calls) -> Table:
    """A row for each call."""
    result = Table(
        box=box.SIMPLE_HEAD,
        title=f"{calls.mpi}, {calls.ranks} ranks: calls of a program that offloads nothing",
        title_justify="left",
        title_style="bold",
        header_style="dim",
        pad_edge=False,
    )
    result.add_column("MPI_...", no_wrap=True)
    for name in ("native", "with Outrigger", "more", pairs.interval_title(calls.pairs)):
        result.add_column(name, justify="right", no_wrap=True)
    for found in calls.calls:
        result.add_row(
            _TITLES.get(found.call, found.call),
            _time(found.native_ns),
            _time(found.ours_ns),
            _more(found),
            f"{_time(found.low_ns)} to {_time(found.high_ns)}",
        )
    return result


def legend(calls: Calls) -> str:
    """Meaning of the columns, and the start's numbers."""
    starts = (
        f"{name}: {start.init_ms:.1f} ms, {start.descriptors:.0f} descriptors, {start.resident_kib / 1024:.1f} MiB"
        for name, start in (("natively", calls.native), ("with Outrigger", calls.ours))
    )
    slower = ", ".join(_TITLES.get(found.call, found.call) for found in calls.slower)
    return (
        f"{calls.pairs} pairs of jobs in turn. A call may cost {ALLOWED_NS:.0f} ns or {ALLOWED_PART:.0%} more than "
        f"natively, whichever is more.\nSlower than that beyond noise: {slower or 'none'}.\n"
        "MPI_Init, and what is open and resident after it, " + "; ".join(starts) + "."
    )
