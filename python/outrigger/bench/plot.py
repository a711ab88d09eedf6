"""The results as a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from outrigger import legends
from outrigger.bench.figures import Configuration, Measurement
from outrigger.bench.table import MEMORY
from outrigger.errors import UserError
from outrigger.sizes import format_size

WORK, NATIVE, OFFLOADED, INK, GRID = "#c9ced6", "#d1603d", "#2a7f8e", "#22262b", "#e4e7eb"
ALL_CORES = "#e3a587"


def style(axis: Any, title: str) -> None:
    axis.set_title(title, loc="left", fontsize=10, color=INK, pad=8)
    axis.grid(axis="y", color=GRID, linewidth=0.8)
    axis.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    axis.spines["bottom"].set_color("#9aa2ad")
    axis.tick_params(colors=INK, labelsize=8, length=0)


def log_axis(axis: Any) -> None:
    """A logarithmic axis from a round number to a round number, with labels at 1, 2 and 5 times powers of ten."""
    from matplotlib.ticker import FixedLocator, NullLocator

    low, high = axis.dataLim.intervaly
    ticks = round_numbers(low, high)
    axis.set_yscale("log")
    axis.set_ylim(ticks[0], ticks[-1])
    axis.yaxis.set_major_locator(FixedLocator(ticks))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_formatter("{x:g}")


def round_numbers(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten, from the last that is not above `low` to the first that is not below `high`."""
    first = math.floor(math.log10(low))
    powers = range(first, math.floor(math.log10(high)) + 2)
    numbers = [float(f"{digit}e{power}") for power in powers for digit in (1, 2, 5)]
    begin = max(number for number in numbers if number <= low)
    end = min(number for number in numbers if number >= high and number > begin)
    return [number for number in numbers if begin <= number <= end]


def label_sizes(axis: Any, sizes: Sequence[int]) -> None:
    axis.set_xticks(range(len(sizes)), list(map(size_label, sizes)))
    axis.tick_params(axis="x", labelsize=7)
    axis.set_xlabel("bytes of a block", fontsize=8, color=INK)


def _bars(configuration: Configuration) -> list[tuple[float, float, str]]:
    """Bars of one configuration: work and total, both in native's totals, and a color."""
    native = configuration.native.total_us
    work = configuration.work_us / native
    bars = [(work, 1.0, NATIVE), (work, configuration.total_ratio, OFFLOADED)]
    if everywhere := configuration.native_all_cores:
        # Ranks that share cores elsewhere may have one each here: the same work takes another time.
        work = (everywhere.total_us - everywhere.exposed_us) / native
        bars.insert(1, (work, everywhere.total_us / native, ALL_CORES))
    return bars


def draw_totals(axis: Any, configurations: Sequence[Configuration], title: str) -> None:
    """Total with the same work relative to native's: the work, and the time that the collective adds."""
    highest = 1.0
    labelled = (OFFLOADED, ALL_CORES) if len(configurations) <= 5 else (OFFLOADED,)  # as many as there is room for
    for index, configuration in enumerate(configurations):
        bars = _bars(configuration)
        step = 0.78 / len(bars)
        for place, (work, total, color) in enumerate(bars):
            x = index + (place - (len(bars) - 1) / 2) * step
            axis.bar(x, min(work, total), step - 0.02, color=WORK)
            axis.bar(x, max(total - work, 0), step - 0.02, bottom=work, color=color)
            if color in labelled:
                axis.text(x, total + 0.015, f"{total:.2f}", ha="center", va="bottom", fontsize=6.5, color=INK)
            highest = max(highest, total)
    style(axis, title)
    label_sizes(axis, [c.bytes for c in configurations])
    labels = [f"{size_label(c.bytes)}\n{_time(c.native.total_us)}" for c in configurations]
    axis.set_xticks(range(len(configurations)), labels)
    axis.set_xlabel("bytes of a block, native's total", fontsize=8, color=INK)
    axis.set_ylim(0, highest * 1.15)
    axis.set_ylabel("total time / native's total", fontsize=8, color=INK)


def draw_cpu(axis: Any, configurations: Sequence[Configuration], title: str) -> None:
    """A rank's CPU time inside MPI calls."""
    positions = range(len(configurations))
    for name, color in (("native", NATIVE), ("offloaded", OFFLOADED)):
        values = [max(getattr(c, name).cpu_us, 0.01) for c in configurations]
        axis.plot(positions, values, marker="o", markersize=5, linewidth=1.8, color=color, label=name)
    log_axis(axis)
    style(axis, title)
    label_sizes(axis, [c.bytes for c in configurations])
    axis.set_ylabel("CPU in MPI calls per operation (µs)", fontsize=8, color=INK)
    axis.margins(x=0.12)


def size_label(size: int) -> str:
    text = format_size(size)
    return f"{text[:-1]} {text[-1]}iB" if text[-1].isalpha() else f"{text} B"


def _time(microseconds: float) -> str:
    return f"{microseconds / 1000:.1f} ms" if microseconds >= 1000 else f"{microseconds:.0f} µs"


def _groups(measurements: Sequence[Measurement]) -> list[tuple[Measurement, str, str, list[Configuration]]]:
    result = []
    for measurement in measurements:
        keys = dict.fromkeys((c.collective, c.memory) for c in measurement.configurations)
        for collective, memory in keys:
            chosen = [c for c in measurement.configurations if (c.collective, c.memory) == (collective, memory)]
            result.append((measurement, collective, memory, chosen))
    return result


def save(measurements: Sequence[Measurement], path: Path, heading: str) -> None:
    """Draws a row for each MPI, collective and kind of memory: totals on the left, CPU time on the right."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.patches import Patch

    rows = _groups(measurements)
    figure, axes = pyplot.subplots(
        len(rows),
        2,
        figsize=(10, 1.1 + 2.9 * len(rows)),
        squeeze=False,
        width_ratios=(3, 2),
        layout=ConstrainedLayoutEngine(h_pad=0.12, w_pad=0.1),
    )
    for (left, right), (measurement, collective, memory, chosen) in zip(axes, rows, strict=True):
        what = f"MPI_{collective.capitalize()}, {MEMORY[memory]}, {measurement.title}"
        draw_totals(left, chosen, what)
        draw_cpu(right, chosen, "rank CPU time inside MPI")
    native = [Patch(color=NATIVE, label="native")]
    if any(c.native_all_cores for _, _, _, chosen in rows for c in chosen):
        native = [
            Patch(color=NATIVE, label="native, the same cores"),
            Patch(color=ALL_CORES, label="native, the service process's core too"),
        ]
    figure.suptitle(heading, x=0.01, ha="left", fontsize=13, fontweight="bold", color=INK)
    figure.legend(
        handles=[
            Patch(color=WORK, label="the ranks' own work, the same amount"),
            *native,
            Patch(color=OFFLOADED, label="offloaded"),
        ],
        loc=legends.below(figure, "center"),
        ncols=4,
        frameon=False,
        fontsize=9,
        labelcolor=INK,
    )
    write(figure, path)


def write(figure: Any, path: Path) -> None:
    """Saves a figure and closes it."""
    from matplotlib import pyplot

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150, facecolor="white")
    except (OSError, ValueError) as error:
        raise UserError(f"cannot write the plot to {path}: {error}") from error
    finally:
        pyplot.close(figure)
