"""A job's events as a timeline: on one clock, with related events joined."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from outrigger.report_data import plural
from outrigger.report_reasons import in_words
from outrigger.trace.events import BY_RANKS, OFFLOADED, Event, Kind, Part

LATE_NS = 100_000
"""From this delay on, the rank that the others waited for is marked."""
Instance = tuple[tuple[Any, ...], int, "Slice"]
"""The collective and group of a call, the size of the group, and the call."""
_NO_COMMUNICATOR = ((0, 0), (0, 1))  # "(other communicators)" and "(groups of one rank)"


@dataclass(frozen=True)
class Lane:
    """A rank or a service process."""

    kind: str
    """rank or service"""
    number: int
    node: int
    cpu: int = -1
    dpu: str = ""
    """Name of a service process's DPU; empty: on the node."""

    @property
    def title(self) -> str:
        """To print."""
        if self.kind == "rank":
            return f"rank {self.number}"
        return f"service {self.number} of node {self.node}" + (f" on DPU {self.dpu}" if self.dpu else "")


@dataclass
class Slice:
    """Something with a duration. Nanoseconds since the job's first rank left MPI_Init."""

    lane: Lane
    kind: str
    """call, completion, phase, operation, message, move or reduce"""
    name: str
    begin: int
    end: int
    args: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Mark:
    """Something at one time."""

    lane: Lane
    kind: str
    """late, peers_ready or lost"""
    name: str
    at: int
    args: dict[str, Any] = field(default_factory=dict)


@dataclass
class Flow:
    """From the call that posted a collective, over the work of service processes, to its completion call."""

    call: Slice
    operation: Slice | None = None
    completion: Slice | None = None


@dataclass
class Timeline:
    """The whole job."""

    about: dict[str, Any]
    lanes: list[Lane]
    slices: list[Slice]
    marks: list[Mark]
    flows: list[Flow]


@dataclass
class _Built:
    """Slices of one rank."""

    part: Part
    lane: Lane
    services: set[Lane] = field(default_factory=set)
    """Its service processes: one, or two after the loss of a DPU."""
    calls: list[Slice] = field(default_factory=list)
    completions: list[Slice] = field(default_factory=list)
    phases: list[Slice] = field(default_factory=list)
    serviced: list[Slice] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    flows: list[Flow] = field(default_factory=list)
    instances: list[Instance] = field(default_factory=list)


class _Builder:
    """Makes the slices of one part."""

    def __init__(self, part: Part, zero: int) -> None:
        self._part = part
        self._zero = zero
        self._built = _Built(part, Lane("rank", part.rank, part.node))
        self._flow_of: dict[int, Flow] = {}
        self._flows_of_operation: dict[tuple[tuple[int, int], int], Flow] = {}
        self._native_calls: dict[tuple[int, int], int] = defaultdict(int)
        self._last_completion: Slice | None = None

    def _at(self, time: int) -> int:
        return self._part.reference(time) - self._zero

    def _slice(self, lane: Lane, kind: str, name: str, event: Event, args: dict[str, Any]) -> Slice:
        return Slice(lane, kind, name, self._at(event.began), self._at(event.ended), args)

    def _communicator(self, group: tuple[int, int]) -> dict[str, Any]:
        known = self._part.communicators.get(group)
        found: dict[str, Any] = {"group": f"{group[0]:016x}{group[1]:016x}"}
        if known is not None:
            found |= {"communicator": known.name, "size": known.size}
        return found

    def _call(self, event: Event) -> None:
        part = self._part
        name = part.name("call", event.name)
        offloaded = event.detail == OFFLOADED
        args: dict[str, Any] = {"bytes": event.bytes, **self._communicator(event.group), "offloaded": offloaded}
        if offloaded:
            args |= {"algorithm": part.name("algorithm", event.number), "operation": event.sequence}
        elif event.detail == BY_RANKS:
            args["by"] = "ranks"
        else:
            args["native"] = part.name("reason", event.detail)
        starts = event.subject and name.endswith("_init")  # named like its kind; this is a start
        if event.subject:
            args["request"] = event.subject
        call = self._slice(self._built.lane, "call", f"MPI_Start: {name}" if starts else name, event, args)
        self._built.calls.append(call)
        self._join(event, call, counted=not name.endswith("_init"))

    def _join(self, event: Event, call: Slice, *, counted: bool) -> None:
        """Except for starts, native calls of one communicator have the same order on all ranks."""
        flow = Flow(call)
        if event.subject:
            self._flow_of[event.subject] = flow
        if event.sequence is not None:
            self._flows_of_operation[event.group, event.sequence] = flow
        if event.subject or event.sequence is not None:
            self._built.flows.append(flow)
        size = call.args.get("size", 0)
        if event.group in _NO_COMMUNICATOR or size < 2:
            return
        if event.sequence is not None:
            self._built.instances.append(((event.group, event.sequence), size, call))
        elif counted:
            number = self._native_calls[event.group]
            self._native_calls[event.group] += 1
            self._built.instances.append(((event.group, "native", number), size, call))

    def _completion(self, event: Event) -> None:
        args: dict[str, Any] = {"requests": event.number, "collected": []}
        if event.bytes:
            args["tests_before"] = event.bytes
        completion = self._slice(self._built.lane, "completion", self._part.name("completion", event.name), event, args)
        self._built.completions.append(completion)
        self._last_completion = completion
        self._collect(event)

    def _collect(self, event: Event) -> None:
        """Also for further operations of the same completion call, which follow it."""
        if not event.subject or self._last_completion is None:
            return
        self._last_completion.args["collected"].append(event.subject)
        flow = self._flow_of.get(event.subject)
        if flow is not None:
            flow.completion = self._last_completion

    def _phase(self, event: Event) -> None:
        name = self._part.name("phase", event.name)
        self._built.phases.append(self._slice(self._built.lane, "phase", name, event, {"depth": event.number}))

    def _service(self, time: int) -> Lane:
        """Service process of an event at that time."""
        part = self._part
        dpu = part.dpu if part.on_dpu(time) else ""
        lane = Lane("service", part.service or 0, part.node, -1 if dpu else part.cpu, dpu)
        self._built.services.add(lane)
        return lane

    def _loss_of_dpu(self) -> None:
        """Marked even without effects yet: the lane shows the reason of later ones."""
        part = self._part
        if not part.dpu or part.left_dpu is None:
            return
        lane = self._service(min(part.started, part.left_dpu - 1))
        text = f"DPU {part.dpu} is lost: what it did in the last half second is not here"
        self._built.marks.append(Mark(lane, "lost", text, self._at(part.left_dpu)))

    def _end_of(self, taken: Event, ended: Event | None) -> Event | None:
        """None: not ended where it was accepted. Operations of a lost DPU are ended by others."""
        part = self._part
        return ended if ended is None or part.on_dpu(ended.ended) == part.on_dpu(taken.began) else None

    def _operations(self) -> None:
        """From the service process's acceptance of each to its end; without an end, to the end of the trace."""
        ended = {(e.group, e.sequence): e for e in self._part.service_events if e.kind is Kind.ENDED}
        last = max((e.ended for e in self._part.service_events), default=0)
        for event in self._part.service_events:
            if event.kind is not Kind.TAKEN:
                continue
            lane = self._service(event.began)
            end = self._end_of(event, ended.get((event.group, event.sequence)))
            args: dict[str, Any] = {
                "rank": self._part.rank, "operation": event.sequence, **self._communicator(event.group),
                "algorithm": self._part.name("algorithm", event.number),
            }  # fmt: skip
            args |= {"ended": False} if end is None else {"peers_ready": end.late}
            if end is not None and end.status:
                args["status"] = end.status
            flow = self._flows_of_operation.get((event.group, event.sequence or 0))
            began = self._at(event.began)
            if lane.dpu and flow is not None:
                began = max(began, flow.call.begin)  # the DPU's clock may be slightly wrong
            left = self._part.left_dpu if lane.dpu else None
            until = max(began, self._at(left or last if end is None else end.ended))
            name = f"{self._part.name('collective', event.name)} of rank {self._part.rank}"
            operation = Slice(lane, "operation", name, began, until, args)
            self._built.serviced.append(operation)
            if flow is not None and (flow.operation is None or "ended" in flow.operation.args):
                flow.operation = operation
            if end is not None and end.late:
                text = f"rank {self._part.rank} comes late: {end.late} peers were ready"
                mark = {"rank": self._part.rank, "peers_ready": end.late}
                self._built.marks.append(Mark(lane, "peers_ready", text, began, mark))

    def _moves(self) -> None:
        for event in self._part.service_events:
            if event.kind is Kind.MOVE:
                source, to = event.pair
                args: dict[str, Any] = {"from": source, "to": to, "bytes": event.bytes,
                                        "reach": self._part.name("reach", event.detail)}  # fmt: skip
                name = f"{source} → {to}"
            elif event.kind is Kind.REDUCE:
                args = {"to": event.subject, "bytes": event.bytes, "operands": event.number}
                name = f"reduce for {event.subject}"
            else:
                continue
            if event.sequence is not None:
                args |= {"operation": event.sequence, **self._communicator(event.group)}
            kind = "move" if event.kind is Kind.MOVE else "reduce"
            self._built.serviced.append(self._slice(self._service(event.ended), kind, name, event, args))

    def build(self) -> _Built:
        """The whole part."""
        for event in self._part.events:
            if event.kind is Kind.CALL:
                self._call(event)
            elif event.kind is Kind.COMPLETION:
                self._completion(event)
            elif event.kind is Kind.COLLECTED:
                self._collect(event)
            elif event.kind is Kind.PHASE:
                self._phase(event)
        if self._part.service is not None:
            self._loss_of_dpu()
            self._operations()
            self._moves()
        note_hidden([*self._built.calls, *self._built.completions], self._built.serviced)
        return self._built


def _merged(slices: Iterable[Slice]) -> list[tuple[int, int]]:
    """Disjoint spans of time."""
    spans: list[tuple[int, int]] = []
    for one in sorted(slices, key=lambda s: s.begin):
        if spans and one.begin <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], one.end))
        else:
            spans.append((one.begin, one.end))
    return spans


def _overlap(spans: Sequence[tuple[int, int]], begin: int, end: int) -> int:
    """Time within any of the spans."""
    total = 0
    at = max(0, bisect_left(spans, (begin, begin)) - 1)
    for low, high in spans[at:]:
        if low >= end:
            break
        total += max(0, min(high, end) - max(low, begin))
    return total


def note_hidden(calls: Iterable[Slice], serviced: Iterable[Slice]) -> None:
    """Time that the rank spent in no call while one of its operations was active."""
    in_mpi = _merged(calls)
    for one in serviced:
        if one.kind == "operation":
            one.args["hidden_us"] = (one.end - one.begin - _overlap(in_mpi, one.begin, one.end)) / 1000


def note_late(instances: Iterable[Instance]) -> list[Mark]:
    """Delays after the first rank of a collective; marks the last one if it is very late."""
    calls: dict[tuple[Any, ...], list[Slice]] = defaultdict(list)
    sizes: dict[tuple[Any, ...], int] = {}
    for key, size, call in instances:
        calls[key].append(call)
        sizes[key] = size
    marks = []
    for key, same in calls.items():
        if len(same) != sizes[key]:
            continue
        first = min(call.begin for call in same)
        for call in same:
            call.args["after_first_us"] = (call.begin - first) / 1000
        last = max(same, key=lambda call: call.begin)
        if last.begin - first >= LATE_NS:
            last.args["late"] = True
            text = f"{last.lane.title} is last, {(last.begin - first) / 1e6:.3f} ms after the first"
            marks.append(Mark(last.lane, "late", text, last.begin, {"after_first_us": (last.begin - first) / 1000}))
    return marks


def _clock_error(part: Part) -> int | None:
    """Clock error of a rank's machine and its DPU together, in nanoseconds. None: unknown."""
    own = part.clock_error if part.nodes > 1 else 0
    return None if own is None else own + part.dpu_clock_error


def _about(parts: Sequence[Part], zero: int) -> dict[str, Any]:
    first = parts[0]
    errors = [_clock_error(part) for part in parts]
    ends = {part.rank: (part.reference(part.ended) - zero) / 1000 for part in parts if part.ended is not None}
    return {
        "mpi": first.mpi,
        "ranks": first.ranks,
        "nodes": first.nodes,
        "traced_ranks": len(parts),
        "native_because": first.native_because,
        "dropped_events": sum(part.dropped for part in parts),
        "dropped_service_events": sum(part.service_dropped for part in parts),
        "clock_error_us": None if None in errors else max((e for e in errors if e is not None), default=0) / 1000,
        "ended_us": {str(rank): end for rank, end in sorted(ends.items())},
    }


def _once_a_lane(marks: Sequence[Mark]) -> list[Mark]:
    """Each rank reports the loss of its DPU, at nearly the same time."""
    lost: dict[Lane, Mark] = {}
    for mark in sorted((mark for mark in marks if mark.kind == "lost"), key=lambda mark: mark.at):
        lost.setdefault(mark.lane, mark)
    return [mark for mark in marks if mark.kind != "lost"] + list(lost.values())


def why_nothing_is_offloaded(timeline: Timeline) -> str:
    """For the user; empty: something is offloaded, or nothing was called."""
    if timeline.about.get("native_because"):
        return str(timeline.about["native_because"])
    calls = [one for one in timeline.slices if one.kind == "call"]
    if not calls or any(one.args.get("offloaded", True) for one in calls):
        return ""
    reasons = Counter(
        "done by the ranks themselves" if one.args.get("by") == "ranks" else in_words(str(one.args.get("native", "?")))
        for one in calls
    )
    if len(reasons) == 1:
        return next(iter(reasons))
    (first, most), *others = reasons.most_common()
    return ", ".join([f"{first} ({most:,} calls)", *(f"{reason} ({count:,})" for reason, count in others)])


def losses(timeline: Timeline) -> list[str]:
    """Lost DPUs, each once, for the user."""
    first: dict[tuple[int, str], int] = {}
    for mark in timeline.marks:
        if mark.kind == "lost":
            first.setdefault((mark.lane.node, mark.lane.dpu), mark.at)
    return [f"DPU {dpu} of node {node} was lost at {at / 1e6:.0f} ms" for (node, dpu), at in first.items()]


def torch_remarks(about: dict[str, Any]) -> list[str]:
    """Remarks for the user on the trace of a PyTorch job."""
    killed, earlier = about.get("killed_ranks", []), about.get("earlier_starts", 0)
    found = []
    if killed:
        which = f"{'rank' if len(killed) == 1 else 'ranks'} {', '.join(map(str, killed))}"
        found.append(f"no end is known of {which}: killed, or ended by os._exit")
    if earlier:
        found.append(f"{plural(earlier, 'earlier start')} of the ranks {'is' if earlier == 1 else 'are'} left out")
    if about.get("torch") and about.get("clock_error_us", 0.0) is None:
        found.append("clocks of machines were not compared: late ranks may be wrong")
    return found


def build(parts: Sequence[Part]) -> Timeline:
    """From the parts of a job, at least one, in any order."""
    parts = sorted(parts, key=lambda part: part.rank)
    zero = min(part.reference(part.started) for part in parts)
    built = [_Builder(part, zero).build() for part in parts]
    services = {lane for one in built for lane in one.services}
    lanes = [one.lane for one in built]
    lanes += sorted(services, key=lambda lane: (lane.node, not lane.dpu, lane.number))
    slices = [s for one in built for s in (*one.calls, *one.completions, *one.phases, *one.serviced)]
    slices.sort(key=lambda s: (s.begin, -s.end))
    marks = _once_a_lane([mark for one in built for mark in one.marks])
    marks += note_late(instance for one in built for instance in one.instances)
    flows = [flow for one in built for flow in one.flows if flow.operation is not None or flow.completion is not None]
    return Timeline(_about(parts, zero), lanes, slices, sorted(marks, key=lambda m: m.at), flows)
