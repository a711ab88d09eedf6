#!/usr/bin/env python3
"""Draws the ranks' activities in one iteration of fft3d, from the files of its --trace.

    timeline.py --out timeline.png trace.json
    timeline.py --out timeline.png "native, blocking=blocking.json" "offloaded=offloaded.json"

One panel per file, with one scale of time for all; one lane per rank. The upper part of a lane is the rank's activity:
computing, in the color of the variable, posting, waiting. The lines below it are the all-to-alls, from the post until
their data has come.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COLORS = ("#2a7f8e", "#7b5ea7", "#4f8f4f", "#c2a83e", "#3f6fb5", "#a85c7f", "#6b7a3a", "#5a8fa0")
WAIT, POST, INK, BAND = "#e59a80", "#22262b", "#22262b", "#f3f5f7"
STAGES = {"forward x": "x", "forward y": "y", "forward z": "z", "inverse z": "z'", "inverse y": "y'", "inverse x": "x'"}
_BUSY_HEIGHT, _FLIGHTS_TOP, _FLIGHTS_HEIGHT = 0.44, 0.5, 0.36
_NARROWEST_LABEL = 0.016
"""Fraction of the picture's width."""
_LEGEND_COLUMNS, _LEGEND_LINE_INCHES = 4, 0.2


@dataclass(frozen=True)
class Interval:
    """An activity of a rank. Milliseconds since the iteration's start."""

    activity: str
    variable: int
    stage: str
    begin: float
    end: float


@dataclass(frozen=True)
class Flight:
    """An all-to-all of one variable, as one rank sees it."""

    variable: int
    begin: float
    end: float


@dataclass(frozen=True)
class Rank:
    """A lane."""

    rank: int
    node: str
    intervals: tuple[Interval, ...]

    @property
    def flights(self) -> list[Flight]:
        """From the post to the end of the wait; a blocking all-to-all is one wait."""
        posted: dict[int, float] = {}
        flights = []
        for interval in self.intervals:
            if interval.activity == "post":
                posted[interval.variable] = interval.begin
            elif interval.activity == "wait":
                begin = posted.pop(interval.variable, interval.begin)
                flights.append(Flight(interval.variable, begin, interval.end))
        return flights


@dataclass(frozen=True)
class Trace:
    """A panel."""

    label: str
    data: Mapping[str, Any]
    ranks: tuple[Rank, ...]

    @property
    def end(self) -> float:
        """Time when the last rank finished."""
        return max((interval.end for rank in self.ranks for interval in rank.intervals), default=0.0)

    def share(self, activity: str) -> float:
        """Milliseconds of an activity, mean over the ranks."""
        spans = (i.end - i.begin for rank in self.ranks for i in rank.intervals if i.activity == activity)
        return sum(spans) / len(self.ranks)


def read(argument: str) -> Trace:
    """A trace from FILE or LABEL=FILE."""
    label, equals, name = argument.rpartition("=")
    data = json.loads(Path(name).read_text(encoding="utf-8"))
    ranks = []
    for entry in data["ranks"]:
        intervals = tuple(
            Interval(i["activity"], i["variable"], i["stage"], i["begin_ms"], i["end_ms"]) for i in entry["intervals"]
        )
        ranks.append(Rank(entry["rank"], entry["node"], intervals))
    return Trace(label if equals else data["mode"], data, tuple(ranks))


def stack(flights: Sequence[Flight]) -> list[int]:
    """A row for each flight such that those of a row do not overlap."""
    ends: list[float] = []
    rows = []
    for flight in sorted(flights, key=lambda f: f.begin):
        row = next((row for row, end in enumerate(ends) if end <= flight.begin), len(ends))
        ends[row:] = [flight.end, *ends[row + 1 :]]
        rows.append(row)
    return rows


def color_of(variable: int) -> str:
    """A color for each variable; they repeat if there are many."""
    return COLORS[variable % len(COLORS)]


def draw_busy(axis: Any, rank: Rank, top: float, width: float) -> None:
    """A rank's activities, with the stage's name if there is room."""
    for interval in rank.intervals:
        span = interval.end - interval.begin
        color = {"wait": WAIT, "post": POST}.get(interval.activity) or color_of(interval.variable)
        axis.broken_barh(
            [(interval.begin, span)], (top, _BUSY_HEIGHT), facecolor=color, edgecolor="white", linewidth=0.3
        )
        if interval.activity == "compute" and span > _NARROWEST_LABEL * width:
            middle = (interval.begin + span / 2, top + _BUSY_HEIGHT / 2)
            axis.annotate(STAGES[interval.stage], middle, ha="center", va="center", fontsize=6.5, color="white")


def draw_flights(axis: Any, rank: Rank, top: float) -> None:
    """All-to-alls as thin lines, stacked if they overlap."""
    flights = sorted(rank.flights, key=lambda f: f.begin)
    rows = stack(flights)
    pitch = _FLIGHTS_HEIGHT / max(4, *(row + 1 for row in rows)) if rows else 0
    for flight, row in zip(flights, rows, strict=True):
        place = (top + _FLIGHTS_TOP + row * pitch, 0.62 * pitch)
        axis.broken_barh([(flight.begin, flight.end - flight.begin)], place, facecolor=color_of(flight.variable))


def draw_panel(axis: Any, trace: Trace, width: float) -> None:
    """The lanes of one trace."""
    for lane, rank in enumerate(trace.ranks):
        axis.axhspan(lane - 0.07, lane + 0.93, color=BAND if lane % 2 == 0 else "white", linewidth=0)
        draw_busy(axis, rank, lane, width)
        draw_flights(axis, rank, lane)
    axis.set_ylim(len(trace.ranks) - 0.05, -0.1)
    axis.set_xlim(0, width)
    axis.set_yticks(
        [lane + 0.43 for lane in range(len(trace.ranks))], [f"rank {rank.rank}\n{rank.node}" for rank in trace.ranks]
    )
    axis.axvline(trace.end, color=INK, linewidth=1, linestyle=(0, (3, 2)))
    axis.set_title(
        f"{trace.label}: {trace.end:.1f} ms; a rank computes {trace.share('compute'):.1f}, "
        f"posts {trace.share('post'):.1f}, waits {trace.share('wait'):.1f} ms",
        loc="left", fontsize=10, color=INK, pad=6,
    )  # fmt: skip
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    axis.tick_params(colors=INK, labelsize=8, length=0)


def legend(variables: int) -> list[Any]:
    """Meaning of the colors."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    shown = min(variables, len(COLORS))
    return [
        *(Patch(color=color_of(v), label=f"computing, variable {v}") for v in range(shown)),
        Patch(color=POST, label="posting"),
        Patch(color=WAIT, label="waiting in MPI"),
        Line2D([], [], color="#7a828c", linewidth=3, label="all-to-all, from post to data (its variable's colour)"),
    ]


def title(trace: Trace) -> str:
    """Description of the run."""
    data = trace.data
    points = " x ".join(map(str, data["grid"]))
    return (
        f"One iteration of a pipelined 3D FFT and its inverse: {points} points, {data['variables']} variables, "
        f"{data['rows']} x {data['columns']} ranks"
    )


def save(traces: Sequence[Trace], path: Path) -> None:
    """Draws all panels into one picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    heights = [0.35 + 0.62 * len(trace.ranks) for trace in traces]
    inches = 1.6 + sum(heights)
    figure, axes = pyplot.subplots(
        len(traces), 1, figsize=(12, inches), squeeze=False, sharex=True, layout="constrained",
        height_ratios=heights,
    )  # fmt: skip
    width = 1.01 * max(trace.end for trace in traces)
    for axis, trace in zip(axes[:, 0], traces, strict=True):
        draw_panel(axis, trace, width)
    axes[-1, 0].set_xlabel(
        "milliseconds since the iteration's start; x, y, z: forward transforms, x', y', z': inverse",
        fontsize=8,
        color=INK,
    )
    figure.suptitle(title(traces[0]), x=0.01, ha="left", fontsize=12, fontweight="bold", color=INK)
    handles = legend(max(trace.data["variables"] for trace in traces))
    # matplotlib makes room for a legend outside of the axes only from 3.7 on, and Debian 12 has 3.6.
    room = _LEGEND_LINE_INCHES * -(-len(handles) // _LEGEND_COLUMNS) / inches
    figure.set_layout_engine(ConstrainedLayoutEngine(rect=(0, room, 1, 1 - room)))
    figure.legend(
        handles=handles, loc="lower left", ncols=_LEGEND_COLUMNS, frameon=False, fontsize=8, labelcolor=INK
    )  # fmt: skip
    figure.savefig(path, dpi=150, facecolor="white")
    pyplot.close(figure)


def main() -> int:
    """Reads the traces and draws them; 2 with a message if a file cannot be read or written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+", metavar="[LABEL=]TRACE.json")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.png")
    options = parser.parse_args()
    try:
        save([read(argument) for argument in options.traces], options.out)
    except (OSError, ValueError, KeyError) as error:
        print(f"timeline.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
