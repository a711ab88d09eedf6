"""Measures each algorithm of each collective against native, round by round, within a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from outrigger import selection, tables
from outrigger.artifacts import Artifacts
from outrigger.bench.figures import Configuration
from outrigger.bench.runner import Request
from outrigger.errors import UserError
from outrigger.tune.figures import BUILT_IN, Figures

_MORE = 1.1
"""Maximum duration of a run, relative to earlier ones."""

_LEAST_S = 1.0


@dataclass(frozen=True)
class Lane:
    """An algorithm of a collective."""

    collective: str
    served_by: str
    """BUILT_IN, or an algorithm."""

    def request(self, base: Request, found: Artifacts) -> Request:
        """All of its sizes."""
        rules = () if self.served_by == BUILT_IN else (f"{self.collective}={self.served_by}",)
        settings = replace(base.settings, algorithms=selection.words(found, rules) if rules else ())
        return replace(base, collectives=(self.collective,), settings=settings)

    def __str__(self) -> str:
        return f"{self.collective} {self.served_by}"


def lanes_of(collectives: Sequence[str], known: Sequence[tables.Collective]) -> list[Lane]:
    """For each collective the built-in table, then every algorithm."""
    algorithms = {row.name: row.algorithms for row in known}
    return [Lane(name, served_by) for name in collectives for served_by in (BUILT_IN, *algorithms[name])]


class Measuring:
    """Rounds of all lanes; every second one in reverse order."""

    def __init__(
        self,
        lanes: Sequence[Lane],
        run: Callable[[Lane, float], Sequence[Configuration]],
        shows: Callable[[str, float, float], None],
        *,
        rounds: int,
        budget_s: float,
    ) -> None:
        self._lanes, self._run, self._shows = lanes, run, shows
        self._rounds, self._budget_s = rounds, budget_s
        self._began = time.monotonic()
        self._took: dict[Lane, float] = {}
        self.figures = Figures()
        self.failed: dict[Lane, str] = {}
        """Lanes that could not be measured, with the reason. They are not tried again."""
        self.interrupted = False
        self.complete = False

    def _spent(self) -> float:
        return time.monotonic() - self._began

    def _expected(self, lanes: Sequence[Lane]) -> float:
        known = list(self._took.values())
        usual = sum(known) / len(known) if known else self._budget_s / max(len(self._lanes) * self._rounds, 1)
        return sum(self._took.get(lane, usual) for lane in lanes if lane not in self.failed)

    def _measure(self, lane: Lane, following: Sequence[Lane], later_rounds: int) -> bool:
        """False: no time is left for it."""
        spent = self._spent()
        if self._took and spent + _MORE * self._expected([lane]) > self._budget_s:
            return False
        planned = spent + self._expected([lane, *following]) + later_rounds * self._expected(self._lanes)
        self._shows(str(lane), spent, min(planned, self._budget_s))
        try:
            found = self._run(lane, max(self._budget_s - spent, _LEAST_S))
        except UserError as error:
            if self._spent() >= self._budget_s:
                return False
            self.failed[lane] = str(error)
            return True
        self._took[lane] = self._spent() - spent
        for one in found:
            self.figures.add(one.collective, one.bytes, lane.served_by, one.total_ratio, one.native.total_us)
        return True

    def _all(self) -> bool:
        for number in range(self._rounds):
            order = list(self._lanes) if number % 2 == 0 else list(reversed(self._lanes))
            for position, lane in enumerate(order):
                if lane not in self.failed and not self._measure(
                    lane, order[position + 1 :], self._rounds - number - 1
                ):
                    return False
        return True

    def measure(self) -> None:
        """Until all rounds are done, the time is over, or an interrupt."""
        try:
            self.complete = self._all()
        except KeyboardInterrupt:
            self.interrupted = True
