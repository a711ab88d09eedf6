"""Computes a paper's quantity from runs of the simulator."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

from bench.papers.points import Fft, Memory, Point, Shape
from bench.papers.runs import Outcome, Run, Runs, Side, rate_bytes_per_s

_LARGE_BYTES = 64 << 20
_ALONE = (("noise.skew", "0 ns"), ("mpi.post", "0 ns"))
"""A message between two ranks is modelled as a broadcast without a collective's own costs."""
_SERVICES = (1, 2, 4, 8)
_ENOUGH = 1.1
"""A number of service processes is enough if the latency is at most this many times the least one."""


def overlap_percent(side: Side) -> float:
    """The OSU benchmarks' figure, with work as long as the side's own pure latency."""
    return min(100.0, max(0.0, 100 - 100 * side.exposed_us / side.pure_us))


def total_gain_percent(outcome: Outcome) -> float:
    return 100 - 100 * outcome.offloaded.total_us / outcome.native.total_us


def latency_ratio(outcome: Outcome) -> float:
    """Native's latency divided by the offloaded one."""
    return outcome.native.pure_us / outcome.offloaded.pure_us


def enough_services(pure_us: Sequence[tuple[int, float]]) -> int:
    """The least number with nearly the best latency; in order of numbers."""
    best = min(latency for _, latency in pure_us)
    return next(number for number, latency in pure_us if latency <= _ENOUGH * best)


def crossover_bytes(ratios: Sequence[tuple[int, float]]) -> float | None:
    """The size at which offloaded stops being faster, interpolated between two sizes on logarithmic scales."""
    for (small, before), (large, after) in itertools.pairwise(ratios):
        if before >= 1 > after:
            part = math.log(before) / (math.log(before) - math.log(after))
            return float(small * (large / small) ** part)
    return None


_PURE = ("latency_ratio", "growth", "service_gain", "best_services", "crossover_kib")


def _run(point: Point, shape: Shape, block_bytes: int, nodes: int = 0, services: int = 0) -> Run:
    run = Run(
        point.cluster, shape.collective, block_bytes, nodes or shape.nodes, shape.ranks_per_node,
        services or shape.services, shape.native, shape.algorithm, shape.mapping, changes=point.changes,
    )  # fmt: skip
    return run.pure if point.quantity in _PURE else run


def _message(point: Point, message_bytes: int) -> Run:
    changes = (*_ALONE, *point.changes)
    return Run(point.cluster, "ibcast", message_bytes, 2, 1, 1, "binomial", changes=changes)


def _at_all_services(point: Point, shape: Shape) -> list[tuple[int, Run]]:
    numbers = [number for number in _SERVICES if number <= shape.services]
    return [(number, _run(point, shape, shape.sizes_bytes[0], services=number)) for number in numbers]


def pass_us(cluster: str, fft: Fft, grid: int, memory: Memory) -> float:
    """The time in which a node's ranks compute one of the three passes of one variable."""
    node_bytes = grid**3 * fft.element_bytes / fft.nodes
    rate = memory.efficiency * rate_bytes_per_s(cluster, "host.memory")
    return 1e6 * node_bytes * memory.passes / rate


def _exchanges(point: Point, fft: Fft, grid: int, memory: Memory) -> tuple[Run, Run]:
    """Times of one variable's exchanges during a pass: among the ranks of a node, and between nodes.

    Between nodes all ranks of a node exchange at the same time, each with one rank of every other node. Here one rank
    of each node carries the bytes of all: the same bytes on the same links.
    """
    rank_bytes = grid**3 * fft.element_bytes // (fft.nodes * fft.ranks_per_node)
    work = f"{round(pass_us(point.cluster, fft, grid, memory))} us"
    within = Run(
        point.cluster, "ialltoall", rank_bytes // fft.ranks_per_node, 1, fft.ranks_per_node, fft.services,
        fft.native, fft.algorithm, work=work,
    )  # fmt: skip
    between = Run(
        point.cluster, "ialltoall", rank_bytes * fft.ranks_per_node // fft.nodes, fft.nodes, 1, 1,
        fft.native, fft.algorithm, work=work,
    )  # fmt: skip
    return within, between


def communication_us(sides: Sequence[Side], variables: int) -> float:
    """The computation of the next variable overlaps the exchanges of all variables but the last."""
    return sum((variables - 1) * side.exposed_us + side.pure_us for side in sides)


def _fft_sides(point: Point, fft: Fft, grid: int, memory: Memory, runs: Runs) -> tuple[float, float, float]:
    outcomes = [runs[run] for run in _exchanges(point, fft, grid, memory)]
    native = communication_us([outcome.native for outcome in outcomes], fft.variables)
    offloaded = communication_us([outcome.offloaded for outcome in outcomes], fft.variables)
    return native, offloaded, 3 * fft.variables * pass_us(point.cluster, fft, grid, memory)


def _fft_gain_percent(point: Point, fft: Fft, memory: Memory, runs: Runs) -> float:
    gains = []
    for grid in fft.grids:
        native, offloaded, work = _fft_sides(point, fft, grid, memory, runs)
        gains.append(100 - 100 * (work + offloaded) / (work + native))
    return max(gains)


def needed(point: Point, memory: Memory) -> list[Run]:
    """The runs needed to predict a point."""
    if point.quantity == "latency_us":
        return [_message(point, 1)]
    if point.quantity == "bandwidth_gb_per_s":
        return [_message(point, _LARGE_BYTES)]
    if point.fft is not None:
        return [run for grid in point.fft.grids for run in _exchanges(point, point.fft, grid, memory)]
    shape = point.shape
    if shape is None:
        return []
    if point.quantity in ("best_services", "service_gain"):
        return [run for _, run in _at_all_services(point, shape)]
    smaller = [] if shape.from_nodes is None else [_run(point, shape, shape.sizes_bytes[0], shape.from_nodes)]
    return smaller + [_run(point, shape, size) for size in shape.sizes_bytes]


_BY_SIZE: dict[str, Callable[[Outcome], float]] = {
    "overlap_percent": lambda outcome: overlap_percent(outcome.offloaded),
    "native_overlap_percent": lambda outcome: overlap_percent(outcome.native),
    "total_gain_percent": total_gain_percent,
    "latency_ratio": latency_ratio,
}


def _of_shape(point: Point, shape: Shape, runs: Runs) -> float | None:
    if (value := _BY_SIZE.get(point.quantity)) is not None:
        found = [value(runs[_run(point, shape, size)]) for size in shape.sizes_bytes]
        return max(found) if shape.of == "highest" else min(found)
    if point.quantity == "crossover_kib":
        ratios = [(size, latency_ratio(runs[_run(point, shape, size)])) for size in shape.sizes_bytes]
        crossover = crossover_bytes(ratios)
        return None if crossover is None else crossover / 1024
    if point.quantity == "growth":
        size, before = shape.sizes_bytes[0], shape.from_nodes or shape.nodes
        first, last = (runs[_run(point, shape, size, nodes)].offloaded.pure_us for nodes in (before, shape.nodes))
        return last / first
    pure_us = [(number, runs[run].offloaded.pure_us) for number, run in _at_all_services(point, shape)]
    if point.quantity == "best_services":
        return float(enough_services(pure_us))
    return pure_us[0][1] / pure_us[-1][1]


def predict(point: Point, memory: Memory, runs: Runs) -> float | None:
    """None if the quantity does not exist, e.g. the crossover of two lines that do not cross."""
    if point.quantity == "latency_us":
        return runs[_message(point, 1)].native.pure_us
    if point.quantity == "bandwidth_gb_per_s":
        return _LARGE_BYTES / runs[_message(point, _LARGE_BYTES)].native.pure_us / 1e3
    if point.quantity == "parameter_gb_per_s":
        return rate_bytes_per_s(point.cluster, point.key) / 1e9
    if point.quantity == "fft_gain_percent" and point.fft is not None:
        return _fft_gain_percent(point, point.fft, memory, runs)
    if point.quantity == "fft_communication_ratio" and point.fft is not None:
        native, offloaded, _ = _fft_sides(point, point.fft, point.fft.grids[0], memory, runs)
        return native / offloaded
    return None if point.shape is None else _of_shape(point, point.shape, runs)
