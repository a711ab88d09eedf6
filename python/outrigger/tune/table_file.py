"""The file of rules with their measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from outrigger.errors import UserError
from outrigger.noise import Band
from outrigger.sizes import format_size
from outrigger.tune.figures import Figures
from outrigger.tune.rules import Rule

_WIDTH = 116


@dataclass(frozen=True)
class Origin:
    """Origin of the figures."""

    machine: str
    mpi: str
    ranks: int
    nodes: int
    memory: str
    date: str
    command: str
    complete: bool = True
    """False: ended before all rounds were done."""


def _comment(words: Sequence[str]) -> list[str]:
    lines = ["#"]
    for word in words:
        if len(lines[-1]) + len(word) + 1 > _WIDTH:
            lines.append("#  ")
        lines[-1] += f" {word}"
    return lines


def in_words(size: int, bands: Mapping[str, Band]) -> str:
    """For one size."""
    where = format_size(size) if size else "all sizes"
    return f"{where}: {', '.join(f'{name} {band}' for name, band in bands.items())}"


def _header(origin: Origin, figures: Figures, path: Path) -> list[str]:
    ended = "" if origin.complete else "; it was ended early"
    return [
        "# Measured choice of algorithms on this machine. To use it:",
        f"#   outrigger run --algorithm {path} -- PROGRAM",
        "#",
        f"# machine: {origin.machine}",
        f"# MPI: {origin.mpi}; {origin.ranks} ranks, {origin.nodes} {'node' if origin.nodes == 1 else 'nodes'}, "
        f"buffers from {origin.memory}",
        f"# date: {origin.date}; {figures.rounds} rounds{ended}",
        f"# command: {origin.command}",
        "#",
        "# Figures are totals by equal work, by native's of the same run: medians (lowest to highest that are likely).",
        "# Without a matching rule the built-in table decides: nothing was better beyond noise.",
    ]


def _all_figures(figures: Figures) -> list[str]:
    lines: list[str] = []
    for collective, sizes in figures.ratios.items():
        lines += ["#", f"# {collective}"]
        for size in sizes:
            lines += _comment(["", in_words(size, figures.bands(collective, size))])
    return lines


def _rule(rule: Rule, nodes: int) -> list[str]:
    lines = [""]
    for size, bands in rule.measured:
        lines += _comment([in_words(size, bands)])
    lines += ["[[rule]]", f'collective = "{rule.collective}"', "nodes = 1" if nodes == 1 else 'nodes = "2-"']
    if rule.bytes_text:
        lines.append(f'bytes = "{rule.bytes_text}"')
    return [*lines, f'algorithm = "{rule.algorithm}"']


def text_of(rules: Sequence[Rule], figures: Figures, origin: Origin, path: Path) -> str:
    """Content of the file. A file needs a rule: without a choice, one that states the default."""
    lines = [*_header(origin, figures, path), *_all_figures(figures)]
    for rule in rules:
        lines += _rule(rule, origin.nodes)
    if not rules:
        lines += ["", "# Nothing was better than the built-in table beyond noise.", "[[rule]]", 'algorithm = "auto"']
    return "\n".join(lines) + "\n"


def write(text: str, path: Path) -> None:
    """Writes atomically."""
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise UserError(f"-o {path}: {error.strerror}") from error
