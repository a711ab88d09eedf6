"""The results as a table on the terminal."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from outrigger.bench.figures import Configuration, Measurement, OtherNative
from outrigger.sizes import format_size

MEMORY = {"alloc_mem": "MPI_Alloc_mem", "malloc": "malloc"}
_GROUPS = (("pure", "pure_us"), ("total", "total_us"), ("exposed", "exposed_us"), ("CPU", "cpu_us"))


def microseconds(value: float) -> str:
    """Three digits: 0.12, 1.23, 12.3, 123, 1 234."""
    if abs(value) >= 100:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _pair(native: float, offloaded: float) -> list[Text]:
    style = "bold green" if offloaded < 0.95 * native else "bold red" if offloaded > 1.05 * native else "bold"
    return [Text(microseconds(native)), Text(microseconds(offloaded), style=style)]


def _row(configuration: Configuration) -> list[Text]:
    native, offloaded = configuration.native, configuration.offloaded
    cells = [Text(format_size(configuration.bytes))]
    for _, name in _GROUPS:
        cells += _pair(getattr(native, name), getattr(offloaded, name))
    cells.append(Text(f"{native.overlap_percent:.0f}"))
    cells.append(Text(f"{offloaded.overlap_percent:.0f}"))
    cells.append(Text(f"{configuration.total_ratio:.2f}", style="bold"))
    ratio = configuration.cpu_ratio
    cells.append(Text(f"{ratio:.0f}x" if ratio >= 10 else f"{ratio:.1f}x", style="bold"))
    return cells


def _row_of_other(name: str, figures: OtherNative, ratio: float) -> list[Text]:
    """Its results in native's columns, and the ratio to it."""
    cells = [Text(name)]
    for _, figure in _GROUPS:
        cells += [Text(microseconds(getattr(figures, figure))), Text("")]
    return [*cells, Text(""), Text(""), Text(f"{ratio:.2f}")]


def table(title: str, configurations: list[Configuration]) -> Table:
    """One collective with one kind of memory, a row per size."""
    result = Table(
        box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", header_style="dim", pad_edge=False,
        padding=0,
    )  # fmt: skip
    result.add_column("bytes", justify="right", no_wrap=True)
    for name in [group for group, _ in _GROUPS] + ["overlap"]:
        result.add_column(f"{name}\nnative", justify="right", no_wrap=True)
        result.add_column("\noffload", justify="right", no_wrap=True)
    result.add_column("total\nratio", justify="right", no_wrap=True)
    result.add_column("CPU\nless", justify="right", no_wrap=True)
    for configuration in configurations:
        result.add_row(*_row(configuration))
        for name, figures in configuration.other_natives.items():
            result.add_row(*_row_of_other(name, figures, configuration.ratio_to(figures)), style="dim")
    return result


def legend() -> str:
    """Meaning of the columns."""
    return (
        "Microseconds, medians; bytes of a block: for each pair of ranks, of each rank (allgather), of the root "
        "(broadcast). total: post, work, wait, with the same work on both sides (as "
        "long as native's pure latency); exposed: total less the work alone; CPU: a rank's CPU time inside MPI calls; "
        "overlap: in percent, as OSU computes it. all cores: native by the same work with the ranks spread over all "
        "cores, the service process's too; threads: native by the same work with a progress thread for each rank on "
        "the service process's core; their ratios are offloaded's total over these totals."
    )


def print_measurement(console: Console, measurement: Measurement) -> None:
    """All tables of one MPI."""
    console.rule(f"[bold]{measurement.title}[/], {measurement.configurations[0].ranks_text}", align="left")
    if not measurement.offloaded:
        console.print(f"[bold red]Not offloaded:[/] {measurement.why_native}. Both sides below are native.")
    groups: dict[tuple[str, str], list[Configuration]] = {}
    for configuration in measurement.configurations:
        groups.setdefault((configuration.collective, configuration.memory), []).append(configuration)
    for (collective, memory), configurations in groups.items():
        console.print(table(f"MPI_{collective.capitalize()}, buffers from {MEMORY[memory]}", configurations))
