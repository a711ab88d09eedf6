"""`outrigger run --report -- torchrun ...`: starts torchrun itself, and makes a report of its ranks' counts.

With --live alone the ranks only show what they do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

import outrigger
from outrigger import formats, launch, linked, machine, report_end, report_torch, settings
from outrigger.artifacts import Artifacts
from outrigger.binding import NodeBinding
from outrigger.errors import UserError
from outrigger.report_data import Run
from outrigger.report_torch_data import TorchReport

_MODULES = ("torch.distributed.run", "torch.distributed.launch", "torch.distributed.elastic.run")
_NO_BINDING = NodeBinding((), (), (), ())


def is_torchrun(program: Sequence[str]) -> bool:
    """True for torchrun, and for Python with the module behind it."""
    first = Path(program[0])
    if first.name == "torchrun":
        return True
    return linked.is_python(first) and len(program) > 2 and program[1] == "-m" and program[2] in _MODULES


def check_alone(given: Mapping[str, bool]) -> None:
    """Rejects options of MPI jobs, by their names."""
    if wrong := [name for name, is_given in given.items() if is_given]:
        raise UserError(
            f"{', '.join(wrong)}: such options are for MPI jobs. torchrun starts the ranks of this one: give it "
            "--nproc-per-node and --nnodes"
        )


def make_plan(
    program: Sequence[str], found: Artifacts, values: Mapping[str, str], directory: Path | None = None
) -> launch.Plan:
    """torchrun, with a directory for the counts of its ranks. None: they are only shown live."""
    command = (str(linked.find_program(program[0])), *program[1:])
    shown = {settings.LIVE: "on"} if directory is None else {settings.REPORT: str(directory)}
    environment = {**values, **shown}
    return launch.Plan(found.daemon, command, environment, _NO_BINDING)


def make_report(directory: Path, code: int, command: str, started: datetime) -> TorchReport:
    """The report of a job that has ended."""
    run = Run(
        formats.printable(command), outrigger.__version__, "", machine.describe(), f"{started:%Y-%m-%d %H:%M:%S %z}"
    )
    return report_torch.of_directory(directory, report_end.by_code(code), run)


def write_report(path: Path, made: TorchReport) -> None:
    """As JSON."""
    report_end.write(path, report_torch.as_json(made))
