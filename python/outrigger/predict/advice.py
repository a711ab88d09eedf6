"""One plain sentence for each kind of job: advice, gain, and certainty."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from outrigger.predict import figures as figuring
from outrigger.predict.figures import Figures, Job, Setup, middle
from outrigger.sizes import format_size

_SAME = 0.01
"""A smaller difference is none."""
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


@dataclass(frozen=True)
class Advice:
    """Advice for one job."""

    job: Job
    setup: Setup
    against: Setup
    """The best of the other side."""
    gain: tuple[float, float, float]
    """Fraction of the time: median, least and most of the seeds."""
    cost: float
    """Factor of the work's time when cores are given away."""
    forgone: tuple[float, float, float]
    """Saving of the other side, if there is one."""


def _best_native(figures: Figures, job: Job) -> Setup | None:
    """As the program is (nonblocking), unless another way is certainly faster: changes to a program must pay."""
    fastest = figures.best(job, figuring.NATIVE)
    as_it_is = figures.best(job, (figuring.NONBLOCKING,))
    if fastest is None or as_it_is is None:
        return fastest
    return fastest if _pays(middle(figures.gains(job, fastest, as_it_is))) else as_it_is


def _pays(gain: tuple[float, float, float]) -> bool:
    """Visible, and so for every seed."""
    return gain[0] > _SAME and gain[1] > 0


def advise(figures: Figures, job: Job) -> Advice | None:
    """Service processes if they are certainly faster than the best way without; else that way. None: one side is
    missing.
    """
    native = _best_native(figures, job)
    offloaded = figures.best(job, (figuring.OFFLOADED,))
    if native is None or offloaded is None:
        return None
    cost = figures.factors[job, offloaded] - 1
    gain = middle(figures.gains(job, offloaded, native))
    if _pays(gain):
        return Advice(job, offloaded, native, gain, cost, (0, 0, 0))
    loss = middle(figures.gains(job, native, offloaded))
    return Advice(job, native, offloaded, loss, cost, gain)


def as_written(figures: Figures) -> list[dict[str, object]]:
    """For --json: advice for each job."""
    found = [one for one in (advise(figures, job) for job in figures.jobs()) if one is not None]
    return [
        {
            "nodes": one.job.nodes, "ranks": one.job.ranks, "bytes": one.job.size, "way": one.setup.lane,
            "placement": one.setup.placement or None, "services": one.setup.services or None,
            "saved": one.gain[0], "saved_from": one.gain[1], "saved_to": one.gain[2], "sure": one.gain[1] > 0,
        }
        for one in found
    ]  # fmt: skip


def number(count: int) -> str:
    """In words up to twelve."""
    return _NUMBERS[count] if count < len(_NUMBERS) else str(count)


def percent(part: float) -> str:
    """8 %, 0.4 %."""
    value = 100 * part
    return f"{value:.0f} %" if abs(value) >= 1 or round(value, 1) == 0 else f"{value:.1f} %"


def _span(gain: tuple[float, float, float]) -> str:
    low, high = percent(gain[1]).removesuffix(" %"), percent(gain[2])
    return f"{percent(gain[0])} ({low} to {high})" if percent(gain[1]) != percent(gain[2]) else percent(gain[0])


def _services(setup: Setup) -> str:
    count = number(setup.services)
    where = "on the DPU" if setup.placement == "dpu" else "on host cores" if setup.services > 1 else "on a host core"
    return f"{count} service process{'es' if setup.services > 1 else ''} a node {where}"


def _native(setup: Setup) -> str:
    return {
        figuring.BLOCKING: "its own MPI by blocking calls",
        figuring.NONBLOCKING: "its own MPI by nonblocking calls",
        figuring.TESTING: "its own MPI with MPI_Test during the work",
    }[setup.lane]


def _cost(advice: Advice, cores: int, services: int) -> str:
    if advice.cost <= 0:
        return ""
    what = f"{number(services)} core{'s' if services > 1 else ''} of {cores}"
    return f"; {what} cost{'s' if services == 1 else ''} {percent(advice.cost)} of the work, which is included"


def _where(jobs: Sequence[Job]) -> str:
    nodes = [str(count) for count in dict.fromkeys(job.nodes for job in jobs)]
    listed = " and ".join(filter(None, (", ".join(nodes[:-1]), nodes[-1])))
    sizes = [format_size(size) for size in dict.fromkeys(job.size for job in jobs) if size is not None]
    of_size = f", blocks of {', '.join(sizes)}" if sizes else ""
    return f"On {listed} node{'' if nodes == ['1'] else 's'}{of_size}: "


def _all_of(spans: Iterable[tuple[float, float, float]]) -> tuple[float, float, float]:
    medians, least, most = zip(*spans, strict=True)
    return median(medians), min(least), max(most)


def _sentence(found: Sequence[Advice], all_cores: Sequence[int]) -> str:
    one = found[0]
    gain, forgone = _all_of(each.gain for each in found), _all_of(each.forgone for each in found)
    cores = all_cores[(one.setup if one.setup.services else one.against).cluster]
    if one.setup.lane == figuring.OFFLOADED:
        said = f"{_span(gain)} faster than {_native(one.against)}"
        return f"{_services(one.setup)}: {said}{_cost(one, cores, one.setup.services)}."
    native, services = _native(one.setup), _services(one.against)
    if forgone[0] > _SAME:
        return f"{native}: {services} may be {_span(forgone)} faster, which not every seed shows."
    if gain[0] <= _SAME:
        return f"{native}: {services} would gain nothing measurable."
    return (
        f"{native}: {services} would be slower, as it saves {_span(gain)} of their time"
        f"{_cost(one, cores, one.against.services)}."
    )


def sentences(figures: Figures, cores: Sequence[int]) -> list[str]:
    """For all jobs of the study; jobs with the same advice share a sentence. `cores`: of a node, by cluster."""
    groups: dict[tuple[Setup, Setup], list[Advice]] = {}
    for job in figures.jobs():
        if found := advise(figures, job):
            groups.setdefault((found.setup, found.against), []).append(found)
    return [_where([each.job for each in found]) + _sentence(found, cores) for found in groups.values()]


def uncertainty(seeds: int, noisy: bool, drawn: Sequence[str]) -> str:
    """Sources of the range."""
    parts = []
    if noisy and seeds > 1:
        parts.append(f"noise and skew of {seeds} seeds")
    if drawn and seeds > 1:
        parts.append(f"the intervals that the cluster's file states for {len(drawn)} of its numbers")
    made_of = " and ".join(parts)
    if not made_of:
        return "The file has neither noise nor intervals, or there was one seed: the certainty is unknown."
    lacking = "" if drawn else " The file has no intervals for its own numbers, so their errors are not included."
    return f"The range is from {made_of}.{lacking}"
