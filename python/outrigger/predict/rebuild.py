"""Makes a program from a trace: the steps of a typical rank, their repetition, and the other ranks' factors of work.

All time between two recorded calls of a rank is work, including other MPI calls. Communicators are identified by their
calling ranks, in the order of their numbers. Blocks of v-forms count with their mean length.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import Any

from outrigger.errors import UserError
from outrigger.predict import program
from outrigger.predict.program import Program
from outrigger.trace.timeline import Slice, Timeline

_LONGEST_PERIOD = 2000
_PER_PEER = ("ialltoall", "ialltoallv", "ialltoallw", "ireduce_scatter_block", "iscatter")
"""Their data has one block per rank of the communicator."""
_MAY_DIFFER = 0.5
"""Fraction of the ranks that must have made the same calls as the typical one."""


@dataclass(frozen=True)
class _Event:
    """A call or a completion of one rank. Nanoseconds."""

    key: tuple[Any, ...]
    """Equal in each repetition."""
    begin: int
    end: int
    calls: str = ""
    """Collective of a call."""
    blocking: bool = False
    bytes: int = 0
    group: str = ""
    size: int = 0
    request: int = 0
    collected: tuple[int, ...] = ()


def collective_of(name: str) -> tuple[str, bool]:
    """Collective of a call, and whether it is blocking: MPI_Ialltoall and MPI_Alltoall are ialltoall."""
    bare = name.removeprefix("MPI_Start: ").removeprefix("MPI_")
    if name.startswith("MPI_Start"):
        return "i" + bare.removesuffix("_init").lower(), False
    if bare.startswith("I") and bare[1:2].islower():
        return bare.lower(), False
    return "i" + bare.lower(), True


def _events_of(slices: Sequence[Slice]) -> list[_Event]:
    found: list[_Event] = []
    posted_at: dict[int, int] = {}
    for one in slices:
        if one.kind == "call":
            collective, blocking = collective_of(one.name)
            request = int(one.args.get("request", 0))
            size, group = int(one.args["size"]), str(one.args["group"])
            blocking = blocking or not request
            key = (collective, blocking, size, group, one.args["bytes"])
            posted_at[request] = len(found)
            found.append(_Event(key, one.begin, one.end, collective, blocking, one.args["bytes"], group, size, request))
        else:
            known = tuple(number for number in one.args["collected"] if number in posted_at)
            if not known:
                continue
            back = tuple(len(found) - posted_at.pop(number) for number in known)
            found.append(_Event(("wait", *back), one.begin, one.end, collected=known))
    return found


def _by_rank(timeline: Timeline) -> dict[int, list[_Event]]:
    slices: dict[int, list[Slice]] = defaultdict(list)
    for one in timeline.slices:
        if one.lane.kind == "rank" and one.kind in ("call", "completion"):
            slices[one.lane.number].append(one)
    ordered = {rank: sorted(found, key=lambda one: (one.begin, one.end)) for rank, found in slices.items()}
    return {rank: _events_of(found) for rank, found in ordered.items()}


def _gaps(events: Sequence[_Event]) -> list[int]:
    """Work before each event; unknown for the first."""
    return [0, *(max(0, after.begin - before.end) for before, after in pairwise(events))]


def _closed(events: Sequence[_Event]) -> bool:
    """True if exactly the posted operations are completed here."""
    open_now: set[int] = set()
    for event in events:
        if event.calls and not event.blocking:
            open_now.add(event.request)
        for request in event.collected:
            if request not in open_now:
                return False
            open_now.remove(request)
    return not open_now


def _signature(event: _Event) -> tuple[Any, ...]:
    return event.key


def repetition(events: Sequence[_Event]) -> tuple[int, int, int]:
    """Start of the steady part, events per repetition, number of repetitions.

    The shortest period that covers more events than any shorter one by at least a half.
    """
    keys = [_signature(event) for event in events]
    best = (0, len(events), 1)
    best_covers = 0
    for period in range(1, min(_LONGEST_PERIOD, len(events) // 2) + 1):
        same = [keys[at] == keys[at + period] for at in range(len(keys) - period)]
        begin, length = _longest_run(same)
        if length < period:
            continue
        start = next((at for at in range(begin, begin + period) if _closed(events[at : at + period])), None)
        if start is None:
            continue
        count = (begin + length + period - start) // period
        covers = count * period
        if count >= 2 and covers > 1.5 * best_covers:
            best, best_covers = (start, period, count), covers
    return best


def _longest_run(flags: Sequence[bool]) -> tuple[int, int]:
    best, begin = (0, 0), 0
    for at, flag in enumerate([*flags, False]):
        if not flag:
            if at - begin > best[1]:
                best = (begin, at - begin)
            begin = at + 1
    return best


@dataclass(frozen=True)
class Rebuilt:
    """A program for the traced number of ranks, and what is known about it."""

    base: Program
    communicators_by_rule: bool
    """Rows, columns and the world: possible for other numbers of ranks."""
    repetitions: int
    events: int
    covered: int
    """Events of the typical rank."""
    notes: tuple[str, ...]


def _name_groups(groups: Mapping[str, set[int]], ranks: int) -> tuple[dict[str, str], dict[str, list[list[int]]]]:
    """Communicator of each group, and groups of each communicator: as few as possible, because the groups of one never
    overlap.
    """
    names: dict[str, str] = {}
    made: dict[str, list[list[int]]] = {}
    rows, columns = program.near_square(ranks)
    grid = program.grid_communicators(rows, columns)
    for group, members in groups.items():
        ordered = sorted(members)
        if len(ordered) == ranks:
            names[group] = program.WORLD
            continue
        known = next(
            (name for name in (program.ROWS, program.COLUMNS) if ordered in grid[name]["groups"]),
            None,
        )
        if known is None:
            known = next(
                (name for name, there in made.items() if not any(set(one) & members for one in there)),
                f"split{len(made)}",
            )
            made.setdefault(known, []).append(ordered)
        names[group] = known
    for there in made.values():
        alone = set(range(ranks)).difference(*map(set, there))
        there.extend([rank] for rank in sorted(alone))
    return names, made


def _block_bytes(event: _Event, neighbors: int) -> int:
    if event.calls.startswith("ineighbor_alltoall"):
        return max(1, event.bytes // max(1, neighbors))
    if event.calls in _PER_PEER:
        return max(1, event.bytes // event.size)
    if "reduce" in event.calls:
        return program.whole_elements(event.bytes)
    return max(1, event.bytes)


class _Maker:
    """Makes the steps of one repetition."""

    def __init__(self, names: Mapping[str, str], most_bytes: Mapping[tuple[int, str], int], neighbors: int) -> None:
        self._names = names
        self._most_bytes = most_bytes
        self._neighbors = neighbors

    def step(self, event: _Event, place: int) -> dict[str, Any]:
        if not event.calls:
            return program.wait(*map(str, event.collected))
        name = self._names[event.group]
        if event.calls.startswith("ineighbor_"):
            name = program.GRID
        whole = replace(event, bytes=self._most_bytes.get((place, event.calls), event.bytes))
        step: dict[str, Any] = {"call" if event.blocking else "post": event.calls, "communicator": name}
        if event.calls != "ibarrier":
            step["bytes"] = _block_bytes(whole, self._neighbors)
        if not event.blocking:
            step["request"] = str(event.request)
        return step


def _typical(by_rank: Mapping[int, Sequence[_Event]]) -> int:
    """The rank with the median work."""
    works = sorted((sum(_gaps(events)), rank) for rank, events in by_rank.items())
    return works[len(works) // 2][1]


def _check(timeline: Timeline, by_rank: Mapping[int, Sequence[_Event]], what: str) -> int:
    ranks = int(timeline.about.get("ranks", len(by_rank)))
    if "torch" in timeline.about:
        raise UserError(f"{what}: a trace of a PyTorch job; only MPI programs can be predicted")
    if not any(event.calls for events in by_rank.values() for event in events):
        raise UserError(f"{what}: no collective was called; there is nothing to predict")
    if ranks < 2:
        raise UserError(f"{what}: a trace of one rank; trace a job of several")
    if len(by_rank) < ranks:
        raise UserError(f"{what}: {len(by_rank)} of {ranks} ranks are there; trace a job that ends in MPI_Finalize")
    return ranks


def _shape(event: _Event) -> tuple[Any, ...]:
    """Properties that are equal on all ranks: groups and bytes may differ."""
    return (event.key[0], event.blocking) if event.calls else event.key


def rebuild(timeline: Timeline, what: str) -> Rebuilt:
    """Program of a trace; `what` is named in errors."""
    by_rank = _by_rank(timeline)
    ranks = _check(timeline, by_rank, what)
    typical = by_rank[_typical(by_rank)]
    start, period, count = repetition(typical)
    shapes = list(map(_shape, typical))
    alike = {rank: events for rank, events in by_rank.items() if list(map(_shape, events)) == shapes}
    if len(alike) < _MAY_DIFFER * ranks:
        raise UserError(
            f"{what}: only {len(alike)} of {ranks} ranks make the calls of the typical one; the model runs one program"
        )
    members: dict[str, set[int]] = defaultdict(set)
    for rank, events in by_rank.items():
        for event in events:
            if event.calls:
                members[event.group].add(rank)
    names, made = _name_groups(members, ranks)
    grid = program.grid_communicators(*program.near_square(ranks))
    most = {
        (place, event.calls): max(events[start + place].bytes for events in alike.values())
        for place, event in enumerate(typical[start : start + period])
        if event.calls in ("ibcast", "iscatter")
    }  # only roots send data
    mean_neighbors = round(sum(map(len, grid[program.GRID]["neighbors"])) / ranks)
    steps = _steps(typical, (start, period, count), _Maker(names, most, mean_neighbors))
    return Rebuilt(
        Program(
            ranks, steps, grid | {name: {"groups": groups} for name, groups in made.items()},
            _parts(alike, (start, period, count), ranks),
        ),
        not made, count, len(typical), count * period, _notes(timeline, typical, len(alike), ranks),
    )  # fmt: skip


def _steps(events: Sequence[_Event], found: tuple[int, int, int], maker: _Maker) -> list[dict[str, Any]]:
    start, period, count = found
    gaps = _gaps(events)
    steps: list[dict[str, Any]] = []
    for place in range(period):
        # The first event, and so the first repetition, may follow the program's initial work.
        repeated = [gaps[start + turn * period + place] for turn in range(count) if start + place + turn > 0]
        work_us = median(repeated) / 1e3 if repeated else 0.0
        if work_us > 0:
            steps.append(program.work(round(work_us, 3)))
        steps.append(maker.step(events[start + place], place))
    return steps


def _parts(alike: Mapping[int, Sequence[_Event]], found: tuple[int, int, int], ranks: int) -> list[float]:
    """Factor of each rank's work relative to the typical rank; one for ranks with other calls."""
    start, period, count = found
    works = {rank: sum(_gaps(events)[start + 1 : start + period * count]) for rank, events in alike.items()}
    middle = median(works.values())
    return [round(works[rank] / middle, 4) if middle and rank in works else 1.0 for rank in range(ranks)]


def _notes(timeline: Timeline, events: Sequence[_Event], alike: int, ranks: int) -> tuple[str, ...]:
    notes = []
    if dropped := timeline.about.get("dropped_events"):
        notes.append(f"{dropped} events were dropped: it is the beginning of the run")
    nodes, cores = timeline.about.get("nodes", 1), timeline.about.get("cores", 0)
    if cores and ranks > nodes * cores:
        notes.append(
            f"{ranks} ranks had {nodes * cores} cores: their work counts with its duration, even if others used the "
            "core meanwhile; trace a job that has a core for each rank"
        )
    if alike < ranks:
        notes.append(f"{ranks - alike} of {ranks} ranks make other calls; they are treated like the others")
    if any(event.calls.endswith(("v", "w")) for event in events):
        notes.append("blocks of v- and w-forms count with their mean length")
    if any(event.calls.startswith("ineighbor_") for event in events):
        notes.append("neighbors are those of a grid as square as possible")
    return tuple(notes)


def scaled(rebuilt: Rebuilt, ranks: int, *, strong: bool) -> Program:
    """For another number of ranks: each has the same work and data, or the sum stays the same."""
    base = rebuilt.base
    if ranks == base.ranks:
        return base
    if not rebuilt.communicators_by_rule:
        raise UserError(
            f"the trace has communicators that are neither rows nor columns of a grid: only its {base.ranks} ranks can "
            "be predicted"
        )
    old = dict(zip((program.ROWS, program.COLUMNS), reversed(program.near_square(base.ranks)), strict=True))
    new = dict(zip((program.ROWS, program.COLUMNS), reversed(program.near_square(ranks)), strict=True))
    share = base.ranks / ranks if strong else 1.0
    steps = []
    for step in base.steps:
        step = dict(step)
        name = step.get("post", step.get("call", ""))
        communicator = step.get("communicator", program.WORLD)
        if "work_us" in step:
            step["work_us"] *= share
        elif name in _PER_PEER:
            peers = old.get(communicator, base.ranks) / new.get(communicator, ranks)
            step["bytes"] = max(1, round(step["bytes"] * peers * (share if "reduce" not in name else 1)))
        elif name.startswith(("ineighbor", "iallgather", "igather")):
            step["bytes"] = max(1, round(step["bytes"] * share))
        if "reduce" in name:
            step["bytes"] = program.whole_elements(step["bytes"])
        steps.append(step)
    parts = [base.work_of_rank[rank % base.ranks] for rank in range(ranks)] if base.work_of_rank else []
    return Program(ranks, steps, program.grid_communicators(*program.near_square(ranks)), parts)
