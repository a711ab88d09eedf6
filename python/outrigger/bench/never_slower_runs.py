"""Launches of `outrigger bench never-slower`: all cells again and again, within a budget of time."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from outrigger import launch
from outrigger.artifacts import Artifacts
from outrigger.bench import jobs
from outrigger.bench.never_slower_cells import Cell, Line, make_cell, read_lines
from outrigger.bench.never_slower_sites import Group
from outrigger.errors import UserError

PASSES = 3
"""Launches of each cell: differences between launches show only in several."""
_ROUNDS = 200
_STARTUP_S = 1.5
_SPENT = 0.6
"""Fraction of a launch's time for the rounds; the rest is for trials, sizing the work and checking bytes."""
_LEAST_MS, _MOST_MS = 10, 5000

Words = tuple[str, ...]


def arguments(collectives: Sequence[str], sizes: Sequence[int], numbers: str) -> Words:
    """Arguments of orbench, except those that change between launches. `numbers`: the type that reductions add."""
    return (
        *("--type", numbers),
        *("--figures", "samples", "--collectives", ",".join(collectives), "--sizes", ",".join(map(str, sizes))),
        *("--iterations", str(_ROUNDS)),
    )


@dataclass
class _State:
    """State of a group."""

    group: Group
    pairs: list[dict[tuple[str, int], tuple[Line, Line]]] = field(default_factory=list)
    work: list[int] = field(default_factory=list)
    factor: float = 1.0
    """Factor of the rounds' time over the first guess, by the launches' times."""
    least_s: float = 0.0
    """Time of a pass, by the fastest so far."""
    broken: bool = False
    _cells: dict[tuple[str, int], Cell] = field(default_factory=dict)

    def cells(self) -> list[Cell]:
        """Statistics take time: they are computed only for cells with new data."""
        for key in dict.fromkeys(key for pairs in self.pairs for key in pairs):
            launches = [pairs[key] for pairs in self.pairs if key in pairs]
            if key not in self._cells or self._cells[key].launches != len(launches):
                self._cells[key] = make_cell(self.group.mpi.title, self.group.placement, launches)
        return list(self._cells.values())


@dataclass(frozen=True)
class Step:
    """The present step, for a progress bar."""

    what: str
    cells: int
    of_cells: int
    left_s: float


class Runs:
    """Measures groups in turn, pass by pass, so that an early end leaves some results of each."""

    def __init__(
        self, groups: Sequence[Group], cells: int, found: Artifacts, budget_s: float, show: Callable[[Step], None]
    ) -> None:
        self._states = [_State(group) for group in groups]
        self._cells = cells
        self._found = found
        self._show = show
        self._begin = time.monotonic()
        self._end = self._begin + budget_s
        self._done = 0
        self._launches_left = PASSES * sum(group.jobs for group in groups)
        self._all = self._launches_left * cells
        self.failures: list[str] = []
        self.commands: dict[str, str] = {}
        self.interrupted = False
        self.unended: list[str] = []

    @property
    def took_s(self) -> float:
        """Since the start."""
        return time.monotonic() - self._begin

    @property
    def complete(self) -> bool:
        """Each cell has results of each pass."""
        return all(
            len(state.pairs) == PASSES and all(len(pairs) == self._cells for pairs in state.pairs)
            for state in self._states
        )

    def cells(self) -> tuple[Cell, ...]:
        """Cells measured so far."""
        return tuple(cell for state in self._states for cell in state.cells())

    def measure(self, save: Callable[[], None]) -> None:
        """See _all_passes; Ctrl-C ends it, between or within launches."""
        try:
            self._all_passes(save)
        except KeyboardInterrupt:
            self.interrupted = True

    def _all_passes(self, save: Callable[[], None]) -> None:
        """All passes, or as many as the budget allows. Calls `save` after each group in the first pass."""
        for number in range(PASSES):
            for state in self._states:
                if self.interrupted or time.monotonic() > self._end - number * state.least_s:
                    return
                if state.broken:
                    self._launches_left -= state.group.jobs
                else:
                    self._pass(state, number)
                    if number == 0:  # later, the statistics of all cells would take as long as launches
                        save()

    def _pass(self, state: _State, number: int) -> None:
        """One launch of each job; every second time in reverse order, once native has sized the work."""
        group = state.group
        budget_s = group.jobs * max(0.0, self._end - time.monotonic()) / max(1, self._launches_left)
        guess_ms = 1e3 * _SPENT * (budget_s / group.jobs - _STARTUP_S) / self._cells
        milliseconds = round(min(max(guess_ms * state.factor, _LEAST_MS), _MOST_MS))
        before = time.monotonic()
        if group.native is None:
            lines = self._launch(state, group.offloaded, milliseconds)
            self._keep(state, lines, lines)
        elif number % 2 == 0:
            native = self._launch(state, group.native, milliseconds)
            state.work = state.work or [line.work_iterations for line in native]
            self._keep(state, native, self._launch(state, group.offloaded, milliseconds))
        else:
            offloaded = self._launch(state, group.offloaded, milliseconds)
            self._keep(state, self._launch(state, group.native, milliseconds), offloaded)
        took_s = time.monotonic() - before
        state.least_s = min(took_s, state.least_s or took_s)
        state.factor *= min(max(budget_s / took_s, 0.25), 4.0)

    def _keep(self, state: _State, native: list[Line], offloaded: list[Line]) -> None:
        if len(native) == self._cells and not state.work:
            state.work = [line.work_iterations for line in native]
        others = {line.key: line for line in offloaded}
        pairs = {line.key: (line, others[line.key]) for line in native if line.key in others}
        if pairs:
            state.pairs.append(pairs)

    def _launch(self, state: _State, job: launch.Job, milliseconds: int) -> list[Line]:
        """The output; if the job failed or was interrupted, up to then."""
        self._launches_left -= 1
        if state.broken or self.interrupted:
            return []
        name = f"{job.mpi.title}, {state.group.placement}"
        job = _with_arguments(job, milliseconds, state.work)
        plan = launch.make_plan(job, self._found)
        if not job.native:
            self.commands.setdefault(name, launch.as_shell(plan))
        printed = ""

        def complete(output: str) -> bool:
            nonlocal printed
            printed = output
            count = output.count('\n{"collective"') + output.startswith('{"collective"')
            left_s = self._end - time.monotonic()
            self._show(Step(name, self._done + min(count, self._cells), self._all, max(0.0, left_s)))
            return len(read_lines(output)) == self._cells if count >= self._cells else False

        try:
            ended = jobs.run(plan, complete, 60.0 + 10.0 * self._cells * milliseconds / 1e3 + self._cells)
            printed = ended.output
            if ended.code != 0:
                raise UserError(f"ended with exit code {ended.code}: {shlex.join(plan.command)}")
            if not ended.by_itself:
                self.unended.append(jobs.unended(job.mpi))
        except KeyboardInterrupt:
            self.interrupted = True
        except UserError as error:
            state.broken = True
            self.failures.append(f"{name}: {error}")
        self._done += self._cells
        return read_lines(printed)


def _with_arguments(job: launch.Job, milliseconds: int, work: Sequence[int]) -> launch.Job:
    words = (*job.program, "--milliseconds", str(milliseconds))
    return replace(job, program=(*words, "--work", ",".join(map(str, work))) if work else words)
