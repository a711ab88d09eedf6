"""Numbers of a cluster file that follow from single measurements, with their uncertainties."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from outrigger.calibrate.caches import find_caches, missed_rate
from outrigger.calibrate.protocols import find_protocols
from outrigger.calibrate.readings import Rates, Reading, Readings
from outrigger.noise import band_of

LARGE_SPREAD = 0.25
"""A middle half that spreads over more than this part of the median was disturbed."""
_SENT_UNASKED_US = 1500.0
"""Half of the receiver's delay."""
_MOST_EAGER_BYTES = 1 << 20
_STREAM_BUFFERS_BYTES = 2 * (64 << 20)
"""Buffers of both sides, in bench/mpi/messages.c's stream_missed."""
_MEDIAN_OF_DISTANCE = 1 - 2**-0.5
"""Median distance of two uniform random numbers, in parts of their range."""


@dataclass(frozen=True)
class Estimate:
    """A value in ns, bytes, bytes a second or as a part, with its interval."""

    value: float
    low: float
    high: float
    how: str
    spread: float = 0.0
    """Spread of the middle half of the samples, in parts of the median."""
    measured: bool = True

    @property
    def doubt(self) -> str:
        """Empty: none."""
        return f"spread {100 * self.spread:.0f} %: the machine was busy" if self.spread > LARGE_SPREAD else ""


def assumed(value: float, why: str) -> Estimate:
    """Not measured."""
    return Estimate(value, value, value, f"assumed: {why}", measured=False)


def spread(samples: Sequence[float]) -> float:
    """The distance of the quartiles over the median."""
    if len(samples) < 4 or statistics.median(samples) <= 0:
        return 0.0
    first, middle, third = statistics.quantiles(samples, n=4)
    return (third - first) / middle


def of_samples(samples: Sequence[float], how: str, scale: float = 1.0) -> Estimate:
    """Estimates by the median."""
    band = band_of(samples)
    return Estimate(scale * band.value, scale * band.low, scale * band.high, how, spread(samples))


def _combined(parts: Sequence[Reading], value: Callable[[Sequence[float]], float], how: str) -> Estimate:
    """A function of medians; its interval covers all combinations of the medians' bounds."""
    bands = [band_of(part.settled_us) for part in parts]
    values = [value([band.value for band in bands])]
    for pattern in range(1 << len(bands)):
        values.append(value([band.high if pattern >> i & 1 else band.low for i, band in enumerate(bands)]))
    worst = max(spread(part.settled_us) for part in parts)
    return Estimate(values[0], min(values), max(values), how, worst)


def eager_bytes(readings: Sequence[Reading]) -> Estimate | None:
    """Largest size for which a sender does not wait for its receiver; None: it always does, or nothing was measured.

    A single size that waits before others that do not was disturbed, and so was a long one that does not.
    """
    ordered = sorted(readings, key=lambda one: one.bytes)
    waits = [min(reading.samples_us) > _SENT_UNASKED_US for reading in ordered] + [True]
    first = next((i for i in range(len(ordered)) if waits[i] and waits[i + 1]), len(ordered))
    if first == 0:
        return None
    last = ordered[first - 1].bytes
    following = ordered[first].bytes if first < len(ordered) else _MOST_EAGER_BYTES
    return Estimate(last, last, max(last, following - 1), "the longest MPI_Send that does not wait for its receiver")


def _bytes_per_s(times_us: Sequence[float], apart_bytes: int) -> float:
    return apart_bytes * 1e6 / max(times_us[1] - times_us[0], 1e-3)


def link_rate(streams: Sequence[Reading]) -> Estimate | None:
    """By the additional time of longer messages; None: fewer than two sizes."""
    if len(streams) < 2:
        return None
    ends = (streams[0], streams[-1])
    apart = ends[1].bytes - ends[0].bytes
    return _combined(
        ends, lambda times: _bytes_per_s(times, apart), f"messages of {ends[0].bytes} and {ends[1].bytes} B"
    )


def link_burst(rested: Reading, there_and_back: Reading, streams: Sequence[Reading]) -> Estimate:
    """Bytes that an idle link passes at once: by the time that a message takes less than at the link's rate."""
    ends = (streams[0], streams[-1])
    apart = ends[1].bytes - ends[0].bytes

    def burst_bytes(times_us: Sequence[float]) -> float:
        sent_us = times_us[2] - 2 * times_us[3]
        return max(0.0, rested.bytes - sent_us * _bytes_per_s(times_us[:2], apart) / 1e6)

    return _combined((*ends, rested, there_and_back), burst_bytes, f"a message of {rested.bytes} B after a pause")


def _of_links(readings: Readings, found: dict[str, Estimate]) -> None:
    streams = readings.of_kind("stream")
    if (link := link_rate(streams)) is None:
        return
    found["network.link"] = link
    there_and_back = readings.reading("half_round_trip", 8)
    if (rested := readings.of_kind("rested")) and there_and_back is not None:
        found["network.burst"] = link_burst(rested[0], there_and_back, streams)


def _of_messages(readings: Readings, found: dict[str, Estimate]) -> None:
    there_and_back = readings.reading("half_round_trip", 8)
    burst = readings.reading("message", 8)
    if there_and_back is None or burst is None:
        return
    both = (there_and_back, burst)
    if not readings.place.one_host:
        found["mpi.message"] = of_samples(burst.settled_us, "64 messages of 8 B under way at a time", 1e3)
        found["network.latency"] = _combined(
            both, lambda t: max(0.0, 500 * (t[0] - 2 * t[1])), "a round trip of 8 B less its four messages; of one end"
        )
    elif readings.cores == 1:
        found["mpi.message"] = of_samples(burst.settled_us, "64 messages of 8 B under way at a time", 1e3)
        found["host.switch"] = _combined(
            both, lambda t: max(0.0, 1e3 * (t[0] - 2 * t[1])), "a round trip of 8 B less its four messages"
        )
    else:
        found["mpi.message"] = of_samples(there_and_back.settled_us, "a quarter of a round trip of 8 B", 5e2)


def _of_one_host(readings: Readings, found: dict[str, Estimate]) -> None:
    """The sender's wait has no information there: short messages may be sent unasked and still be waited for."""
    protocols = find_protocols(readings.of_kind("half_round_trip"))
    if protocols is None:
        return
    eager, following = protocols.eager_bytes, protocols.following_bytes
    how = "round trips by size"
    found["mpi.eager"] = Estimate(eager, eager, following - 1, f"{how}: longer ones take a step more")
    found["mpi.rendezvous"] = of_samples(protocols.rendezvous_us, f"{how}: the step", 1e3)
    found["mpi.copy"] = of_samples(protocols.copy_bytes_per_us, f"{how}: what a byte takes", 1e6)
    found["mpi.eager_copy"] = of_samples(
        protocols.eager_copy_bytes_per_us, f"{how}: what a byte of a short one takes, in and out", 1e6
    )


def _of_rates(rates: Rates, of_kernel: bool, found: dict[str, Estimate]) -> None:
    """`of_kernel`: service processes copy by the kernel."""
    found["host.copy"] = of_samples(rates.copy, "one core copies blocks of 1 MiB")
    found["host.reduce"] = of_samples(rates.reduce, "one core adds vectors of doubles of 1 MiB")
    found["host.memory"] = of_samples(rates.memory, "all cores copy blocks of 32 MiB, read and written")
    found["service.copy"] = replace(found["host.copy"], how="as host.copy")
    caches = find_caches(rates.by_bytes)
    if caches is not None:
        found["host.cache"] = of_samples(caches.cache, "one core's copies by size")
        found["host.copy_missed"] = of_samples(caches.missed, "one core's copies by size: of what lies in no cache")
        found["service.copy_missed"] = replace(found["host.copy_missed"], how="as host.copy_missed")
    by_kernel = find_caches(rates.kernel) if of_kernel and caches is not None else None
    if by_kernel is not None:
        found["host.cache"] = of_samples(by_kernel.cache, "the kernel's copies by size")
        found["service.copy"] = of_samples(by_kernel.cached, "the kernel's copies by size: in the cache")
        found["service.copy_missed"] = of_samples(by_kernel.missed, "the kernel's copies by size: in no cache")


def _of_missed_streams(readings: Readings, found: dict[str, Estimate]) -> None:
    streams = readings.of_kind("stream_missed")
    if not streams or "mpi.copy" not in found or "host.cache" not in found:
        return
    size, copy, cache = streams[0].bytes, found["mpi.copy"].value, found["host.cache"].value
    rates = [size * 1e6 / time_us for time_us in streams[0].settled_us]
    missed = [missed_rate(rate, _STREAM_BUFFERS_BYTES, cache, copy) for rate in rates]
    found["mpi.copy_missed"] = of_samples(
        missed, f"messages of {size >> 20} MiB between 64 MiB of buffers on each side"
    )


def estimate(readings: Readings) -> dict[str, Estimate]:
    """By key, table.key; missing ones were not measured."""
    found: dict[str, Estimate] = {}
    if readings.rates is not None:
        _of_rates(readings.rates, readings.memory == "malloc", found)
    _of_messages(readings, found)
    if (post := readings.reading("post", 8)) is not None:
        found["mpi.post"] = of_samples(post.settled_us, "MPI_Ialltoall of 8 B until it returns", 1e3)
    if (eager := eager_bytes(readings.of_kind("send_alone"))) is not None:
        found["mpi.eager"] = eager
    if readings.place.one_host:
        _of_one_host(readings, found)
        _of_missed_streams(readings, found)
    else:
        _of_links(readings, found)
    if (late := readings.reading("late", 0)) is not None:
        found["noise.skew"] = of_samples(
            late.settled_us, "delay between two ranks after a barrier", 1e3 / _MEDIAN_OF_DISTANCE
        )
    if (work := readings.reading("work", 0)) is not None:
        least = min(work.samples_us)
        found["noise.work"] = of_samples(
            [time / least - 1 for time in work.settled_us], "the same computation again and again, against the fastest"
        )
    return found
