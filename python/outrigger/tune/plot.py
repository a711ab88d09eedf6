"""Draws totals over the sizes, for each collective and algorithm, and the choices."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from outrigger import legends
from outrigger.bench.plot import GRID, INK, label_sizes, style, write
from outrigger.noise import Band
from outrigger.tune.figures import BUILT_IN, LEAST_GAIN, NATIVE, Figures
from outrigger.tune.rules import Rule

_COLOURS = {BUILT_IN: "#22262b", NATIVE: "#d1603d"}
_OF_ALGORITHMS = ("#2a7f8e", "#8a5fa8", "#b08b2e", "#4c7a3f", "#3f5fa8")

_TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0)
_LEAST, _MOST = 0.1, 20.0
"""Range of drawn ratios; noise may exceed it."""


def _colours(figures: Figures) -> dict[str, str]:
    names = dict.fromkeys(
        name for sizes in figures.ratios.values() for by in sizes.values() for name in by if name not in _COLOURS
    )
    return {**_COLOURS, **{name: _OF_ALGORITHMS[i % len(_OF_ALGORITHMS)] for i, name in enumerate(names)}}


def _draw_lane(axis: Any, place: float, found: Sequence[tuple[int, Band]], name: str, colour: str) -> None:
    x = [position + place for position, _ in found]
    values = [band.value for _, band in found]
    errors = [
        [band.value - band.low for _, band in found],
        [band.high - band.value for _, band in found],
    ]
    built_in = name == BUILT_IN
    axis.errorbar(
        x, values, yerr=errors, color=colour, marker="s" if built_in else "o", markersize=4.5, linewidth=1.6,
        linestyle="--" if built_in else "-", elinewidth=1, capsize=2, label=name,
    )  # fmt: skip


def _chosen(rules: Sequence[Rule], collective: str, size: int) -> str:
    for rule in rules:
        if rule.collective == collective and any(measured in (0, size) for measured, _ in rule.measured):
            return rule.algorithm
    return BUILT_IN


def _mark_chosen(axis: Any, choices: Sequence[str], colours: dict[str, str]) -> None:
    """Below the lines: a bar over the sizes of each choice, with its name."""
    first = 0
    for position in range(len(choices)):
        if position + 1 < len(choices) and choices[position + 1] == choices[first]:
            continue
        axis.axvspan(first - 0.48, position + 0.48, ymin=0, ymax=0.075, color=colours[choices[first]], alpha=0.85)
        axis.text(
            (first + position) / 2, 0.037, choices[first], transform=axis.get_xaxis_transform(), ha="center",
            va="center", fontsize=6.5, color="white",
        )  # fmt: skip
        first = position + 1


def _draw(axis: Any, figures: Figures, collective: str, rules: Sequence[Rule], colours: dict[str, str]) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator

    sizes = sorted(figures.ratios[collective])
    bands = [figures.bands(collective, size) for size in sizes]
    names = list(dict.fromkeys(name for found in bands for name in found))
    for index, name in enumerate(names):
        found = [(position, band[name]) for position, band in enumerate(bands) if name in band]
        _draw_lane(axis, 0.08 * (index - (len(names) - 1) / 2), found, name, colours[name])
    axis.axhspan(1 - LEAST_GAIN, 1 + LEAST_GAIN, color=GRID)
    axis.axhline(1.0, color=colours[NATIVE], linewidth=1.4, label=NATIVE)
    axis.set_yscale("log")
    axis.yaxis.set_major_locator(FixedLocator(_TICKS))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_formatter("{x:g}")
    style(axis, f"MPI_{collective.capitalize()}")
    label_sizes(axis, sizes)
    axis.set_xlim(-0.55, len(sizes) - 0.45)
    every = [value for found in bands for band in found.values() for value in (band.low, band.high)]
    low, high = min(max(min(every), _LEAST), 0.8), min(max(max(every), 1.25), _MOST)
    axis.set_ylim(low / (high / low) ** 0.12, high * 1.05)
    axis.tick_params(axis="y", which="both", labelsize=7, length=0)
    axis.set_ylabel("total / native's total", fontsize=8, color=INK)
    _mark_chosen(axis, [_chosen(rules, collective, size) for size in sizes], colours)


def save(figures: Figures, rules: Sequence[Rule], path: Path, heading: str) -> None:
    """One picture per collective, with a bar for the new choices by size."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    colours = _colours(figures)
    count = len(figures.ratios)
    columns = 1 if count == 1 else 2
    rows = -(-count // columns)
    figure, axes = pyplot.subplots(
        rows, columns, figsize=(5.6 * columns, 1.0 + 3.2 * rows), squeeze=False, layout="constrained"
    )
    for axis, collective in zip(axes.flat, figures.ratios, strict=False):
        _draw(axis, figures, collective, rules, colours)
    for axis in list(axes.flat)[count:]:
        axis.set_visible(False)
    handles: dict[str, Any] = {}
    for axis in list(axes.flat)[:count]:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.suptitle(heading, x=0.01, ha="left", fontsize=11, fontweight="bold", color=INK)
    figure.legend(
        list(handles.values()), list(handles), loc=legends.below(figure, "center"), ncols=len(handles), frameon=False,
        fontsize=8, labelcolor=INK, title="bar at the bottom: choice; whiskers: noise", title_fontsize=8,
    )  # fmt: skip
    write(figure, path)
