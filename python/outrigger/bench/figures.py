"""Results of orbench, as data."""

from __future__ import annotations

import math
from dataclasses import dataclass

from outrigger import formats
from outrigger.errors import UserError

CONTIGUOUS = "contiguous"


def nonblocking(name: str) -> str:
    """The report's name of a collective, in any form."""
    return name if name.startswith("i") else f"i{name.removesuffix('_init')}"


@dataclass(frozen=True)
class Side:
    """Results of native or offloaded. Times are medians in microseconds."""

    pure_us: float
    total_us: float
    exposed_us: float
    overlap_percent: float
    cpu_us: float
    """Inside MPI calls, mean of the ranks."""
    largest_cpu_us: float | None = None
    """The highest value of all ranks in each round."""


@dataclass(frozen=True)
class OtherNative:
    """Native with the same work in another way. Medians in microseconds."""

    pure_us: float
    total_us: float
    exposed_us: float
    cpu_us: float

    def as_side(self) -> Side:
        """As a side; its overlap as OSU computes it was not measured."""
        return Side(self.pure_us, self.total_us, self.exposed_us, math.nan, self.cpu_us)


@dataclass(frozen=True)
class Service:
    """CPU time of service processes for one offloaded operation with the ranks' work, and bytes on the network."""

    processes: int
    """In the job."""
    cpus: int
    """CPUs that ranks and service processes of one machine may use."""
    cpu_us: float
    """CPU time of all service processes."""
    floor_us: float
    """Minimum exposed time of an operation while service processes use this CPU time of those CPUs."""
    wire_bytes: float
    """Between nodes, each byte once."""
    node_wire_bytes: float
    """Maximum of the bytes that a node receives."""

    @property
    def ns_per_byte(self) -> float | None:
        """CPU time at both ends of the wire per byte on it."""
        return 1e3 * self.cpu_us / self.wire_bytes if self.wire_bytes else None


@dataclass(frozen=True)
class Configuration:
    """One collective of one size with one kind of memory."""

    collective: str
    memory: str
    bytes: int
    ranks: int
    rounds: int
    work_iterations: int
    work_us: float
    native: Side
    offloaded: Side
    service: Service | None = None
    native_all_cores: OtherNative | None = None
    """The ranks on all cores, including those of service processes."""
    native_threads: OtherNative | None = None
    """With a progress thread for each rank on the cores of the service processes."""
    order: str = CONTIGUOUS
    """Order of the ranks: node by node, or strided: round-robin over the nodes."""

    @property
    def ranks_text(self) -> str:
        """Their number, and their order if it is unusual."""
        return f"{self.ranks} ranks" if self.order == CONTIGUOUS else f"{self.ranks} {self.order} ranks"

    def goodput(self, side: Side) -> float | None:
        """At the node that receives most, by the pure latency: bytes per microsecond, which is MB/s."""
        return self.service.node_wire_bytes / side.pure_us if self.service and self.service.wire_bytes else None

    @property
    def total_ratio(self) -> float:
        """Offloaded total over native total, with the same work."""
        return self.offloaded.total_us / self.native.total_us

    @property
    def other_natives(self) -> dict[str, OtherNative]:
        """By variant."""
        found = {"all cores": self.native_all_cores, "threads": self.native_threads}
        return {name: figures for name, figures in found.items() if figures is not None}

    def ratio_to(self, other: OtherNative) -> float:
        """Offloaded total over this total, with the same work."""
        return self.offloaded.total_us / other.total_us

    @property
    def cpu_ratio(self) -> float:
        """Native CPU time in MPI over offloaded CPU time in MPI."""
        return self.native.cpu_us / self.offloaded.cpu_us if self.offloaded.cpu_us else float("inf")


@dataclass(frozen=True)
class Measurement:
    """A run of the benchmark under one MPI."""

    family: str
    title: str
    command: str
    offloaded: bool
    """The library reports that the offloaded side was offloaded."""
    why_native: str
    configurations: tuple[Configuration, ...]
    notes: tuple[str, ...] = ()
    """Notes about the runs for the user."""


def read_line(line: str) -> Configuration | None:
    """One line of orbench's output; None for other lines."""
    line = line.strip()
    if not line.startswith("{"):
        return None
    return formats.parse(line, Configuration, f"the benchmark's line {line}", exact=True)


@dataclass(frozen=True)
class Row:
    """A line of alltoall_bench. Times in microseconds."""

    collective: str
    bytes: int
    pure_us: float
    work_us: float
    total_us: float
    exposed_us: float
    cpu_us: float
    work_iterations: int

    @property
    def other_native(self) -> OtherNative:
        """For a native run."""
        return OtherNative(self.pure_us, self.total_us, self.exposed_us, self.cpu_us)


def read_rows(output: str) -> list[Row]:
    """The table that alltoall_bench prints."""
    rows = []
    for line in output.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        words = line.split()
        try:
            collective, size, *times, work = words
            pure, work_us, total, exposed, cpu = map(float, times)
            rows.append(Row(collective, int(size), pure, work_us, total, exposed, cpu, int(work)))
        except ValueError:
            raise UserError(f"the benchmark printed a line that cannot be read: {line}") from None
    return rows


def as_json(measurements: list[Measurement]) -> str:
    """For --json: a list, one object per MPI."""
    return formats.as_json(measurements)
