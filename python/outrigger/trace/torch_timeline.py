"""The timeline of a PyTorch job, from the events of its ranks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from outrigger import torch_layout
from outrigger.errors import UserError
from outrigger.torch_events import Kind
from outrigger.torch_layout import Group, numbers_of
from outrigger.trace import torch_ranks
from outrigger.trace.timeline import Flow, Instance, Lane, Mark, Slice, Timeline, note_hidden, note_late
from outrigger.trace.torch_clocks import JobClock
from outrigger.trace.torch_ranks import Event, Recorded

_KINDS = {
    Kind.CALL: "call", Kind.POST: "call", Kind.OPERATION: "operation", Kind.MESSAGE: "message", Kind.WAIT: "completion",
}  # fmt: skip
_ORDER = (Kind.SERVED, *_KINDS)
"""In which events are joined."""


def _nodes(ranks: Sequence[Recorded]) -> dict[tuple[str, int], int]:
    """Numbers of the nodes."""
    found = dict.fromkeys((one.process.host, one.process.node) for one in ranks)
    return {node: number for number, node in enumerate(found)}


def _world_rank(group: Group, peer: int) -> int | str:
    """Or `any`."""
    if peer == torch_layout.ANY_PEER:
        return "any"
    ranks = numbers_of(group.ranks)
    return ranks[peer] if 0 <= peer < len(ranks) else peer


class _Builder:
    """Makes the slices of one rank."""

    def __init__(self, of: Recorded, node: int, services: dict[int, Lane], clock: JobClock, last: int) -> None:
        """`services`: those of the node so far, by their processes. `last`: end of the trace."""
        self._of = of
        self._clock = clock
        self._last = last
        self._services = services
        self._lane_of_group: dict[int, Lane] = {}
        self.lane = Lane("rank", of.process.rank, node)
        self.slices: list[Slice] = []
        self.flows: dict[int, Flow] = {}
        self.instances: list[Instance] = []

    def build(self) -> _Builder:
        """All of it."""
        for event in sorted(self._of.events, key=lambda event: (_ORDER.index(event.kind), event.began)):
            if event.kind is Kind.SERVED:
                self._served(event)
            else:
                self._join(event, self._slice(event))
        calls = [one for one in self.slices if one.kind in ("call", "completion")]
        note_hidden(calls, [one for one in self.slices if one.kind == "operation"])
        return self

    def _at(self, time: int) -> int:
        return self._clock.at(self._of, time) - self._clock.zero

    def _served(self, event: Event) -> None:
        """The group has a service process."""
        lane = Lane("service", len(self._services), self.lane.node)
        self._lane_of_group[event.group] = self._services.setdefault(event.bytes, lane)

    def _slice(self, event: Event) -> Slice:
        name, args = self._describe(event)
        lane = self._lane_of_group.get(event.group, self.lane) if event.kind is Kind.OPERATION else self.lane
        if lane != self.lane:
            name = f"{name} of rank {self.lane.number}"
            args["rank"] = self.lane.number
        begin = self._at(event.began)
        end = self._last if event.ended is None else self._at(event.ended)
        made = Slice(lane, _KINDS[event.kind], name, begin, max(begin, end), args)
        self.slices.append(made)
        return made

    def _describe(self, event: Event) -> tuple[str, dict[str, Any]]:
        operation, _ = self._of.name(event.row)
        args = self._args(event)
        if event.kind is Kind.POST:
            return f"{operation} (async)", args
        if event.kind is Kind.WAIT:
            return f"wait for {operation}", {"requests": 1, "collected": [event.request], **args}
        if event.kind is Kind.MESSAGE:
            peer = _world_rank(self._of.group(event.group), event.peer)
            name = f"{operation} {'to' if operation == 'send' else 'from'} {peer}"
            return name, {**args, "peer": peer, "tag": event.place}
        return operation, {**args, "operation": event.place} if event.place else args

    def _args(self, event: Event) -> dict[str, Any]:
        group, (_, kind) = self._of.group(event.group), self._of.name(event.row)
        args: dict[str, Any] = {"bytes": event.bytes, "type": kind, "communicator": self._communicator(group)}
        args |= {"group": group.name, "size": group.size} if group.size else {}
        args |= {"request": event.request} if event.request else {}
        args |= {"failed": True} if event.failed else {}
        args |= {"ended": False} if event.ended is None else {}
        return args

    def _communicator(self, group: Group) -> str:
        is_world = not group.ranks and group.size == self._of.process.world_size
        return "all ranks" if is_world else f"group {group.label}"

    def _join(self, event: Event, made: Slice) -> None:
        """With its call. Waits come last, in their order."""
        if event.kind is Kind.POST:
            self.flows[event.request] = Flow(made)
        flow = self.flows.get(event.request)
        if event.kind in (Kind.CALL, Kind.OPERATION) and event.place:
            self._meet(event, made if flow is None else flow.call)
        if flow is None:
            return
        if event.kind in (Kind.OPERATION, Kind.MESSAGE):
            flow.operation = made
        elif event.kind is Kind.WAIT and flow.completion is None and _collects(made, flow):
            flow.completion = made

    def _meet(self, event: Event, call: Slice) -> None:
        """Ranks of a group begin its operations in one order."""
        group, (operation, _) = self._of.group(event.group), self._of.name(event.row)
        if group.size > 1 and group.name:
            self.instances.append(((group.name, operation, event.place), group.size, call))


def _collects(wait: Slice, flow: Flow) -> bool:
    """False for a wait that has run into its timeout."""
    return flow.operation is None or wait.end >= flow.operation.end


def _about(ranks: Sequence[Recorded], earlier: int, nodes: int, clock: JobClock) -> dict[str, Any]:
    first = ranks[0].process
    ends = {one.process.rank: (clock.at(one, one.ended) - clock.zero) / 1000 for one in ranks if one.ended is not None}
    return {
        "mpi": f"torch {first.torch}",
        "torch": first.torch,
        "ranks": first.world_size,
        "nodes": max(nodes, first.nodes),
        "traced_ranks": len(ranks),
        "native_because": "",
        "killed_ranks": [one.process.rank for one in ranks if one.ended is None],
        "earlier_starts": earlier,
        "dropped_events": sum(one.dropped for one in ranks),
        "dropped_service_events": 0,
        "clock_error_us": clock.error_us,
        "ended_us": {str(rank): end for rank, end in ends.items()},
    }


def build(starts: Sequence[Sequence[Recorded]]) -> Timeline:
    """The timeline of the last start of the job. There must be one."""
    ranks = starts[-1]
    clock, nodes = JobClock(ranks), _nodes(ranks)
    last = max(clock.at(one, one.last) for one in ranks) - clock.zero
    services: list[dict[int, Lane]] = [{} for _ in nodes]
    built = []
    for one in ranks:
        node = nodes[one.process.host, one.process.node]
        built.append(_Builder(one, node, services[node], clock, last).build())
    lanes = [one.lane for one in built] + [lane for found in services for lane in found.values()]
    slices = sorted((slice for one in built for slice in one.slices), key=lambda one: (one.begin, -one.end))
    marks: list[Mark] = note_late(instance for one in built for instance in one.instances)
    flows = [flow for one in built for flow in one.flows.values() if flow.operation or flow.completion]
    about = _about(ranks, len(starts) - 1, len(nodes), clock)
    return Timeline(about, lanes, slices, sorted(marks, key=lambda mark: mark.at), flows)


def read(directory: Path) -> Timeline:
    """The timeline of the events in a directory."""
    starts = torch_ranks.read_all(directory)
    if not starts:
        raise UserError(f"{directory} has no events of PyTorch ranks: none has made a process group of Outrigger's")
    return build(starts)
