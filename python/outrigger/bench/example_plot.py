"""An example's lanes as a picture: the time of a step, and its share of computation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from outrigger import legends
from outrigger.bench.example_figures import LANES, LaneFigures
from outrigger.bench.plot import ALL_CORES, INK, NATIVE, OFFLOADED, WORK, style, write

_ALONE = "compute"


def _drawn(figures: Mapping[str, LaneFigures]) -> list[tuple[str, str, LaneFigures]]:
    """Title, color and numbers of each lane but the computation alone; the first one on top."""
    drawn = []
    for lane in LANES:
        if lane.key in figures and lane.key != _ALONE:
            colour = ALL_CORES if lane.all_cores else NATIVE if lane.native else OFFLOADED
            drawn.append((lane.title, colour, figures[lane.key]))
    return drawn


def _draw(axis: Any, figures: Mapping[str, LaneFigures], title: str) -> None:
    alone = figures[_ALONE].median_ms
    drawn = _drawn(figures)
    for place, (_, colour, found) in enumerate(drawn):
        work = 0.0 if colour == ALL_CORES else min(alone, found.median_ms)  # the computation takes another time there
        beyond = found.median_ms - work
        spread = [[found.median_ms - found.shortest_ms], [found.longest_ms - found.median_ms]]
        axis.barh(place, work, 0.62, color=WORK)
        axis.barh(place, beyond, 0.62, left=work, color=colour)
        axis.errorbar(found.median_ms, place, xerr=spread, color=INK, linewidth=0.9, capsize=2.5)
        axis.annotate(
            f"{found.median_ms:.1f}" if found.median_ms >= 10 else f"{found.median_ms:.2f}",
            (found.longest_ms, place),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=INK,
        )
    axis.axvline(alone, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
    style(axis, title)
    axis.grid(axis="y", visible=False)
    axis.set_yticks(range(len(drawn)), [name for name, _, _ in drawn])
    axis.invert_yaxis()
    axis.set_xlim(0, 1.12 * max(found.longest_ms for _, _, found in drawn))


def save(panels: Sequence[tuple[str, str, Mapping[str, LaneFigures]]], path: Path) -> None:
    """Each with its title and the timed step."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.patches import Patch

    lanes = max(len(figures) for _, _, figures in panels)
    figure, axes = pyplot.subplots(
        len(panels),
        1,
        figsize=(9, len(panels) * (0.9 + 0.34 * lanes) + 0.3),
        squeeze=False,
        layout=ConstrainedLayoutEngine(h_pad=0.1, w_pad=0.1),
    )
    for (axis,), (title, step, figures) in zip(axes, panels, strict=True):
        _draw(axis, figures, title)
        axis.set_xlabel(f"milliseconds per {step}: median, least and most of the rounds", fontsize=8, color=INK)
    handles = [
        Patch(color=WORK, label="the computation alone"),
        Patch(color=NATIVE, label="beyond it, native"),
        Patch(color=OFFLOADED, label="beyond it, offloaded"),
    ]
    if any("all_cores" in key for _, _, figures in panels for key in figures):
        handles.insert(2, Patch(color=ALL_CORES, label="native, all cores"))
    figure.legend(
        handles=handles,
        loc=legends.below(figure, "center"),
        ncols=len(handles),
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
    )
    write(figure, path)
