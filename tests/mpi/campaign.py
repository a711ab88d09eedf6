"""The differential test with thousands of operations: every algorithm, number of service processes and placement.

`./dev differential` builds and calls this. A seed determines a run: its setting, ranks and operations. So a failed run
can be repeated by its seed, and a stopped campaign continues from the next one.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import installed
import pytest
from conftest import HERE, Job, Mpi, Result, build_directory, made
from hosts import Hosts
from installed import Installed

from outrigger import artifacts, tables

TABLE = "table"
"""Not an algorithm: the built-in selection table decides."""
REDUCING = ("reduce", "scan")
ALGORITHMS = {
    row.name: row.algorithms
    for row in tables.read(artifacts.find()).collectives
    if not any(word in row.name for word in REDUCING)
}
"""Algorithms of the collectives that `differential` calls."""
FORCED = tuple(dict.fromkeys(name for names in ALGORITHMS.values() for name in names))
SERVICES = (1, 2, 4)
NODES = (1, 2, 3)
LIMIT_S = 300.0
"""Time limit of a run; --patience multiplies it."""
MOST_FAILURES = 5
"""Failures after which a campaign ends."""


@dataclass(frozen=True)
class Setting:
    """Placement and algorithm of a run's operations."""

    algorithm: str
    services: int
    nodes: int
    """Pretended nodes of this machine, or hosts of a cluster."""

    def rules(self) -> list[str]:
        return [] if self.algorithm == TABLE else [self.algorithm]

    def ranks(self, least: int) -> int:
        """Enough for a rank per service process on nearly every node, with different numbers of ranks on nodes."""
        return max(least, self.nodes + self.services, min(8, self.nodes * self.services + 1))


@dataclass(frozen=True)
class Run:
    """The run of a seed."""

    seed: int
    setting: Setting
    ranks: int
    threads: int
    blocking: bool

    def __str__(self) -> str:
        setting = self.setting
        places = "1 node" if setting.nodes == 1 else f"{setting.nodes} nodes"
        extra = (", 2 threads" if self.threads == 2 else "") + (", blocking forms" if self.blocking else "")
        return f"{setting.algorithm}, {places}, {setting.services} SPs each, {self.ranks} ranks{extra}"

    def program(self, operations: int) -> list[str]:
        words = ["differential", "--seed", str(self.seed), "--operations", str(operations)]
        words += ["--threads", str(self.threads), "--blocking", str(int(self.blocking))]
        # Longer than a machine may hang: the run's own limit ends hangs.
        return [*words, "--stall-s", str(int(LIMIT_S * Job.patience) - 10)]

    def environment(self) -> dict[str, str]:
        rules = self.setting.rules()
        blocking = {"OUTRIGGER_BLOCKING": "on"} if self.blocking else {}
        return blocking | ({"OUTRIGGER_ALGORITHM": ",".join(rules)} if rules else {})


def settings(hosts: int | None) -> list[Setting]:
    """All settings; neighbors in the list differ in more than one way."""
    nodes = NODES if hosts is None else (hosts,)
    every = [Setting(*words) for words in itertools.product((TABLE, *FORCED), SERVICES, nodes)]
    step = next(step for step in range(len(every) // 3, len(every)) if _coprime(step, len(every)))
    return [every[index * step % len(every)] for index in range(len(every))]


def _coprime(one: int, other: int) -> bool:
    while other:
        one, other = other, one % other
    return one == 1


def run_of(seed: int, hosts: int | None = None) -> Run:
    """Everything about a run except the number of its operations and its MPI."""
    every = settings(hosts)
    setting = every[seed % len(every)]
    chance = random.Random(seed)
    threads = 2 if chance.random() < 0.2 else 1
    return Run(seed, setting, setting.ranks(chance.randint(2, 5)), threads, chance.random() < 0.2)


def complaint(run: Run, result: Result) -> str | None:
    """The error of a run; None: no error."""
    if result.returncode != 0 or "no difference" not in result.out:
        return f"returned {result.returncode}; its output ends:\n{result.out[-3000:]}"
    if result.report is None:
        return "no report was written: nothing was offloaded"
    entries = result.report["collectives"]
    if result.offloaded() == 0:
        return f"nothing was offloaded: {result.report}"
    if result.report["nodes"] != run.setting.nodes:
        return f"the report says {result.report['nodes']} nodes"
    if run.setting.nodes > 1 and sum(entry["bytes"]["wire"] for entry in entries) == 0:
        return "nothing crossed the wire"
    for entry in entries:
        strange = set(entry["algorithms"]) - {run.setting.algorithm}
        if strange and run.setting.algorithm in ALGORITHMS[entry["collective"]]:
            return f"{entry['collective']} ran by {', '.join(strange)}"
    return None


def run_one(mpi: Mpi, run: Run, operations: int) -> tuple[str | None, Result | None]:
    """The error, and the result, which is None for a run that did not end."""
    mpi.pretend_nodes = 1 if mpi.hosts is not None else run.setting.nodes
    try:
        result = mpi.run(
            run.ranks,
            run.program(operations),
            services=run.setting.services,
            env=run.environment(),
            timeout_s=LIMIT_S,
        )
    except (AssertionError, pytest.fail.Exception) as failure:
        mpi.clean_up()
        return str(failure)[-4000:], None
    return complaint(run, result), result


@dataclass
class Campaign:
    """Runs of one MPI, from a seed on."""

    mpi: Mpi
    arguments: argparse.Namespace
    log: Path
    operations: int = 0
    runs: int = 0
    offloaded: int = 0
    failed: list[int] = field(default_factory=list)
    """Seeds of failed runs."""

    def command(self, seed: int) -> str:
        """The command that repeats from a seed."""
        hosts = f" --hosts {self.arguments.hosts}" if self.arguments.hosts else ""
        return f"./dev differential --mpi {self.mpi.installed}{hosts} --each {self.arguments.each} --seed {seed}"

    def go(self, until: float) -> bool:
        """True if all operations were made and none differed."""
        seed = self.arguments.seed
        while self.operations < self.arguments.operations and len(self.failed) < MOST_FAILURES:
            if time.monotonic() > until:
                break
            self._run(run_of(seed, self.arguments.hosts))
            seed += 1
        return self._sum_up(seed)

    def _sum_up(self, next_seed: int) -> bool:
        left = self.arguments.operations - self.operations
        outcome = "no difference" if not self.failed else f"{len(self.failed)} runs FAILED"
        print(
            f"{self.mpi.installed}: {self.operations} operations in {self.runs} runs (seeds {self.arguments.seed} to "
            f"{next_seed - 1}), {self.offloaded} offloaded calls on rank 0: {outcome}"
        )
        for seed in self.failed:
            print(f"  again: {self.command(seed)} --runs 1")
        if left > 0:
            print(f"  not all; the rest: {self.command(next_seed)} --operations {left}")
        sys.stdout.flush()
        return not self.failed and left <= 0

    def _run(self, run: Run) -> None:
        each = min(self.arguments.each, max(1, self.arguments.operations - self.operations))
        started = time.monotonic()
        wrong, result = run_one(self.mpi, run, each)
        seconds = time.monotonic() - started
        offloaded = result.offloaded() if result is not None and result.report is not None else 0
        self.runs += 1
        self.offloaded += offloaded
        if wrong is None:
            self.operations += each
        else:
            self.failed.append(run.seed)
        entry = {
            "mpi": str(self.mpi.installed), "seed": run.seed, "setting": str(run), "operations": each,
            "offloaded": offloaded, "seconds": round(seconds, 1), "wrong": wrong,
        }  # fmt: skip
        with self.log.open("a") as log:
            log.write(json.dumps(entry) + "\n")
        said = f"{each} operations, {offloaded} offloaded" if wrong is None else f"FAILED: {wrong}"
        print(f"{self.mpi.installed}, seed {run.seed} ({run}), {seconds:.0f} s: {said}", flush=True)


def there(prefixes: Sequence[str]) -> list[Installed]:
    """The system's MPIs and those at the prefixes, each with all its ABIs."""
    return installed.at([]) + [one for prefix in prefixes for one in installed.at([prefix])]


def chosen(names: Sequence[str], prefixes: Sequence[str], build: Path) -> list[Installed]:
    """The named ones; without names all for which the program was built."""
    found = {str(one): one for one in there(prefixes)}
    if unknown := [name for name in names if name not in found]:
        sys.exit(f"differential: there is no MPI called {', '.join(unknown)}; there are {', '.join(found)}")
    built = [one for one in found.values() if (build / "tests" / "mpi" / one.family / "differential").exists()]
    if unbuilt := [name for name in names if found[name] not in built]:
        sys.exit(f"differential: the program is not built for {', '.join(unbuilt)}")
    return [found[name] for name in names] or built


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev differential", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--operations", type=int, default=10_000, metavar="N", help="for each MPI (%(default)s)")
    parser.add_argument("--each", type=int, default=190, metavar="N", help="operations of a run (%(default)s)")
    parser.add_argument("--runs", type=int, metavar="N", help="so many runs, instead of --operations")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the first run (%(default)s)")
    parser.add_argument("--minutes", type=float, default=60, help="no run begins after these (%(default)s)")
    parser.add_argument(
        "--mpi",
        action="append",
        default=[],
        metavar="NAME",
        help="openmpi and mpich are the system's; others are called like mpich-5.0.2 or mpich-5.0.2-mpiabi; all, "
        "unless named; may be given several times",
    )
    parser.add_argument(
        "--mpi-prefix", action="append", default=[], metavar="DIR", help="where others are (build/mpis/*)"
    )
    parser.add_argument("--hosts", type=int, metavar="N", help="on so many hosts of a cluster made on this machine")
    parser.add_argument("--patience", type=float, default=1, help="times the limit of a run (%(default)s)")
    options = parser.parse_args(arguments)
    if options.runs is not None:
        options.operations = options.runs * options.each
    for name in ("operations", "each", "patience"):
        if getattr(options, name) <= 0:
            parser.error(f"--{name}: more than 0")
    if options.seed < 0:
        parser.error("--seed: 0 or more")
    return options


def campaigns(options: argparse.Namespace, build: Path, hosts: Hosts | None) -> Iterator[Campaign]:
    prefixes = options.mpi_prefix or [str(path.parent) for path in sorted(HERE.parents[1].glob("build/mpis/*/bin"))]
    for one in chosen(options.mpi, prefixes, build):
        with tempfile.TemporaryDirectory(prefix="differential-") as directory:
            mpi = Mpi(one, build, Path(directory), native_only=False, hosts=hosts)
            try:
                yield Campaign(mpi, options, build / "differential.jsonl")
            finally:
                mpi.clean_up()


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    Job.patience = options.patience
    build = build_directory()
    until = time.monotonic() + options.minutes * 60
    good = True
    if options.hosts is None:
        for campaign in campaigns(options, build, None):
            good = campaign.go(until) and good
        return int(not good)
    with made(Hosts(options.hosts, f"differential{os.getpid()}")) as hosts:
        for campaign in campaigns(options, build, hosts):
            good = campaign.go(until) and good
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
