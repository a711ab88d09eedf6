"""Runs the measurements: rates of the cores, messages of the MPI, native and offloaded collectives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from outrigger import launch, selection
from outrigger.bench import jobs
from outrigger.bench.figures import Configuration
from outrigger.bench.runner import Runner
from outrigger.calibrate import model
from outrigger.calibrate.readings import Cell, Measured, Readings, Times, parse_messages, parse_rates
from outrigger.errors import UserError

ALGORITHMS = {"ialltoall": "ring_pull", "iallgather": "flat", "ibcast": "flat"}
"""The algorithms of a calibration."""
_MESSAGES_TIMEOUT_S = 180.0
# Approximate time of a step, before anything is known of it.
_RATES_S = 3.0
_MESSAGES_S = 6.0
_START_S = 3.0
_CELL_S = 3.0


@dataclass(frozen=True)
class _Step:
    what: str
    seconds: float
    run: Callable[[], None]


def place_of(runner: Runner) -> tuple[int, bool]:
    """A node's cores for ranks, and if service processes have one of their own."""
    program = str(runner.artifacts.benchmark(runner.mpi.family, "orbench"))
    job = runner.site.job((program,), runner.request.ranks, runner.mpi, runner.request.settings)
    node = launch.make_plan(job, runner.artifacts).placement
    kept = {node.core_of(cpu) for cpu in node.service_cpus}
    return max(1, node.cores - len(kept)), bool(kept)


class Measuring:
    """Runs the steps in sequence; a Ctrl-C ends it with the results so far."""

    def __init__(
        self,
        runners: Sequence[Runner],
        readings: Readings,
        algorithms: Sequence[tuple[str, str]],
        *,
        rounds: int,
        messages: bool,
    ) -> None:
        """`runners`: for each number of ranks; messages are between the first two ranks of the first one."""
        self._runners = runners
        self._algorithms = algorithms
        self._rounds = rounds
        self._messages = messages
        self._times: dict[Cell, list[Times]] = {}
        self.readings = readings
        self.interrupted = False

    def _measure_rates(self) -> None:
        self.readings.rates = parse_rates(model.rates(model.simulator_of(self._runners[0].artifacts)))

    def _measure_messages(self) -> None:
        runner = self._runners[0]
        program = str(runner.artifacts.benchmark(runner.mpi.family, "messages"))
        # Placement of ranks with service processes' cores reserved, although these have nothing to do here.
        native = replace(runner.request.settings, algorithms=selection.words(runner.artifacts, ["all=native"]))
        job = runner.site.job((program,), runner.request.ranks, runner.mpi, native)
        ended = jobs.run(launch.make_plan(job, runner.artifacts), lambda text: '"work"' in text, _MESSAGES_TIMEOUT_S)
        if ended.code != 0:
            raise UserError(f"the benchmark of messages under {runner.mpi.title} ended with exit code {ended.code}")
        self.readings.place, self.readings.messages = parse_messages(ended.output)

    def _runner_for(self, base: Runner, collective: str, algorithm: str) -> Runner:
        rules = selection.words(base.artifacts, [f"{collective}={algorithm}"])
        request = replace(
            base.request, collectives=(collective,), settings=replace(base.request.settings, algorithms=rules)
        )
        return Runner(request, base.mpi, base.artifacts, base.site)

    def _measure_cells(self, base: Runner, collective: str, algorithm: str) -> None:
        for one in self._runner_for(base, collective, algorithm).both_sides(_limit_s(base)):
            self._times.setdefault(self._cell(one, algorithm), []).append(
                Times(
                    one.work_us,
                    one.native.pure_us,
                    one.native.total_us,
                    one.offloaded.pure_us,
                    one.offloaded.total_us,
                )
            )
        self.readings.cells = [Measured(cell, tuple(times)) for cell, times in self._times.items()]

    def _cell(self, one: Configuration, algorithm: str) -> Cell:
        nodes = self.readings.nodes
        return Cell(one.collective, one.bytes, nodes, one.ranks // nodes, self.readings.services, algorithm)

    def _steps(self) -> Iterator[_Step]:
        if self._messages:
            yield _Step("rates of the cores", _RATES_S, self._measure_rates)
            yield _Step("messages of the MPI", _MESSAGES_S, self._measure_messages)
        for number in range(self._rounds):
            for runner in self._runners:
                request = runner.request
                for collective, algorithm in self._algorithms:
                    yield _Step(
                        f"{collective} of {request.ranks} ranks by {algorithm}, round {number + 1} of {self._rounds}",
                        _START_S + len(request.sizes) * _CELL_S * request.seconds,
                        partial(self._measure_cells, runner, collective, algorithm),
                    )

    def measure(self, shows: Callable[[str, float, float], None]) -> None:
        """Until everything is measured, or it is interrupted. Calls `shows` at each step."""
        steps = list(self._steps())
        spent = 0.0
        try:
            for step in steps:
                shows(step.what, spent, sum(one.seconds for one in steps))
                step.run()
                spent += step.seconds
        except KeyboardInterrupt:
            self.interrupted = True
        self.readings.complete = not self.interrupted


def _limit_s(runner: Runner) -> float:
    return 90.0 + 10.0 * len(runner.request.sizes) * runner.request.seconds
