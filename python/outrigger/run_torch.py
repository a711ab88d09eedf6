"""`outrigger run --report -- torchrun ...`: starts torchrun itself, and makes a report of its ranks' counts.

Likewise with --trace, --live and --services, which keeps cores for service processes.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

import outrigger
from outrigger import cores, formats, launch, linked, machine, report_end, report_torch, settings
from outrigger.artifacts import Artifacts
from outrigger.binding import UNPLACED
from outrigger.cores import Core
from outrigger.errors import UserError
from outrigger.report_data import Run
from outrigger.report_torch_data import TorchReport

_MODULES = ("torch.distributed.run", "torch.distributed.launch", "torch.distributed.elastic.run")


def is_torchrun(program: Sequence[str]) -> bool:
    """True for torchrun, and for Python with the module behind it."""
    first = Path(program[0])
    if first.name == "torchrun":
        return True
    return linked.is_python(first) and len(program) > 2 and program[1] == "-m" and program[2] in _MODULES


def make_plan(
    program: Sequence[str], found: Artifacts, values: Mapping[str, str], services: int | None = None
) -> launch.Plan:
    """torchrun, with these variables for its ranks. `services`: cores to keep for service processes."""
    command = (str(linked.find_program(program[0])), *program[1:])
    if services is None:
        return launch.Plan(found.daemon, command, values, UNPLACED)
    if services == 0:
        return launch.Plan(found.daemon, command, {**values, settings.SERVICES: "0"}, UNPLACED)
    kept, others = split_cores(services, cores.allowed_cores())
    cpus = ",".join(str(core[0]) for core in kept)
    bound = (_taskset(), "-c", cores.format_cpu_list([cpu for core in others for cpu in core]), *command)
    notes = _notes(ranks_of(program), len(others))
    return launch.Plan(found.daemon, bound, {**values, **_served(services, cpus)}, UNPLACED, notes)


def _served(services: int, cpus: str) -> dict[str, str]:
    return {settings.SERVICES: str(services), settings.SERVICE_CPUS: cpus}


def split_cores(services: int, allowed: Sequence[Core]) -> tuple[Sequence[Core], Sequence[Core]]:
    """Those for service processes, which are the last ones, and those for ranks."""
    if services >= len(allowed):
        have = f"{len(allowed)} core{'' if len(allowed) == 1 else 's'}"
        raise UserError(
            f"--services {services}: there is no core to spare. {have} may be used here, and the ranks need one; leave "
            "--services out"
        )
    return allowed[-services:], allowed[:-services]


def _taskset() -> str:
    found = shutil.which("taskset")
    if found is None:
        raise UserError(
            "--services: taskset is not installed here, which keeps ranks off the cores of service processes; install "
            "util-linux"
        )
    return found


def ranks_of(program: Sequence[str]) -> int | None:
    """Ranks for each machine in torchrun's options. None: the options leave it open."""
    for place, word in enumerate(program):
        name, equals, value = word.partition("=")
        if name.replace("_", "-") in ("--nproc-per-node", "-nproc-per-node"):
            text = value if equals else "".join(program[place + 1 : place + 2])
            return int(text) if text.isdecimal() else None
    return None


def _notes(ranks: int | None, left: int) -> tuple[str, ...]:
    if ranks is None or ranks <= left:
        return ()
    return (f"{ranks} ranks share {left} core{'' if left == 1 else 's'}: the rest is for service processes",)


def make_report(directory: Path, code: int, command: str, started: datetime) -> TorchReport:
    """The report of a job that has ended."""
    run = Run(
        formats.printable(command), outrigger.__version__, "", machine.describe(), f"{started:%Y-%m-%d %H:%M:%S %z}"
    )
    return report_torch.of_directory(directory, report_end.by_code(code), run)


def write_report(path: Path, made: TorchReport) -> None:
    """As JSON."""
    report_end.write(path, report_torch.as_json(made))
