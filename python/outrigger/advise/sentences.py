"""Advice in sentences, each with its measurement and the option to use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from outrigger import report_advice, report_calls
from outrigger.advise import overlap, variants
from outrigger.advise.figures import Ratio, Results
from outrigger.report_data import Call, Report, format_bytes, format_seconds, plural
from outrigger.report_reasons import in_words

_MOST = 8
_LEAST_SHARE = 0.01
_LEAST_PRIVATE = 0.2
_APART = 0.1
"""Fraction of a collective's time: less computation before the wait hides too little."""
_NOTABLE = 0.05
"""Fraction of the calls that could be offloaded. Fewer native ones are not worth a sentence."""


@dataclass(frozen=True)
class Advice:
    """A sentence or two."""

    text: str
    option: str = ""
    """Option of `outrigger run`; empty: none."""


def _compared(ratio: Ratio) -> str:
    return f"{format_seconds(ratio.seconds)} instead of {format_seconds(ratio.base_seconds)}, {ratio}"


def headline(results: Results) -> Advice:
    """Tells if Outrigger makes the program faster at all."""
    best, native = results.best, results.best_native
    compared = [(ratio, row) for row in results.offloaded if (ratio := results.ratio(row)) is not None]
    if not compared:
        return Advice(f"Only native runs ended in time: {format_seconds(native.seconds)}.")
    nearest = min(compared, key=lambda pair: pair[0].band.value)
    ratio, row = next((pair for pair in compared if pair[1] is best), nearest)
    what = {-1: "pays", 0: "makes no difference beyond noise", 1: "does not pay"}[ratio.verdict]
    verdict = f"Outrigger {what} here" if ratio.band.known else "Too few runs to tell if Outrigger pays here"
    return Advice(
        f"{verdict}: {format_seconds(ratio.seconds)} {row.variant.title}, "
        f"{format_seconds(ratio.base_seconds)} {native.variant.title}: {ratio} of the time, "
        f"{plural(ratio.band.count, 'run')} of each."
    )


def _core(results: Results) -> Iterator[Advice]:
    ratio = results.between(variants.NO_CORE, variants.DEFAULT)
    if ratio is not None:
        measured = _compared(ratio)
        if ratio.verdict > 0:
            yield Advice(f"Keep a core for service processes: without one it takes {measured}.")
        elif ratio.verdict < 0:
            yield Advice(f"Give the ranks all cores and keep none for service processes: {measured}.", "--bind none")
        else:
            yield Advice(f"A core kept for service processes makes no difference beyond noise: {measured}.")
    ratio = results.between(variants.ALL_CORES, variants.NATIVE)
    if ratio is not None and ratio.verdict < 0:
        measured = _compared(ratio)
        yield Advice(f"Natively the free core costs time: on all cores {measured}.")


def _services(results: Results) -> Iterator[Advice]:
    more, report = results.get(variants.MORE), results.report(variants.DEFAULT)
    ratio = results.between(variants.MORE, variants.DEFAULT)
    if more is None or report is None or ratio is None:
        return
    count, usual, measured = more.variant.given.services, report.service.processes, _compared(ratio)
    tried = f"{count} service processes a node instead of {usual}"
    if ratio.verdict < 0:
        yield Advice(f"{tried} pay: {measured}.", f"--services {count}")
    else:
        what = "cost time" if ratio.verdict > 0 else "make no difference beyond noise"
        yield Advice(f"{tried} {what}: {measured}. Leave it at {usual}.")


def _memory_moved(report: Report) -> str:
    private, whole = variants.private_bytes(report), variants.received_bytes(report)
    return f"{format_bytes(private)} of {format_bytes(whole)} received came from or went to memory of malloc"


_ALLOCATE = "take the buffers from MPI_Alloc_mem"


def _memory(results: Results) -> Iterator[Advice]:
    report = results.report(variants.DEFAULT)
    if report is None or variants.private_bytes(report) <= _LEAST_PRIVATE * variants.received_bytes(report):
        return
    ratio = results.between(variants.HEAP, variants.DEFAULT)
    if ratio is None:
        yield from _memory_of(report)
        return
    measured = _compared(ratio)
    if ratio.verdict < 0:
        yield Advice(
            f"The shared heap pays: {measured}; {_memory_moved(report)}. MPI_Alloc_mem for the buffers does the same "
            "without it.",
            "--shared-heap on",
        )
    else:
        what = "costs time" if ratio.verdict > 0 else "makes no difference beyond noise"
        yield Advice(f"The shared heap {what}: {measured}, although {_memory_moved(report)}. Leave malloc as it is.")


def _memory_of(report: Report) -> Iterator[Advice]:
    private, whole = variants.private_bytes(report), variants.received_bytes(report)
    if report.service.xpmem or whole == 0 or private <= _LEAST_PRIVATE * whole:
        return
    relayed = sum(entry.bytes.get("relay", 0) for entry in report.collectives)
    twice = f", {format_bytes(relayed)} of them by two copies" if relayed else ""
    moved = f"{_memory_moved(report)}{twice}"
    if report.shared_heap is None:
        yield Advice(f"{moved}: {_ALLOCATE}, or try the shared heap.", "--shared-heap on")
    else:
        yield Advice(f"{moved}, not to the shared heap: {_ALLOCATE}.")


def _blocking(results: Results) -> Iterator[Advice]:
    ratio = results.between(variants.BLOCKING, variants.DEFAULT)
    if ratio is None:
        return
    measured = _compared(ratio)
    if ratio.verdict < 0:
        yield Advice(f"Offloading the blocking forms, too, pays: {measured}.", "--blocking on")
    else:
        what = "costs time" if ratio.verdict > 0 else "makes no difference beyond noise"
        yield Advice(f"Offloading the blocking forms, too, {what}: {measured}. Leave them to the MPI.")


def _apart(report: Report, collective: str) -> tuple[int, float] | None:
    """Number of operations with waits, and the mean time between their start and the wait."""
    rows = [row for row in report.calls if row.collective == collective and row.before_wait.operations]
    operations = sum(row.before_wait.operations for row in rows)
    return (operations, sum(row.before_wait.seconds for row in rows) / operations) if operations else None


def _why_longer(report: Report, collective: str, natively_s: float) -> str:
    """`natively_s`: a rank's total native time in the collective."""
    apart = _apart(report, collective)
    if apart is None:
        return ""
    operations, mean = apart
    each = natively_s * report.counted / operations
    if mean < _APART * each:
        return f" Its wait begins {format_seconds(mean)} after its start: there is nothing to overlap."
    return ""


def _left_native(results: Results) -> Iterator[Advice]:
    offloaded, native = results.report(variants.DEFAULT), results.report(variants.COUNTED)
    if offloaded is None or native is None:
        return
    longer = variants.longer_offloaded(offloaded, native)
    for name, (seconds, natively) in sorted(longer.items(), key=lambda item: item[1][1] - item[1][0]):
        yield Advice(
            f"Leave MPI_{name.capitalize()} native: a rank spends {format_seconds(seconds)} in it offloaded, "
            f"{format_seconds(natively)} natively.{_why_longer(offloaded, name, natively)}",
            f"--algorithm {name}=native",
        )
    ratio = results.between(variants.MIXED, variants.DEFAULT)
    if ratio is not None:
        what = {-1: "So it is faster as a whole", 0: "As a whole that makes no difference beyond noise"}.get(
            ratio.verdict, "As a whole that costs time, though"
        )
        yield Advice(f"{what}: {_compared(ratio)}.")


def _waits_at_once(row: Call) -> bool:
    """Offloaded, and the waits that directly follow the posts still take time."""
    waits = row.before_wait
    if row.form != "nonblocking" or row.offloaded < row.calls or not waits.operations:
        return False
    return waits.mean < _APART * row.seconds.sum / waits.operations


def _notable(rows: Iterable[Call], report: Report) -> list[tuple[Call, str]]:
    return report_advice.of_kinds(row for row in rows if report_calls.share(row, report) >= _LEAST_SHARE)


def _nothing_to_overlap(report: Report) -> Iterator[Advice]:
    """From one report."""
    for row, more in _notable(filter(_waits_at_once, report.calls), report):
        each, mean = row.seconds.sum / row.before_wait.operations, row.before_wait.mean
        yield Advice(
            f"{row.call} takes {format_seconds(each)} and its wait begins {format_seconds(mean)} after its start: "
            f"there is nothing to overlap. Compute between them, or see whether it is faster natively.{more}",
            f"--algorithm {row.collective}=native",
        )


def _has_no_core(report: Report) -> bool:
    """Ranks make the copies, in waits and tests."""
    return report.service.processes > 0 and not (report.service.core_is_free or report.on_dpu)


def _tests(report: Report) -> Iterator[Advice]:
    tested = [row for row in report.calls if row.tests.calls]
    offloaded = [row for row in tested if row.offloaded >= (1 - _NOTABLE) * row.calls]
    others = [row for row in tested if row not in offloaded]
    if offloaded and _has_no_core(report):
        calls = sum(row.tests.calls for row in offloaded)
        yield Advice(f"Keep the MPI_Test calls ({calls:,}): without a core for service processes ranks copy in them.")
    elif offloaded:
        calls = sum(row.tests.calls for row in offloaded)
        seconds = sum(row.tests.seconds for row in offloaded) / max(report.counted, 1)
        run = report.run_seconds
        part = f", {report_calls.percent(seconds / run.mean)} of the run" if run is not None and run.mean else ""
        names = ", ".join(dict.fromkeys(row.call for row in offloaded))
        yield Advice(
            f"MPI_Test calls can go: {calls:,} calls tested {names}, {format_seconds(seconds)} of a rank{part}. "
            "It is offloaded and moves without them."
        )
    if others:
        names = ", ".join(dict.fromkeys(row.call for row in others))
        calls = sum(row.tests.calls for row in others)
        yield Advice(
            f"Keep the MPI_Test calls for {names} ({calls:,} calls): not all of it is offloaded, and the rest moves "
            "only in MPI calls."
        )


def _taken(report: Report) -> Iterator[Advice]:
    """A core that another process uses, which spoils all other measurements."""
    if report.native_because:
        yield Advice(f"The whole job ran natively: {report.native_because}.")
    taken = max((process.core_taken or 0.0 for process in report.services), default=0.0)
    if taken >= _NOTABLE:
        yield Advice(
            f"Other processes had a service process's core for {taken:.0%} of its time: keep them off, and ask again."
        )


def _reasons(report: Report) -> Iterator[Advice]:
    """Native calls, with their reasons and remedies."""
    if report.native_because:
        return
    rows = (row for row in report.calls if row.size != 1 and row.collective is not None)
    for row, more in _notable(rows, report):
        for reason, calls in row.native.items():
            remedy = report_advice.remedy(reason, row, report)
            notable = calls >= _NOTABLE * row.calls and calls > row.by_ranks
            if remedy and notable and not report_calls.could_block(row, report):
                words = in_words(reason, row.form)
                yield Advice(f"{calls:,} of {row.calls:,} calls of {row.call} went natively ({words}): {remedy}.{more}")


def of_results(results: Results) -> list[Advice]:
    """From runs in several ways: at most eight, the most important first."""
    report = results.report(variants.DEFAULT)
    found = [headline(results), *(_taken(report) if report is not None else ())]
    windows = results.report(variants.WINDOWS)
    if windows is not None:
        found += [Advice(line) for line in overlap.sentences(windows, results.report(variants.COUNTED))]
    found += [*_core(results), *_services(results), *_memory(results), *_blocking(results), *_left_native(results)]
    of_best = results.best.report
    if report is not None:
        found += [*_tests(of_best or report), *_reasons(report)]
        found += [] if results.report(variants.COUNTED) is not None else _nothing_to_overlap(report)
    return found[:_MOST]


def of_report(report: Report, native: Report | None = None) -> list[Advice]:
    """From the report of an offloaded run or of one with windows, and optionally of a native one."""
    windows = overlap.sentences(report, native)
    found = [*_taken(report), *(Advice(line) for line in windows), *_reasons(report)]
    if native is not None:
        longer = variants.longer_offloaded(report, native)
        found += [
            Advice(
                f"Leave MPI_{name.capitalize()} native: a rank spends {format_seconds(seconds)} in it offloaded, "
                f"{format_seconds(natively)} natively.{_why_longer(report, name, natively)}",
                f"--algorithm {name}=native",
            )
            for name, (seconds, natively) in longer.items()
        ]
    else:
        found += _nothing_to_overlap(report)
    found += [*_memory_of(report), *_tests(report)]
    found += [Advice(line) for line in report_advice.advice(report)]
    return found[:_MOST]
