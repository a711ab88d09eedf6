"""The model's prediction of a cell: `outrigger-sim time` on a cluster file."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from outrigger import formats
from outrigger.artifacts import Artifacts
from outrigger.calibrate.readings import Cell, Times
from outrigger.errors import UserError

ROUNDS = 3
_TIMEOUT_S = 300


@dataclass(frozen=True)
class _Side:
    pure_us: float
    total_us: float


@dataclass(frozen=True)
class _Line:
    work_us: float
    native: _Side
    offloaded: _Side


def _run(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"the model does not run: {error}") from error
    if done.returncode != 0:
        raise UserError(f"the model says: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def command_for(cell: Cell, work_us: float, simulator: Path, cluster: Path) -> list[str]:
    """With the same work as in the measurement."""
    return [
        str(simulator), "time", "--json", "--cluster", str(cluster),
        "--pattern", f"{cell.collective}:{cell.bytes}B", "--nodes", str(cell.nodes),
        "--ranks-per-node", str(cell.ranks_per_node), "--services", str(cell.services),
        "--algorithm", cell.algorithm, "--work", f"{max(1, round(1e3 * work_us))} ns", "--rounds", str(ROUNDS),
    ]  # fmt: skip


def simulator_of(found: Artifacts) -> Path:
    """`outrigger-sim`."""
    path = found.programs / "outrigger-sim"
    if not path.exists():
        raise found.missing(path)
    return path


def rates(simulator: Path) -> str:
    """Memory rates of this machine's cores, as a line of JSON."""
    return _run([str(simulator), "rates"])


def predict(cell: Cell, work_us: float, simulator: Path, cluster: Path) -> Times:
    """UserError: the cluster file is invalid, or too small for the cell."""
    output = _run(command_for(cell, work_us, simulator, cluster))
    line = formats.parse(formats.json_line(output, "outrigger-sim"), _Line, "what outrigger-sim printed")
    native, offloaded = line.native, line.offloaded
    return Times(line.work_us, native.pure_us, native.total_us, offloaded.pure_us, offloaded.total_us)
