"""Times of an MPI's messages between two ranks of one host: short ones are sent eagerly, longer ones by rendezvous.

    up to `eager` bytes    begin + 2 bytes / eager_copy         into memory of the MPI's, and out of it
    longer                 begin + rendezvous + bytes / copy    from the sender's memory to the receiver's

The cost model is LogGPS's (Ino, Fujimoto, Hagihara, PPoPP 2001), for copying cores: its S is `eager`, here with the
cost of the request.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from outrigger.calibrate.readings import Reading

if TYPE_CHECKING:
    import numpy as np

    Matrix = np.ndarray[Any, np.dtype[np.float64]]

_FEWEST_SIZES = 8
_LEAST_US = 1e-3
_MOST_BYTES_PER_US = 1e6


@dataclass(frozen=True)
class Protocols:
    """The numbers of the picture above, for each sample."""

    eager_bytes: int
    following_bytes: int
    """The next size, which is sent by rendezvous."""
    rendezvous_us: tuple[float, ...]
    copy_bytes_per_us: tuple[float, ...]
    eager_copy_bytes_per_us: tuple[float, ...]


@dataclass(frozen=True)
class _Line:
    error: float
    begin_us: float
    rendezvous_us: float
    us_per_byte: float
    eager_us_per_byte: float


def _line(sizes: Sequence[int], times_us: Sequence[float], eager_bytes: int) -> _Line:
    """Least squares of relative distances."""
    import numpy as np

    rows = [[1.0, 0.0, 0.0, 2.0 * size] if size <= eager_bytes else [1.0, 1.0, float(size), 0.0] for size in sizes]
    weights = 1 / np.maximum(np.asarray(times_us, dtype=float), _LEAST_US)
    matrix = np.asarray(rows) * weights[:, None]
    found, _, _, _ = np.linalg.lstsq(matrix, np.ones(len(sizes)), rcond=None)
    error = float(np.sum((matrix @ found - 1) ** 2))
    begin_us, step_us, *of_bytes = (float(one) for one in found)
    us_per_byte, eager_us_per_byte = (max(1 / _MOST_BYTES_PER_US, one) for one in of_bytes)
    return _Line(error, begin_us, max(0.0, step_us), us_per_byte, eager_us_per_byte)


def find_protocols(round_trips: Sequence[Reading]) -> Protocols | None:
    """From half of a round trip by size; None: too few sizes."""
    if len(round_trips) < _FEWEST_SIZES:
        return None
    ordered = sorted(round_trips, key=lambda one: one.bytes)
    sizes = [one.bytes for one in ordered]
    medians = [statistics.median(one.settled_us) for one in ordered]
    # Two lines need two sizes each.
    thresholds = list(pairwise(sizes))[1:-2]
    eager, following = min(thresholds, key=lambda pair: _line(sizes, medians, pair[0]).error)
    samples = zip(*(one.settled_us for one in ordered), strict=False)
    lines = [_line(sizes, sample, eager) for sample in samples]
    return Protocols(
        eager,
        following,
        tuple(line.rendezvous_us for line in lines),
        tuple(1 / line.us_per_byte for line in lines),
        tuple(1 / line.eager_us_per_byte for line in lines),
    )
