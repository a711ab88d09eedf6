"""Draws a timeline."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrigger import legends
from outrigger.errors import UserError
from outrigger.trace.timeline import Lane, Mark, Slice, Timeline, losses, torch_remarks, why_nothing_is_offloaded

INK, BAND, GRID, GONE = "#22262b", "#f3f5f7", "#dfe3e7", "#b9bfc6"
WORK, POST, WAIT, BLOCKING = "#a9cfa4", "#22262b", "#e0805c", "#b5657f"
MOVE, REDUCE, FLIGHT, LATE = "#2a7f8e", "#7b5ea7", "#7fbac4", "#c62828"
_CALL_KINDS = ("call", "completion")
_CALLS = 24
"""A rank's calls in a picture of a part that the user has not chosen."""
_MOST_CALLS = 2 * _CALLS
MOST_LANES = 16
"""Default number of ranks in a picture."""
_WIDTH_INCHES = 13
_BUSY, _FLIGHTS, _FLIGHTS_HEIGHT = (0.17, 0.36), 0.59, 0.36
_PHASES = (0.03, 0.13)
"""Above the calls, with names if they fit."""
_PHASE_COLORS = ("#f2d492", "#c9b6e4", "#9fd3c7", "#f4b6c2", "#b8cbe8", "#d6d1a6")
_MOST_PHASES_IN_LEGEND = 5
_LETTER_INCHES = 0.055
_MOST_ROWS = 8
"""Parallel operations or moves of a lane; more overlap these."""
_MOST_ARROWS = 400
_MOST_MILLISECONDS = 10_000
_NARROWEST = 0.0006
"""Minimum width, as a fraction of the picture: shorter ones would be invisible."""


@dataclass(frozen=True)
class Selection:
    """The part to draw."""

    begin_ms: float | None = None
    end_ms: float | None = None
    ranks: tuple[range, ...] | None = None


@dataclass(frozen=True)
class _View:
    """Times and lanes of a picture. Milliseconds."""

    begin: float
    end: float
    lanes: tuple[Lane, ...]
    left_out: int
    first: float
    last: float
    """Begin and end of the trace."""

    @property
    def width(self) -> float:
        return self.end - self.begin

    def shows(self, begin_ns: int, end_ns: int) -> bool:
        return end_ns / 1e6 >= self.begin and begin_ns / 1e6 <= self.end


def _readable(lane: Lane, slices: Sequence[Slice]) -> tuple[float, float] | None:
    """From the middle of a long trace, so much that the lane's calls can be told apart; None: all of it."""
    calls = sorted((one for one in slices if one.lane == lane and one.kind in _CALL_KINDS), key=lambda one: one.begin)
    if len(calls) <= _MOST_CALLS:
        return None
    first = (len(calls) - _CALLS) // 2
    return calls[first].begin / 1e6, calls[first + _CALLS].begin / 1e6


def _view(timeline: Timeline, selection: Selection) -> _View:
    ranks = [lane for lane in timeline.lanes if lane.kind == "rank"]
    if not ranks:
        raise UserError("there is nothing to draw: the trace has no ranks")
    if selection.ranks is None:
        shown = ranks[:MOST_LANES]
    else:
        shown = [lane for lane in ranks if any(lane.number in some for some in selection.ranks)]
    if not shown:
        raise UserError(f"--ranks: none of them is in the trace, which has {len(ranks)}, from {ranks[0].number} on")
    nodes = {lane.node for lane in shown}
    busy = {one.lane for one in timeline.slices} | {mark.lane for mark in timeline.marks}
    services = [lane for lane in timeline.lanes if lane.kind == "service" and lane.node in nodes and lane in busy]
    lanes = tuple(lane for node in sorted(nodes) for lane in (*shown, *services) if lane.node == node)
    there = [one for one in timeline.slices if one.lane in lanes]
    if not there:
        raise UserError("there is nothing to draw: these ranks have called no collectives")
    first = min(one.begin for one in there) / 1e6
    last = max(one.end for one in there) / 1e6
    chosen = _readable(shown[0], there) if selection.begin_ms is None and selection.end_ms is None else None
    usual = (first, last) if chosen is None else chosen
    begin = usual[0] if selection.begin_ms is None else selection.begin_ms
    end = usual[1] if selection.end_ms is None else selection.end_ms
    if end <= begin or begin > last or end < first:
        raise UserError(
            f"--from, --to: there is nothing from {begin:g} to {end:g} ms; the trace has {first:.3f} to {last:.3f}"
        )
    length = last - first  # a picture shows no more than that before and after
    begin, end = max(begin, first - length), min(end, last + length)
    return _View(begin, end, lanes, len(ranks) - len(shown), first, last)


def _rows(slices: Sequence[Slice]) -> list[int]:
    """A row for each slice so that slices of a row do not overlap; beyond the limit they share rows."""
    ends: list[int] = []
    rows = []
    for one in slices:
        row = next((row for row, end in enumerate(ends) if end <= one.begin), len(ends))
        ends[row:] = [one.end, *ends[row + 1 :]]
        rows.append(row % _MOST_ROWS)
    return rows


def _bars(axis: Any, view: _View, slices: Iterable[Slice], place: tuple[float, float], color: str, **more: Any) -> None:
    """Bars of one colour at one height."""
    least = _NARROWEST * view.width
    spans = [(one.begin / 1e6, max((one.end - one.begin) / 1e6, least)) for one in slices]
    if spans:
        axis.broken_barh(spans, place, facecolor=color, linewidth=0, **more)


def _color(one: Slice) -> str:
    if one.kind == "completion":
        return WAIT
    return POST if "request" in one.args or one.name.endswith("_init") else BLOCKING


def _draw_rank(axis: Any, view: _View, top: float, slices: Sequence[Slice], timeline_end: float) -> None:
    """Calls above the work between them."""
    low, height = _BUSY
    begin = max(view.begin, 0.0)
    end = min(view.end, timeline_end)
    if end > begin:
        axis.broken_barh([(begin, end - begin)], (top + low, height), facecolor=WORK, linewidth=0)
    for color in (BLOCKING, WAIT, POST):
        _bars(axis, view, [one for one in slices if _color(one) == color], (top + low, height), color)


def _phase_colors(slices: Iterable[Slice]) -> dict[str, str]:
    """By name, in order of appearance; colours repeat after the last."""
    names = dict.fromkeys(one.name for one in slices if one.kind == "phase")
    return {name: _PHASE_COLORS[place % len(_PHASE_COLORS)] for place, name in enumerate(names)}


def _draw_phases(axis: Any, view: _View, top: float, phases: Sequence[Slice], colors: dict[str, str]) -> None:
    """Inner ones cover outer ones."""
    low, height = _PHASES
    letter = _LETTER_INCHES * view.width / _WIDTH_INCHES
    for one in sorted(phases, key=lambda one: one.args.get("depth", 0)):
        begin, end = max(one.begin / 1e6, view.begin), min(one.end / 1e6, view.end)
        _bars(axis, view, [one], (top + low, height), colors[one.name], edgecolor="white")
        if len(one.name) * letter < end - begin:
            axis.text(
                begin + letter / 2, top + low + height / 2, one.name, fontsize=6, color=INK, va="center_baseline",
                parse_math=False, clip_on=True,
            )  # fmt: skip


def _draw_flights(axis: Any, view: _View, top: float, flights: Sequence[Slice], *, arrows: bool) -> None:
    """From the post to its completion call."""
    rows = _rows(flights)
    pitch = _FLIGHTS_HEIGHT / max(3, max(rows, default=0) + 1)
    for one, row in zip(flights, rows, strict=True):
        y = top + _FLIGHTS + (row + 0.5) * pitch
        if not arrows:
            axis.plot([one.begin / 1e6, one.end / 1e6], [y, y], color=FLIGHT, linewidth=1.6, solid_capstyle="butt")
            continue
        # Arrows are not clipped by the picture: early ones begin at its edge, late ones have no head.
        begin, end = max(one.begin / 1e6, view.begin), min(one.end / 1e6, view.end)
        style = "-|>,head_width=0.16,head_length=0.32" if end == one.end / 1e6 else "-"
        axis.annotate(
            "", (end, y), (begin, y), annotation_clip=True,
            arrowprops={"arrowstyle": style, "color": FLIGHT, "linewidth": 1.3, "shrinkA": 0, "shrinkB": 0},
        )  # fmt: skip


def _draw_service(axis: Any, view: _View, top: float, slices: Sequence[Slice]) -> None:
    """Moves, in rows if several overlap, above the operations."""
    _bars(axis, view, [one for one in slices if one.kind == "operation"], (top + 0.06, 0.84), "#d6e8eb")
    moves = [one for one in slices if one.kind != "operation"]
    rows = _rows(moves)
    pitch = 0.76 / max(2, max(rows, default=0) + 1)
    for kind, color in (("move", MOVE), ("reduce", REDUCE)):
        for row in range(_MOST_ROWS):
            here = [one for one, its in zip(moves, rows, strict=True) if its == row and one.kind == kind]
            _bars(axis, view, here, (top + 0.1 + row * pitch, 0.86 * pitch), color)


def _draw_marks(axis: Any, marks: Iterable[Mark], top_of: dict[Lane, int]) -> None:
    points = [
        (mark.at / 1e6, top_of[mark.lane] + 0.02) for mark in marks if mark.kind == "late" and mark.lane in top_of
    ]
    if points:
        axis.plot(
            *zip(*points, strict=True), linestyle="", marker="v", markersize=5, color=LATE, clip_on=True, zorder=5
        )


def _draw_losses(axis: Any, view: _View, marks: Iterable[Mark], top_of: dict[Lane, int]) -> None:
    """The lane's DPU is lost from then on."""
    for mark in marks:
        at = max(mark.at / 1e6, view.begin)
        if mark.kind != "lost" or mark.lane not in top_of or at >= view.end:
            continue
        place = (top_of[mark.lane] + 0.06, 0.84)
        axis.broken_barh([(at, view.end - at)], place, facecolor="none", edgecolor=GONE, hatch="///", linewidth=0)


def _flights_of(timeline: Timeline, view: _View) -> dict[Lane, list[Slice]]:
    """Operations of each rank: from the call to the end of their completion call."""
    flights: dict[Lane, list[Slice]] = defaultdict(list)
    for flow in timeline.flows:
        end = flow.completion or flow.operation
        if end is not None and "request" in flow.call.args and view.shows(flow.call.begin, end.end):
            flights[flow.call.lane].append(Slice(flow.call.lane, "flight", flow.call.name, flow.call.begin, end.end))
    for ones in flights.values():
        ones.sort(key=lambda one: one.begin)
    return flights


def _legend(timeline: Timeline, view: _View, phases: dict[str, str]) -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    is_torch = "torch" in timeline.about
    handles: list[Any] = [
        Patch(color=WORK, label="the program's own work"),
        Patch(color=POST, label="starting an asynchronous operation" if is_torch else "starting a collective"),
        Patch(color=WAIT, label="in wait()" if is_torch else "waiting or testing"),
        Patch(color=BLOCKING, label="a blocking operation" if is_torch else "a blocking collective"),
        Line2D([], [], color=FLIGHT, marker=">", markersize=5, linewidth=1.3, label="from the call to its data"),
        Line2D([], [], color=LATE, marker="v", linestyle="", markersize=5, label="latest rank, by 0.1 ms or more"),
    ]
    if 0 < len(phases) <= _MOST_PHASES_IN_LEGEND:
        handles += [Patch(color=color, label=f"phase {name}".replace("$", r"\$")) for name, color in phases.items()]
    elif phases:
        handles.append(Patch(color=_PHASE_COLORS[0], label="a phase, by its name"))
    if any(lane.kind == "service" for lane in view.lanes):
        handles.append(Patch(color="#d6e8eb", label="a service process has operations"))
        moves = [Patch(color=MOVE, label="... moves a block"), Patch(color=REDUCE, label="... reduces")]
        handles += [] if is_torch else moves
    if any(mark.kind == "lost" and mark.lane in view.lanes for mark in timeline.marks):
        handles.append(Patch(facecolor="none", edgecolor=GONE, hatch="///", linewidth=0, label="the DPU is lost"))
    return handles


def _window(view: _View) -> str:
    """The times that are shown, where there are others."""
    shown = view.begin > view.first or view.end < view.last
    digits = 0 if view.width >= 100 else 1 if view.width >= 10 else 3
    return f"{view.begin:,.{digits}f} to {view.end:,.{digits}f} ms of {view.last:,.0f} ms; " if shown else ""


def _heading(timeline: Timeline, view: _View, name: str) -> str:
    about = timeline.about
    nodes = f" on {about['nodes']} nodes" if about.get("nodes", 1) > 1 else ""
    ranks = "1 rank" if about.get("ranks") == 1 else f"{about.get('ranks', '?')} ranks"
    text = f"{name}: {_window(view)}{ranks}{nodes}, {about.get('mpi', '?')}"
    why = why_nothing_is_offloaded(timeline)
    if why:
        text += f"; nothing was offloaded: {why}"
    text = "; ".join([text, *losses(timeline), *torch_remarks(about)])
    if view.left_out:
        text += f"; {view.left_out} ranks are not shown (--ranks)"
    return text


def _draw(axis: Any, timeline: Timeline, view: _View, colors: dict[str, str]) -> None:
    slices: dict[Lane, list[Slice]] = defaultdict(list)
    for one in timeline.slices:
        if view.shows(one.begin, one.end):
            slices[one.lane].append(one)
    flights = _flights_of(timeline, view)
    arrows = sum(len(flights[lane]) for lane in view.lanes) <= _MOST_ARROWS
    ends = timeline.about.get("ended_us", {})
    top_of = {lane: top for top, lane in enumerate(view.lanes)}
    for lane, top in top_of.items():
        axis.axhspan(top, top + 1, color=BAND if top % 2 == 0 else "white", linewidth=0)
        if lane.kind == "service":
            _draw_service(axis, view, top, slices[lane])
            continue
        last = max((one.end for one in slices[lane]), default=0) / 1e6
        calls = [one for one in slices[lane] if one.kind in _CALL_KINDS]
        _draw_rank(axis, view, top, calls, ends.get(str(lane.number), last * 1e3) / 1e3)
        _draw_phases(axis, view, top, [one for one in slices[lane] if one.kind == "phase"], colors)
        _draw_flights(axis, view, top, flights[lane], arrows=arrows)
    _draw_losses(axis, view, timeline.marks, top_of)
    _draw_marks(axis, [mark for mark in timeline.marks if view.shows(mark.at, mark.at)], top_of)


def save(timeline: Timeline, path: Path, selection: Selection, name: str) -> tuple[float, float]:
    """Draws it into a picture, of a format that the path's ending says, and returns the milliseconds that are shown.

    `name`: of the trace, for the title.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    view = _view(timeline, selection)
    shown = (one for one in timeline.slices if one.lane in view.lanes and view.shows(one.begin, one.end))
    colors = _phase_colors(shown)
    inches = 1.9 + (0.85 if colors else 0.62) * len(view.lanes)
    figure, axis = pyplot.subplots(figsize=(_WIDTH_INCHES, inches), layout="constrained")
    _draw(axis, timeline, view, colors)
    in_seconds = view.width > _MOST_MILLISECONDS
    axis.set_xlim(view.begin, view.end)
    axis.set_ylim(len(view.lanes), -0.12)
    middles = [top + (0.35 if lane.kind == "rank" else 0.5) for top, lane in enumerate(view.lanes)]
    axis.set_yticks(middles, [lane.title.replace(" on DPU ", "\non DPU ") for lane in view.lanes])
    since = "the first process group" if "torch" in timeline.about else "MPI_Init"
    axis.set_xlabel(f"{'seconds' if in_seconds else 'milliseconds'} since {since}", fontsize=9, color=INK)
    if in_seconds:
        axis.xaxis.set_major_formatter(lambda ms, _: f"{ms / 1000:g}")
    axis.tick_params(colors=INK, labelsize=8, length=0)
    axis.grid(axis="x", color=GRID, linewidth=0.6)
    axis.set_axisbelow(False)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    axis.set_title(_heading(timeline, view, name), loc="left", fontsize=11, color=INK, pad=8)
    figure.legend(
        handles=_legend(timeline, view, colors), loc=legends.below(figure, "left"), ncols=5, frameon=False, fontsize=8,
        labelcolor=INK,
    )  # fmt: skip
    try:
        figure.savefig(path, dpi=150, facecolor="white")
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be written: {error}") from error
    finally:
        pyplot.close(figure)
    return view.begin, view.end
