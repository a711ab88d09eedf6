"""The run behind a report, as a table for the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from outrigger.report_data import Run
from outrigger.report_model import Column, Line, Table, cell

_RUN = (Column(title="", is_text=True), Column(title="", is_text=True, wraps=True))


def run_table(known: Mapping[str, str], run: Run | None) -> Iterator[Line | Table]:
    """Facts about the program, and how `outrigger run` has started it if it did."""
    facts = dict(known)
    if run is not None:
        facts = {"command": run.command, **facts}
        facts |= {"MPI": run.mpi, "Outrigger": run.version, "machine": run.machine, "started": run.started}
    yield Table(_RUN, tuple((cell(name), cell(value)) for name, value in facts.items() if value))
    if run is None:
        yield Line("The command and the machine are not known: `outrigger run` did not write this report.")
