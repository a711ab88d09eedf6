"""Compares the time that `outrigger advise` promises for a moved call with the time that moving it brings.

    outrigger lab cluster up --nodes 2 --rate 1gbit
    outrigger lab cluster hostfile --slots 1 > hosts
    outrigger lab cluster exec n0 -- .venv/bin/python bench/moved_calls.py --hostfile hosts --mpi openmpi

The programs are those of tests/mpi/programs/moved.c. Each computes between a collective and the first use of its data.
`advise` sees only the blocking version. Then both versions run in turn: the blocking one natively, the moved one
offloaded, and also natively. The hidden part is what a step gets shorter, divided by the time of the blocking call.
Run it on an idle machine.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from outrigger import mpis, report_data

RANKS = 2
TIME_LIMIT_S = 300.0
BLOCKING, MOVED = "blocking", "moved"
NATIVE = ("--services", "0", "--intranode", "off")
"""With the library: without it MPICH 4.0 may hang in MPI_Finalize."""


@dataclass(frozen=True)
class Program:
    """A program's name, its bytes, the work of a step in microseconds, and the collective in its blocking version."""

    name: str
    bytes: int
    work_us: int
    call: str


PROGRAMS = (
    Program("bcast", 4_000_000, 40_000, "MPI_Bcast"),
    Program("alltoall", 2_000_000, 20_000, "MPI_Alltoall"),
    Program("allgather", 2_000_000, 20_000, "MPI_Allgather"),
    Program("little", 2_000_000, 60_000, "MPI_Alltoall"),
    Program("at-once", 2_000_000, 20_000, "MPI_Alltoall"),
)


@dataclass(frozen=True)
class Runner:
    """Starts jobs."""

    options: tuple[str, ...]
    """Options of `outrigger run`."""
    binary: Path
    steps: int

    def step_us(self, program: Program, version: str, *options: str) -> float:
        """Mean time of a step."""
        words = (program.name, version, str(program.bytes), str(program.work_us), str(self.steps))
        output = outrigger("run", "-n", str(RANKS), *self.options, *options, "--", str(self.binary), *words)
        found = re.search(r"([0-9.]+) us a step", output)
        if found is None:
            raise SystemExit(f"moved_calls: {program.name} has printed no time:\n{output}")
        return float(found[1])


@dataclass(frozen=True)
class Predicted:
    """Time of a blocking call, and the part that moving it would hide, by `advise`."""

    call_us: float
    hidden: float
    """Part of the call's time; 0 if there is nothing to gain."""


def outrigger(*words: str) -> str:
    """Runs a command and returns its output."""
    command = [sys.executable, "-m", "outrigger", *words]
    environment = os.environ | {"COLUMNS": "1000"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=TIME_LIMIT_S, env=environment,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"moved_calls: exit code {done.returncode}: {shlex.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def predict(runner: Runner, program: Program) -> Predicted:
    """From a run that counts native calls, and one that measures when data are used."""
    with tempfile.TemporaryDirectory() as directory:
        counted, windows = Path(directory) / "counted.json", Path(directory) / "windows.json"
        runner.step_us(program, BLOCKING, *NATIVE, "--report-to", str(counted))
        runner.step_us(program, BLOCKING, *NATIVE, "--report-to", str(windows), "-x", "OUTRIGGER_WINDOWS=on")
        advice = outrigger("advise", "--from", str(windows), "--from", str(counted))
        sites = [one for one in report_data.read(counted).sites if one.call == program.call]
    if len(sites) != 1:
        raise SystemExit(f"moved_calls: {program.name} calls {program.call} at {len(sites)} places")
    return Predicted(1e6 * sites[0].seconds.sum / sites[0].calls, promised(advice, program))


def promised(advice: str, program: Program) -> float:
    """The part that a sentence on the call says."""
    line = next((line for line in advice.splitlines() if f"{program.call} at moved" in line), None)
    if line is None:
        raise SystemExit(f"moved_calls: no advice on {program.call} of {program.name}:\n{advice}")
    if "nothing to gain" in line:
        return 0.0
    found = re.search(r"would hide (?:(all)|(?:at least )?(\d+)%)", line)
    if found is None:
        raise SystemExit(f"moved_calls: {program.name}: {line}")
    return 1.0 if found[1] else int(found[2]) / 100


def compare(runner: Runner, program: Program, rounds: int) -> None:
    predicted = predict(runner, program)
    blocking, offloaded, native = [], [], []
    for _ in range(rounds):
        blocking.append(runner.step_us(program, BLOCKING, *NATIVE))
        offloaded.append(runner.step_us(program, MOVED))
        native.append(runner.step_us(program, MOVED, *NATIVE))
    before = statistics.median(blocking)
    print(
        f"{program.name:10} {program.bytes:9} {program.work_us:8} {predicted.call_us:8.0f} {predicted.hidden:9.0%}"
        f" {hidden(before, offloaded, predicted):9.0%} {hidden(before, native, predicted):9.0%}"
        f" {before:9.0f} {before - predicted.hidden * predicted.call_us:9.0f} {statistics.median(offloaded):9.0f}"
        f" {statistics.median(native):9.0f}",
        flush=True,
    )


def hidden(before_us: float, after_us: Sequence[float], predicted: Predicted) -> float:
    return (before_us - statistics.median(after_us)) / predicted.call_us


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, help="the build's directory (build/release)")
    parser.add_argument("--mpi", choices=mpis.FAMILIES, default="mpich")
    parser.add_argument("--hostfile", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    build = arguments.build or Path(__file__).resolve().parents[1] / "build" / "release"
    binary = build / "tests" / "mpi" / arguments.mpi / "moved"
    options = ("--mpi", arguments.mpi, "--hostfile", str(arguments.hostfile), "--bind", "none")
    print(f"{'':10} {'':9} {'work':>8} {'call':>8} {'hidden':>29} {'step, us':>39}")
    times = f"{'predicted':>9} {'offloaded':>9} {'native':>9}"
    print(f"{'program':10} {'bytes':>9} {'us':>8} {'us':>8} {times} {'blocking':>9} {times}")
    for program in PROGRAMS:
        compare(Runner(options, binary, arguments.steps), program, arguments.rounds)


if __name__ == "__main__":
    main()
