"""Tests of `outrigger lab tune` with measured ratios: rules, their ranges, the file, the picture, kept results."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from outrigger import selection, tables
from outrigger.artifacts import Artifacts
from outrigger.bench.figures import Configuration, Side
from outrigger.errors import UserError
from outrigger.tune import plot, rules, table_file
from outrigger.tune.figures import BUILT_IN, NATIVE, Figures, best_of
from outrigger.tune.measuring import Lane, Measuring, lanes_of
from outrigger.tune.rules import Rule

K = 1024
ORIGIN = table_file.Origin(
    "a machine, 2 cores", "Open MPI 4.1.4", 2, 1, "malloc", "2026-11-25", "outrigger lab tune -n 2"
)
BETTER, SAME, NOISY, WORSE = (0.7, 0.72, 0.69), (1.0, 1.01, 0.99), (0.5, 1.5, 0.9), (1.3, 1.32, 1.29)


def figures(measured: Mapping[str, Mapping[int, Mapping[str, Sequence[float]]]]) -> Figures:
    """Ratios of each round, by collective, size and what served it."""
    made = Figures()
    for collective, sizes in measured.items():
        for size, by in sizes.items():
            for name, ratios in by.items():
                for ratio in ratios:
                    made.add(collective, size, name, ratio, 100.0)
    return made


def alltoall(by_size: Mapping[int, tuple[Sequence[float], Sequence[float]]]) -> Figures:
    """The built-in table and one algorithm."""
    return figures({"ialltoall": {size: {BUILT_IN: one, "ring_pull": two} for size, (one, two) in by_size.items()}})


def made_of(built: Artifacts, measured: Figures) -> list[Rule]:
    return rules.make(measured, tables.read(built).collectives)


def bytes_of(found: Sequence[Rule]) -> list[tuple[str, str]]:
    return [(rule.bytes_text, rule.algorithm) for rule in found]


@pytest.mark.parametrize(
    ("built_in", "algorithm", "chosen"),
    [
        (SAME, BETTER, "ring_pull"),
        (SAME, NOISY, None),
        (NOISY, BETTER, None),
        (WORSE, SAME, NATIVE),
        (WORSE, BETTER, "ring_pull"),
        (BETTER, BETTER, None),
        (BETTER, WORSE, None),
        (SAME, (0.985, 0.986, 0.987), None),  # sure, but less than 2%
        (WORSE[:2], BETTER[:2], None),  # two rounds tell no noise
        (WORSE, (1.1, 1.12, 1.11), NATIVE),  # better than the table, worse than native
    ],
)
def test_what_is_chosen(built_in: Sequence[float], algorithm: Sequence[float], chosen: str | None) -> None:
    assert best_of(alltoall({K: (built_in, algorithm)}).bands("ialltoall", K)) == chosen


def test_without_the_built_in_table_nothing_is_chosen() -> None:
    assert best_of(figures({"ialltoall": {K: {"ring_pull": BETTER}}}).bands("ialltoall", K)) is None


def test_neighbours_with_the_same_choice_are_one_rule(built: Artifacts) -> None:
    measured = alltoall(
        {4 * K: (WORSE, WORSE), 16 * K: (WORSE, WORSE), 64 * K: (SAME, BETTER), 256 * K: (SAME, BETTER)}
    )
    found = made_of(built, measured)
    assert bytes_of(found) == [("-32K", NATIVE), ("32K-", "ring_pull")]
    assert [size for size, _ in found[1].measured] == [64 * K, 256 * K]


def test_a_size_inside_noise_parts_two_rules(built: Artifacts) -> None:
    measured = alltoall({4 * K: (SAME, BETTER), 16 * K: (SAME, NOISY), 64 * K: (SAME, BETTER), 256 * K: (SAME, SAME)})
    assert bytes_of(made_of(built, measured)) == [("4K-8K", "ring_pull"), ("32K-128K", "ring_pull")]


def test_an_algorithm_is_not_taken_for_smaller_blocks_than_measured(built: Artifacts) -> None:
    assert bytes_of(made_of(built, alltoall({16 * K: (SAME, BETTER)}))) == [("16K-", "ring_pull")]
    assert bytes_of(made_of(built, alltoall({16 * K: (WORSE, WORSE)}))) == [("", NATIVE)]


@pytest.mark.parametrize("smaller", [1, 8, 300, 1024, 16 * K, 40000])
def test_bounds_lie_between_their_sizes(smaller: int) -> None:
    for larger in (smaller * 2, smaller * 4):
        for way in (0.0, 0.2, 0.5):
            assert smaller <= rules.between(smaller, larger, way) <= larger
            assert smaller <= rules.between(larger, smaller, way) <= larger
        assert rules.between(smaller, larger, 0.0) in range(smaller - 128, smaller + 129)


def test_an_algorithm_does_not_reach_where_it_would_be_worse(built: Artifacts) -> None:
    """It takes 0.7 of the table's time at 16 KiB and twice as much at 4 KiB: as much at a third of the way."""
    found = made_of(built, alltoall({4 * K: (SAME, (2.0, 2.01, 2.02)), 16 * K: (SAME, BETTER)}))
    (rule,) = found
    assert rule.algorithm == "ring_pull" and rule.low is not None and 9 * K < rule.low < 11 * K


def test_where_bytes_decide_nothing_all_sizes_are_one_rule(built: Artifacts) -> None:
    measured = figures(
        {
            "ialltoallv": {size: {BUILT_IN: WORSE, "scatter_dest": BETTER} for size in (K, 64 * K)},
            "iallgatherv": {K: {BUILT_IN: SAME, "flat": BETTER}, 64 * K: {BUILT_IN: SAME, "flat": (1.4, 1.41, 1.42)}},
        }
    )
    assert [(rule.collective, *bytes_of([rule])[0]) for rule in made_of(built, measured)] == [
        ("ialltoallv", "", "scatter_dest")
    ]


def words_of(built: Artifacts, path: Path, measured: Figures, origin: table_file.Origin = ORIGIN) -> tuple[str, ...]:
    table_file.write(table_file.text_of(made_of(built, measured), measured, origin, path), path)
    return selection.words(built, [str(path)])


def test_the_file_is_read_back_as_rules(built: Artifacts, tmp_path: Path) -> None:
    measured = alltoall({4 * K: (WORSE, WORSE), 64 * K: (SAME, BETTER)})
    path = tmp_path / "table.toml"
    assert words_of(built, path, measured) == ("ialltoall:n1:b0-16384=native", "ialltoall:n1:b16384-=ring_pull")
    text = path.read_text(encoding="utf-8")
    for word in ("a machine, 2 cores", "Open MPI 4.1.4", "2026-11-25", "outrigger lab tune -n 2", "3 rounds"):
        assert word in text
    assert "# 64K: built-in 1.00 (0.97-1.03), ring_pull 0.70 (0.66-0.75)\n[[rule]]" in text
    assert max(map(len, text.replace(str(tmp_path), "").splitlines())) <= 120


def test_rules_of_many_nodes_are_for_many_nodes(built: Artifacts, tmp_path: Path) -> None:
    from dataclasses import replace

    measured = alltoall({64 * K: (SAME, BETTER)})
    many = replace(ORIGIN, nodes=4)
    assert words_of(built, tmp_path / "t.toml", measured, many) == ("ialltoall:n2-:b65536-=ring_pull",)


def test_a_file_without_rules_can_be_used_too(built: Artifacts, tmp_path: Path) -> None:
    assert words_of(built, tmp_path / "t.toml", alltoall({64 * K: (SAME, NOISY)})) == ("auto",)


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="-o"):
        table_file.write("text", tmp_path / "nowhere" / "t.toml")
    assert not list(tmp_path.iterdir())


def test_lanes_are_the_table_and_every_algorithm(built: Artifacts) -> None:
    names = [str(lane) for lane in lanes_of(["ialltoall", "ibcast"], tables.read(built).collectives)]
    assert names[:3] == ["ialltoall built-in", "ialltoall ring_pull", "ialltoall scatter_dest"]
    assert "ibcast built-in" in names and "ibcast hierarchical" in names


def configuration(collective: str, size: int, ratio: float) -> Configuration:
    native, offloaded = (Side(10.0, total, 1.0, 0.0, 1.0) for total in (100.0, 100.0 * ratio))
    return Configuration(collective, "malloc", size, 2, 10, 100, 50.0, native, offloaded)


class Runs:
    """Takes note of what is run; the lane that is told to ends otherwise."""

    def __init__(self, ends: Mapping[str, type[BaseException]] | None = None, after: int = 0) -> None:
        self.made: list[str] = []
        self._ends, self._after = ends or {}, after

    def __call__(self, lane: Lane, limit_s: float) -> list[Configuration]:
        self.made.append(str(lane))
        assert limit_s > 0
        if str(lane) in self._ends and len(self.made) > self._after:
            raise self._ends[str(lane)]("it went wrong")
        return [configuration(lane.collective, K, 0.9)]


LANES = [Lane("ialltoall", BUILT_IN), Lane("ialltoall", "ring_pull")]


def measured_by(runs: Runs, *, rounds: int = 3, budget_s: float = 100.0) -> Measuring:
    measuring = Measuring(LANES, runs, lambda *_: None, rounds=rounds, budget_s=budget_s)
    measuring.measure()
    return measuring


def test_rounds_are_interleaved_and_turned_round() -> None:
    runs = Runs()
    found = measured_by(runs)
    one, other = map(str, LANES)
    assert runs.made == [one, other, other, one, one, other] and found.complete
    assert found.figures.ratios["ialltoall"][K]["ring_pull"] == pytest.approx([0.9] * 3)


def test_an_interrupt_keeps_what_was_measured() -> None:
    found = measured_by(Runs({str(LANES[1]): KeyboardInterrupt}, after=2))
    assert found.interrupted and not found.complete
    assert found.figures.rounds == 1 and set(found.figures.ratios["ialltoall"][K]) == {BUILT_IN, "ring_pull"}


def test_what_cannot_be_measured_is_left_out_and_said() -> None:
    runs = Runs({str(LANES[1]): UserError})
    found = measured_by(runs)
    assert found.failed == {LANES[1]: "it went wrong"} and runs.made.count(str(LANES[1])) == 1
    assert found.figures.rounds == 3


def test_the_budget_ends_it() -> None:
    found = measured_by(Runs(), rounds=1000, budget_s=0.0)
    assert not found.complete and found.figures.rounds <= 1


def test_the_picture_has_every_lane_and_what_is_chosen(built: Artifacts, tmp_path: Path, drawn: list[Figure]) -> None:
    measured = alltoall({4 * K: (WORSE, WORSE), 64 * K: (SAME, BETTER), 256 * K: (SAME, BETTER)})
    for size in (4 * K, 64 * K):
        for name, ratios in ((BUILT_IN, SAME), ("flat", NOISY)):
            for ratio in ratios:
                measured.add("ibcast", size, name, ratio, 1.0)
    path = tmp_path / "t.svg"
    plot.save(measured, made_of(built, measured), path, "a heading")
    assert path.stat().st_size > 1000
    (figure,) = drawn
    (legend,) = figure.legends
    assert {text.get_text() for text in legend.get_texts()} == {BUILT_IN, "ring_pull", NATIVE, "flat"}
    bars = [text.get_text() for text in figure.axes[0].texts]
    assert bars == [NATIVE, "ring_pull"]
    assert [text.get_text() for text in figure.axes[1].texts] == [BUILT_IN]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-o", "table.txt"), "table.txt"),
        (("-o", "nowhere/table.toml"), "no directory"),
        (("--plot", "t.doc"), "--plot t.doc"),
        (("--budget", "soon"), "--budget soon"),
        (("ialltoallx",), "ialltoallx"),
        (("--sizes", "many"), "many"),
        (("--memory", "malloc,alloc_mem"), "--memory"),
        (("--mpi", "lam"), "lam"),
    ],
)
def test_what_cannot_be_is_said(
    words: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    command = [sys.executable, "-m", "outrigger", "lab", "tune", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and message in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1 and not list(tmp_path.iterdir())
