"""Compares the figures of papers with the model (bench/papers)."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from bench.papers import compare, plot, points, quantities, table
from bench.papers.points import Point
from bench.papers.runs import CLUSTERS, Outcome, Run, Runs, Side, changed_cluster

from outrigger import artifacts
from outrigger.errors import UserError


def point(quantity: str, at_least: float | None, at_most: float | None) -> Point:
    return Point("p", "paper", "where", "states", quantity, "held_out", at_least, at_most)


def simulator() -> Path:
    return artifacts.find().programs / "outrigger-sim"


def test_every_point_can_be_run_or_says_why_not() -> None:
    read, memory = points.read()
    assert {entry.use for entry in read} == set(points.USES)
    for entry in read:
        if entry.use == "not_modelled":
            assert entry.why, entry.id
            continue
        assert (CLUSTERS / f"{entry.cluster}.toml").exists(), entry.id
        assert entry.key or quantities.needed(entry, memory), entry.id


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("value = 1.16", "valu = 1.16"), "point graham-latency: it states nothing"),
        (('use = "calibrate"\ncluster', 'use = "fit"\ncluster'), "use = 'fit' is none of calibrate"),
        (("ranks_per_node = 32", "ranks_per_node = 0"), "ranks_per_node = 0: one at least"),
        (('sizes = ["32 KiB"]', 'sizes = ["32 kb"]'), "'32 kb' is no size"),
        (('mapping = "strided"', 'mappings = "strided"'), "'mappings' is not a key of it"),
        (('id = "graham-host-bandwidth"', 'id = "graham-latency"'), "two points are 'graham-latency'"),
    ],
)
def test_a_wrong_field_is_named(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    text = points.POINTS.read_text(encoding="ascii")
    assert change[0] in text
    wrong = tmp_path / "points.toml"
    wrong.write_text(text.replace(*change, 1), encoding="ascii")
    with pytest.raises(UserError, match=said):
        points.read(wrong)


def test_errors_are_distances_to_what_is_stated() -> None:
    assert table.Comparison(point("overlap_percent", 99.0, None), 100.0).error == 0
    under = table.Comparison(point("overlap_percent", 99.0, None), 95.0)
    assert (under.error, under.is_in) == (-4, False)
    ratio = table.Comparison(point("latency_ratio", 2.0, 2.0), 2.19)
    assert ratio.is_in
    assert ratio.error_text == "+9.5 %"
    assert table.Comparison(point("best_services", 4.0, 4.0), 2.0).is_in
    assert not table.Comparison(point("best_services", 4.0, 4.0), 1.0).is_in
    assert table.Comparison(point("crossover_kib", 64.0, 512.0), 33.0).is_in
    none = table.Comparison(point("crossover_kib", 64.0, 512.0), None)
    assert (none.error, none.is_in, none.predicted) == (None, False, "none")
    assert table.Comparison(point("total_gain_percent", None, 0.0), -12.34).stated == "at most 0 %"


def test_numbers_have_three_digits() -> None:
    assert table.with_unit(12.375, "bandwidth_gb_per_s") == "12.4 GB/s"
    assert table.with_unit(100.0, "overlap_percent") == "100 %"
    assert table.with_unit(-1234.5, "overlap_percent") == "-1234 %"
    assert table.with_unit(4.0, "best_services") == "4"


def test_quantities_of_hand_made_runs() -> None:
    native, offloaded = Side(100, 90, 190), Side(200, 10, 210)
    assert quantities.overlap_percent(native) == pytest.approx(10)
    assert quantities.overlap_percent(offloaded) == pytest.approx(95)
    assert quantities.overlap_percent(Side(100, 150, 250)) == 0
    assert quantities.total_gain_percent(Outcome(native, offloaded)) == pytest.approx(-10.526, abs=1e-3)
    assert quantities.latency_ratio(Outcome(native, offloaded)) == 0.5
    assert quantities.enough_services([(1, 200), (2, 120), (4, 105), (8, 100)]) == 4
    assert quantities.crossover_bytes([(1024, 2.0), (4096, 0.5)]) == pytest.approx(2048)
    assert quantities.crossover_bytes([(1024, 0.9), (4096, 0.5)]) is None
    assert quantities.communication_us([native, offloaded], 4) == 3 * 100 + 300


def test_a_pass_of_an_fft_is_as_long_as_memory_takes() -> None:
    fft = points.Fft((1024,), 32, 32, 4, 4, 8, "linear", "ring_pull")
    # 256 MiB a node, four times, at 70 % of 153.6 GB/s
    us = quantities.pass_us("graham2024-bluefield3", fft, 1024, points.Memory(4, 0.7))
    assert us == pytest.approx(4 * 2**28 / (0.7 * 153.6e9) * 1e6)


def test_a_changed_cluster_differs_in_what_is_changed() -> None:
    before = tomllib.loads(changed_cluster("thor-bluefield2", {}))
    assert before == tomllib.loads((CLUSTERS / "thor-bluefield2.toml").read_text(encoding="ascii"))
    after = tomllib.loads(changed_cluster("thor-bluefield2", {"network.link": "1 Gbit/s"}))
    assert after["network"].pop("link") == "1 Gbit/s"
    before["network"].pop("link")
    assert after == before
    with pytest.raises(UserError, match=r"there is no network\.speed to set"):
        changed_cluster("thor-bluefield2", {"network.speed": "1 Gbit/s"})


def test_what_calibrates_is_what_the_model_gives(tmp_path: Path) -> None:
    """And a cheap held-out point goes all the way to the picture."""
    known = [entry for entry in points.read()[0] if entry.use == "calibrate"]
    known += compare.chosen(points.read()[0], ["sarkauskas-allgather-flat-latency"])
    kept = tmp_path / "kept.json"
    compared = compare.compare(known, Runs(simulator(), kept), 2)
    assert [entry.point.id for entry in compared if not entry.is_in and entry.point.use == "calibrate"] == []
    no_simulator = tmp_path / "no simulator"
    assert compare.compare(known, Runs(no_simulator, kept), 1) == compared
    assert compare.compare(known, Runs(no_simulator, None), 0) == [c for c in compared if c.point.key]
    plot.save(compared, tmp_path / "papers.png")
    assert (tmp_path / "papers.png").stat().st_size > 10_000
    page = compare.rewritten(
        f"before {compare.BEGIN}old{compare.END} after", compare.page_text(points.read()[0], compared)
    )
    assert page.startswith("before ")
    assert page.endswith(" after")
    assert "old" not in page
    assert page.count("| calibrated |") == 6
    assert "Not run yet: `graham-alltoall-overlap`, " in page
    assert "* `graham-octopus` (Octopus: 24 %" in page


def test_what_the_simulator_refuses_is_said() -> None:
    with pytest.raises(UserError, match="services: 3 does not divide 4"):
        Runs(simulator(), None).do([Run("thor-bluefield2", "ibcast", 8, 2, 4, 3)], 1)
