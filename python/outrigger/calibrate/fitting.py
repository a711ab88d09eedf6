"""Fits a model's parameters to measured times: the most likely values, and their uncertainties.

Parameters and times are compared by their logarithms, so that nothing becomes negative and small times count as much as
large ones. Each parameter has an expected value and a possible deviation; a parameter that affects no time stays there,
and its interval shows that. The method is Levenberg and Marquardt's, with differences. The intervals are those of the
normal distribution with the same curvature at the end (Laplace).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Vector = np.ndarray[Any, np.dtype[np.float64]]

_STEP = 0.08
"""Step of a logarithm; a model of whole nanoseconds is not smooth."""
_ITERATIONS = 12
_ENOUGH = 1e-3
_DAMPING = 1e-2
_MOST_CHANGE = 1.5
"""Maximum change of a logarithm in one iteration."""
_OF_95_PERCENT = 1.96


@dataclass(frozen=True)
class Expected:
    """A parameter before the fit."""

    value: float
    sigma: float
    """Deviation of its logarithm: 0.1 is known within ten percent, 1.5 hardly at all."""


@dataclass(frozen=True)
class Fitted:
    """A parameter with its 95 % interval."""

    value: float
    low: float
    high: float
    known: bool
    """The times determine it better than the expectation."""


@dataclass(frozen=True)
class Fit:
    """All parameters."""

    parameters: Mapping[str, Fitted]
    error: float
    """Typical deviation of a time: the root of the mean square of the logarithms' distances."""


Model = Callable[[Mapping[str, float]], Sequence[float]]


class _Problem:
    """Distances of a model from measured and expected values, each in units of its sigma."""

    def __init__(
        self, model: Model, measured: Sequence[float], sigmas: Sequence[float], expected: Mapping[str, Expected]
    ) -> None:
        import numpy as np

        self._model = model
        self._names = list(expected)
        self._measured = np.log(np.asarray(measured, dtype=float))
        self._sigmas = np.asarray(sigmas, dtype=float)
        self._prior = np.asarray([math.log(one.value) for one in expected.values()])
        self._prior_sigmas = np.asarray([one.sigma for one in expected.values()])
        self.times = len(self._measured)

    def start(self) -> Vector:
        return self._prior.copy()

    def values(self, point: Vector) -> dict[str, float]:
        return {name: math.exp(value) for name, value in zip(self._names, point, strict=True)}

    def distances(self, point: Vector) -> Vector:
        import numpy as np

        predicted = np.log(np.asarray(self._model(self.values(point)), dtype=float))
        of_times = (predicted - self._measured) / self._sigmas
        return np.concatenate([of_times, (point - self._prior) / self._prior_sigmas])

    def slopes(self, point: Vector, here: Vector) -> Vector:
        import numpy as np

        columns = []
        for index in range(len(point)):
            aside = point.copy()
            aside[index] += _STEP
            columns.append((self.distances(aside) - here) / _STEP)
        return np.stack(columns, axis=1)

    def typical_error(self, distances: Vector) -> float:
        import numpy as np

        return float(np.sqrt(np.mean((distances[: self.times] * self._sigmas) ** 2)))


def _improve(problem: _Problem, shows: Callable[[int, int], None]) -> tuple[Vector, Vector, Vector]:
    """The best point, its distances, and the slopes there."""
    import numpy as np

    point = problem.start()
    here = problem.distances(point)
    damping = _DAMPING
    slopes = problem.slopes(point, here)
    for iteration in range(_ITERATIONS):
        shows(iteration, _ITERATIONS)
        curvature = slopes.T @ slopes
        step = np.linalg.solve(curvature + damping * np.diag(np.diag(curvature)), -slopes.T @ here)
        step = np.clip(step, -_MOST_CHANGE, _MOST_CHANGE)
        there = problem.distances(point + step)
        gain = float(here @ here - there @ there)
        if gain <= 0:
            damping *= 10
            if damping > 1e6:
                break
            continue
        point, here, damping = point + step, there, damping / 3
        slopes = problem.slopes(point, here)
        if gain < _ENOUGH * float(here @ here):
            break
    return point, here, slopes


def fit(
    model: Model,
    measured: Sequence[float],
    sigmas: Sequence[float],
    expected: Mapping[str, Expected],
    shows: Callable[[int, int], None] = lambda _done, _total: None,
) -> Fit:
    """`model` returns as many times as were measured; `sigmas` are those of their logarithms."""
    import numpy as np

    problem = _Problem(model, measured, sigmas, expected)
    point, here, slopes = _improve(problem, shows)
    # Larger deviations than expected increase all uncertainties.
    worse = max(1.0, float(np.sqrt(np.mean(here[: problem.times] ** 2))))
    sigma = np.sqrt(np.diag(np.linalg.inv(slopes.T @ slopes)))
    found = {}
    for index, (name, one) in enumerate(expected.items()):
        of_this = min(float(sigma[index]) * worse, one.sigma)
        away = _OF_95_PERCENT * of_this
        value = math.exp(point[index])
        found[name] = Fitted(value, value * math.exp(-away), value * math.exp(away), of_this < 0.7 * one.sigma)
    return Fit(found, problem.typical_error(here))
