"""Events become a timeline on one clock, a file that Perfetto opens, and a picture."""

from __future__ import annotations

import json
import math
import struct
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import in_perfetto
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from outrigger.errors import UserError
from outrigger.trace import collect, command, draw, timeline, trace_events
from outrigger.trace.events import NO_SEQUENCE, NO_SERVICE, Kind, Part, read_parts

NAMES = (
    "call 0 MPI_Alltoall\ncall 1 MPI_Ialltoall\ncall 2 MPI_Alltoall_init\ncompletion 0 MPI_Wait\n"
    "completion 1 MPI_Waitall\nreason 6 your rule\nreason 14 blocking form\ncollective 0 ialltoall\n"
    "algorithm 0 ring_pull\nreach 0 mapped\nphase 0 solve\nphase 1 exchange\n"
)
WORLD = (7, 8)
MS = 1_000_000


def event(kind: Kind, began: float, ended: float, **fields: int) -> bytes:
    """Milliseconds."""
    group = WORLD if fields.pop("world", 1) else (0, 0)
    return struct.pack(
        "<2q5QBBHI", int(began * MS), int(ended * MS), fields.get("bytes", 0), *group,
        fields.get("sequence", NO_SEQUENCE), fields.get("subject", 0), kind, fields.get("detail", 0),
        fields.get("name", 0), fields.get("number", 0),
    )  # fmt: skip


def part(
    rank: int, events: Sequence[bytes], serviced: Sequence[bytes] = (), *, ranks: int = 2,
    clocks: tuple[int, ...] = (0, 0, 0) * 2, nodes: int = 1, node: int = 0, ended: float = 100, dropped: int = 0,
    dpu: str = "", dpu_clock_error: int = 0, left_dpu: float = 0, serves: bool = False, because: bytes = b"",
) -> bytes:  # fmt: skip
    names = NAMES.encode()
    header = struct.pack("<8s4I5Q", b"OUTRTRC1", 2, 552, 64, 1, len(names), len(events), dropped, len(serviced), 0)
    about = struct.pack(
        "<5Ii2q3q3q2q64s256s64s", rank, ranks, node, nodes, 0 if serviced or serves else NO_SERVICE, 3, 0,
        int(ended * MS), *clocks, dpu_clock_error, int(left_dpu * MS), b"MPICH 4", because, dpu.encode(),
    )  # fmt: skip
    known = struct.pack("<2Q2I64s", *WORLD, ranks, 0, b"MPI_COMM_WORLD")
    return header + about + names + known + b"".join(events) + b"".join(serviced)


def posted(rank: int, began: float, **fields: Any) -> bytes:
    """One nonblocking all-to-all, which the rank waits for at 50 ms; a service process has moved a block for it."""
    events = [
        event(Kind.CALL, began, began + 0.5, bytes=4096, sequence=0, subject=1, detail=255, name=1),
        event(Kind.COMPLETION, 50, 51, sequence=0, subject=1, detail=1, number=1),
    ]
    serviced = [
        event(Kind.TAKEN, began + 0.1, began + 0.1, sequence=0),
        event(Kind.MOVE, 30, 34, sequence=0, subject=rank << 32 | (1 - rank), bytes=2048),
        event(Kind.ENDED, 40, 40, sequence=0, number=rank),
    ]
    return part(rank, events, serviced, **fields)


def one_exchange(**fields: Any) -> timeline.Timeline:
    """Rank 1 comes 10 ms late."""
    return timeline.build(read_parts(posted(1, 20, **fields) + posted(0, 10, **fields), "events"))


def test_what_belongs_together_is_joined_and_who_was_late_is_marked() -> None:
    made = one_exchange()
    assert [lane.title for lane in made.lanes] == ["rank 0", "rank 1", "service 0 of node 0"]
    assert len(made.flows) == 2
    for flow in made.flows:
        assert flow.call.name == "MPI_Ialltoall" and flow.call.args["communicator"] == "MPI_COMM_WORLD"
        assert flow.operation is not None and flow.operation.args["algorithm"] == "ring_pull"
        assert flow.completion is not None and flow.completion.args["collected"] == [1]
        # From the end of the call to the operation's end: the rank has worked.
        assert flow.operation.args["hidden_us"] == pytest.approx((40 - flow.call.end / MS) * 1000)
    moves = [one.args for one in made.slices if one.kind == "move"]
    assert {(move["from"], move["to"], move["reach"]) for move in moves} == {(0, 1, "mapped"), (1, 0, "mapped")}
    late = [mark for mark in made.marks if mark.kind == "late"]
    assert [(mark.lane.number, mark.args["after_first_us"]) for mark in late] == [(1, 10_000.0)]
    assert [mark.args["peers_ready"] for mark in made.marks if mark.kind == "peers_ready"] == [1]


def test_service_processes_on_a_dpu_have_lanes_that_say_so(tmp_path: Path, drawn: list[Figure]) -> None:
    made = one_exchange(dpu="thor-bf01", dpu_clock_error=40_000)
    assert [lane.title for lane in made.lanes][2:] == ["service 0 of node 0 on DPU thor-bf01"]
    assert made.about["clock_error_us"] == 40
    assert all(flow.operation is not None and flow.operation.lane.dpu == "thor-bf01" for flow in made.flows)
    text = trace_events.encode(made)[0]
    check_trace_events(text)
    assert trace_events.parse(text, "t").lanes == made.lanes
    in_perfetto.check(text, made)
    draw.save(made, tmp_path / "trace.png", draw.Selection(), "trace")
    assert drawn[0].axes[0].get_yticklabels()[2].get_text() == "service 0 of node 0\non DPU thor-bf01"


def test_a_dpu_that_is_left_keeps_its_lane_and_another_one_follows() -> None:
    """At 35 ms: what was noted before that is the DPU's, the operation is taken and ended by another one."""
    call = event(Kind.CALL, 10, 11, sequence=0, subject=1, detail=255, name=1)
    before = [event(Kind.TAKEN, 12, 12, sequence=0), event(Kind.MOVE, 30, 34, sequence=0, subject=1)]
    after = [event(Kind.TAKEN, 36, 36, sequence=0), event(Kind.ENDED, 40, 40, sequence=0)]
    made = timeline.build(read_parts(part(0, [call], [*before, *after], dpu="thor-bf01", left_dpu=35), "events"))
    on_dpu, on_core = made.lanes[1:]
    assert (on_dpu.dpu, on_dpu.number, on_core.dpu, on_core.number, on_core.cpu) == ("thor-bf01", 0, "", 0, 3)
    assert [one.lane for one in made.slices if one.kind == "move"] == [on_dpu]
    operations = {
        one.lane: (one.begin, one.end, one.args.get("ended")) for one in made.slices if one.kind == "operation"
    }
    assert operations == {on_dpu: (12 * MS, 35 * MS, False), on_core: (36 * MS, 40 * MS, None)}
    (flow,) = made.flows
    assert flow.operation is not None and flow.operation.lane == on_core
    assert trace_events.parse(trace_events.encode(made)[0], "t").lanes == made.lanes


def test_the_loss_of_a_dpu_is_said_and_drawn(tmp_path: Path, drawn: list[Figure]) -> None:
    """Also where nothing of it has come."""
    call = event(Kind.CALL, 10, 11, sequence=0, subject=1, detail=255, name=1)
    after = [event(Kind.TAKEN, 36, 36, sequence=0), event(Kind.ENDED, 40, 40, sequence=0)]
    parts = b"".join(part(rank, [call], after, dpu="thor-bf01", left_dpu=35 + rank) for rank in (0, 1))
    made = timeline.build(read_parts(parts, "events"))
    on_dpu = made.lanes[2]
    assert (on_dpu.dpu, made.lanes[3].dpu) == ("thor-bf01", "")
    lost = [(mark.lane, mark.at) for mark in made.marks if mark.kind == "lost"]
    assert lost == [(on_dpu, 35 * MS)], "once, when the first rank has left it"
    text = trace_events.encode(made)[0]
    check_trace_events(text)
    in_perfetto.check(text, made)
    again = trace_events.parse(text, "t")
    said = "DPU thor-bf01 of node 0 was lost at 35 ms"
    assert timeline.losses(again) == [said]
    assert f"; {said}: its last half second is missing" in collect.describe(made, tmp_path / "t.json")
    draw.save(again, tmp_path / "trace.png", draw.Selection(), "trace")
    axis = drawn[0].axes[0]
    assert said in axis.get_title(loc="left")
    (hatched,) = (bars for bars in axis.collections if bars.get_hatch())
    assert min(x for path in hatched.get_paths() for x, _ in path.vertices) == 35


def test_a_job_that_has_offloaded_nothing_says_why_and_has_no_service_lanes(
    tmp_path: Path, drawn: list[Figure]
) -> None:
    calls = [event(Kind.CALL, 10 * at, 10 * at + 1, detail=14 if at < 3 else 6) for at in range(1, 4)]
    written = b"".join(part(rank, calls[: 3 - rank], serves=True) for rank in (0, 1))
    made = timeline.build(read_parts(written, "events"))
    assert {lane.kind for lane in made.lanes} == {"rank"}
    why = "nothing was offloaded: blocking form (4 calls), your --algorithm rule (1)"
    assert collect.describe(made, tmp_path / "t.json").endswith(f"; {why}")
    draw.save(made, tmp_path / "trace.png", draw.Selection(), "trace")
    assert drawn[0].axes[0].get_title(loc="left").endswith(f"; {why}")
    native = timeline.build(read_parts(part(0, calls[:1], because=b"no core is left"), "events"))
    assert timeline.why_nothing_is_offloaded(native) == "no core is left"
    assert timeline.why_nothing_is_offloaded(one_exchange()) == ""
    assert timeline.why_nothing_is_offloaded(timeline.build(read_parts(part(0, []), "events"))) == ""
    by_ranks = [event(Kind.CALL, 10 * at, 10 * at + 1, detail=254 if at < 3 else 14) for at in range(1, 4)]
    why = timeline.why_nothing_is_offloaded(timeline.build(read_parts(part(0, by_ranks), "events")))
    assert why == "done by the ranks themselves (2 calls), blocking form (1)"


def test_an_operation_is_not_taken_before_its_call_where_the_clock_of_a_dpu_is_wrong() -> None:
    call = event(Kind.CALL, 10, 11, sequence=0, subject=1, detail=255, name=1)
    serviced = [event(Kind.TAKEN, 9.99, 9.99, sequence=0), event(Kind.ENDED, 20, 20, sequence=0)]
    made = timeline.build(read_parts(part(0, [call], serviced, dpu="thor-bf01", dpu_clock_error=30_000), "events"))
    assert [one.begin for one in made.slices if one.kind == "operation"] == [10 * MS]
    check_trace_events(trace_events.encode(made)[0])


def in_phases(rank: int, *, nested: bool) -> bytes:
    """One call from 10 to 12 ms, in a phase; perhaps in one more inside that."""
    events = [event(Kind.CALL, 10, 12, detail=14)]
    if nested:
        events.append(event(Kind.PHASE, 9, 20, name=1, number=1, world=0))
    return part(rank, [*events, event(Kind.PHASE, 5, 40, name=0, world=0)])


def test_phases_are_slices_of_their_rank(tmp_path: Path, drawn: list[Figure]) -> None:
    made = timeline.build(read_parts(in_phases(0, nested=True) + in_phases(1, nested=False), "events"))
    phases = [(one.lane.number, one.name, one.begin, one.end, one.args) for one in made.slices if one.kind == "phase"]
    outer, inner = (5 * MS, 40 * MS, {"depth": 0}), (9 * MS, 20 * MS, {"depth": 1})
    assert sorted(phases) == [(0, "exchange", *inner), (0, "solve", *outer), (1, "solve", *outer)]
    text = trace_events.encode(made)[0]
    check_trace_events(text)
    assert [one for one in trace_events.parse(text, "t").slices if one.kind == "phase"] == [
        one for one in made.slices if one.kind == "phase"
    ]
    draw.save(made, tmp_path / "t.png", draw.Selection(), "trace")
    assert [text.get_text() for text in drawn[0].axes[0].texts] == ["solve", "exchange", "solve"]
    in_perfetto.check(text, made)


def test_native_calls_are_matched_by_their_order() -> None:
    def calls(rank: int, at: list[float]) -> bytes:
        return part(rank, [event(Kind.CALL, began, began + 1, detail=14) for began in at])

    made = timeline.build(read_parts(calls(0, [10, 20]) + calls(1, [10, 25]), "events"))
    assert [one.args["native"] for one in made.slices] == ["blocking form"] * 4
    assert [(mark.lane.number, mark.at) for mark in made.marks] == [(1, 25 * MS)]


def test_clocks_of_other_machines_are_corrected_for_their_drift() -> None:
    clocks = (0, -3000 * MS, 500, 1000 * MS, -3001 * MS, 700)  # offsets at the start and a second later
    events = [event(Kind.CALL, 500, 501, name=0)]
    (found,) = read_parts(part(1, events, clocks=clocks, nodes=2, node=1), "events")
    assert found.reference(0) == -3000 * MS and found.reference(1000 * MS) == -2001 * MS
    assert found.reference(500 * MS) == (500 - 3000.5) * MS
    assert found.clock_error == 700
    (unknown,) = read_parts(part(1, events, clocks=(0, 0, -1) * 2), "events")
    assert unknown.reference(5) == 5 and unknown.clock_error is None


def check_trace_events(text: bytes) -> dict[str, Any]:
    """Checks the rules of Perfetto's importer: slices of a track do not overlap, flows begin and end in slices."""
    trace = json.loads(text)
    tracks: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    processes = {e["pid"] for e in trace["traceEvents"] if e["ph"] == "M" and e["name"] == "process_name"}
    for one in trace["traceEvents"]:
        assert one["pid"] in processes
        if one["ph"] == "X":
            assert one["dur"] > 0
            tracks[one["pid"], one["tid"]].append((one["ts"], one["ts"] + one["dur"]))
    for spans in tracks.values():
        for (_, end), (begin, _) in zip(sorted(spans), sorted(spans)[1:], strict=False):
            assert begin >= end - 1e-9
    flows: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for one in trace["traceEvents"]:
        if one["ph"] in "stf":
            flows[one["id"]].append(one)
            assert any(begin <= one["ts"] <= end for begin, end in tracks[one["pid"], one["tid"]]), one
    for steps in flows.values():
        assert steps[0]["ph"] == "s" and steps[-1]["ph"] == "f" and [s["ph"] for s in steps[1:-1]] in ([], ["t"])
        assert [s["ts"] for s in steps] == sorted(s["ts"] for s in steps)
    return trace


def test_perfetto_itself_finds_all_of_it() -> None:
    made = one_exchange()
    in_perfetto.check(trace_events.encode(made)[0], made)


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_a_trace_is_a_file_for_perfetto_and_is_read_back(tmp_path: Path, name: str) -> None:
    made = one_exchange()
    trace_events.write(made, tmp_path / name)
    if name.endswith(".json"):
        trace = check_trace_events((tmp_path / name).read_bytes())
        assert trace["otherData"]["outrigger_trace"] == 1 and trace["otherData"]["ranks"] == 2
    again = command.read(tmp_path / name)
    assert again.lanes == made.lanes and again.marks == made.marks and again.about == made.about
    assert [(s.name, s.lane, s.begin, s.args) for s in again.slices] == [
        (s.name, s.lane, s.begin, s.args) for s in made.slices
    ]
    assert [(f.call.name, f.call.begin, f.completion and f.completion.name) for f in again.flows] == [
        (f.call.name, f.call.begin, "MPI_Wait") for f in made.flows
    ]


def test_a_long_trace_is_drawn_in_part(tmp_path: Path) -> None:
    """The middle 24 of 100 calls, a millisecond each, unless times are given."""
    short = one_exchange()
    (lane, *_) = short.lanes
    calls = [timeline.Slice(lane, "call", "MPI_Ialltoall", at * 10**6, at * 10**6 + 10**5) for at in range(100)]
    long = replace(short, slices=calls, flows=[], marks=[])
    assert draw.save(long, tmp_path / "a.png", draw.Selection(), "a") == (38, 62)
    assert draw.save(long, tmp_path / "a.png", draw.Selection(begin_ms=0), "a") == (0, 99.1)
    assert draw.save(replace(long, slices=calls[:48]), tmp_path / "a.png", draw.Selection(), "a") == (0, 47.1)


def test_a_picture_has_a_lane_for_each_and_the_late_rank(tmp_path: Path, drawn: list[Figure]) -> None:
    draw.save(one_exchange(), tmp_path / "trace.png", draw.Selection(), "trace")
    (figure,) = drawn
    axis = figure.axes[0]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["rank 0", "rank 1", "service 0 of node 0"]
    (late,) = [line for line in axis.lines if line.get_marker() == "v"]
    assert list(late.get_xdata()) == [20.0]
    assert (tmp_path / "trace.png").stat().st_size > 10_000
    draw.save(one_exchange(), tmp_path / "part.svg", draw.Selection(25, 45, (range(1, 2),)), "trace")
    assert drawn[1].axes[0].get_xlim() == (25, 45)
    assert "trace: 2 ranks" in axis.get_title(loc="left")
    assert drawn[1].axes[0].get_title(loc="left").startswith("trace: 25.0 to 45.0 ms of ")
    with pytest.raises(UserError, match="none of them"):
        draw.save(one_exchange(), tmp_path / "none.png", draw.Selection(ranks=(range(9, 10**9),)), "trace")
    with pytest.raises(UserError, match="nothing from 500"):
        draw.save(one_exchange(), tmp_path / "none.png", draw.Selection(500, 600), "trace")
    with pytest.raises(UserError, match="the trace has no ranks"):
        draw.save(replace(one_exchange(), lanes=[]), tmp_path / "none.png", draw.Selection(), "trace")
    begin, end = draw.save(one_exchange(), tmp_path / "all.png", draw.Selection(-1e308, 1e308), "trace")
    assert -1000 < begin <= 0 < 45 < end < 1000


def test_what_keepers_have_written_is_put_together(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    (tmp_path / "t.json.events.node-0").write_bytes(part(0, [event(Kind.CALL, 1, 2)], nodes=2))
    (tmp_path / "t.json.events.node-1").write_bytes(part(1, [event(Kind.CALL, 1, 2)], nodes=2, node=1, dropped=5))
    said = collect.finish(path)
    assert "trace of 2 ranks" in said and "5 events did not fit" in said
    assert [file.name for file in tmp_path.iterdir()] == ["t.json"]


def test_what_is_no_trace_is_refused(tmp_path: Path) -> None:
    good = posted(0, 10)
    for bad, why in (
        (good[:100], "is truncated"),
        (good[:-1], "is truncated"),
        (good + b"rest of a file", "is truncated"),
        (b"OUTRTRC2" + good[8:], "a wrong beginning"),
        (good[:8] + b"\x09" + good[9:], "version 9"),
    ):
        with pytest.raises(UserError, match=why):
            read_parts(bad, "f")
    late = '{"ph": "i", "pid": 1, "ts": 1e300}'
    rank = '{"ph": "M", "name": "process_name", "pid": 1, "args": {"kind": "rank", "number": 0, "node": 0}}'
    for text in (
        "{}", '{"traceEvents": []}', "[", '{"traceEvents": [{"ph": 3}]}',
        '{"traceEvents": [], "otherData": {"outrigger_trace": 1, "ended_us": "soon"}}',
        f'{{"traceEvents": [{rank}, {late}], "otherData": {{"outrigger_trace": 1}}}}',
    ):  # fmt: skip
        (tmp_path / "f.json").write_text(text)
        with pytest.raises(UserError, match=r"f\.json"):
            command.read(tmp_path / "f.json")
    with pytest.raises(UserError, match="write 0-3,8"):
        command.parse_ranks("0-x")
    with pytest.raises(UserError, match="the range '3-1' ends before it begins"):
        command.parse_ranks("0,3-1")
    with pytest.raises(UserError, match="--from nan: write a number of milliseconds"):
        command.replay(tmp_path / "f.json", begin_ms=math.nan)
    with pytest.raises(UserError, match=r"--out .*: there is no directory"):
        command.replay(tmp_path / "f.json", tmp_path / "missing" / "f.png")


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=20))
def test_damaged_events_give_a_timeline_or_an_error(changes: list[tuple[int, int]]) -> None:
    data = bytearray(posted(0, 10) + posted(1, 20))
    for place, value in changes:
        data[place % len(data)] = value
    try:
        parts: list[Part] = read_parts(bytes(data), "f")
        trace_events.parse(trace_events.encode(timeline.build(parts))[0], "f")
    except UserError:
        pass
