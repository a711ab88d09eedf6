"""Whether `outrigger predict` advises what is fastest on this machine, for the three examples.

    outrigger calibrate --out here.toml                    # on a quiet machine
    .venv/bin/python bench/validate_advice.py --cluster here.toml -n 4

Each example is traced with nonblocking calls that stay native, and predicted from that trace alone. Then it is run in
every way that the prediction has been asked for: blocking, nonblocking, with MPI_Test, and offloaded with each number
of service processes. The advised way has to be within 5 % of the fastest one that was measured. All ways have the same
cores (--bind none), unless told otherwise; the cluster's file has to be of that placement.

--keep DIR keeps traces and figures there, and measures only what is not there yet: to judge other files by them.

On a cluster: --nodes and --hostfile, with a file that was calibrated there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from outrigger import artifacts, itself, scratch
from outrigger.bench import examples
from outrigger.bench.command import choose_mpis
from outrigger.bench.example_figures import OFFLOADED
from outrigger.bench.example_runner import Bench, Request
from outrigger.bench.examples import Example
from outrigger.errors import UserError

WITHIN = 1.05
EXAMPLES: Mapping[str, tuple[Example, tuple[str, ...]]] = {
    "fft3d": (
        examples.fft3d("96,96,96", 4, 20, "malloc", 8),
        ("--grid", "96,96,96", "--variables", "4", "--iterations", "20"),
    ),
    "halo": (
        examples.halo("2048,2048", 4, 50, "malloc", 16),
        ("--grid", "2048,2048", "--fields", "4", "--steps", "50"),
    ),
    "training": (
        examples.training(6, 512, 256, 20, 1024, "malloc"),
        ("--layers", "6", "--width", "512", "--samples", "256", "--steps", "20", "--bucket-kib", "1024"),
    ),
}
MEASURED = ("blocking", "nonblocking", "testing")


@dataclass(frozen=True)
class Verdict:
    """Of one example. Milliseconds by way."""

    name: str
    measured: Mapping[str, float]
    predicted: Mapping[str, float]
    advised: str

    @property
    def best(self) -> str:
        """Of those that were measured."""
        return min(self.measured, key=lambda way: self.measured[way])

    @property
    def off(self) -> float:
        """How many times longer the advised way takes than that."""
        return self.measured[self.advised] / self.measured[self.best]


def way_of(one: Mapping[str, Any]) -> str:
    """As both sides name it."""
    return f"offloaded, {one['services']}" if one["way"] == "offloaded" else str(one["way"])


def run(*words: str) -> None:
    command = [*itself.command(), *words]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"outrigger {' '.join(words)} ended with exit code {done.returncode}:\n{done.stderr}")


def trace(told: argparse.Namespace, example: Example, where: Sequence[str], file: Path) -> None:
    found = artifacts.find(told.build)
    (mpi,) = choose_mpis(told.mpi)
    stays_native = ("--algorithm", "all=native")
    request = Request(example, told.ranks, 1, tuple(where), stays_native, binds=told.bind != "none")
    Bench(request, mpi, found).run(OFFLOADED, extra=("--trace", str(file)))


def predict(told: argparse.Namespace, file: Path, directory: Path) -> tuple[dict[str, float], str]:
    figures = directory / "predicted.json"
    per_node = str(told.ranks // told.nodes)
    run(
        "predict", str(file), "--cluster", str(told.cluster), "--nodes", str(told.nodes), "--ranks-per-node", per_node,
        "--services", ",".join(map(str, told.services)), "--seeds", "5", "--json", str(figures),
    )  # fmt: skip
    data = json.loads(figures.read_text(encoding="utf-8"))
    known = [*MEASURED, *(f"offloaded, {count}" for count in told.services)]
    times = {way_of(one): one["step_us"] / 1e3 for one in data["configurations"]}
    return {way: times[way] for way in known if way in times}, way_of(data["advised"][0])


def measure(
    told: argparse.Namespace, name: str, size: Sequence[str], where: Sequence[str], directory: Path
) -> dict[str, float]:
    """Natives' figures are the least of all runs: there is one of them for each number of service processes."""
    times: dict[str, float] = {}
    for count in told.services:
        file = directory / f"{name}-{count}.json"
        if not file.exists():
            run(
                "bench", name, "-n", str(told.ranks), "--mpi", told.mpi, "--rounds", str(told.rounds), *size, *where,
                "--services", str(count), "--json", str(file),
            )  # fmt: skip
        (found,) = json.loads(file.read_text(encoding="utf-8")).values()
        if found["not_offloaded"]:
            raise SystemExit(f"{name} was not offloaded: {found['not_offloaded']}")
        lanes = {key: float(lane["median_ms"]) for key, lane in found["lanes"].items()}
        for way in MEASURED:
            if way in lanes:
                times[way] = min(lanes[way], times.get(way, lanes[way]))
        times[f"offloaded, {count}"] = lanes["offloaded"]
    return times


def show(verdict: Verdict, screen: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD, title=verdict.name, title_justify="left", title_style="bold", pad_edge=False)
    table.add_column("way")
    for name in ("measured, ms", "predicted, ms", "error"):
        table.add_column(name, justify="right")
    table.add_column("")
    for way, measured in verdict.measured.items():
        predicted = verdict.predicted.get(way)
        notes = [
            text for text, holds in (("fastest", way == verdict.best), ("advised", way == verdict.advised)) if holds
        ]
        error = "" if predicted is None else f"{100 * (predicted / measured - 1):+.0f} %"
        told = "left out" if predicted is None else f"{predicted:.2f}"
        table.add_row(way, f"{measured:.2f}", told, error, ", ".join(notes))
    screen.print(table)
    within = "within" if verdict.off <= WITHIN else "NOT within"
    screen.print(f"The advised way takes {100 * (verdict.off - 1):.1f} % more than the fastest: {within} 5 %.\n")


def check(told: argparse.Namespace, name: str) -> Verdict:
    example, size = EXAMPLES[name]
    where = ["--bind", told.bind]
    where += ["--hostfile", str(told.hostfile)] if told.hostfile is not None else []
    with scratch.directory() as made:
        directory = told.keep or Path(made)
        traced = directory / f"{name}.trace.json"
        if not traced.exists():
            trace(told, example, where, traced)
        predicted, advised = predict(told, traced, Path(made))
        return Verdict(name, measure(told, name, size, where, directory), predicted, advised)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cluster", type=Path, required=True, help="file of this machine, by outrigger calibrate")
    parser.add_argument("-n", "--ranks", type=int, default=4)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--hostfile", type=Path)
    parser.add_argument("--services", type=lambda text: [int(word) for word in text.split(",")], default=[1, 2])
    parser.add_argument("--mpi", default="mpich", help="one; mpich, openmpi, intel")
    parser.add_argument("--bind", default="none", help="as for outrigger run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--example", choices=tuple(EXAMPLES), action="append")
    parser.add_argument("--keep", type=Path, help="a directory for what is measured")
    parser.add_argument("--build", type=Path)
    told = parser.parse_args()
    if told.ranks % told.nodes != 0:
        parser.error(f"-n {told.ranks}: as many on each of {told.nodes} nodes")
    if told.keep is not None:
        told.keep.mkdir(parents=True, exist_ok=True)
    screen = Console(highlight=False)
    verdicts = []
    for name in told.example or EXAMPLES:
        try:
            verdicts.append(check(told, name))
        except UserError as error:
            raise SystemExit(f"{name}: {error}") from None
        show(verdicts[-1], screen)
    return 0 if all(verdict.off <= WITHIN for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
