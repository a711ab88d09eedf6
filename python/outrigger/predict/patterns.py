"""Synthetic programs from a short text: fft:N=1024,pencil, training:params=25M,buckets=8,work=200ms, halo:N=8192,
ialltoall:64KiB,work=2ms.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from outrigger.errors import UserError
from outrigger.predict import program
from outrigger.predict.program import Program
from outrigger.sizes import format_size, parse_size

_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([kMG]?)")
_TIME = re.compile(r"(\d+(?:\.\d+)?) ?(ns|us|ms|s)")
_FACTORS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
_US = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}
_COMPLEX_BYTES = 16
_DOUBLE_BYTES = 8
_GFLOPS = 2.0
"""Rate of one core in a 3D FFT, by default."""
_POINT_NS = 1.0
"""For one field of a stencil point, by default."""
PLAIN = ("ialltoall", "iallgather", "ibcast", "iallreduce", "ireduce", "ireduce_scatter_block", "igather", "iscatter")


@dataclass(frozen=True)
class Pattern:
    """A program for any number of ranks."""

    text: str
    title: str
    make: Callable[[int], Program]
    assumes: str = ""
    """Assumed values."""
    scales: str = ""
    """Effect of more ranks."""


class _Words:
    """Text after the colon: name=value, or a name alone."""

    def __init__(self, kind: str, text: str) -> None:
        self._kind = kind
        self._values: dict[str, str] = {}
        for word in filter(None, text.split(",")):
            name, _, value = word.partition("=")
            self._values[name.strip()] = value.strip()

    def flag(self, name: str) -> bool:
        value = self._values.pop(name, None)
        if value:
            raise UserError(f"{self._kind}: {name}={value}: {name} stands alone")
        return value is not None

    def number(self, name: str, otherwise: float | None = None) -> float:
        text = self._values.pop(name, None)
        if text is None and otherwise is not None:
            return otherwise
        match = _NUMBER.fullmatch(text or "")
        if match is None or float(match[1]) == 0:
            raise UserError(f"{self._kind}: {name} is a number, with k, M or G if you like: {name}=1024")
        return float(match[1]) * _FACTORS[match[2]]

    def count(self, name: str, otherwise: float | None = None) -> int:
        value = self.number(name, otherwise)
        if value != int(value):
            raise UserError(f"{self._kind}: {name} is a whole number")
        return int(value)

    def time_us(self, name: str, otherwise: float | None = None) -> float:
        text = self._values.pop(name, None)
        if text is None and otherwise is not None:
            return otherwise
        match = _TIME.fullmatch(text or "")
        if match is None:
            raise UserError(f"{self._kind}: {name} is a time with its unit: {name}=2ms")
        return float(match[1]) * _US[match[2]]

    def finish(self, known: str) -> None:
        if self._values:
            raise UserError(f"{self._kind}: there is no '{next(iter(self._values))}'; there are {known}")


def _fft(text: str) -> Pattern:
    words = _Words("fft", text)
    points, variables = words.count("N"), words.count("variables", 4)
    gflops = words.number("gflops", _GFLOPS)
    slab = words.flag("slab")
    if words.flag("pencil") and slab:
        raise UserError("fft: pencil or slab, not both")
    words.finish("N, variables, gflops, pencil, slab")
    total_us = 5 * points**3 * math.log2(max(2, points**3)) / gflops / 1e3

    def make(ranks: int) -> Program:
        rows, columns = (1, ranks) if slab else program.near_square(ranks)
        own_bytes = _COMPLEX_BYTES * points**3 / ranks
        turns = [(name, size) for name, size in ((program.ROWS, columns), (program.COLUMNS, rows)) if size > 1]
        part_us = total_us / ranks / (len(turns) + 1)
        steps = []
        for variable in range(variables):
            steps += [program.work(part_us), _transposes(turns[0], own_bytes, f"0.{variable}")]
        for number in range(1, len(turns) + 1):
            for variable in range(variables):
                steps += [program.wait(f"{number - 1}.{variable}"), program.work(part_us)]
                if number < len(turns):
                    steps.append(_transposes(turns[number], own_bytes, f"{number}.{variable}"))
        return Program(ranks, steps, program.grid_communicators(rows, columns))

    shape = "slabs" if slab else "pencils"
    return Pattern(
        f"fft:{text}", f"3D FFT of {points} points each way, {variables} fields, {shape}", make,
        f"{gflops:g} Gflop/s of a core", "the same points on more ranks",
    )  # fmt: skip


def _transposes(turn: tuple[str, int], own_bytes: float, request: str) -> dict[str, object]:
    name, size = turn
    return program.post("ialltoall", round(own_bytes / size), request, name)


def _training(text: str) -> Pattern:
    words = _Words("training", text)
    parameters, buckets = words.number("params"), words.count("buckets", 8)
    work_us, width = words.time_us("work"), words.count("bytes", 4)
    words.finish("params, buckets, work, bytes")

    def make(ranks: int) -> Program:
        size = program.whole_elements(parameters * width / buckets)
        steps = [program.work(work_us / 3)]  # forward; backward takes twice as long
        for bucket in range(buckets):
            steps += [program.work(work_us * 2 / 3 / buckets), program.post("iallreduce", size, f"{bucket}")]
        return Program(ranks, [*steps, program.wait(*map(str, range(buckets)))])

    return Pattern(
        f"training:{text}", f"training of {parameters:,.0f} parameters in {buckets} buckets", make,
        "a third of the work is forward, without communication", "each rank the same work on samples of its own",
    )  # fmt: skip


def _halo(text: str) -> Pattern:
    words = _Words("halo", text)
    points, fields, depth = words.count("N"), words.count("fields", 1), words.count("depth", 1)
    point_us = words.time_us("point", _POINT_NS / 1e3)
    words.finish("N, fields, depth, point")

    def make(ranks: int) -> Program:
        rows, columns = program.near_square(ranks)
        edge = (points / rows + points / columns) / 2
        steps = [
            program.post("ineighbor_alltoall", round(edge * depth * fields * _DOUBLE_BYTES), "halo", program.GRID),
            program.work(points**2 * fields / ranks * point_us),
            program.wait("halo"),
        ]
        return Program(ranks, steps, program.grid_communicators(rows, columns))

    return Pattern(
        f"halo:{text}", f"stencil on {points} points each way, {fields} fields", make,
        f"{point_us * 1e3:g} ns of a core for a point's field; all edges of a tile have its mean length",
        "the same points on more ranks",
    )  # fmt: skip


def _plain(collective: str, text: str) -> Pattern:
    size_text, _, rest = text.partition(",")
    size = parse_size(size_text)
    words = _Words(collective, rest)
    work_us = words.time_us("work")
    words.finish("work")

    def make(ranks: int) -> Program:
        own = program.whole_elements(size) if "reduce" in collective else size
        return Program(ranks, [program.post(collective, own, "a"), program.work(work_us), program.wait("a")])

    title = f"{collective} of {format_size(size)} beside {work_us / 1e3:g} ms of work"
    return Pattern(f"{collective}:{text}", title, make, "", "each rank the same work and blocks")


_KINDS: Mapping[str, Callable[[str], Pattern]] = {"fft": _fft, "training": _training, "halo": _halo}


def parse(text: str) -> Pattern:
    """From a command line."""
    kind, colon, rest = text.partition(":")
    if kind in _KINDS and colon:
        return _KINDS[kind](rest)
    if kind in PLAIN and colon:
        return _plain(kind, rest)
    known = ", ".join((*_KINDS, *PLAIN))
    raise UserError(f"'{text}' is neither a file of a trace nor a pattern; write fft:N=1024,pencil, or one of {known}")


def with_size(text: str, size: int) -> str:
    """The pattern with another block size."""
    kind, _, rest = text.partition(":")
    if kind not in PLAIN:
        raise UserError(f"--size is for patterns of one collective, like ialltoall:64KiB,work=2ms, not for {kind}")
    return f"{kind}:{size},{rest.partition(',')[2]}"
