"""Frames of keepers are read, merged and shown. Impossible frames are refused with a reason."""

from __future__ import annotations

import io
import os
import socket
import sys
import threading
from dataclasses import asdict

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from waiting import wait_until

from outrigger.errors import UserError
from outrigger.live import answer, keepers, remote, snapshot, sources, top
from outrigger.live.charts import bar, sparkline
from outrigger.live.simulated import SimulatedJob
from outrigger.live.tracker import Tracker
from outrigger.live.view import View
from outrigger.settings import Settings


def frame_of(node: snapshot.Node) -> bytes:
    body = msgspec.msgpack.encode(node)
    return snapshot.HEADER.pack(snapshot.MAGIC, snapshot.VERSION, len(body)) + body


NODES = next(SimulatedJob(6, per_node=4).steps())
FRAME = frame_of(NODES[0])


def shown(view: View, width: int, height: int) -> str:
    out = Console(width=width, height=height, file=io.StringIO())
    with out.capture() as captured:
        out.print(top.render(view, width, height))
    return captured.get()


def test_a_frame_is_read():
    assert snapshot.decode(FRAME) == NODES[0]


def test_what_is_said_to_other_machines_is_read_there():
    told = answer.Told(NODES, ("keeper 7 says\x1b[2J nonsense",), 3)
    heard = answer.decode(answer.encode(told), "it", "node7")
    assert heard == answer.Told(NODES, ("node7: keeper 7 says[2J nonsense",), 3)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b'{"live": 2, "outrigger": "9.8.7"}', r"it is from Outrigger 9\.8\.7, .* use the same version"),
        (b'{"live": 1, "outrigger": "0.1.0"}', "missing required field `nodes`"),
        (b"[]", "cannot be read"),
    ],
)
def test_what_another_version_says_is_refused_by_name(text, why):
    with pytest.raises(UserError, match=why):
        answer.decode(text, "it")


@pytest.mark.parametrize(
    ("frame", "why"),
    (
        (b"", "ends early"),
        (b"HTTP" + FRAME[4:], "not a live frame"),
        (snapshot.HEADER.pack(snapshot.MAGIC, 9, 0), "has version 9, this command reads version 1"),
        (FRAME[:-1], "its length is wrong"),
        (FRAME + b"x", "its length is wrong"),
    ),
)
def test_what_is_no_frame_is_refused(frame, why):
    with pytest.raises(UserError, match=why):
        snapshot.decode(frame)


@pytest.mark.parametrize(
    "change",
    (
        {"rank": 4},
        {"call": -1},
        {"communicator": 2},
        {"late_ns": -1},
        {"native": ((99, 1),)},
        {"reached": ((0, -1),)},
    ),
)
def test_rows_name_only_what_there_is(change):
    rows = (msgspec.structs.replace(NODES[0].rows[0], **change),)
    with pytest.raises(UserError, match="an index is out of range"):
        snapshot.decode(frame_of(msgspec.structs.replace(NODES[0], rows=rows)))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(FRAME) - 1), st.integers(0, 255)), min_size=1, max_size=8))
def test_damaged_frames_are_read_or_refused(changes):
    damaged = bytearray(FRAME)
    for at, value in changes:
        damaged[at] = value
    try:
        node = snapshot.decode(bytes(damaged))
    except UserError:
        return
    view = Tracker().update([node], 1.0)  # what is let in can be shown
    assert shown(view, 80, 24)


def test_keepers_are_found_by_their_names():
    text = (
        "00: 2 0 0 1 1 9 @outrigger-live:job-1:42\n00: 2 0 0 1 1 9 @outrigger-live:job-1:x\n00: 9 /a@outrigger-live\n"
    )
    assert keepers.find(text * 2) == [keepers.Keeper("job-1", 42)]


def test_a_keeper_is_asked_and_one_that_says_nonsense_is_a_problem(monkeypatch):
    keeper = keepers.Keeper(f"test-{os.getpid()}", 7)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        door.bind(keeper.address)
        door.listen()

        def say() -> None:
            for said in (FRAME, b"nonsense and more"):
                link, _ = door.accept()
                link.sendall(said)
                link.close()

        thread = threading.Thread(target=say)
        thread.start()
        monkeypatch.setattr(keepers, "find", lambda _text: [keeper])
        assert sources.local() == answer.Told((NODES[0],))
        told = sources.local()
        thread.join()
    assert told.nodes == () and "not a live frame" in told.problems[0]
    assert keepers.ask(keeper) is None  # it has gone


def test_what_another_user_says_is_not_shown(monkeypatch):
    keeper = keepers.Keeper(f"test-{os.getpid()}", 8)
    monkeypatch.setattr(keepers, "_is_trusted", lambda _link: False)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        door.bind(keeper.address)
        door.listen()
        with pytest.raises(keepers.RefusedError):
            keepers.ask(keeper)
        monkeypatch.setattr(keepers, "find", lambda _text: [keeper])
        told = sources.local()
    assert told == answer.Told((), refused=1)
    text = shown(Tracker().update(told.nodes, 1.0, told.problems, told.refused), 80, 24)
    assert "1 job of other users on this machine: only these users and root" in " ".join(text.split())


def test_rates_are_of_the_last_interval():
    steps = SimulatedJob(6, per_node=4).steps(2.0)
    tracker = Tracker()
    first, second = next(steps), next(steps)
    view = tracker.update(first, 10.0)
    assert view.jobs[0].nodes_of_job == 2 and len(view.jobs[0].nodes) == 2
    (job,) = tracker.update(second, 12.0).jobs
    alltoall = next(call for call in job.calls if call.call == "MPI_Ialltoall")
    assert alltoall.calls == 6 * 800 and alltoall.calls_per_second == pytest.approx(6 * 200)
    assert alltoall.bytes_per_second == pytest.approx(6 * 200 * (1 << 20))
    gained = sum(row.exposed_ns for node in second for row in node.rows) - sum(
        row.exposed_ns for node in first for row in node.rows
    )
    assert job.exposed == pytest.approx(gained * 1e-9 / 2.0 / 6)
    assert job.ranks.rank == list(range(6)) and job.ranks.node == [0, 0, 0, 0, 1, 1]
    latest = max(range(6), key=lambda rank: job.ranks.late[rank])
    assert alltoall.latest_rank == latest
    assert 0.2 < job.services[0].ran < 0.6 and job.services[0].asleep > 0
    assert job.history.seconds_ago == [2.0, 0.0] and len(job.history.exposed) == 2
    assert {link.reach for link in job.links} == {"mapped", "wire"}


def test_bytes_between_nodes_are_of_the_last_interval_and_others_are_summed():
    job = SimulatedJob(40, per_node=1)  # each node names 32 of the 39 others
    tracker, steps = Tracker(), job.steps(2.0)
    tracker.update(next(steps), 10.0)
    nodes = next(steps)
    between = tracker.update(nodes, 12.0).jobs[0].between_nodes
    rate = 200 * (1 << 20) / 2 + 1000 * 4096 / 2
    assert len(between.links) == 64 and between.other_links >= 40 * 39 // 2
    first = between.links[0]
    assert (first.source, first.target, first.target_host) == (0, 1, "node1")
    assert first.bytes_per_second == pytest.approx(2 * rate / 40, rel=1e-6)
    shown = sum(link.bytes_per_second for link in between.links)
    assert shown + between.other_bytes_per_second == pytest.approx(40 * rate, rel=1e-6)


def test_a_way_between_nodes_is_told_by_either_end_and_counted_once():
    nodes = next(SimulatedJob(6, per_node=4).steps())
    (both,) = Tracker().update(nodes, 1.0).jobs
    (one,) = Tracker().update(nodes[:1], 1.0).jobs
    ways = [(link.source, link.target) for link in both.between_nodes.links]
    assert sorted(ways) == [(0, 1), (1, 0)] == sorted((link.source, link.target) for link in one.between_nodes.links)
    assert {link.source_host for link in one.between_nodes.links} == {"node0", "node1"}
    mine = msgspec.structs.replace(nodes[0], links=(snapshot.Link(1, "node1", -1, 0),))
    with pytest.raises(UserError, match="negative traffic"):
        snapshot.decode(frame_of(mine))
    old = msgspec.structs.replace(nodes[0], links=(), all_links=snapshot.AllLinks())
    (silent,) = Tracker().update([old], 1.0).jobs
    assert silent.between_nodes.links == []


def test_what_dpus_read_and_write_of_their_hosts_memory_is_a_rate():
    def told(at_ns: int, read: int, written: int) -> snapshot.Node:
        dpu = snapshot.Dpu("thor-bf01", read, written)
        return snapshot.decode(frame_of(msgspec.structs.replace(NODES[0], at_ns=at_ns, dpu=dpu)))

    tracker = Tracker()
    tracker.update([told(10**9, 1 << 20, 0), NODES[1]], 1.0)
    view = tracker.update([told(3 * 10**9, 5 << 20, 2 << 20), NODES[1]], 3.0)
    (dpu,) = view.jobs[0].dpus
    assert (dpu.name, dpu.node, dpu.read_bytes, dpu.written_bytes) == ("thor-bf01", 0, 5 << 20, 2 << 20)
    assert (dpu.read_bytes_per_second, dpu.written_bytes_per_second) == (2 << 20, 1 << 20)
    assert "thor-bf01 reads 2 MiB/s, writes 1 MiB/s of its host's memory" in shown(view, 100, 24)
    assert len(shown(view, 100, 24).splitlines()) <= 24
    with pytest.raises(UserError, match="negative traffic"):
        told(1, 0, -1)


def test_communicators_without_names_keep_a_number_and_their_size():
    unnamed = "(unnamed)"

    def told(order: str, at_ns: int, name_of_b: str = unnamed) -> snapshot.Node:
        names = {"a": unnamed, "b": name_of_b, "c": unnamed}
        communicators = tuple(snapshot.Communicator(c, names[c], 1 if c == "c" else 4) for c in order)
        rows = tuple(
            msgspec.structs.replace(NODES[0].rows[0], rank=at % 2, communicator=at) for at in range(len(order))
        )
        return msgspec.structs.replace(NODES[0], at_ns=at_ns, communicators=communicators, rows=rows)

    tracker = Tracker()
    (job,) = tracker.update([told("ab", 10**9)], 1.0).jobs
    assert {call.id: call.communicator for call in job.calls} == {"a": "#1 of 4 ranks", "b": "#2 of 4 ranks"}
    (job,) = tracker.update([told("cba", 2 * 10**9)], 2.0).jobs
    now = {call.id: call.communicator for call in job.calls}
    assert now == {"a": "#1 of 4 ranks", "b": "#2 of 4 ranks", "c": "#3 of 1 rank"}
    assert not any(call.named for call in job.calls)
    (job,) = Tracker().update([told("abc", 1, "rows")], 1.0).jobs
    assert {call.communicator: call.named for call in job.calls}["rows"]


def test_a_job_that_nobody_tells_of_any_more_goes():
    tracker = Tracker()
    assert tracker.update(NODES, 10.0).jobs
    assert tracker.update([], 15.0).jobs[0].nodes[0].late_by_seconds == 5.0
    assert not tracker.update([], 30.0).jobs


def test_a_service_that_was_replaced_does_not_count_backwards():
    tracker = Tracker()
    tracker.update(NODES[:1], 1.0)
    service = msgspec.structs.replace(NODES[0].services[0], pid=1, ran_ns=0, waited_ns=5, restarts=1)
    later = msgspec.structs.replace(NODES[0], at_ns=NODES[0].at_ns + 10**9, services=(service,))
    (found,) = tracker.update([later], 2.0).jobs[0].services
    assert found.ran == 0 and 0 < found.waited < 1e-6 and found.restarts == 1


@pytest.mark.parametrize(("width", "height"), ((60, 24), (80, 24), (130, 50)))
def test_top_fits_its_terminal(width, height):
    """A line is a line, and the ranks' is whole."""
    tracker = Tracker()
    steps = SimulatedJob(256, per_node=64, job="run-1").steps()
    others = SimulatedJob(4, per_node=4, job="run-2").steps()
    for second in range(3):
        view = tracker.update([*next(steps), *next(others)], float(second))
    lines = shown(view, width, height).splitlines()
    assert len(lines) <= height and max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert "run-1" in text and "MPI_Ialltoall" in text and "█" in text
    (ranks,) = [line for line in lines if line.startswith("ranks: ")]
    assert "is latest, by" in ranks and ranks.rstrip().endswith("/s")
    (between,) = [line for line in lines if line.startswith("nodes: ")]
    assert "0→1 " in between and "others " in between


def test_json_is_the_view():
    view = Tracker().update(NODES, 1.0)
    assert msgspec.json.decode(msgspec.json.encode(asdict(view)))["jobs"][0]["world"] == 6


def test_a_feed_is_played_back_and_a_bad_one_is_named(tmp_path):
    file = tmp_path / "feed.jsonl"
    steps = SimulatedJob(2).steps()
    file.write_bytes(b"\n".join(answer.encode(answer.Told(next(steps))) for _ in range(2)))
    assert len(sources.of([], None, file)().nodes) == 1
    file.write_bytes(answer.encode(answer.Told(())) + b"\n[]")
    with pytest.raises(UserError, match=r"feed\.jsonl, line 2"):
        sources.of([], None, file)
    with pytest.raises(UserError, match="--feed excludes"):
        sources.of(["http://a:1"], None, file)
    with pytest.raises(UserError, match="an address like"):
        sources.of(["node7"], None)


_SSH = """#!/bin/sh
while [ "$1" = -o ]; do shift 2; done
case $1 in
  good) shift; shift; exec {python} -m outrigger "$@" --feed {feed} ;;
  bad) echo "ssh: connect to host bad port 22: Connection refused" >&2; exit 255 ;;
  other) echo "no JSON"; exec sleep 60 ;;
esac
"""


def until(look, seconds=60.0):
    assert wait_until(look, seconds)


def test_hosts_are_asked_by_ssh_and_those_that_do_not_answer_are_named(tmp_path, monkeypatch):
    """By a stand-in for ssh that runs the command here."""
    feed = tmp_path / "feed.jsonl"
    steps = SimulatedJob(2).steps()
    feed.write_bytes(b"\n".join(answer.encode(answer.Told(next(steps))) for _ in range(2)))
    ssh = tmp_path / "ssh"
    ssh.write_text(_SSH.format(python=sys.executable, feed=feed))
    ssh.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    asked = remote.hosts(["good,bad", "other"])
    ask = sources.of([], None, None, asked)
    remote.wait_for_answers(asked)
    until(lambda: len(ask().nodes) == 1 and len(ask().problems) == 2)
    problems = ask().problems
    assert problems[0] == "bad cannot be reached by ssh: ssh: connect to host bad port 22: Connection refused"
    assert problems[1].startswith("what other says cannot be read: ")
    monkeypatch.setattr(remote, "_ANSWERS_WITHIN_SECONDS", 0.1)
    until(lambda: "other does not answer: nothing for" in ask().problems[1])
    for host in asked:
        host._end()
    with pytest.raises(UserError, match="is not the name of a host"):
        remote.hosts(["-oProxyCommand=x"])
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match="needs ssh"):
        remote.hosts(["good"])


def test_charts():
    assert sparkline([0, 1, 2], 4) == " ▁▅█" and sparkline([], 2) == "  " and sparkline([0.0], 1) == "▁"
    assert bar([(0.5, "a"), (0.25, "b")], 4) == [("██", "a"), ("█", "b"), ("░", "dim")]


def test_live_counts_and_leaves_a_report_that_was_asked_for():
    live = Settings(live=True)
    assert live.environment() == {"OUTRIGGER_LIVE": "on"}
    assert Settings().environment() == {}


def test_exposed_and_hidden_are_no_more_than_the_time():
    """A rank was in collectives for 0.82 s of 1 s: of 0.22 s that went on meanwhile, 0.18 s can be hidden."""
    row = msgspec.structs.replace(NODES[0].rows[0], exposed_ns=820_000_000, hidden_ns=220_000_000)
    ranks = tuple(msgspec.structs.replace(rank, run_seconds=1.0) for rank in NODES[0].ranks[:1])
    node = msgspec.structs.replace(NODES[0], ranks=ranks, rows=(msgspec.structs.replace(row, rank=0),))
    (job,) = Tracker().update([node], 1.0).jobs
    assert (job.exposed, job.hidden) == (pytest.approx(0.82), pytest.approx(0.18))
    assert job.ranks.hidden == [pytest.approx(0.18)] and job.calls[0].hidden_seconds == pytest.approx(0.22)


def test_calls_by_ranks_are_neither_offloaded_nor_native():
    row = msgspec.structs.replace(NODES[0].rows[0], calls=100, offloaded=20, native=((0, 5), (1, 15)))
    node = msgspec.structs.replace(NODES[0], rows=(row,))
    view = Tracker().update([node], 1.0)
    (job,) = view.jobs
    assert (job.calls[0].by_ranks, job.by_ranks, job.offloaded, job.native) == (60, 60, 20, 20)
    assert "served" in shown(view, 130, 50) and "80%" in shown(view, 130, 50)
    more = msgspec.structs.replace(row, native=((0, 90),))  # read while the rank changes it
    assert more.by_ranks == 0


def test_ranks_asleep_in_polite_waits_are_shown():
    def node(at_s, slept):
        ranks = tuple(
            msgspec.structs.replace(rank, slept_seconds=part) for rank, part in zip(NODES[0].ranks, slept, strict=True)
        )
        return msgspec.structs.replace(NODES[0], at_ns=at_s * 10**9, ranks=ranks)

    tracker = Tracker()
    assert "asleep" not in shown(tracker.update([node(10, [0.0] * 4)], 1.0), 130, 50)
    view = tracker.update([node(12, [0.0, 0.5, 1.0, 9.0])], 3.0)
    assert view.jobs[0].ranks.asleep == [0.0, 0.25, 0.5, 1.0]
    assert "; asleep in waits 44% of the time" in shown(view, 130, 50)
