"""A cluster file with measured numbers; clusters/README.md describes it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from outrigger.calibrate.estimates import Estimate
from outrigger.calibrate.readings import Readings
from outrigger.errors import UserError

_TIMES = frozenset(
    ("host.switch", "mpi.post", "mpi.message", "mpi.rendezvous", "mpi.thread_switch", "network.message",
     "network.latency", "network.hop", "service.notice", "service.event", "service.message", "service.move",
     "service.mark", "noise.skew")
)  # fmt: skip
_SIZES = frozenset(("host.cache", "mpi.eager", "network.queue", "network.burst", "network.chunk"))
_PARTS = frozenset(("noise.work",))
_RATE_UNIT = 1e6
_WIDTH = 34


@dataclass(frozen=True)
class ClusterFile:
    """All keys of a file: words as text, and numbers with their estimates."""

    words: Mapping[str, str]
    numbers: Mapping[str, Estimate] = field(default_factory=dict)


def _rounded(key: str, value: float, toward: float) -> float:
    """Whole ns and bytes; `toward`: -1 or 1 for a bound, so that it remains one."""
    unit = _RATE_UNIT / 1000 if key not in _TIMES | _SIZES else 1.0
    in_units = value / unit
    whole = round(in_units) if toward == 0 else math.floor(in_units) if toward < 0 else math.ceil(in_units)
    return whole * unit


def text_of(key: str, value: float, toward: float = 0) -> str:
    """A quantity in a cluster file's form, without quotes."""
    if key in _PARTS:
        return f"{value:.4f}"
    rounded = _rounded(key, value, toward)
    if key in _TIMES:
        return f"{rounded:.0f} ns" if rounded < 10_000 else f"{rounded / 1000:.3f} us"
    if key in _SIZES:
        return f"{rounded:.0f} B"
    return f"{rounded / _RATE_UNIT:.3f} MB/s"


def _line(key: str, text: str, remark: str) -> str:
    line = f"{key.partition('.')[2]} = {text}"
    return f"{line:<{_WIDTH}}# {remark}" if remark else line


def _remark(key: str, one: Estimate) -> str:
    if not one.measured:
        return one.how
    between = f"{text_of(key, one.low, -1)} to {text_of(key, one.high, 1)}"
    return "; ".join(filter(None, (between, one.how, one.doubt)))


def _tables(file: ClusterFile) -> dict[str, list[str]]:
    lines: dict[str, list[str]] = {table: [] for table in ("host", "mpi", "network", "service", "noise")}
    for key, text in file.words.items():
        lines.setdefault(key.partition(".")[0], []).append(_line(key, text, ""))
    for key, one in file.numbers.items():
        text = text_of(key, one.value)
        quoted = text if key in _PARTS else f'"{text}"'
        lines[key.partition(".")[0]].append(_line(key, quoted, _remark(key, one)))
    return lines


def _confidence(file: ClusterFile) -> list[str]:
    bounds: dict[str, list[str]] = {}
    for key, one in file.numbers.items():
        if not one.measured or key in _PARTS:
            continue
        table, _, name = key.partition(".")
        pair = f'["{text_of(key, one.low, -1)}", "{text_of(key, one.high, 1)}"]'
        bounds.setdefault(table, []).append(f"{name} = {pair}")
    return [line for table, lines in bounds.items() for line in (f"[confidence.{table}]", *lines, "")]


def _ascii(text: str) -> str:
    return text.encode("ascii", "replace").decode()


def text_of_file(file: ClusterFile, readings: Readings, notes: list[str]) -> str:
    """The whole file."""
    head = [
        f"# Measured by `{readings.command}`",
        f"# on {readings.machine}, {readings.mpi}, {readings.date}. Intervals are of 95 %.",
        *(f"# {note}" for note in notes),
        f'name = "{readings.machine.replace(chr(34), "")}"',
        f"nodes = {file.words['nodes']}",
        "",
    ]
    words = {key: text for key, text in file.words.items() if key != "nodes"}
    tables = _tables(ClusterFile(words, file.numbers))
    body = [line for table, lines in tables.items() if lines for line in (f"[{table}]", *lines, "")]
    return _ascii("\n".join([*head, *body, *_confidence(file)]).rstrip() + "\n")


def write(path: Path, text: str) -> None:
    """UserError: it cannot be written."""
    try:
        path.write_text(text, encoding="ascii")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error
