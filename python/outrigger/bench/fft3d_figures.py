"""Figures of fft3d: what its runs took, what is hidden of the network time, the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from rich import box
from rich.table import Table
from rich.text import Text

from outrigger import formats


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
OVERLAPPING = ("nonblocking", "testing", "offloaded")
"""Lanes in the placement of `blocking` that may hide some of its network time."""


@dataclass(frozen=True)
class Run:
    """The line that the program prints. Milliseconds."""

    median_ms: float
    compute_ms: float
    post_ms: float
    wait_ms: float


@dataclass(frozen=True)
class LaneFigures:
    """One lane's runs: medians over the rounds, in milliseconds."""

    median_ms: float
    shortest_ms: float
    longest_ms: float
    compute_ms: float
    post_ms: float
    wait_ms: float


def read_run(output: str) -> Run:
    """The program's line of JSON among whatever else was printed."""
    line = formats.json_line(output, "fft3d")
    return formats.parse(line, Run, f"what fft3d printed, {line},")


def summarize(runs: Sequence[Run]) -> LaneFigures:
    """Medians over the rounds, with the extremes of the time per iteration."""
    times = [run.median_ms for run in runs]
    return LaneFigures(
        median(times), min(times), max(times),
        *(median(getattr(run, name) for run in runs) for name in ("compute_ms", "post_ms", "wait_ms")),
    )  # fmt: skip


def network_ms(figures: Mapping[str, LaneFigures]) -> float:
    """What the blocking all-to-alls add to the computation, which takes as long without them in the same placement.

    Not the time inside the calls: where ranks share a core, that has the others' computation in it.
    """
    return figures["blocking"].median_ms - figures["compute"].median_ms


def hidden_percent(figures: Mapping[str, LaneFigures], key: str) -> float | None:
    """The part of the network time that a lane saves against blocking; None when there is none to save."""
    network = network_ms(figures)
    return 100 * (figures["blocking"].median_ms - figures[key].median_ms) / network if network > 0 else None


def table(figures: Mapping[str, LaneFigures], title: str) -> Table:
    """A row per lane."""
    result = Table(
        box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", header_style="dim", pad_edge=False
    )
    result.add_column("milliseconds", no_wrap=True)
    for name in ("per iteration", "from", "to", "of blocking", "computing", "posting", "waiting", "network hidden"):
        result.add_column(name, justify="right", min_width=max(map(len, name.split())))
    blocking = figures["blocking"].median_ms
    for lane in LANES:
        if lane.key not in figures:
            continue
        found = figures[lane.key]
        hidden = hidden_percent(figures, lane.key) if lane.key in OVERLAPPING else None
        times = (found.shortest_ms, found.longest_ms)
        parts = (found.compute_ms, found.post_ms, found.wait_ms)
        result.add_row(
            lane.title,
            Text(f"{found.median_ms:.1f}", style="bold"),
            *(f"{time:.1f}" for time in times),
            f"{found.median_ms / blocking:.2f}",
            *(f"{time:.1f}" for time in parts),
            Text("" if hidden is None else f"{hidden:.0f}%", style="bold"),
        )
    return result


def legend(figures: Mapping[str, LaneFigures], iterations: int, rounds: int) -> str:
    """What the columns mean."""
    return (
        f"Time per iteration of the slowest rank: the median of {iterations} iterations, of that the median, "
        f"least and most of {rounds} rounds. computing, posting, waiting: mean over the ranks. Network time: "
        f"{network_ms(figures):.1f} ms, what blocking takes beyond the computation alone; hidden: what is saved of it. "
        "MPI_Test: of all that is in flight, between pieces of the computation; counted as computing."
    )
