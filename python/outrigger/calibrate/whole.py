"""All numbers of a cluster file: from single measurements, and from a fit to all times."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from outrigger.calibrate import cluster_file, estimates, fitting, model
from outrigger.calibrate.cluster_file import ClusterFile
from outrigger.calibrate.estimates import Estimate, assumed
from outrigger.calibrate.readings import Measured, Readings

_LEAST_SIGMA = 0.1
"""Minimum sigma of a time's logarithm: no model is better."""
_MEASURED_SIGMA = 0.4
"""Sigma of a number from a single measurement: in a collective it differs a little."""
_LINK_SIGMA = 0.05
_UNKNOWN_SIGMA = 1.2
_LEAST_NS = 1.0
_MOST_NOISE = 0.2
_OTHERWISE = ("service.copy", "noise.skew")
"""Measured by something similar: a copy of the host's, the ranks' exit from a barrier."""
_FAR = 3.0
"""A fit that is off by this factor contradicts the single measurement."""
_BAD_ERROR = 0.4
"""Limit of the error of a time's logarithm."""


def _shared(readings: Readings) -> bool:
    return readings.place.one_machine and not readings.place.one_host


def _ranks_copy(readings: Readings) -> bool:
    """Waiting ranks copy memory that service processes cannot map. If these have no core, only on one node."""
    return readings.memory == "malloc" and (readings.own_core or readings.nodes == 1)


def _words(readings: Readings) -> dict[str, str]:
    words = {
        "nodes": str(max(readings.nodes, readings.place.machine_cores * 2 if _shared(readings) else readings.nodes)),
        "host.cores": str(readings.cores),
        "host.waiting": '"spin"' if readings.spins else '"yield"',
        "mpi.family": '"openmpi"' if readings.family == "openmpi" else '"mpich"',
        "network.topology": '"switch"',
        "network.wire": '"processor"',
        "service.placement": '"host_core"',
        "service.reach": '"direct"',
        "service.per_node": str(readings.services),
        "service.own_core": "true" if readings.own_core else "false",
        "service.ranks_copy": "true" if _ranks_copy(readings) else "false",
    }
    if _shared(readings):
        groups = 1 if readings.own_core else max(1, readings.place.machine_cores // readings.cores)
        words["host.processors"] = str(readings.cores * groups)
        if readings.own_core:
            words["service.processors"] = str(max(1, readings.place.machine_cores - readings.cores))
    return words


def _usual(readings: Readings) -> dict[str, Estimate]:
    """Numbers without a measurement of their own. The costs of service processes are the fit's start."""
    one_node = readings.nodes == 1
    network = "one node has no network" if one_node else "what TCP does"
    sleeps = not readings.own_core
    return {
        "host.memory": assumed(20e9, "not measured"),
        "host.copy": assumed(10e9, "not measured"),
        "host.reduce": assumed(5e9, "not measured"),
        "host.switch": assumed(1.5e3, "a switch between processes"),
        "host.cache": assumed(0, "no size is copied faster than others"),
        "mpi.post": assumed(1e3, "not measured"),
        "mpi.message": assumed(1e3, "not measured"),
        "mpi.eager": assumed(65536, "no message was sent eagerly, or it was not measured"),
        "mpi.rendezvous": assumed(0, "not measured"),
        "mpi.thread_switch": assumed(5e3, "waking a thread"),
        "network.socket": assumed(1.2e9, network),
        "network.link": assumed(125e6, network),
        "network.message": assumed(0, "where processors carry the bytes it is theirs"),
        "network.latency": assumed(15e3, network),
        "network.hop": assumed(0, "it is in the latency"),
        "network.queue": assumed(262144, network),
        "network.burst": assumed(0, network),
        "network.chunk": assumed(61440, "the wire's where processors copy"),
        "service.notice": assumed(15e3 if sleeps else 500, "nothing was offloaded"),
        "service.event": assumed(800, "nothing was offloaded"),
        "service.message": assumed(4e3 if not one_node else 800, "nothing was offloaded"),
        "service.move": assumed(800, "nothing was offloaded"),
        "service.mark": assumed(100, "too little to distinguish from an event"),
        "service.copy": assumed(10e9, "as the host's"),
        "service.reduce": assumed(5e9, "as the host's"),
        "noise.skew": assumed(0, "no common clock, or not measured"),
        "noise.work": assumed(0, "not measured"),
    }


def _first_numbers(readings: Readings) -> dict[str, Estimate]:
    alone = estimates.estimate(readings)
    numbers = {**_usual(readings), **alone}
    numbers["service.reduce"] = replace(numbers["host.reduce"], how="as host.reduce")
    # Work that sometimes takes twice as long is disturbed by another program, not by the machine's noise.
    work = numbers["noise.work"]
    most = min(work.value, _MOST_NOISE)
    numbers["noise.work"] = replace(work, value=most, low=min(work.low, most))
    return numbers


def _to_fit(readings: Readings, numbers: Mapping[str, Estimate]) -> tuple[str, ...]:
    keys = ["mpi.message", "mpi.post", "service.notice", "service.event", "service.move", "service.copy"]
    keys += ["host.copy", "noise.skew"]  # the ranks' exit from a barrier differs from a start by the clock
    if readings.nodes > 1:
        keys += ["network.latency", "network.link", "network.socket", "service.message"]
    keys += [key for key in ("mpi.copy", "mpi.rendezvous") if key in numbers and numbers[key].measured]
    # A process with its own core takes it from no other.
    if readings.place.one_host or not readings.own_core:
        keys.append("host.switch")
    return tuple(keys)


def _expected(key: str, one: Estimate) -> fitting.Expected:
    known = one.measured and key not in _OTHERWISE
    sigma = _UNKNOWN_SIGMA if not known else _LINK_SIGMA if key == "network.link" else _MEASURED_SIGMA
    return fitting.Expected(max(one.value, _LEAST_NS), sigma)


def _sigmas(measured: Measured) -> list[float]:
    columns = zip(*(times.four for times in measured.rounds), strict=True)
    return [max(_LEAST_SIGMA, estimates.spread(column)) for column in columns]


def _doubts(fit: fitting.Fit, before: Mapping[str, Estimate]) -> list[str]:
    """Results that the user should measure again."""
    doubts = []
    for key, one in fit.parameters.items():
        alone = before[key]
        first = max(alone.value, _LEAST_NS)
        if alone.measured and key not in _OTHERWISE and not first / _FAR <= one.value <= first * _FAR:
            values = [cluster_file.text_of(key, value) for value in (alone.value, one.value)]
            doubts.append(f"{key} is {values[0]} alone, {values[1]} by the collectives: one of the two was disturbed.")
    if fit.error > _BAD_ERROR:
        doubts.append("The times contradict each other: the machine was busy, or the model does not apply here.")
    return doubts


def fit_all(
    readings: Readings, simulator: Path, shows: Callable[[int, int], None] = lambda _done, _all: None
) -> tuple[ClusterFile, list[str]]:
    """The file, and notes about it."""
    words = _words(readings)
    numbers = _first_numbers(readings)
    notes = [] if readings.complete else ["Interrupted: not everything was measured."]
    cells = [measured for measured in readings.cells if measured.rounds]
    if not cells:
        return ClusterFile(words, numbers), [*notes, "Nothing offloaded was measured: costs of services are assumed."]
    expected = {key: _expected(key, numbers[key]) for key in _to_fit(readings, numbers)}
    works = [measured.median.work_us for measured in cells]

    with tempfile.TemporaryDirectory(prefix="outrigger-calibrate-") as directory:
        file = Path(directory) / "trial.toml"

        def predicted(values: Mapping[str, float]) -> Sequence[float]:
            changed = {key: replace(numbers[key], value=value, measured=False) for key, value in values.items()}
            trial = ClusterFile(words, {**numbers, **changed})
            unsure = {key: replace(one, measured=False) for key, one in trial.numbers.items()}
            cluster_file.write(file, cluster_file.text_of_file(ClusterFile(words, unsure), readings, []))
            return [
                time
                for measured, work_us in zip(cells, works, strict=True)
                for time in model.predict(measured.cell, work_us, simulator, file).four
            ]

        times = [time for measured in cells for time in measured.median.four]
        sigmas = [sigma for measured in cells for sigma in _sigmas(measured)]
        fit = fitting.fit(predicted, times, sigmas, expected, shows)
    notes += _doubts(fit, numbers)
    for key, one in fit.parameters.items():
        before = numbers[key]
        how = f"by the times of {len(cells)} cells" if one.known else "the times of the cells hardly depend on it"
        first = f"alone {cluster_file.text_of(key, before.value)}, {before.how}; " if before.measured else ""
        numbers[key] = Estimate(one.value, one.low, one.high, first + how, before.spread)
    notes.append(
        f"Fitted to {len(times)} times of {len(cells)} cells; typical error {100 * math.expm1(fit.error):.0f} %."
    )
    return ClusterFile(words, numbers), notes
