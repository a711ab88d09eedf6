"""Rates of a core's copies by the size of the buffers: those that fit in caches, and larger ones.

    time = bytes x (1 - part) / cached + bytes x part / missed      part = 1 - cache / buffers, at least 0

as in the model (src/sim/model/machine.hpp).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from outrigger.calibrate.readings import CopyRates

if TYPE_CHECKING:
    import numpy as np

    Vector = np.ndarray[Any, np.dtype[np.float64]]

_FEWEST_SIZES = 4
_STEPS = 4
"""Cache sizes that are tried between two buffer sizes."""
_LEAST_GAIN = 1.25
"""Minimum ratio of a cache's rate to the uncached rate: less is noise."""


@dataclass(frozen=True)
class Caches:
    """Bytes, and bytes a second; for each sample."""

    cache: tuple[float, ...]
    cached: tuple[float, ...]
    missed: tuple[float, ...]


@dataclass(frozen=True)
class _Curve:
    error: float
    cache: float
    cached: float
    missed: float


def missed_part(cache: float, buffers_bytes: float) -> float:
    """For buffers that are touched in turn."""
    return max(0.0, 1 - cache / buffers_bytes)


def missed_rate(rate: float, buffers_bytes: float, cache: float, cached_rate: float) -> float:
    """Uncached rate, from the rate of partly cached copies."""
    part = missed_part(cache, buffers_bytes)
    if part == 0:
        return rate
    return part / max(1 / rate - (1 - part) / cached_rate, part / cached_rate)


def _curve(sizes: Sequence[int], rates: Sequence[float], cache: float) -> _Curve:
    """Least squares of relative distances."""
    import numpy as np

    missed = np.asarray([missed_part(cache, size) for size in sizes])
    known: Vector = np.asarray(rates, dtype=float)
    rows = np.column_stack([1 - missed, missed]) * known[:, None]
    found, _, _, _ = np.linalg.lstsq(rows, np.ones(len(sizes)), rcond=None)
    error = float(np.sum((rows @ found - 1) ** 2))
    if min(found) <= 0:
        return _Curve(float("inf"), cache, 1, 1)
    return _Curve(error, cache, float(1 / found[0]), float(1 / found[1]))


def _best(sizes: Sequence[int], rates: Sequence[float]) -> _Curve:
    tried = (sizes[0] * 2 ** (step / _STEPS) for step in range(_STEPS * (len(sizes) - 1)))
    return min((_curve(sizes, rates, cache) for cache in tried if cache < sizes[-2]), key=lambda curve: curve.error)


def find_caches(copies: Sequence[CopyRates]) -> Caches | None:
    """None: too few sizes, or none is copied faster than others."""
    ordered = sorted(copies, key=lambda one: one.bytes)
    if len(ordered) < _FEWEST_SIZES:
        return None
    sizes = [one.bytes for one in ordered]
    curves = [_best(sizes, rates) for rates in zip(*(one.samples for one in ordered), strict=False)]
    curves = [curve for curve in curves if curve.cached > _LEAST_GAIN * curve.missed]
    if not curves:
        return None
    columns = zip(*((curve.cache, curve.cached, curve.missed) for curve in curves), strict=True)
    return Caches(*map(tuple, columns))
