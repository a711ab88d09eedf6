"""Converts a timeline to a file of trace events (JSON) for Perfetto and others, and back: docs/using/trace.md."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from outrigger.errors import UserError
from outrigger.trace.timeline import Flow, Lane, Mark, Slice, Timeline

VERSION = 1
_SERVICES_FROM = 1_000_000
"""First process id of service processes; ranks have ids from 1 on."""
_SERVICES_PER_NODE = 64
"""On its cores; the same number on its DPU."""
_ROWS = ("phase", "call", "operation", "message", "move")
_ROW_OF = {
    "phase": "phase", "call": "call", "completion": "call", "operation": "operation", "message": "message",
    "move": "move", "reduce": "move",
}  # fmt: skip
_TITLES = {"phase": "phases", "call": "MPI", "operation": "operations", "message": "messages", "move": "moves"}
_TORCH_TITLES = {**_TITLES, "call": "torch.distributed", "operation": "asynchronous operations"}


def _pid(lane: Lane) -> int:
    if lane.kind == "rank":
        return lane.number + 1
    place = 2 * lane.node + (1 if lane.dpu else 0)
    return _SERVICES_FROM + place * _SERVICES_PER_NODE + lane.number


class _Tracks:
    """A row of a lane has enough tracks that slices of one track never overlap."""

    def __init__(self) -> None:
        self._ends: dict[tuple[Lane, str], list[int]] = defaultdict(list)
        self._ids: dict[tuple[Lane, str, int], int] = {}

    def place(self, one: Slice) -> int:
        """Track of a slice; slices must come in the order of their beginnings."""
        row = _ROW_OF[one.kind]
        ends = self._ends[one.lane, row]
        free = next((place for place, end in enumerate(ends) if end <= one.begin), len(ends))
        ends[free:] = [max(one.end, one.begin + 1), *ends[free + 1 :]]
        return self.id_of(one.lane, row, free)

    def id_of(self, lane: Lane, row: str, place: int) -> int:
        """Ascending numbers, unique in the job."""
        return self._ids.setdefault((lane, row, place), len(self._ids) + 1)

    def named(self, titles: dict[str, str]) -> Iterator[tuple[int, Lane, str, int]]:
        """Track, lane, title and order."""
        for (lane, row, place), track in self._ids.items():
            title = titles[row] if place == 0 else f"{titles[row]} {place + 1}"
            yield track, lane, title, _ROWS.index(row) * 1000 + place


def _us(ns: int) -> float:
    return ns / 1000


def _slice_event(one: Slice, track: int) -> dict[str, Any]:
    took = max(one.end - one.begin, 1)  # flows find their slice by its time
    return {"ph": "X", "name": one.name, "cat": one.kind, "pid": _pid(one.lane), "tid": track, "ts": _us(one.begin),
            "dur": _us(took), "args": one.args}  # fmt: skip


def _flow_events(number: int, flow: Flow, tracks: dict[int, int]) -> Iterator[dict[str, Any]]:
    steps = [(flow.call, flow.call.begin)]
    if flow.operation is not None:
        steps.append((flow.operation, flow.operation.begin))
    if flow.completion is not None:
        steps.append((flow.completion, max(flow.completion.begin, flow.completion.end - 1)))
    for index, (one, at) in enumerate(steps):
        phase = "s" if index == 0 else "f" if index == len(steps) - 1 else "t"
        event = {"ph": phase, "id": number, "name": "collective", "cat": "flow", "pid": _pid(one.lane),
                 "tid": tracks[id(one)], "ts": _us(at)}  # fmt: skip
        yield event | {"bp": "e"} if phase == "f" else event


def _process_events(lanes: Iterable[Lane]) -> Iterator[dict[str, Any]]:
    for order, lane in enumerate(lanes):
        args: dict[str, Any] = {"name": lane.title, "kind": lane.kind, "number": lane.number, "node": lane.node}
        if lane.dpu:
            args["dpu"] = lane.dpu
        elif lane.kind == "service":
            args["core"] = lane.cpu
        yield {"ph": "M", "name": "process_name", "pid": _pid(lane), "args": args}
        yield {"ph": "M", "name": "process_sort_index", "pid": _pid(lane), "args": {"sort_index": order}}


def _events(timeline: Timeline) -> Iterator[dict[str, Any]]:
    yield from _process_events(timeline.lanes)
    tracks = _Tracks()
    track_of: dict[int, int] = {}
    for one in timeline.slices:
        track_of[id(one)] = tracks.place(one)
        yield _slice_event(one, track_of[id(one)])
    for number, flow in enumerate(timeline.flows, 1):
        yield from _flow_events(number, flow, track_of)
    # After the flows: Perfetto treats an instant as a slice, too, which a flow of the same time would attach to.
    for mark in timeline.marks:
        row = "call" if mark.lane.kind == "rank" else "operation"
        yield {"ph": "i", "s": "t", "name": mark.name, "cat": mark.kind, "pid": _pid(mark.lane),
               "tid": tracks.id_of(mark.lane, row, 0), "ts": _us(mark.at), "args": mark.args}  # fmt: skip
    for track, lane, title, order in tracks.named(_TORCH_TITLES if "torch" in timeline.about else _TITLES):
        where = {"ph": "M", "pid": _pid(lane), "tid": track}
        yield where | {"name": "thread_name", "args": {"name": title}}
        yield where | {"name": "thread_sort_index", "args": {"sort_index": order}}


def encode(timeline: Timeline) -> tuple[bytes, int]:
    """Text of a file, and its number of events."""
    events = list(_events(timeline))
    about = msgspec.json.encode({"outrigger_trace": VERSION, **timeline.about})
    lines = b",\n".join(msgspec.json.encode(event) for event in events)
    return b'{"displayTimeUnit": "ns",\n"otherData": %s,\n"traceEvents": [\n%s\n]}\n' % (about, lines), len(events)


def write(timeline: Timeline, path: Path) -> int:
    """Into a file, compressed if its name ends in .gz. Returns the number of events."""
    text, count = encode(timeline)
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(gzip.compress(text, 6) if path.suffix == ".gz" else text)
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise UserError(f"the trace {path} cannot be written: {error.strerror}") from error
    return count


class _Event(msgspec.Struct):
    ph: str
    name: str = ""
    cat: str = ""
    pid: int = 0
    tid: int = 0
    ts: float = 0.0
    dur: float = 0.0
    id: int = 0
    args: dict[str, Any] = {}


class _About(msgspec.Struct):
    """The types of what other modules read from `otherData`."""

    outrigger_trace: Any = None
    mpi: str = ""
    nodes: int = 1
    ranks: int = 0
    native_because: str = ""
    torch: str = ""
    killed_ranks: list[int] = []
    earlier_starts: int = 0
    ended_us: dict[str, float] = {}


_LATEST_US = 1e15
"""Thirty years."""


class _File(msgspec.Struct):
    traceEvents: list[_Event]  # noqa: N815
    otherData: dict[str, Any] = {}  # noqa: N815


def _ns(us: float) -> int:
    return round(us * 1000)


def _lane_of(event: _Event, what: str) -> Lane:
    args = event.args
    number, node, core, dpu = args.get("number"), args.get("node"), args.get("core", -1), args.get("dpu", "")
    numbered = isinstance(number, int) and isinstance(node, int) and isinstance(core, int)
    if args.get("kind") not in ("rank", "service") or not numbered or not isinstance(dpu, str):
        raise UserError(
            f"{what} was not written by outrigger run --trace: {event.pid} is neither a rank nor a service process"
        )
    return Lane(args["kind"], args["number"], args["node"], core, dpu)


class _FlowEnds:
    """Finds the slices of a flow's steps."""

    def __init__(self, slices: Iterable[tuple[int, Slice]]) -> None:
        self._tracks: dict[int, list[Slice]] = defaultdict(list)
        for track, one in slices:
            self._tracks[track].append(one)

    def find(self, track: int, at: int) -> Slice | None:
        """The last slice of the track that began by then."""
        ones = self._tracks[track]
        low, high = 0, len(ones)
        while low < high:
            middle = (low + high) // 2
            if ones[middle].begin <= at:
                low = middle + 1
            else:
                high = middle
        return ones[low - 1] if low else None


def _flows(events: Iterable[_Event], ends: _FlowEnds) -> list[Flow]:
    flows: dict[int, Flow] = {}
    for event in events:
        one = ends.find(event.tid, _ns(event.ts)) if event.ph in "stf" else None
        if one is None:
            continue
        if event.ph == "s":
            flows[event.id] = Flow(one)
        elif event.id in flows:
            if one.kind in ("operation", "message"):
                flows[event.id].operation = one
            else:
                flows[event.id].completion = one
    return list(flows.values())


def parse(text: bytes, what: str) -> Timeline:
    """From a file's bytes; `what` is named in errors."""
    try:
        data = gzip.decompress(text) if text[:2] == b"\x1f\x8b" else text
        found = msgspec.json.decode(data, type=_File)
    except (msgspec.DecodeError, OSError, EOFError, json.JSONDecodeError) as error:
        raise UserError(f"{what} cannot be read: {error}") from error
    about = dict(found.otherData)
    version = about.pop("outrigger_trace", None)
    if version != VERSION:
        raise UserError(f"{what} is no trace of this version of Outrigger ({version or 'another program wrote it'})")
    try:
        msgspec.convert(about, _About)
    except msgspec.ValidationError as error:
        raise UserError(f"{what} cannot be read: otherData: {error}") from error
    lanes = {e.pid: _lane_of(e, what) for e in found.traceEvents if e.ph == "M" and e.name == "process_name"}
    slices: list[tuple[int, Slice]] = []
    marks = []
    for event in found.traceEvents:
        if event.ph not in "Xi":
            continue
        if event.pid not in lanes or (event.ph == "X" and event.cat not in _ROW_OF):
            raise UserError(f"{what} cannot be read: an event '{event.name}' has no owner")
        if not abs(event.ts) + abs(event.dur) < _LATEST_US:
            raise UserError(f"{what} cannot be read: an event '{event.name}' has an impossible time")
        begin = _ns(event.ts)
        if event.ph == "X":
            end = begin + _ns(event.dur)
            slices.append((event.tid, Slice(lanes[event.pid], event.cat, event.name, begin, end, event.args)))
        else:
            marks.append(Mark(lanes[event.pid], event.cat, event.name, begin, event.args))
    slices.sort(key=lambda pair: pair[1].begin)
    flows = _flows(found.traceEvents, _FlowEnds(slices))
    return Timeline(about, list(lanes.values()), [one for _, one in slices], marks, flows)
