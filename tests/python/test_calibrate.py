"""Tests of `outrigger lab calibrate` with timings from known parameters."""

from __future__ import annotations

import json
import math
import random
import tomllib
from collections.abc import Mapping
from dataclasses import replace

import pytest

from outrigger import cores
from outrigger.calibrate import caches, cluster_file, command, estimates, fitting, whole
from outrigger.calibrate.readings import CopyRates, Place, Rates, Reading, Readings, parse_messages
from outrigger.errors import UserError

BETWEEN_HOSTS = Place(one_host=False, one_machine=True, machine_cores=2)


def noisy(value: float, part: float, count: int = 21) -> tuple[float, ...]:
    dice = random.Random(value)
    return (50 * value, *(value * (1 + part * dice.uniform(-1, 1)) for _ in range(count)))


def readings(place: Place, cores: int, messages: list[Reading]) -> Readings:
    return Readings(place=place, cores=cores, messages=messages, rates=Rates((1e10, 1.1e10, 0.9e10), (5e9,), (2e10,)))


def holds(estimate: estimates.Estimate, truth: float) -> bool:
    return estimate.low <= truth <= estimate.high


def test_latency_link_and_message_are_told_apart() -> None:
    message_us, latency_us, link = 3.0, 20.0, 117e6
    found = estimates.estimate(
        readings(
            BETWEEN_HOSTS,
            1,
            [
                Reading("half_round_trip", 8, noisy(2 * message_us + 2 * latency_us, 0.05)),
                Reading("message", 8, noisy(message_us, 0.05)),
                *(Reading("stream", size, noisy(500 + size / link * 1e6, 0.01)) for size in (1 << 20, 1 << 22)),
            ],
        )
    )
    assert holds(found["mpi.message"], 1e3 * message_us)
    assert found["network.latency"].value == pytest.approx(1e3 * latency_us, rel=0.1)
    assert holds(found["network.latency"], 1e3 * latency_us)
    assert found["network.link"].value == pytest.approx(link, rel=0.03)
    assert holds(found["network.link"], link)
    assert "host.switch" not in found
    assert found["host.copy"].value == 1e10
    assert not found["mpi.message"].doubt


def test_what_a_rested_link_lets_through_at_once_is_its_burst() -> None:
    half_us, link, burst = 40.0, 117e6, 72 * 1024

    def messages(burst_bytes: int) -> list[Reading]:
        rested_us = 2 * half_us + ((1 << 20) - burst_bytes) / link * 1e6
        return [
            Reading("half_round_trip", 8, noisy(half_us, 0.05)),
            Reading("message", 8, noisy(3, 0.05)),
            *(Reading("stream", size, noisy(size / link * 1e6, 0.001)) for size in (1 << 20, 1 << 22)),
            Reading("rested", 1 << 20, noisy(rested_us, 0.001)),
        ]

    found = estimates.estimate(readings(BETWEEN_HOSTS, 1, messages(burst)))
    assert holds(found["network.burst"], burst)
    assert found["network.burst"].value == pytest.approx(burst, rel=0.1)
    assert estimates.estimate(readings(BETWEEN_HOSTS, 1, messages(0)))["network.burst"].low == 0


def test_ranks_on_one_core_give_what_a_switch_costs() -> None:
    here = Place(one_host=True, one_machine=True, machine_cores=2)
    messages = [Reading("half_round_trip", 8, noisy(4.0, 0.01)), Reading("message", 8, noisy(0.5, 0.01))]
    found = estimates.estimate(readings(here, 1, messages))
    assert holds(found["host.switch"], 3e3)
    assert "network.link" not in found
    assert estimates.estimate(readings(here, 2, messages))["mpi.message"].value == pytest.approx(2e3, rel=0.02)


def test_round_trips_by_size_tell_what_is_asked_for() -> None:
    here = Place(one_host=True, one_machine=True, machine_cores=2)
    begin_us, rendezvous_us, copy = 0.4, 2.5, 12e9

    def half_us(size: int) -> float:
        if size <= 2048:
            return begin_us + 2 * size / copy * 1e6
        return begin_us + rendezvous_us + size / copy * 1e6

    sizes = [8 << power for power in range(18)]
    trips = [Reading("half_round_trip", size, noisy(half_us(size), 0.05)) for size in sizes]
    # A sender of 512 bytes waits until they have been taken; they have gone all the same.
    alone = [Reading("send_alone", size, (3100.0, 3200.0)) for size in (512, 1024)]
    found = estimates.estimate(readings(here, 2, [*trips, *alone]))
    assert (found["mpi.eager"].value, found["mpi.eager"].high) == (2048, 4095)
    assert holds(found["mpi.rendezvous"], 1e3 * rendezvous_us)
    assert found["mpi.rendezvous"].value == pytest.approx(1e3 * rendezvous_us, rel=0.1)
    assert found["mpi.copy"].value == pytest.approx(copy, rel=0.05)
    assert found["mpi.eager_copy"].value == pytest.approx(copy, rel=0.1)
    few = estimates.estimate(readings(here, 2, trips[::4]))
    assert "mpi.copy" not in few


def test_short_messages_may_be_copied_at_another_rate_than_long_ones() -> None:
    """One line for both rates would have its step where short messages bend, far below the eager limit."""
    here = Place(one_host=True, one_machine=True, machine_cores=16)
    sizes = [8, 64, 256, 512, 1024, 1536, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 8192, 12288, 16384, 32768, 65536]

    def half_us(size: int) -> float:
        return 0.55 + 2 * size / 5e3 if size <= 3584 else 2.0 + size / 12e3

    trips = [Reading("half_round_trip", size, noisy(half_us(size), 0.02)) for size in sizes]
    found = estimates.estimate(readings(here, 2, trips))
    assert (found["mpi.eager"].value, found["mpi.eager"].high) == (3584, 4095)
    assert found["mpi.eager_copy"].value == pytest.approx(5e9, rel=0.1)
    assert found["mpi.copy"].value == pytest.approx(12e9, rel=0.1)


def _copies(cache: int, cached: float, missed: float) -> tuple[CopyRates, ...]:
    def rate(buffers_bytes: int) -> float:
        part = caches.missed_part(cache, buffers_bytes)
        return 1 / ((1 - part) / cached + part / missed)

    return tuple(CopyRates(size << 20, (rate(size << 20),) * 3) for size in (1, 2, 4, 8, 16, 32, 64))


def test_caches_are_found_by_how_copies_get_slower() -> None:
    found = caches.find_caches(_copies(8 << 20, 40e9, 9e9))
    assert found is not None
    assert (found.cache[0], found.cached[0], found.missed[0]) == pytest.approx((8 << 20, 40e9, 9e9))
    assert caches.find_caches(_copies(8 << 20, 10e9, 9.5e9)) is None
    assert caches.find_caches(_copies(8 << 20, 40e9, 9e9)[:3]) is None


def test_what_lies_in_no_cache_has_a_rate_of_its_own() -> None:
    cache, missed, cached = 8 << 20, 4e9, 16e9
    part = 1 - cache / (128 << 20)
    rate = 1 / ((1 - part) / cached + part / missed)
    copies = _copies(cache, cached, missed), _copies(cache // 2, cached / 2, missed / 2)
    rates = Rates((1.7e10,), (5e9,), (2e10,), *copies)
    streams = Reading("stream_missed", 1 << 20, noisy((1 << 20) / rate * 1e6, 0.01))
    trips = [
        Reading("half_round_trip", 8 << power, noisy(1 + (8 << power) / cached * 1e6, 0.01)) for power in range(18)
    ]
    host = readings(Place(one_host=True, one_machine=True, machine_cores=2), 2, [streams, *trips])

    shared = estimates.estimate(replace(host, rates=rates))
    assert shared["host.copy_missed"].value == pytest.approx(missed)
    assert shared["service.copy_missed"].value == pytest.approx(missed)
    assert shared["host.cache"].value == pytest.approx(cache)
    assert shared["mpi.copy_missed"].value == pytest.approx(missed, rel=0.1)
    assert shared["service.copy"].value == 1.7e10

    by_kernel = estimates.estimate(replace(host, rates=rates, memory="malloc"))
    assert by_kernel["host.copy_missed"].value == pytest.approx(missed)
    assert by_kernel["service.copy_missed"].value == pytest.approx(missed / 2)
    assert by_kernel["service.copy"].value == pytest.approx(cached / 2)
    assert by_kernel["host.cache"].value == pytest.approx(cache / 2)

    assert "mpi.copy_missed" not in estimates.estimate(host)


@pytest.mark.parametrize(
    ("memory", "own_core", "nodes", "copy"),
    [
        ("malloc", True, 1, True),
        ("malloc", True, 4, True),
        ("malloc", False, 1, True),
        ("malloc", False, 4, False),
        ("alloc_mem", True, 1, False),
        ("alloc_mem", False, 1, False),
    ],
)
def test_waiting_ranks_copy_what_cannot_be_mapped(memory: str, own_core: bool, nodes: int, copy: bool) -> None:
    assert whole._ranks_copy(Readings(memory=memory, own_core=own_core, nodes=nodes)) == copy


def test_numbers_of_ranks_are_a_list() -> None:
    assert command.parse_ranks("4, 2,2") == [2, 4]
    assert command.parse_ranks(None) == [cores.measured_ranks(None)]
    for wrong in ("", "1", "2,x", "2,,4", "-2"):
        with pytest.raises(UserError, match="at least 2: 2,4"):
            command.parse_ranks(wrong)


def test_a_disturbed_measurement_is_said() -> None:
    found = estimates.of_samples([1, 1.1, 1.5, 1.9, 2.0, 1.2, 1.8], "x")
    assert "the machine was busy" in found.doubt


def test_the_eager_limit_is_where_senders_begin_to_wait() -> None:
    waits, at_once = (3100.0, 3090.0, 9000.0), (5.0, 20000.0, 7.0)
    sends = [
        Reading("send_alone", size, at_once if size <= 4096 else waits) for size in (1024, 2048, 4096, 8192, 16384)
    ]
    # One long send that is quick, as a receiver that was away looked late: no limit.
    sends.append(Reading("send_alone", 32768, at_once))
    found = estimates.eager_bytes(sends)
    assert found is not None
    assert (found.value, found.high) == (4096, 8191)
    assert estimates.eager_bytes(sends[3:4]) is None
    disturbed = [sends[0], Reading("send_alone", 2048, waits), *sends[2:]]
    assert estimates.eager_bytes(disturbed) == found


def test_what_the_benchmark_prints_is_checked() -> None:
    place = '{"what": "place", "one_host": true, "one_machine": true, "machine_cores": 2}'
    found, messages = parse_messages(f'noise\n{place}\n{{"what": "late", "bytes": 0, "samples_us": [1.5]}}\n')
    assert found.machine_cores == 2
    assert messages == [Reading("late", 0, (1.5,))]
    with pytest.raises(UserError, match="no figures"):
        parse_messages("nothing")
    with pytest.raises(UserError, match="cannot be read"):
        parse_messages(f"{place}\n{json.dumps({'what': 'late', 'bytes': 'x', 'samples_us': []})}")


SIZES = (8, 1024, 16384, 262144, 4194304)


def line(parameters: Mapping[str, float]) -> list[float]:
    """Latency and rate can be known; `idle` changes nothing."""
    return [parameters["latency"] + size / parameters["rate"] + 0 * parameters["idle"] for size in SIZES]


def test_a_fit_finds_the_truth_and_knows_what_it_does_not_know() -> None:
    truth = {"latency": 20.0, "rate": 117.0, "idle": 3.0}
    dice = random.Random(7)
    measured = [time * math.exp(dice.gauss(0, 0.02)) for time in line(truth)]
    expected = {
        name: fitting.Expected(value, 1.5) for name, value in {"latency": 100.0, "rate": 900.0, "idle": 5.0}.items()
    }
    found = fitting.fit(line, measured, [0.02] * len(measured), expected)
    for name in ("latency", "rate"):
        one = found.parameters[name]
        assert one.known
        assert one.low <= truth[name] <= one.high
        assert one.value == pytest.approx(truth[name], rel=0.1)
        assert one.high / one.low < 1.3
    idle = found.parameters["idle"]
    assert not idle.known
    assert idle.value == pytest.approx(5.0)
    assert idle.high / idle.low > 100
    assert found.error < 0.05


def test_a_model_that_does_not_fit_makes_everything_less_sure() -> None:
    expected = {name: fitting.Expected(10.0, 1.5) for name in ("latency", "rate", "idle")}
    good = line({"latency": 20.0, "rate": 117.0, "idle": 3.0})
    bad = [time * (2 if index % 2 else 1) for index, time in enumerate(good)]
    sure = fitting.fit(line, good, [0.05] * len(good), expected)
    unsure = fitting.fit(line, bad, [0.05] * len(bad), expected)
    wide = {name: one.high / one.low for name, one in unsure.parameters.items()}
    assert wide["rate"] > 1.5 * sure.parameters["rate"].high / sure.parameters["rate"].low
    assert unsure.error > 0.2


def test_a_file_is_written_with_bounds_around_its_values() -> None:
    numbers = {
        "host.copy": estimates.Estimate(1.23456789e10, 1.2e10, 1.3e10, "x"),
        "mpi.message": estimates.Estimate(1234.4, 1234.4, 1234.4, "y", spread=0.4),
        "noise.work": estimates.Estimate(0.01, 0.0, 0.02, "z"),
        "service.event": estimates.assumed(500, "nothing"),
    }
    text = cluster_file.text_of_file(cluster_file.ClusterFile({"nodes": "1"}, numbers), Readings(machine="µ"), [])
    data = tomllib.loads(text)
    assert data["host"]["copy"] == "12345.679 MB/s"
    assert data["mpi"]["message"] == "1234 ns"
    assert data["confidence"]["mpi"] == {"message": ["1234 ns", "1235 ns"]}
    assert "service" not in data["confidence"]
    assert "the machine was busy" in text
    assert text.isascii()
