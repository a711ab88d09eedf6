"""Several MPIs side by side as a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from outrigger import legends
from outrigger.bench.lanes import Group, Lane, by_table
from outrigger.bench.plot import INK, label_sizes, log_axis, round_numbers, style, write
from outrigger.bench.table import MEMORY

_NATIVE = ("#d1603d", "#e3a587", "#9c4428", "#f0cdbc", "#6e2f1b")
_OTHER_NATIVE = ("#8a7f70", "#c5beb2")
_OFFLOADED = ("#2a7f8e", "#7fbac4", "#1b5560", "#bfdde2", "#0d3239")
_FLOOR = "#22262b"
_LINEAR_PERCENT = 100
"""Where bars are far above this, the axis is logarithmic beyond it, or there would be no room for the others."""


def _chosen(groups: Sequence[Group]) -> list[Group]:
    """The fastest at the largest size of each kind of the other natives."""
    last = groups[-1].lanes
    variants = dict.fromkeys(lane.variant for lane in last if lane.variant)
    best = {
        min((lane for lane in last if lane.variant == variant), key=lambda lane: lane.side.total_us).label
        for variant in variants
    }
    return [
        replace(group, lanes=tuple(lane for lane in group.lanes if not lane.variant or lane.label in best))
        for group in groups
    ]


def _colours(groups: Sequence[Group]) -> dict[str, str]:
    """By label; natives in one family of colors, other natives and offloaded ones in two more."""
    kinds = (
        (_NATIVE, lambda lane: lane.is_base),
        (_OTHER_NATIVE, lambda lane: bool(lane.variant)),
        (_OFFLOADED, lambda lane: lane.offloaded),
    )
    found: dict[str, str] = {}
    for palette, belongs in kinds:
        labels = [lane.label for lane in groups[0].lanes if belongs(lane)]
        found.update((label, palette[i % len(palette)]) for i, label in enumerate(labels))
    return found


def _bars(axis: Any, same: Sequence[Group], colours: dict[str, str]) -> None:
    """Exposed time, with the minimum by the service processes' CPU time."""
    step = 0.8 / max(len(group.lanes) for group in same)
    highest = lowest = 0.0
    for index, group in enumerate(same):
        for place, lane in enumerate(group.lanes):
            x = index + (place - (len(group.lanes) - 1) / 2) * step
            value = 100 * lane.side.exposed_us / group.best_pure_us
            axis.bar(x, value, step - 0.03, color=colours[lane.label])
            axis.annotate(
                f"{value:.0f}", (x, max(value, 0)), xytext=(0, 2), textcoords="offset points", ha="center",
                va="bottom", fontsize=6.5, color=INK,
            )  # fmt: skip
            floor = 100 * lane.service.floor_us / group.best_pure_us if lane.service is not None else 0
            if lane.service is not None:
                axis.plot([x - step / 2, x + step / 2], [floor, floor], color=_FLOOR, linewidth=1.3)
            highest, lowest = max(highest, value, floor), min(lowest, value)
    title = "exposed by equal work, % of the best native's pure latency"
    if highest > 2 * _LINEAR_PERCENT:
        title += f"\n(logarithmic from {_LINEAR_PERCENT}% on)"
        _from_on_logarithmic(axis, highest)
    axis.set_ylim(1.12 * lowest, 1.3 * highest if highest > 2 * _LINEAR_PERCENT else 1.12 * max(highest, 10))
    style(axis, title)


def _from_on_logarithmic(axis: Any, highest: float) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator

    axis.set_yscale("symlog", linthresh=_LINEAR_PERCENT, linscale=2)
    ticks = [*range(-_LINEAR_PERCENT, _LINEAR_PERCENT, 25), *round_numbers(_LINEAR_PERCENT, highest)]
    axis.yaxis.set_major_locator(FixedLocator(ticks))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_formatter("{x:g}")


def _lines(
    axis: Any, same: Sequence[Group], colours: dict[str, str], title: str, value: Callable[[Lane], float | None]
) -> None:
    for label, colour in colours.items():
        points = [
            (index, found)
            for index, group in enumerate(same)
            for lane in group.lanes
            if lane.label == label and (found := value(lane)) is not None
        ]
        axis.plot(*zip(*points, strict=True), marker="o", markersize=4.5, linewidth=1.8, color=colour)
    style(axis, title)
    axis.margins(x=0.12)


def _draw_pure(axis: Any, same: Sequence[Group], colours: dict[str, str], link_bits: int | None) -> None:
    """Goodput between nodes; latency on one node."""
    if any(lane.goodput is None for group in same for lane in group.lanes):
        _lines(axis, same, colours, "pure latency, ms", lambda lane: 1e-3 * lane.side.pure_us)
        log_axis(axis)
        return
    _lines(axis, same, colours, "goodput of a node, pure, MB/s", lambda lane: lane.goodput)
    if link_bits is not None:
        link = link_bits / 8e6
        axis.axhline(link, color=INK, linewidth=1, linestyle=(0, (4, 3)))
        axis.text(0.99, link, "link ", transform=axis.get_yaxis_transform(), ha="right", va="bottom", fontsize=7.5)
    axis.set_ylim(0, None)


def save(groups: Sequence[Group], path: Path, heading: str, link_bits: int | None) -> None:
    """A row for each collective and kind of memory: exposed, goodput, CPU time."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    groups = _chosen(groups)
    rows, colours = by_table(groups), _colours(groups)
    figure, axes = pyplot.subplots(
        len(rows), 3, figsize=(13, 1.3 + 3.1 * len(rows)), squeeze=False, width_ratios=(5, 3, 3),
        layout=ConstrainedLayoutEngine(h_pad=0.12, w_pad=0.1),
    )  # fmt: skip
    for (left, middle, right), same in zip(axes, rows, strict=True):
        _bars(left, same, colours)
        _draw_pure(middle, same, colours, link_bits)
        _lines(right, same, colours, "rank CPU time in MPI calls, ms", lambda lane: max(1e-3 * lane.side.cpu_us, 1e-4))
        log_axis(right)
        for axis in (left, middle, right):
            label_sizes(axis, [group.bytes for group in same])
        left.set_ylabel(f"MPI_{same[0].collective.capitalize()}, {MEMORY[same[0].memory]}", fontsize=9, color=INK)
    handles: list[Any] = [Patch(color=colour, label=label) for label, colour in colours.items()]
    if any(lane.service for lane in groups[0].lanes):
        handles.append(Line2D([], [], color=_FLOOR, label="floor set by the service processes' CPU time"))
    figure.suptitle(heading, x=0.01, ha="left", fontsize=13, fontweight="bold", color=INK)
    figure.legend(
        handles=handles, loc=legends.below(figure, "center"), ncols=5, frameon=False, fontsize=9, labelcolor=INK
    )
    write(figure, path)
