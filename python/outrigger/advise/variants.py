"""The variants in which a program is tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from outrigger import binding
from outrigger.advise.given import Given
from outrigger.report_calls import could_block
from outrigger.report_data import Report
from outrigger.settings import FIXED

NATIVE, ALL_CORES, DEFAULT, COUNTED, WINDOWS, PLAIN = (
    "native", "native-all-cores", "offloaded", "native-counted", "windows", "plain",
)  # fmt: skip
NO_CORE, MORE, HEAP, BLOCKING, MIXED, TOGETHER = (
    "no-core", "more-services", "shared-heap", "blocking", "some-native", "together",
)  # fmt: skip

KEYS = (
    NATIVE, ALL_CORES, DEFAULT, COUNTED, WINDOWS, PLAIN, NO_CORE, MORE, HEAP, BLOCKING, MIXED, TOGETHER,
)  # fmt: skip

_LEAST_SHARE = 0.01
"""Fraction of the run time below which a collective cannot gain enough."""
_LEAST_PRIVATE = 0.2
"""Fraction of the received bytes."""
_LONGER = 1.1
"""A collective that takes this many times as long offloaded is also tried natively."""
_MEASURE_WINDOWS = "OUTRIGGER_WINDOWS=on"
_PRIVATE = ("copier", "relay", "cma")
"""Reaches of bytes in memory of which a service process does not map both ends."""


@dataclass(frozen=True)
class Variant:
    """One way."""

    key: str
    title: str
    given: Given
    judged: bool = True
    """False: it runs once, only for its report."""
    limit_s: float | None = None
    """Time limit of a run. A run of such a variant may also fail: the others count without it."""


def first(given: Given, yielding: Sequence[str] = ()) -> list[Variant]:
    """Variants that need no knowledge of the program.

    `yielding`: variables for ranks that share cores unbound. Except for plain `outrigger run`, no run decides by
    measurements itself.
    """
    plain = Variant(PLAIN, "outrigger run, as given", given)
    given = replace(given, choice=FIXED)
    unbound = replace(given, bind=binding.NONE, variables=(*given.variables, *yielding))
    found = [
        Variant(NATIVE, "native, a core left free", replace(given, native=True)),
        Variant(DEFAULT, "offloaded, as given", given),
        plain,
    ]
    if given.bind == binding.NONE:
        found[0] = replace(found[0], title="native")
    else:
        found += [
            Variant(ALL_CORES, "native, ranks on all cores", replace(unbound, native=True)),
            Variant(NO_CORE, "offloaded, no core for services", unbound),
        ]
    counted = replace(given, algorithms=(*given.algorithms, "native"), blocking="off")
    return [*found, Variant(COUNTED, "native, counted", counted, judged=False)]


def measuring_windows(counted: Variant, limit_s: float) -> Variant:
    """The counted run again, with guarded memory: it is slow, and its time is no measure of anything."""
    given = counted.given
    measured = replace(given, intranode="off", variables=(*given.variables, _MEASURE_WINDOWS))
    return Variant(WINDOWS, "native, first uses of data", measured, judged=False, limit_s=limit_s)


def private_bytes(report: Report) -> int:
    """Bytes received from or into memory that service processes do not map."""
    return sum(entry.bytes.get(name, 0) for entry in report.collectives for name in _PRIVATE)


def received_bytes(report: Report) -> int:
    """By any reach; `bounce` is packed in addition."""
    return sum(count for entry in report.collectives for name, count in entry.bytes.items() if name != "bounce")


def _seconds(report: Report) -> dict[str, float]:
    """A rank's time in nonblocking calls of each collective that can be offloaded."""
    found: dict[str, float] = {}
    for entry in report.calls:
        if entry.collective is not None and entry.form == "nonblocking" and entry.size != 1:
            found[entry.collective] = found.get(entry.collective, 0.0) + entry.seconds.sum / max(report.counted, 1)
    return found


def longer_offloaded(offloaded: Report, native: Report) -> dict[str, tuple[float, float]]:
    """Collectives that take longer offloaded than natively: a rank's seconds, offloaded and native."""
    run = offloaded.run_seconds.mean if offloaded.run_seconds is not None else 0.0
    natively = _seconds(native)
    served = {entry.collective for entry in offloaded.collectives if entry.offloaded}
    return {
        name: (seconds, natively[name])
        for name, seconds in _seconds(offloaded).items()
        if name in natively
        and name in served
        and seconds > _LONGER * natively[name]
        and seconds - natively[name] > _LEAST_SHARE * run
    }


def more_services(given: Given, offloaded: Report, most: int) -> list[Variant]:
    """Twice the service processes of a node, if the ranks leave a core; `most`: that a node can have."""
    count = min(2 * offloaded.service.processes, offloaded.ranks, most)
    asked = given.services is not None or given.bind == binding.NONE
    if asked or offloaded.no_spare_core or count <= offloaded.service.processes:
        return []
    return [Variant(MORE, f"offloaded, {count} services", replace(given, services=count))]


def _blocks(report: Report) -> float:
    """Fraction of the run, over all ranks, in blocking calls that could be offloaded."""
    rows = (entry for entry in report.calls if entry.size != 1 and could_block(entry, report))
    run = report.run_seconds.sum if report.run_seconds is not None else 0.0
    return sum(entry.seconds.sum for entry in rows) / run if run > 0 else 0.0


def further(given: Given, offloaded: Report, native: Report | None) -> list[Variant]:
    """Variants that the reports suggest."""
    found = []
    whole = received_bytes(offloaded)
    heap_is_open = given.shared_heap is None and offloaded.shared_heap is None and not offloaded.service.xpmem
    if heap_is_open and private_bytes(offloaded) > _LEAST_PRIVATE * whole:
        found.append(Variant(HEAP, "offloaded, shared heap", replace(given, shared_heap="on")))
    if given.blocking is None and _blocks(offloaded) >= _LEAST_SHARE:
        found.append(Variant(BLOCKING, "offloaded, blocking forms too", replace(given, blocking="on")))
    names = longer_offloaded(offloaded, native) if native is not None else {}
    served = {entry.collective for entry in offloaded.collectives if entry.offloaded}
    if names and set(names) != served:
        rules = ",".join(f"{name}=native" for name in names)
        mixed = replace(given, algorithms=(*given.algorithms, rules))
        found.append(Variant(MIXED, f"offloaded, without {', '.join(names)}", mixed))
    return found


def together(given: Given, winners: Sequence[Variant]) -> Variant:
    """All options that help alone, together."""
    made = given
    for variant in winners:
        other = variant.given
        changes = {
            name: getattr(other, name)
            for name in ("services", "algorithms", "blocking", "shared_heap", "bind", "variables")
            if getattr(other, name) != getattr(given, name)
        }
        made = replace(made, **changes)
    return Variant(TOGETHER, "offloaded, what pays together", made)
