"""Cluster files: read, modified for a what-if, and drawn from their stated intervals."""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrigger.errors import UserError

_HEADER = re.compile(r"^\s*\[([A-Za-z0-9_.\"-]+)\]\s*(?:#.*)?$")
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*(.*)")
_BARE = re.compile(r"true|false|[+-]?\d+(\.\d+)?")
CONFIDENCE = "confidence"
_PREFIXES = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
             "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30}  # fmt: skip
KEPT = ("name", "nodes")


@dataclass(frozen=True)
class ClusterFile:
    """Text of a cluster file, with the values used here."""

    path: str
    text: str

    @property
    def data(self) -> dict[str, Any]:
        """All values."""
        try:
            return tomllib.loads(self.text)
        except tomllib.TOMLDecodeError as error:
            raise UserError(f"{self.path}: {error}") from error

    def needed(self, table: str, key: str, kind: type) -> Any:
        """A required value."""
        found = self.data.get(table, {}) if table else self.data
        value = found.get(key) if isinstance(found, dict) else None
        if not isinstance(value, kind):
            raise UserError(f"{self.path}: {table + '.' if table else ''}{key} is missing, or of another kind")
        return value

    @property
    def name(self) -> str:
        """To print."""
        return str(self.needed("", "name", str))

    @property
    def nodes(self) -> int:
        """Maximum of a job."""
        return int(self.needed("", "nodes", int))

    @property
    def cores(self) -> int:
        """For ranks, per node."""
        return int(self.needed("host", "cores", int))

    @property
    def all_cores(self) -> int:
        """Per node, including cores of service processes that are not among those for ranks."""
        return self.cores + (self.services if self.own_core else 0)

    @property
    def placement(self) -> str:
        """host_core or dpu."""
        return str(self.needed("service", "placement", str))

    @property
    def services(self) -> int:
        """Per node, by default."""
        return int(self.needed("service", "per_node", int))

    @property
    def own_core(self) -> bool:
        """True if service processes have their own cores of the host."""
        return self.placement == "host_core" and bool(self.data["service"].get("own_core", False))

    @property
    def has_noise(self) -> bool:
        """True if two seeds can differ."""
        return bool(self.data.get("noise"))

    def without(self, table: str) -> ClusterFile:
        """All but a table and its subtables."""
        kept = []
        inside = False
        for line in self.text.splitlines(keepends=True):
            if header := _HEADER.match(line):
                inside = header[1] == table or header[1].startswith(f"{table}.")
            if not inside:
                kept.append(line)
        return ClusterFile(self.path, "".join(kept))

    def changed(self, key: str, value: str) -> ClusterFile:
        """With another value: `key` is table.key, or name or nodes."""
        table, _, name = key.rpartition(".")
        lines = self.text.splitlines(keepends=True)
        here, at, end = "", None, None if table else 0
        for number, line in enumerate(lines):
            if header := _HEADER.match(line):
                here = header[1]
                end = number + 1 if here == table else end
            elif here == table and re.match(rf"\s*{re.escape(name)}\s*=", line):
                at = number
        if end is None or not name:
            raise UserError(f"--set {key}={value}: {self.path} has no table [{table}]")
        written = f"{name} = {value if _BARE.fullmatch(value) else _quoted(value)}\n"
        lines[at if at is not None else end : at + 1 if at is not None else end] = [written]
        return ClusterFile(self.path, "".join(lines))


def _quoted(value: str) -> str:
    if set(value) & set('"\\\n'):
        raise UserError(f"--set: {value!r} has a quote, a backslash or a line's end")
    return f'"{value}"'


def read(path: Path) -> ClusterFile:
    """From disk."""
    try:
        found = ClusterFile(str(path), path.read_text(encoding="ascii"))
    except OSError as error:
        raise UserError(f"--cluster {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"--cluster {path} cannot be read: this is not a text file") from error
    return found


def with_settings(cluster: ClusterFile, settings: Sequence[str]) -> ClusterFile:
    """Each is table.key=value."""
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not value.strip() or ("." not in key and key not in KEPT):
            raise UserError(f"--set {setting}: write table.key=value, as network.link=400Gbit/s")
        cluster = cluster.changed(key.strip(), value.strip())
    return cluster


def _pairs(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Sequence[Any]]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _pairs(value, f"{prefix}{key}.")
        elif isinstance(value, list) and len(value) == 2:
            yield f"{prefix}{key}", value


def _factor(unit: str, into: str, what: str) -> float:
    """Conversion factor between two units that differ only in the prefix."""
    if unit == into:
        return 1.0
    for base in ("s", "B/s", "B", "bit/s"):
        prefixes = [_PREFIXES.get(one.removesuffix(base)) if one.endswith(base) else None for one in (unit, into)]
        if prefixes[0] is not None and prefixes[1] is not None:
            return prefixes[0] / prefixes[1]
    raise UserError(f"{what}: '{unit}' and '{into}' are not of one kind")


def intervals(cluster: ClusterFile) -> dict[str, tuple[float, float, str]]:
    """Stated intervals of the file's numbers: least, most and unit, by table.key."""
    found = {}
    for key, (low, high) in _pairs(cluster.data.get(CONFIDENCE, {})):
        ends = [_QUANTITY.fullmatch(str(end)) for end in (low, high)]
        if ends[0] is None or ends[1] is None:
            raise UserError(f"{cluster.path}: {CONFIDENCE}.{key}: write two numbers with their units")
        unit = ends[0][2]
        found[key] = (float(ends[0][1]), float(ends[1][1]) * _factor(ends[1][2], unit, f"{CONFIDENCE}.{key}"), unit)
    return found


def decimal(number: float) -> str:
    """Six significant digits without exponent, which quantities do not allow."""
    return f"{float(f'{number:.6g}'):.12f}".rstrip("0").rstrip(".")


def drawn(cluster: ClusterFile, seed: int) -> ClusterFile:
    """Each number from its interval, all values equally likely; the first seed has the file's own numbers."""
    plain = cluster.without(CONFIDENCE)
    if seed == 1:
        return plain
    chance = random.Random(seed)
    for key, (low, high, unit) in sorted(intervals(cluster).items()):
        plain = plain.changed(key, f"{decimal(chance.uniform(low, high))} {unit}".strip())
    return plain
