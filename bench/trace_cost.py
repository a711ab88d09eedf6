"""Measures the cost of a trace: runs jobs without and with --trace, alternating, and prints the ratios of their times.

    .venv/bin/python bench/trace_cost.py
    .venv/bin/python bench/trace_cost.py --ranks 4 --sizes 8192,65536 --pairs 20

Each job runs orbench with a fixed amount of work between MPI_Ialltoall and MPI_Wait. A pair is two consecutive jobs;
their order alternates. For each figure the median of the pairs' ratios is printed, with its 95 % interval.
Run it on an idle machine.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from outrigger import artifacts, launch, mpis, scratch
from outrigger.bench import jobs
from outrigger.bench.figures import Configuration, read_line
from outrigger.bench.pairs import median_interval
from outrigger.settings import Settings

TIME_LIMIT_S = 300.0
FIGURES: dict[str, Callable[[Configuration], float]] = {
    "latency": lambda one: one.offloaded.pure_us,
    "with work": lambda one: one.offloaded.total_us,
    "CPU in MPI": lambda one: one.offloaded.cpu_us,
    "latency, native": lambda one: one.native.pure_us,
    "with work, native": lambda one: one.native.total_us,
}


def run(job: launch.Job, found: artifacts.Artifacts) -> list[Configuration]:
    """One figure per size."""
    plan = launch.make_plan(job, found)
    ended = jobs.run(plan, lambda _output: False, TIME_LIMIT_S)  # the trace is written at the job's end
    measured = [one for one in map(read_line, ended.output.splitlines()) if one is not None]
    if ended.code != 0 or not measured:
        raise SystemExit(f"trace_cost: the job ended with exit code {ended.code}: {shlex.join(plan.command)}")
    return measured


Pair = tuple[list[Configuration], list[Configuration]]


def measure(job: launch.Job, found: artifacts.Artifacts, count: int) -> list[Pair]:
    """The first result of each pair is without a trace."""
    made = []
    with scratch.directory() as directory:
        traced = replace(job, trace=directory / "events")
        for number in range(count):
            order = (job, traced) if number % 2 == 0 else (traced, job)
            one, other = (run(each, found) for each in order)
            made.append((one, other) if number % 2 == 0 else (other, one))
            if not (directory / "events").is_file():
                raise SystemExit("trace_cost: the job has written no trace: was the library loaded?")
            print(f"pair {number + 1} of {count}", flush=True)
    return made


def show(pairs: Sequence[Pair]) -> None:
    for place, first in enumerate(pairs[0][0]):
        what = f"{first.collective}, {first.bytes} bytes to each of {first.ranks} ranks"
        print(f"\n{what}, {first.work_us:.0f} us of work")
        print(f"  {'':18} {'without':>12} {'with':>12}   ratio (95 % of medians)")
        for name, figure in FIGURES.items():
            without, traced = ([figure(pair[side][place]) for pair in pairs] for side in (0, 1))
            ratios = [after / before for before, after in zip(without, traced, strict=True)]
            low, high = median_interval(ratios)
            print(
                f"  {name:18} {statistics.median(without):9.1f} us {statistics.median(traced):9.1f} us"
                f"   {statistics.median(ratios):.4f} ({low:.4f} to {high:.4f})"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, help="the build's directory (build/release)")
    parser.add_argument("--mpi", choices=mpis.FAMILIES, default="mpich")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--sizes", default="8192,65536,262144", help="bytes of a block")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--milliseconds", default="1", help="of work, from 1 on")
    arguments = parser.parse_args()
    found = artifacts.find(arguments.build)
    mpi = next((mpi for mpi in mpis.find_mpis() if mpi.family == arguments.mpi), None)
    if mpi is None:
        raise SystemExit(f"trace_cost: there is no MPI of the family {arguments.mpi} here")
    program = [str(found.benchmark(mpi.family, "orbench")), "--sizes", arguments.sizes, "--seconds", "1"]
    site = jobs.Site()
    job = site.job((*program, "--milliseconds", arguments.milliseconds), arguments.ranks, mpi, Settings(choice="fixed"))
    show(measure(job, found, arguments.pairs))


if __name__ == "__main__":
    main()
