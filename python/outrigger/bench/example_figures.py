"""Numbers of an example: times of its runs, the hidden share of the network time, the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from rich import box
from rich.table import Table
from rich.text import Text


@dataclass(frozen=True)
class Lane:
    """One way to run the program."""

    key: str
    title: str
    mode: str
    native: bool = True
    all_cores: bool = False


OFFLOADED = Lane("offloaded", "offloaded", "nonblocking", native=False)
LANES = (
    Lane("compute", "computation alone", "compute"),
    Lane("blocking", "native, blocking", "blocking"),
    Lane("nonblocking", "native, nonblocking", "nonblocking"),
    Lane("testing", "native, nonblocking, MPI_Test", "testing"),
    OFFLOADED,
    Lane("blocking_all_cores", "native, blocking, all cores", "blocking", all_cores=True),
    Lane("nonblocking_all_cores", "native, nonblocking, all cores", "nonblocking", all_cores=True),
    Lane("testing_all_cores", "native, nonblocking, MPI_Test, all cores", "testing", all_cores=True),
)
COMPARED_WITH = ("compute", "blocking")
"""Lanes that all others are compared with."""
OVERLAPPING = ("nonblocking", "testing", "offloaded")
"""Lanes in the placement of `blocking` that may hide some of its network time."""


@dataclass(frozen=True)
class Run:
    """Output of one run: milliseconds per step; None: not printed by the program."""

    median_ms: float
    wait_ms: float
    compute_ms: float | None = None
    post_ms: float | None = None


@dataclass(frozen=True)
class LaneFigures:
    """One lane's runs: medians over the rounds, in milliseconds."""

    median_ms: float
    shortest_ms: float
    longest_ms: float
    wait_ms: float
    compute_ms: float | None = None
    post_ms: float | None = None


def summarize(runs: Sequence[Run]) -> LaneFigures:
    """Medians over the rounds, with the extremes of the time of a step."""
    times = [run.median_ms for run in runs]
    return LaneFigures(
        median(times),
        min(times),
        max(times),
        median(run.wait_ms for run in runs),
        _median_of_said([run.compute_ms for run in runs]),
        _median_of_said([run.post_ms for run in runs]),
    )


def _median_of_said(times: Sequence[float | None]) -> float | None:
    said = [time for time in times if time is not None]
    return median(said) if said else None


def network_ms(figures: Mapping[str, LaneFigures]) -> float:
    """Time that blocking collectives add to the computation alone, in the same placement.

    Not the time inside the calls: on shared cores that includes the others' computation.
    """
    return figures["blocking"].median_ms - figures["compute"].median_ms


def hidden_percent(figures: Mapping[str, LaneFigures], key: str) -> float | None:
    """The part of the network time that a lane saves against blocking; None if there is none to save."""
    network = network_ms(figures)
    return 100 * (figures["blocking"].median_ms - figures[key].median_ms) / network if network > 0 else None


_PARTS = ("computing", "posting", "waiting")


def _parts(found: LaneFigures) -> tuple[float | None, ...]:
    return (found.compute_ms, found.post_ms, found.wait_ms)


def table(figures: Mapping[str, LaneFigures], title: str, step: str) -> Table:
    """A row per lane; a column per number that the program prints."""
    result = Table(
        box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", header_style="dim", pad_edge=False
    )
    result.add_column("milliseconds", no_wrap=True)
    shown = [index for index, part in enumerate(_parts(figures["blocking"])) if part is not None]
    for name in (f"per {step}", "from", "to", "of blocking", *(_PARTS[index] for index in shown), "network hidden"):
        result.add_column(name, justify="right", min_width=max(map(len, name.split())))
    blocking = figures["blocking"].median_ms
    for lane in LANES:
        if lane.key not in figures:
            continue
        found = figures[lane.key]
        hidden = hidden_percent(figures, lane.key) if lane.key in OVERLAPPING else None
        result.add_row(
            lane.title,
            Text(_ms(found.median_ms), style="bold"),
            _ms(found.shortest_ms),
            _ms(found.longest_ms),
            f"{found.median_ms / blocking:.2f}",
            *(_ms(_parts(found)[index]) for index in shown),
            Text("" if hidden is None else f"{hidden:.0f}%", style="bold"),
        )
    return result


def _ms(time: float | None) -> str:
    if time is None:
        return ""
    return f"{time:.1f}" if time >= 10 else f"{time:.2f}"


def legend(figures: Mapping[str, LaneFigures], step: str, rounds: int) -> str:
    """Meaning of the columns."""
    blocking = figures["blocking"]
    parts = "computing, posting, waiting" if blocking.compute_ms is not None else "waiting"
    return (
        f"Time per {step}, of the slowest rank: the median of a run's, and of that the median, "
        f"least and most of {rounds} rounds. {parts}: mean over the ranks. Network time: "
        f"{_ms(network_ms(figures))} ms, what blocking takes beyond the computation alone; hidden: what is saved of "
        "it. MPI_Test: of all that is in flight, between pieces of the computation."
    )
