"""Runs of the simulator, kept in a file so that each is done only once."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from outrigger.errors import UserError

CLUSTERS = Path(__file__).resolve().parents[2] / "clusters"
_CHUNK_BYTES = 1 << 16
_NO_WORK = "0 ns"
_RATES = {"B/s": 1.0, "MB/s": 1e6, "GB/s": 1e9, "Mbit/s": 1.25e5, "Gbit/s": 1.25e8}


@dataclass(frozen=True)
class Run:
    """One call of `outrigger-sim time`."""

    cluster: str
    collective: str
    block_bytes: int
    nodes: int
    ranks_per_node: int
    services: int
    native: str = "default"
    algorithm: str = "default"
    mapping: str = "contiguous"
    work: str = "own"
    changes: tuple[tuple[str, str], ...] = ()
    """Changed values of the cluster file: (table.key, value)."""

    @property
    def pure(self) -> Run:
        """Without computation: half as much to simulate if only the pure latency is needed."""
        return replace(self, work=_NO_WORK)

    @property
    def instead(self) -> Run:
        """A run that also has this one's pure latency."""
        return replace(self, work="own") if self.work == _NO_WORK else self

    @property
    def cost(self) -> float:
        """An estimate of the simulator's effort: the number of chunks moved."""
        ranks = self.nodes * self.ranks_per_node
        pairs = ranks if self.collective == "ibcast" else ranks * ranks
        return pairs * (1 + self.block_bytes / _CHUNK_BYTES) * (1 if self.work == _NO_WORK else 2)

    @property
    def options(self) -> list[str]:
        return [
            f"--pattern={self.collective}:{self.block_bytes}B",
            f"--nodes={self.nodes}",
            f"--ranks-per-node={self.ranks_per_node}",
            f"--services={self.services}",
            f"--native={self.native}",
            f"--algorithm={self.algorithm}",
            f"--mapping={self.mapping}",
            f"--work={self.work}",
            "--rounds=1",
        ]

    @property
    def name(self) -> str:
        changes = [f"{key}={value}" for key, value in self.changes]
        return " ".join([self.cluster, *self.options, *changes])


@dataclass(frozen=True)
class Side:
    pure_us: float
    exposed_us: float
    total_us: float


@dataclass(frozen=True)
class Outcome:
    native: Side
    offloaded: Side


def cluster_values(cluster: str) -> dict[str, Any]:
    path = CLUSTERS / f"{cluster}.toml"
    try:
        return tomllib.loads(path.read_text(encoding="ascii"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"cannot read {path}: {error}") from error


def rate_bytes_per_s(cluster: str, key: str) -> float:
    """The rate at a key of a cluster file, e.g. "host.memory"."""
    table, _, name = key.partition(".")
    text = str(cluster_values(cluster).get(table, {}).get(name, ""))
    number, _, unit = text.partition(" ")
    try:
        return float(number) * _RATES[unit]
    except (KeyError, ValueError):
        raise UserError(f"{cluster}: {key} = '{text}' is no rate") from None


def _as_toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value)


def changed_cluster(cluster: str, changes: Mapping[str, str]) -> str:
    """The text of a cluster file with changed values."""
    values = cluster_values(cluster)
    for key, value in changes.items():
        table, _, name = key.partition(".")
        if name not in values.get(table, {}):
            raise UserError(f"{cluster}: there is no {key} to set")
        values[table][name] = value
    lines = [f"{key} = {_as_toml(value)}" for key, value in values.items() if not isinstance(value, dict)]
    for table, content in values.items():
        if isinstance(content, dict):
            lines += [f"[{table}]", *(f"{key} = {_as_toml(value)}" for key, value in content.items())]
    return "\n".join(lines) + "\n"


def _side(values: Mapping[str, Any]) -> Side:
    return Side(float(values["pure_us"]), float(values["exposed_us"]), float(values["total_us"]))


class Runs:
    """Results of the simulator, by run. `kept` is read first and written after each run."""

    def __init__(self, simulator: Path, kept: Path | None) -> None:
        self._simulator = simulator
        self._kept = kept
        self._said: dict[str, dict[str, Any]] = {}
        if kept is not None and kept.exists():
            self._said = json.loads(kept.read_text(encoding="utf-8"))

    def __getitem__(self, run: Run) -> Outcome:
        said = self._said[run.instead.name if run.instead.name in self._said else run.name]
        return Outcome(_side(said["native"]), _side(said["offloaded"]))

    def __contains__(self, run: Run) -> bool:
        return run.name in self._said or run.instead.name in self._said

    def do(self, runs: Iterable[Run], jobs: int) -> None:
        """Does all missing runs, the short ones first."""
        wanted = dict.fromkeys(runs)
        left = [run for run in wanted if run not in self and (run.instead == run or run.instead not in wanted)]
        left.sort(key=lambda run: run.cost)
        with ThreadPoolExecutor(max_workers=jobs) as pool:
            begun = {pool.submit(self._simulate, run): run for run in left}
            for number, done in enumerate(as_completed(begun), 1):
                run = begun[done]
                self._said[run.name] = done.result()
                print(f"{number} of {len(left)}: {run.name}", file=sys.stderr, flush=True)
                self._keep()

    def _simulate(self, run: Run) -> dict[str, Any]:
        with tempfile.NamedTemporaryFile("w", suffix=".toml", encoding="ascii") as file:
            file.write(changed_cluster(run.cluster, dict(run.changes)))
            file.flush()
            command = [str(self._simulator), "time", "--json", f"--cluster={file.name}", *run.options]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise UserError(f"{' '.join(command)}: {done.stderr.strip()}")
        said = json.loads(done.stdout)
        return {
            side: {key: said[side][key] for key in ("algorithm", "pure_us", "exposed_us", "total_us")}
            for side in ("native", "offloaded")
        }

    def _keep(self) -> None:
        if self._kept is not None:
            lines = [f"{json.dumps(name)}: {json.dumps(self._said[name])}" for name in sorted(self._said)]
            self._kept.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
