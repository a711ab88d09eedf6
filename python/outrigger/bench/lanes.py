"""Several MPIs side by side, each native and offloaded, with the same work and compared with the best native result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from outrigger.bench.figures import Configuration, Measurement, Service, Side
from outrigger.bench.table import MEMORY
from outrigger.sizes import format_size


@dataclass(frozen=True)
class Lane:
    """One MPI's native or offloaded results of a configuration."""

    family: str
    title: str
    offloaded: bool
    side: Side
    work_us: float
    goodput: float | None
    """MB/s."""
    service: Service | None
    """For offloaded ones."""

    variant: str = ""
    """Name of another native variant."""

    @property
    def is_base(self) -> bool:
        """The reference: native on the same cores."""
        return not self.offloaded and not self.variant

    @property
    def label(self) -> str:
        """As text."""
        kind = "offloaded" if self.offloaded else f"native {self.variant}".strip()
        return f"{kind}, {self.title}"


@dataclass(frozen=True)
class Group:
    """A collective of one size with one kind of memory, under all MPIs."""

    collective: str
    memory: str
    bytes: int
    ranks_text: str
    lanes: tuple[Lane, ...]

    @property
    def best_pure_us(self) -> float:
        """The shortest native pure latency."""
        return min(lane.side.pure_us for lane in self.lanes if lane.is_base)

    @property
    def work_us(self) -> float:
        """The ranks' own work, at its least disturbance: it is the same in all lanes."""
        return min(lane.work_us for lane in self.lanes)

    @property
    def best_total_us(self) -> float:
        """The shortest native total with the same work."""
        return min(lane.side.total_us for lane in self.lanes if lane.is_base)


def _lane(measurement: Measurement, configuration: Configuration, *, offloaded: bool) -> Lane:
    side = configuration.offloaded if offloaded else configuration.native
    service = configuration.service if offloaded else None
    goodput = configuration.goodput(side)
    return Lane(measurement.family, measurement.title, offloaded, side, configuration.work_us, goodput, service)


def _others(measurement: Measurement, configuration: Configuration) -> list[Lane]:
    return [
        Lane(
            measurement.family, measurement.title, False, figures.as_side(), configuration.work_us, None, None, name
        )
        for name, figures in configuration.other_natives.items()
    ]  # fmt: skip


def groups(measurements: Sequence[Measurement]) -> list[Group]:
    """Configurations of all measurements in the same order; native lanes, other natives, offloaded."""
    result = []
    for same in zip(*(measurement.configurations for measurement in measurements), strict=True):
        pairs = list(zip(measurements, same, strict=True))
        lanes = [_lane(measurement, found, offloaded=False) for measurement, found in pairs]
        lanes += [lane for measurement, found in pairs for lane in _others(measurement, found)]
        lanes += [_lane(measurement, found, offloaded=True) for measurement, found in pairs if measurement.offloaded]
        result.append(Group(same[0].collective, same[0].memory, same[0].bytes, same[0].ranks_text, tuple(lanes)))
    return result


def by_table(found: Sequence[Group]) -> list[list[Group]]:
    """Groups the sizes of each collective and kind of memory."""
    tables: dict[tuple[str, str], list[Group]] = {}
    for group in found:
        tables.setdefault((group.collective, group.memory), []).append(group)
    return list(tables.values())


def milliseconds(time_us: float) -> str:
    """Three digits: 0.071, 1.23, 12.3, 123."""
    value = 1e-3 * time_us
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    return f"{value:.{digits}f}"


def _style(lane: Lane, value: float, limit: float) -> str:
    return ("bold green" if value < limit else "bold") if lane.offloaded else ""


def _goodput(lane: Lane, link_bits: int | None) -> list[str]:
    if lane.goodput is None:
        return [] if link_bits is None else [""]
    words = [f"{lane.goodput:.1f}"]
    return words if link_bits is None else [*words, f"{8e8 * lane.goodput / link_bits:.0f}%"]


def _row(group: Group, lane: Lane, link_bits: int | None, *, wired: bool) -> list[Text | str]:
    side, best = lane.side, group.best_pure_us
    cells: list[Text | str] = [
        Text(lane.label, style="bold" if lane.offloaded else ""),
        milliseconds(side.pure_us),
        Text(f"{side.pure_us / best:.2f}", style=_style(lane, side.pure_us, best)),
        *(_goodput(lane, link_bits) if wired else []),
        milliseconds(side.total_us),
        Text(f"{side.total_us / group.best_total_us:.2f}", style=_style(lane, side.total_us, group.best_total_us)),
        milliseconds(side.exposed_us),
        Text(f"{100 * side.exposed_us / best:.0f}%", style="bold" if lane.offloaded else ""),
        f"{100 * lane.service.floor_us / best:.0f}%" if lane.service else "",
        milliseconds(side.cpu_us),
    ]
    if wired:
        per_byte = lane.service.ns_per_byte if lane.service else None
        cells.append("" if per_byte is None else f"{per_byte:.1f}")
    return cells


def table(same: Sequence[Group], link_bits: int | None) -> Table:
    """One collective with one kind of memory: for each size a row per lane."""
    first = same[0]
    title = f"MPI_{first.collective.capitalize()}, {first.ranks_text}, buffers from {MEMORY[first.memory]}"
    wired = any(lane.goodput is not None for lane in first.lanes)
    result = Table(
        box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", header_style="dim", pad_edge=False,
        collapse_padding=True,
    )  # fmt: skip
    result.add_column("bytes,\nwork", justify="right", no_wrap=True)
    result.add_column("\nlane", no_wrap=True)
    names = ["\npure", "of\nbest"] + ["\nMB/s"] * wired + ["of\nlink"] * (wired and link_bits is not None)
    names += ["\ntotal", "of\nbest", "\nexposed", "of best\npure", "SP\nfloor", "CPU\nin MPI"]
    names += ["SP CPU\nns/byte"] * wired
    for name in names:
        result.add_column(name, justify="right", no_wrap=True)
    for group in same:
        for index, lane in enumerate(group.lanes):
            head = (format_size(group.bytes), f"[dim]{milliseconds(group.work_us)}[/]", "", "")[min(index, 2)]
            last = index == len(group.lanes) - 1
            result.add_row(head, *_row(group, lane, link_bits, wired=wired), end_section=last)
    return result


def legend(measurements: Sequence[Measurement], link_bits: int | None) -> str:
    """Meaning of the columns."""
    services = [c.service for m in measurements if m.offloaded for c in m.configurations if c.service]
    lines = [
        "Milliseconds, medians; bytes of a block. best: of the native lanes, in that column.",
        "work: the ranks' computation, the same in all lanes, as long as the best native's pure latency",
        "total: post, work, wait; exposed: total less the work alone; CPU in MPI: a rank's CPU time inside MPI calls",
    ]
    if any(found.native_all_cores for m in measurements for found in m.configurations):
        lines.append("all cores: the ranks spread over all cores, the service process's too")
    if any(found.native_threads for m in measurements for found in m.configurations):
        lines.append("threads: a progress thread of the MPI for each rank, on the service process's core")
    if any(service.wire_bytes for service in services):
        link = "; of link: of its rate, in which frames' own bytes are included" if link_bits is not None else ""
        lines.append(f"MB/s: goodput, what a node receives from others, by pure{link}")
        lines.append("SP CPU: what the service processes at both ends spend on each byte that crosses the network")
    if services and services[0].processes:
        cpus = f"{services[0].cpus} CPU{'s' if services[0].cpus != 1 else ''}"
        lines.append(
            f"SP floor: the ranks share {cpus} of a machine with service processes ({services[0].processes} with "
            "their keepers), whose CPU time,\npolling included, lengthens the work by at least so much of the best "
            "native's pure latency; 0 with spare cores"
        )
    return "\n".join(lines)


def show(console: Console, measurements: Sequence[Measurement], link_bits: int | None) -> None:
    """All tables."""
    for measurement in measurements:
        if not measurement.offloaded:
            console.print(f"[bold red]{measurement.title}, not offloaded:[/] {measurement.why_native}.")
    for same in by_table(groups(measurements)):
        console.print(table(same, link_bits))
    console.print(legend(measurements, link_bits), style="dim")
