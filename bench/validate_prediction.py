"""Holds the model against measurements that it has not seen: bench/prediction_cells.toml says which.

    python bench/validate_prediction.py measure box-node --set held_out --mpi openmpi --out node.json
    python bench/validate_prediction.py measure box --set held_out --hostfile hosts --out box.json
    python bench/validate_prediction.py compare box.json node.json --json verdict.json --plot verdict.png

`measure` runs `outrigger bench`'s programs, native and offloaded in turn, where it is called: on a cluster in a box by
`outrigger cluster exec n0 --`. It takes no cell of the held-out set while the site's cluster file is not calibrated, or
has changes that are not committed. `compare` runs the model on the same cells with the site's cluster file.
"""

from __future__ import annotations

import argparse
import math
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from outrigger import artifacts, binding, formats, settings
from outrigger.bar import Bar
from outrigger.bench import jobs
from outrigger.bench.command import choose_one_mpi
from outrigger.bench.runner import Request, Runner
from outrigger.calibrate import command, estimates, model
from outrigger.calibrate.measuring import Measuring
from outrigger.calibrate.readings import Readings, parse_rates
from outrigger.calibrate.verdict import Compared, Verdict, halves_of, judge, quantiles
from outrigger.errors import UserError
from outrigger.hosts import Hosts
from outrigger.launchers import SSH
from outrigger.predict import clusters

PROJECT = Path(__file__).resolve().parents[1]
CELLS = PROJECT / "bench" / "prediction_cells.toml"
HELD_OUT = {
    "held_out": "held out",
    "later": "held out later",
    "at_once": "held out, within the hour",
    "last": "held out last",
    "anew": "held out anew",
    "by_turns": "held out, by turns",
    "by_slices": "held out, by slices",
}
RATES = ("host.copy", "host.copy_missed", "host.memory")
"""What tells whether a machine's memory is as it was when it was calibrated."""
NOISE = 0.05
"""Times that are nearer to each other have no order."""


@dataclass(frozen=True)
class Run:
    """What `measure` writes."""

    site: str
    set_name: str
    readings: list[Readings]


def plan() -> dict[str, Any]:
    return tomllib.loads(CELLS.read_text(encoding="utf-8"))


def site_of(name: str) -> dict[str, Any]:
    sites = plan()["site"]
    if name not in sites:
        raise UserError(f"{name} is none of the sites in {CELLS}: {', '.join(sites)}")
    found: dict[str, Any] = sites[name]
    return found


def check_frozen(cluster: Path) -> None:
    """UserError: the numbers that are to be tested are not measured, or not in the history yet."""
    if "confidence" not in tomllib.loads(cluster.read_text(encoding="utf-8")):
        raise UserError(f"{cluster} has not been calibrated: nothing of the held-out set is measured before that")
    asked = ["git", "-C", str(PROJECT), "status", "--porcelain", "--", str(cluster), str(CELLS)]
    changed = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    known = subprocess.run(
        ["git", "-C", str(PROJECT), "ls-files", "--error-unmatch", str(cluster)], capture_output=True, check=False
    )
    if changed or known.returncode != 0:
        raise UserError(f"{cluster} and {CELLS} have to be committed before anything of the held-out set is measured")


def measure(console: Console, options: argparse.Namespace) -> None:
    site = site_of(options.site)
    if site["hosts"] != (options.hostfile is not None):
        raise UserError(f"{options.site}: {'name its hosts by --hostfile' if site['hosts'] else 'it has no hosts'}")
    if options.set in HELD_OUT:
        check_frozen(PROJECT / site["cluster"])
    cells = plan()[options.set]
    found = artifacts.find(None)
    place = jobs.Site(Hosts(hostfile=options.hostfile, agent=SSH), binding.parse_bind(site["bind"]))
    mpi = choose_one_mpi(options.mpi, "a validation")
    lanes = [(lane.partition(":")[0], lane.partition(":")[2]) for lane in cells["lanes"]]
    measured: list[Readings] = []
    for ranks in site[options.set]["ranks"]:
        base = settings.make(found, choice=settings.FIXED)
        request = Request(
            tuple(dict.fromkeys(name for name, _ in lanes)), ("alloc_mem",), tuple(cells["sizes"]), ranks, 200,
            options.seconds, base,
        )  # fmt: skip
        runner = Runner(request, mpi, found, place)
        measuring = Measuring([runner], command.empty_readings(runner), lanes, rounds=options.rounds, messages=False)
        with Bar(console, draws_itself=True) as bar:
            measuring.measure(bar.shows)
        measuring.readings.rates = parse_rates(model.rates(model.simulator_of(found)))
        measured.append(measuring.readings)
        jobs.save_json(console, options.out, formats.as_json(Run(options.site, options.set, measured)))
        if measuring.interrupted:
            console.print("Interrupted: this is what there is.", style="yellow")
            break


def compared_of(run: Run, simulator: Path, cluster: Path, sizes: Sequence[int]) -> list[Compared]:
    return [
        Compared(
            measured.cell,
            measured.median,
            model.predict(measured.cell, measured.median.work_us, simulator, cluster),
            run.set_name == "calibration" and measured.cell.bytes in sizes,
            measured.rounds,
        )
        for readings in run.readings
        for measured in readings.cells
    ]


def read(path: Path) -> Run:
    """What `measure` or `outrigger calibrate --json` has written; of the latter the site is the file's name."""
    text = path.read_text(encoding="utf-8")
    if '"set_name"' in text:
        return formats.parse(text, Run, f"{path},")
    return Run(path.stem, "calibration", [command.read(path)])


def drift(run: Run, cluster: Path) -> str:
    """How fast memory was meanwhile, in parts of what the cluster file has; empty where that is not known."""
    calibrated = clusters.read(cluster).data
    told = []
    for key in RATES:
        table, _, name = key.partition(".")
        known = [estimates.estimate(one).get(key) for one in run.readings if one.rates is not None]
        rates = [one.value for one in known if one is not None]
        file_has = str(calibrated[table].get(name, "")).removesuffix(" MB/s")
        if rates and file_has:
            told.append(f"{key} {statistics.median(rates) / (1e6 * float(file_has)):.2f}")
    return ", ".join(told)


@dataclass(frozen=True)
class OfHalves:
    """Both halves of a measurement's rounds by whatever predicts them."""

    totals: float
    """The median error."""
    sure_pairs: int
    sure_pairs_right: int
    crossovers: int
    crossovers_near: int

    @property
    def text(self) -> str:
        share = 100 * self.sure_pairs_right / max(1, self.sure_pairs)
        return (
            f"totals off by {100 * self.totals:.0f} % at the median, {self.sure_pairs_right} of {self.sure_pairs} sure "
            f"pairs ({share:.0f} %), {self.crossovers_near} of {self.crossovers} crossovers within an octave"
        )


def judge_halves(halves: Sequence[Sequence[Compared]]) -> OfHalves:
    verdicts = [judge(half, math.log1p(NOISE)) for half in halves]
    totals = [one.errors[name] for half in halves for one in half for name in ("native total", "offloaded total")]
    return OfHalves(
        quantiles(totals).median,
        sum(one.sure_pairs for one in verdicts), sum(one.sure_pairs_right for one in verdicts),
        sum(len(one.crossovers) for one in verdicts), sum(one.crossovers_near for one in verdicts),
    )  # fmt: skip


def judge_by_itself(console: Console, compared: Sequence[Compared]) -> dict[str, OfHalves]:
    """How well a measurement says itself, and the model the same; nothing of one round."""
    halves = halves_of(compared)
    if not halves[0].by_rest:
        return {}
    found = {
        "rest": judge_halves([half.by_rest for half in halves]),
        "model": judge_halves([half.by_model for half in halves]),
    }
    console.print(f"Half of the rounds by the other half: {found['rest'].text}.")
    console.print(f"Half of the rounds by the model: {found['model'].text}.")
    return found


def show(console: Console, title: str, verdict: Verdict) -> None:
    table = Table(title=title, title_justify="left", title_style="bold", header_style="dim", box=None, pad_edge=False)
    for name in ("|error|", "cells", "median", "3 of 4 below", "9 of 10 below"):
        table.add_column(name, justify="left" if name == "|error|" else "right")
    for name, of in verdict.errors.items():
        table.add_row(name, str(of.count), *(f"{100 * part:.0f} %" for part in (of.median, of.quarter, of.tenth)))
    console.print(table)
    if verdict.pairs:
        share = 100 * verdict.pairs_right / verdict.pairs
        console.print(f"Order right in {verdict.pairs_right} of {verdict.pairs} pairs ({share:.0f} %).")
    if verdict.sure_pairs:
        share = 100 * verdict.sure_pairs_right / verdict.sure_pairs
        console.print(
            f"Of those with the same in all rounds, {verdict.sure_pairs_right} of {verdict.sure_pairs} ({share:.0f} %)."
        )
    if verdict.crossovers:
        console.print(
            f"Pays from: {verdict.crossovers_near} of {len(verdict.crossovers)} within an octave of what was measured."
        )
    for one in verdict.crossovers:
        sizes = [
            f"{size:.0f} B" if size is not None else "nowhere" for size in (one.measured_bytes, one.predicted_bytes)
        ]
        apart = "" if one.octaves is None else f", {one.octaves:.1f} octaves apart"
        console.print(f"  {one.what}: pays from {sizes[0]} measured, {sizes[1]} predicted{apart}", style="dim")


def draw(path: Path, by_site: dict[str, list[Compared]]) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1, len(by_site), figsize=(5.2 * len(by_site), 5), squeeze=False, layout="constrained"
    )
    for axis, (site, compared) in zip(axes[0], by_site.items(), strict=True):
        points = [(one, which) for one in compared for which in range(4)]
        for which, (name, color) in enumerate(
            zip(("native alone", "native with work", "offloaded alone", "offloaded with work"),
                ("#888888", "#444444", "#6baed6", "#08519c"), strict=True)
        ):  # fmt: skip
            for calibrates, marker in ((True, "o"), (False, "^")):
                chosen = [one for one, kind in points if kind == which and one.calibrates == calibrates]
                if chosen:
                    axis.scatter(
                        [one.measured.four[which] for one in chosen], [one.predicted.four[which] for one in chosen],
                        marker=marker, s=24, color=color, facecolors="none" if calibrates else color,
                        label=f"{name}, {'calibrates' if calibrates else 'held out'}",
                    )  # fmt: skip
        every = [time for one in compared for time in (*one.measured.four, *one.predicted.four)]
        ends = (min(every) / 1.5, max(every) * 1.5)
        axis.plot(ends, ends, color="black", linewidth=0.8)
        axis.fill_between(ends, [end * 0.85 for end in ends], [end * 1.15 for end in ends], color="black", alpha=0.08)
        axis.set(xscale="log", yscale="log", xlim=ends, ylim=ends, title=site, xlabel="measured, us")
        axis.set_ylabel("predicted, us")
        axis.legend(fontsize=7)
    figure.savefig(path, dpi=110)


def compare(console: Console, options: argparse.Namespace) -> None:
    simulator = model.simulator_of(artifacts.find(None))
    calibration_sizes = plan()["calibration"]["sizes"]
    by_site: dict[str, list[Compared]] = {}
    by_set: dict[str, list[Compared]] = {}
    for path in options.files:
        run = read(path)
        cluster = options.cluster or PROJECT / site_of(run.site)["cluster"]
        compared = compared_of(run, simulator, cluster, calibration_sizes)
        by_site.setdefault(run.site, []).extend(compared)
        if now := drift(run, cluster):
            console.print(f"{path.name}: rates in parts of the calibrated ones: {now}", style="dim")
        by_set.setdefault(f"{run.site}, {HELD_OUT.get(run.set_name, run.set_name)}", []).extend(compared)
    verdicts = {}
    halves = {}
    for title, compared in by_set.items():
        if compared:
            verdicts[title] = judge(compared, math.log1p(NOISE))
            show(console, title, verdicts[title])
            halves[title] = judge_by_itself(console, compared)
    found = {"verdicts": verdicts, "halves": halves, "cells": by_site}
    jobs.save_json(console, options.json, formats.as_json(found))
    if options.plot is not None:
        draw(options.plot, by_site)
        console.print(f"Plot: {options.plot}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    measuring = verbs.add_parser("measure")
    measuring.add_argument("site")
    measuring.add_argument("--set", choices=("calibration", *HELD_OUT), required=True)
    measuring.add_argument("--mpi", default="openmpi")
    measuring.add_argument("--hostfile", type=Path)
    measuring.add_argument("--rounds", type=int, default=1)
    measuring.add_argument("--seconds", type=int, default=1, help="for each cell, at most about")
    measuring.add_argument("--out", type=Path, required=True)
    comparing = verbs.add_parser("compare")
    comparing.add_argument("files", type=Path, nargs="+")
    comparing.add_argument("--cluster", type=Path, help="another file than the sites' own")
    comparing.add_argument("--json", type=Path)
    comparing.add_argument("--plot", type=Path)
    options = parser.parse_args()
    try:
        (measure if options.verb == "measure" else compare)(Console(), options)
    except UserError as error:
        print(f"validate_prediction: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
