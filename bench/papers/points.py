"""Reads the papers' figures from points.toml and checks every field."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrigger.errors import UserError

POINTS = Path(__file__).with_name("points.toml")
USES = ("calibrate", "held_out", "not_modelled")
_KIB = 1 << 10
_UNITS = {"B": 1, "KiB": _KIB, "MiB": _KIB << 10}


@dataclass(frozen=True)
class Band:
    """How far a prediction may be from the paper's figure."""

    width: float
    kind: str
    """"points", "percent" of the stated value, or "octaves"."""

    def __str__(self) -> str:
        unit = {"points": " points", "percent": " %", "octaves": " octave"}[self.kind]
        return f"{self.width:g}{unit}"


_POINTS_3, _POINTS_5 = Band(3, "points"), Band(5, "points")
_RATIO, _OCTAVE, _CALIBRATED = Band(10, "percent"), Band(1, "octaves"), Band(3, "percent")
BANDS = {
    "latency_us": _CALIBRATED,
    "bandwidth_gb_per_s": _CALIBRATED,
    "parameter_gb_per_s": _CALIBRATED,
    "overlap_percent": _POINTS_3,
    "native_overlap_percent": _POINTS_3,
    "latency_ratio": _RATIO,
    "growth": _RATIO,
    "service_gain": _RATIO,
    "total_gain_percent": _POINTS_5,
    "best_services": _OCTAVE,
    "crossover_kib": _OCTAVE,
    "fft_gain_percent": _POINTS_5,
    "fft_communication_ratio": _RATIO,
    "late_percent": _POINTS_3,
}


@dataclass(frozen=True)
class Memory:
    """Memory traffic of an FFT pass: how often an element goes through memory, and the share of the rate achieved."""

    passes: float
    efficiency: float


@dataclass(frozen=True)
class Fft:
    """A batch of three-dimensional FFTs of `variables` grids; each rank has a pencil."""

    grids: tuple[int, ...]
    nodes: int
    ranks_per_node: int
    services: int
    variables: int
    element_bytes: int
    native: str
    algorithm: str


@dataclass(frozen=True)
class Shape:
    """A collective on a job."""

    collective: str
    sizes_bytes: tuple[int, ...]
    nodes: int
    ranks_per_node: int
    services: int
    native: str
    algorithm: str
    mapping: str = "contiguous"
    from_nodes: int | None = None
    of: str = "highest"


@dataclass(frozen=True)
class Point:
    id: str
    paper: str
    where: str
    states: str
    quantity: str
    use: str
    at_least: float | None
    at_most: float | None
    cluster: str = ""
    shape: Shape | None = None
    fft: Fft | None = None
    key: str = ""
    """Key in the cluster file, if the point is one of its parameters."""
    changes: tuple[tuple[str, str], ...] = ()
    """Changed values of the cluster file, by key."""
    why: str = ""
    """Why it is not modelled."""
    differs: str = ""
    """How the paper's design differs from the engine's."""

    @property
    def band(self) -> Band:
        return BANDS[self.quantity]


class _Table:
    """A table in which every key must be read."""

    def __init__(self, table: Mapping[str, Any], name: str) -> None:
        self._left = dict(table)
        self._name = name

    def take(self, key: str, kind: type | tuple[type, ...], otherwise: Any = None) -> Any:
        value = self._left.pop(key, None)
        if value is None and otherwise is None:
            raise UserError(f"{self._name}: no '{key}'")
        if value is None:
            return otherwise
        if not isinstance(value, kind) or isinstance(value, bool):
            raise UserError(f"{self._name}: {key} = {value!r} is of the wrong kind")
        return value

    def one_of(self, key: str, known: tuple[str, ...], otherwise: str | None = None) -> str:
        value: str = self.take(key, str, otherwise)
        if value not in known:
            raise UserError(f"{self._name}: {key} = '{value}' is none of {', '.join(known)}")
        return value

    def count(self, key: str) -> int:
        value: int = self.take(key, int)
        if value < 1:
            raise UserError(f"{self._name}: {key} = {value}: one at least")
        return value

    def has(self, key: str) -> bool:
        return key in self._left

    def nothing_left(self) -> None:
        if self._left:
            raise UserError(f"{self._name}: '{next(iter(self._left))}' is not a key of it")


def parse_size(text: str, name: str) -> int:
    number, _, unit = text.partition(" ")
    if not number.isdigit() or unit not in _UNITS:
        raise UserError(f"{name}: '{text}' is no size; write 64 KiB")
    return int(number) * _UNITS[unit]


def _shape(table: _Table, name: str) -> Shape:
    return Shape(
        table.one_of("collective", ("ialltoall", "iallgather", "ibcast")),
        tuple(parse_size(str(size), name) for size in table.take("sizes", list)),
        table.count("nodes"),
        table.count("ranks_per_node"),
        table.count("services"),
        table.take("native", str),
        table.take("algorithm", str),
        table.one_of("mapping", ("contiguous", "strided"), "contiguous"),
        table.count("from_nodes") if table.has("from_nodes") else None,
        table.one_of("of", ("highest", "lowest"), "highest"),
    )


def _fft(values: Mapping[str, Any], name: str) -> Fft:
    table = _Table(values, f"{name}: fft")
    fft = Fft(
        tuple(int(grid) for grid in table.take("grids", list)),
        table.count("nodes"),
        table.count("ranks_per_node"),
        table.count("services"),
        table.count("variables"),
        table.count("element_bytes"),
        table.take("native", str),
        table.take("algorithm", str),
    )
    table.nothing_left()
    return fft


def _point(values: Mapping[str, Any]) -> Point:
    name = f"point {values.get('id', '(without id)')}"
    table = _Table(values, name)
    value = table.take("value", float) if table.has("value") else None
    at_least = value if value is not None else (table.take("at_least", float) if table.has("at_least") else None)
    at_most = value if value is not None else (table.take("at_most", float) if table.has("at_most") else None)
    if at_least is None and at_most is None:
        raise UserError(f"{name}: it states nothing: neither value nor at_least nor at_most")
    use = table.one_of("use", USES)
    modelled = use != "not_modelled"
    quantity = table.one_of("quantity", tuple(BANDS))
    is_fft = quantity.startswith("fft_")
    point = Point(
        table.take("id", str),
        table.take("paper", str),
        table.take("where", str),
        table.take("states", str),
        quantity,
        use,
        at_least,
        at_most,
        table.take("cluster", str) if modelled else "",
        _shape(table, name) if use == "held_out" and not is_fft else None,
        _fft(table.take("fft", dict), name) if modelled and is_fft else None,
        table.take("key", str, ""),
        tuple(table.take("set", dict, {}).items()),
        "" if modelled else table.take("why", str),
        table.take("differs", str, ""),
    )
    table.nothing_left()
    return point


def read(path: Path = POINTS) -> tuple[list[Point], Memory]:
    try:
        whole = tomllib.loads(path.read_text(encoding="ascii"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"cannot read {path}: {error}") from error
    points = [_point(values) for values in whole.get("point", [])]
    ids = [point.id for point in points]
    for id_ in ids:
        if ids.count(id_) > 1:
            raise UserError(f"{path}: two points are '{id_}'")
    memory = _Table(whole.get("fft", {}), f"{path}: [fft]")
    return points, Memory(float(memory.take("memory_passes", (int, float))), memory.take("memory_efficiency", float))
