"""`outrigger lab predict`: patterns, traces, cluster files, advice, studies; and the whole with the built simulator."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typed import typed

from outrigger.artifacts import Artifacts
from outrigger.errors import UserError
from outrigger.predict import advice, clusters, patterns, program, rebuild
from outrigger.predict.clusters import ClusterFile
from outrigger.predict.figures import BLOCKING, LANES, NONBLOCKING, OFFLOADED, Figures, Job, Setup, Times
from outrigger.trace.timeline import Lane, Slice, Timeline

CLUSTERS = Path(__file__).parents[2] / "clusters"
DPU, HOST = CLUSTERS / "graham2024-bluefield3.toml", CLUSTERS / "sapphire-rapids-host-core.toml"


def test_a_grid_is_as_near_to_a_square_as_can_be() -> None:
    assert [program.near_square(ranks) for ranks in (2, 7, 12, 16)] == [(1, 2), (1, 7), (3, 4), (4, 4)]
    made = program.grid_communicators(2, 3)
    assert made["rows"]["groups"] == [[0, 1, 2], [3, 4, 5]]
    assert made["columns"]["groups"] == [[0, 3], [1, 4], [2, 5]]
    assert made["grid"]["neighbors"] == [[1, 3], [0, 2, 4], [1, 5], [0, 4], [1, 3, 5], [2, 4]]


def test_an_fft_transposes_what_a_rank_has_in_both_directions() -> None:
    made = patterns.parse("fft:N=64,pencil,variables=2,gflops=1").make(8)  # 2 rows of 4
    posts = [(step["communicator"], step["bytes"]) for step in made.steps if "post" in step]
    own = 16 * 64**3 // 8
    assert posts == [("rows", own // 4)] * 2 + [("columns", own // 2)] * 2
    assert made.work_us() == pytest.approx(2 * 5 * 64**3 * 18 / 8 / 1e3)


def test_training_posts_a_bucket_after_its_part_of_the_way_back() -> None:
    made = patterns.parse("training:params=1M,buckets=4,work=120ms").make(6)
    assert [step["bytes"] for step in made.steps if "post" in step] == [1_000_000] * 4
    assert made.steps[0] == {"work_us": 40_000}
    assert made.work_us() == pytest.approx(120_000)
    assert made.steps[-1] == {"wait": ["0", "1", "2", "3"]}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("fft:N=0", "N is a number"),
        ("fft:N=8,depth=2", "no 'depth'"),
        ("training:params=1M", "work is a time"),
        ("ialltoall:64KiB", "work is a time"),
        ("iscan:8,work=1ms", "neither a file of a trace nor a pattern"),
    ],
)
def test_what_a_pattern_lacks_is_named(text: str, named: str) -> None:
    with pytest.raises(UserError, match=named):
        patterns.parse(text)


def _trace(ranks: int, repetitions: int, slow: int) -> Timeline:
    """All post in their row of two, work for 500 us, wait, work for 100; one works twice as long."""
    slices = []
    for rank in range(ranks):
        lane, part = Lane("rank", rank, 0), 2 if rank == slow else 1
        clock = 1_000_000
        slices.append(Slice(lane, "call", "MPI_Barrier", clock, clock + 50, _call("world", ranks, 0)))
        for number in range(1, repetitions + 1):
            clock += 100_000 * part
            args = _call(f"row{rank // 2}", 2, 4096) | {"request": number}
            slices.append(Slice(lane, "call", "MPI_Ialltoall", clock, clock + 1000, args))
            clock += 1000 + 500_000 * part
            found = {"requests": 1, "collected": [number]}
            slices.append(Slice(lane, "completion", "MPI_Wait", clock, clock + 30_000, found))
            clock += 30_000
    return Timeline({"ranks": ranks}, [], slices, [], [])


def _call(group: str, size: int, count: int) -> dict[str, object]:
    return {"bytes": count, "group": group, "communicator": group, "size": size, "offloaded": False}


def test_a_trace_is_taken_apart_into_what_repeats() -> None:
    found = rebuild.rebuild(_trace(4, 6, slow=3), "t")
    assert found.repetitions == 6
    assert list(found.base.steps) == [
        {"work_us": 100.0},
        {"post": "ialltoall", "communicator": "rows", "bytes": 2048, "request": "1"},
        {"work_us": 500.0},
        {"wait": ["1"]},
    ]
    assert found.base.work_of_rank == [1.0, 1.0, 1.0, pytest.approx(2.0, abs=0.01)]


def test_work_that_was_traced_on_too_few_cores_is_said() -> None:
    traced = _trace(4, 6, slow=3)
    for cores, said in ((0, False), (2, True), (4, False)):
        traced.about["cores"] = cores
        notes = rebuild.rebuild(traced, "t").notes
        assert any("4 ranks had 2 cores" in note for note in notes) == said


def test_a_trace_for_more_ranks() -> None:
    found = rebuild.rebuild(_trace(4, 3, slow=9), "t")
    weak, strong = (rebuild.scaled(found, 16, strong=strong) for strong in (False, True))
    assert [step["bytes"] for step in (*weak.steps, *strong.steps) if "post" in step] == [1024, 256]
    assert [round(made.work_us(), 3) for made in (weak, strong)] == [600.0, 150.0]


def test_a_trace_without_collectives_is_refused() -> None:
    with pytest.raises(UserError, match="no collective was called"):
        rebuild.rebuild(Timeline({"ranks": 2}, [], [], [], []), "t")


def test_names_of_calls() -> None:
    assert rebuild.collective_of("MPI_Ialltoall") == ("ialltoall", False)
    assert rebuild.collective_of("MPI_Ineighbor_alltoallw") == ("ineighbor_alltoallw", False)
    assert rebuild.collective_of("MPI_Allreduce") == ("iallreduce", True)
    assert rebuild.collective_of("MPI_Start: MPI_Alltoall_init") == ("ialltoall", False)


def test_what_if_changes_one_number_and_keeps_the_rest() -> None:
    before = clusters.read(DPU)
    after = clusters.with_settings(before, ["network.link=400Gbit/s", "host.cores=64"])
    assert after.data["network"]["link"] == "400Gbit/s"
    assert after.cores == 64
    rest = {key: value for key, value in after.data["network"].items() if key != "link"}
    assert rest == {key: value for key, value in before.data["network"].items() if key != "link"}
    with pytest.raises(UserError, match=r"no table \[netz\]"):
        clusters.with_settings(before, ["netz.link=1Gbit/s"])


def test_numbers_are_drawn_from_the_stated_intervals() -> None:
    text = clusters.read(DPU).text + '\n[confidence]\n"network.hop" = ["100 ns", "0.3 us"]\n'
    stated = ClusterFile("c.toml", text)
    drawn = [clusters.drawn(stated, seed) for seed in (1, 2, 2, 3)]
    hops = [float(one.data["network"]["hop"].split()[0]) for one in drawn[1:]]
    assert "confidence" not in drawn[0].data
    assert drawn[0].data == clusters.read(DPU).data
    assert hops[0] == hops[1] != hops[2]
    assert all(100 <= hop <= 300 for hop in hops)


@pytest.mark.parametrize(
    ("number", "text"),
    [(16408431.7, "16408400"), (0.25, "0.25"), (1e6, "1000000"), (3.00000001, "3"), (2e-5, "0.00002")],
)
def test_numbers_are_written_without_exponents(number: float, text: str) -> None:
    assert clusters.decimal(number) == text


def _times(lane: str, steps_us: list[float]) -> list[Times]:
    return [Times(lane, seed, step_us, 50, step_us - 50, 0) for seed, step_us in enumerate(steps_us)]


def _figures(offloaded: list[float], factor: float = 1.0) -> Figures:
    figures, job = Figures(), Job(4, 128)
    ways = (Setup(NONBLOCKING), Setup(OFFLOADED, "host_core", 2))
    for way, times in zip(ways, ([100.0] * len(offloaded), offloaded), strict=True):
        figures.times[job, way] = _times(way.lane, times)
        figures.factors[job, way] = factor if way.services else 1.0
    return figures


def test_the_advice_is_a_sentence_with_its_range() -> None:
    assert advice.sentences(_figures([82, 76, 88], 32 / 30), [32]) == [
        "On 4 nodes: two service processes a node on host cores: 18 % (12 to 24 %) faster than its own MPI by "
        "nonblocking calls; two cores of 32 cost 7 % of the work, which is included."
    ]
    assert advice.sentences(_figures([95, 101, 94]), [32]) == [
        "On 4 nodes: its own MPI by nonblocking calls: two service processes a node on host cores may be "
        "5 % (-1 to 6 %) faster, which not every seed shows."
    ]
    assert "would gain nothing measurable" in advice.sentences(_figures([100, 100, 100]), [32])[0]
    assert "would be slower, as it saves 20 % of their time" in advice.sentences(_figures([125, 125]), [32])[0]


@pytest.mark.parametrize(
    ("blocking", "way"), [([95, 94, 93], BLOCKING), ([99.5] * 3, NONBLOCKING), ([95, 94, 101], NONBLOCKING)]
)
def test_a_program_is_left_as_it_is_unless_a_change_surely_pays(blocking: list[float], way: str) -> None:
    figures = _figures([120, 120, 120])
    (job,) = figures.jobs()
    figures.times[job, Setup(BLOCKING)] = _times(BLOCKING, blocking)
    figures.factors[job, Setup(BLOCKING)] = 1.0
    (advised,) = advice.as_written(figures)
    assert (advised["way"], advised["sure"]) == (way, True)


def test_the_range_says_what_it_is_made_of() -> None:
    assert "no intervals" in advice.uncertainty(5, True, [])
    assert "for 2 of its numbers" in advice.uncertainty(5, False, ["a.b", "c.d"])
    assert "the certainty is unknown" in advice.uncertainty(1, True, [])


def _predict(*words: str | Path) -> str:
    done = typed(["lab", "predict", *map(str, words)], columns=130)
    assert done.exit_code == 0, done.output + str(done.exception)
    return done.output


def test_a_study_is_repeated_with_the_same_figures(built: Artifacts, tmp_path: Path) -> None:
    study = tmp_path / "study"
    asked = ("ialltoall:64KiB,work=2ms", "--cluster", HOST, "--nodes", "2,4", "--ranks-per-node", "4", "--seeds", "2")
    output = _predict(*asked, "--services", "1,2", "--save", study, "--json", tmp_path / "f.json",
                      "--plot", tmp_path / "p.png", "--build", built.root)  # fmt: skip
    assert "offloaded, 2 on host cores" in output
    figures = json.loads((tmp_path / "f.json").read_text())
    assert {one["way"] for one in figures["configurations"]} == set(LANES)
    assert len(figures["configurations"]) == 2 * (3 + 2 * 2)
    assert (tmp_path / "p.png").stat().st_size > 10_000
    assert "The same figures as the study's." in _predict("--repeat", study, "--build", built.root)
    changed = (study / "cluster-0.toml").read_text().replace('link = "', 'link = "9')
    (study / "cluster-0.toml").write_text(changed)
    other = typed(["lab", "predict", "--repeat", str(study), "--build", str(built.root)])
    assert other.exit_code == 1
    assert "The figures differ from the study's." in other.output


def test_a_faster_link_helps_where_the_link_is_the_limit(built: Artifacts, tmp_path: Path) -> None:
    def step_us(*words: str) -> float:
        file = tmp_path / "f.json"
        _predict("ialltoall:4MiB,work=1ms", "--cluster", DPU, "--nodes", "4", "--ranks-per-node", "2", "--seeds", "1",
                 "--placement", "none", "--json", file, "--build", built.root, *words)  # fmt: skip
        return min(one["step_us"] for one in json.loads(file.read_text())["configurations"])

    slow, fast = step_us("--set", "network.link=10Gbit/s"), step_us("--set", "network.link=40Gbit/s")
    assert 3 < (slow - 1000) / (fast - 1000) < 5
