"""Measurements before the fit: samples of messages, of rates, and of collectives."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from outrigger import formats
from outrigger.errors import UserError


@dataclass(frozen=True)
class Place:
    """Places of the two ranks that exchanged messages."""

    one_host: bool
    one_machine: bool
    """They share one kernel and one clock."""
    machine_cores: int


@dataclass(frozen=True)
class Reading:
    """Samples of one kind and size, see bench/mpi/messages.c."""

    what: str
    bytes: int
    samples_us: tuple[float, ...]

    @property
    def settled_us(self) -> tuple[float, ...]:
        """Without the first, which makes connections and touches memory."""
        return self.samples_us[1:] if len(self.samples_us) > 1 else self.samples_us


@dataclass(frozen=True)
class CopyRates:
    """One core's copies between two buffers of this total size."""

    bytes: int
    samples: tuple[float, ...]


@dataclass(frozen=True)
class Rates:
    """Bytes a second, from `outrigger-sim rates`."""

    copy: tuple[float, ...]
    reduce: tuple[float, ...]
    memory: tuple[float, ...]
    by_bytes: tuple[CopyRates, ...] = ()
    kernel: tuple[CopyRates, ...] = ()
    """The same by the kernel."""


@dataclass(frozen=True)
class Cell:
    """A collective of one size on one job, and its implementation."""

    collective: str
    bytes: int
    nodes: int
    ranks_per_node: int
    services: int
    algorithm: str = "default"
    """Algorithm of the service processes."""

    @property
    def name(self) -> str:
        """As text."""
        return f"{self.collective} {self.bytes} B, {self.nodes} x {self.ranks_per_node} ranks, {self.algorithm}"


@dataclass(frozen=True)
class Times:
    """One run of a cell: native and offloaded, alone and beside the same work."""

    work_us: float
    native_pure_us: float
    native_total_us: float
    offloaded_pure_us: float
    offloaded_total_us: float

    @property
    def four(self) -> tuple[float, float, float, float]:
        """Without the work."""
        return (self.native_pure_us, self.native_total_us, self.offloaded_pure_us, self.offloaded_total_us)


@dataclass(frozen=True)
class Measured:
    """All runs of a cell."""

    cell: Cell
    rounds: tuple[Times, ...]

    @property
    def median(self) -> Times:
        """Medians of each number separately."""
        columns = zip(*((times.work_us, *times.four) for times in self.rounds), strict=True)
        return Times(*(statistics.median(column) for column in columns))


@dataclass
class Readings:
    """All measurements; also the contents of --json."""

    machine: str = ""
    mpi: str = ""
    family: str = ""
    date: str = ""
    command: str = ""
    cores: int = 1
    """Cores of a node for ranks."""
    own_core: bool = True
    """Service processes have a core that ranks do not use."""
    spins: bool = False
    """Natively waiting ranks do not yield."""
    memory: str = "alloc_mem"
    """Source of buffers."""
    nodes: int = 1
    services: int = 1
    place: Place = field(default_factory=lambda: Place(True, True, 1))
    rates: Rates | None = None
    messages: list[Reading] = field(default_factory=list)
    cells: list[Measured] = field(default_factory=list)
    complete: bool = False

    def reading(self, what: str, size: int) -> Reading | None:
        """None: not measured."""
        return next((one for one in self.messages if (one.what, one.bytes) == (what, size)), None)

    def of_kind(self, what: str) -> list[Reading]:
        """By size."""
        return sorted((one for one in self.messages if one.what == what), key=lambda one: one.bytes)


def parse_messages(output: str) -> tuple[Place, list[Reading]]:
    """Output of bench/mpi/messages.c; skips the MPI's own output."""
    lines = [line for line in output.splitlines() if line.startswith("{")]
    if not lines:
        raise UserError("the benchmark of messages printed no figures")
    place = formats.parse(lines[0], Place, f"the line {lines[0]}")
    return place, [formats.parse(line, Reading, f"the line {line}") for line in lines[1:]]


def parse_rates(output: str) -> Rates:
    """Output of `outrigger-sim rates`."""
    return formats.parse(formats.json_line(output, "outrigger-sim rates"), Rates, "what outrigger-sim rates printed")


def check_sizes(sizes: Sequence[int]) -> None:
    """Sizes of a calibration must differ, so that latencies and rates can be separated."""
    if len(set(sizes)) < 2:
        raise UserError("--sizes: at least two, so that latencies and rates can be told apart")
