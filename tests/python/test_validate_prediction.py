"""Measurements that predictions are held against (bench/validate_prediction.py), and the files of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench import validate_prediction as validate

from outrigger import artifacts
from outrigger.calibrate import model
from outrigger.calibrate.readings import Cell, Measured, Readings, Times
from outrigger.errors import UserError

KEPT = sorted((validate.PROJECT / "bench" / "predictions").glob("*.csv"))
MOST_LINES = 1500


def cell(algorithm: str, size: int) -> Cell:
    return Cell("ialltoall", size, 1, 4, 1, algorithm)


def times(native: float, offloaded: float) -> Times:
    return Times(1.0, native, native, offloaded, offloaded)


def compared(
    algorithm: str,
    size: int,
    measured: tuple[float, float],
    predicted: tuple[float, float],
    sure_against: frozenset[str] = frozenset(),
) -> validate.Compared:
    """Native and offloaded totals."""
    return validate.Compared(validate.Row(cell(algorithm, size), times(*measured), sure_against), times(*predicted))


def readings(cells: list[Measured]) -> Readings:
    return Readings(machine="m", mpi="Open MPI", date="2026-11-27", command="a, b", cells=cells)


def rounds(algorithm: str, size: int, *totals: tuple[float, float]) -> Measured:
    return Measured(cell(algorithm, size), tuple(times(*both) for both in totals))


def test_errors_orders_and_crossovers() -> None:
    cells = [
        compared("ring_pull", 1024, (100, 200), (110, 180)),  # right
        compared("ring_pull", 4096, (200, 100), (200, 150)),  # right
        compared("scatter_dest", 1024, (100, 300), (100, 90)),  # wrong, and it is slower than ring_pull: wrong
        compared("scatter_dest", 4096, (200, 101), (200, 101)),  # right; as fast as ring_pull: no order
    ]
    found = validate.judge(cells)
    assert (found.pairs, found.pairs_right) == (5, 3)
    assert found.errors["native total"] == pytest.approx(0.0)
    assert found.errors["offloaded total"] == pytest.approx((0.1 + 0.5) / 2)
    assert found.errors["both totals"] == pytest.approx((0.0 + 0.1) / 2)
    by_name = {one.what: one for one in found.crossovers}
    first = by_name["ialltoall by ring_pull, 1 x 4 ranks"]
    assert first.measured_bytes == pytest.approx(2048)
    assert first.octaves is not None
    assert 0 < first.octaves < 0.5
    always = by_name["ialltoall by scatter_dest, 1 x 4 ranks"]
    assert always.predicted_bytes == 1024  # from the smallest on
    assert always.octaves is not None
    assert always.octaves > 1
    assert (len(found.crossovers), found.crossovers_near) == (2, 1)
    assert validate.crossing([(1024, -0.1), (4096, 0.2)]) is None  # what pays for short ones only is no "from there on"


def test_half_the_time_is_as_far_off_as_double() -> None:
    found = validate.judge([compared("flat", 1024, (100, 100), (50, 200))])
    assert found.errors["both totals"] == pytest.approx(1.0)
    assert (found.errors["native total"], found.errors["offloaded total"]) == pytest.approx((0.5, 1.0))


def test_an_order_counts_as_sure_that_each_round_has_had() -> None:
    kept = rounds("ring_pull", 1024, (100, 190), (100, 210))
    lost = rounds("ring_pull", 4096, (100, 90), (100, 310))
    other = rounds("scatter_dest", 1024, (100, 205), (100, 250))  # slower than ring_pull in both rounds
    crossing = rounds("flat", 1024, (100, 180), (100, 300))  # not always slower than either
    rows = {
        (row.cell.algorithm, row.cell.bytes): row
        for row in validate.set_of("box", "x", [readings([kept, lost, other, crossing])]).rows
    }
    assert rows["ring_pull", 1024].sure_against == {"native", "scatter_dest"}
    assert rows["scatter_dest", 1024].sure_against == {"native", "ring_pull"}
    assert rows["flat", 1024].sure_against == {"native"}
    assert rows["ring_pull", 4096].sure_against == set()
    chosen = [rows["ring_pull", 1024], rows["ring_pull", 4096], rows["scatter_dest", 1024]]
    said = [times(110, 180), times(200, 100), times(110, 150)]
    found = validate.judge([validate.Compared(row, one) for row, one in zip(chosen, said, strict=True)])
    assert (found.pairs, found.pairs_right) == (4, 2)  # ring_pull of 1024 and of scatter_dest with native
    assert (found.sure_pairs, found.sure_pairs_right) == (3, 2)  # not ring_pull of 4096 with native


def test_noise_is_how_far_half_of_the_rounds_are_from_the_other_half() -> None:
    often = rounds("ring_pull", 1024, (100, 80), (110, 120), (120, 80))  # 110, 80 and 110, 120
    once = rounds("ring_pull", 4096, (200, 100))
    noise = validate.noise_percent([often, once])
    assert noise == pytest.approx(100 * (0 + 40 / 120) / 2)
    assert validate.noise_percent([once]) is None


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    measured = [rounds("ring_pull", 1024, (100.25, 190.5), (100, 210.01)), rounds("flat", 1024, (1e5, 2), (1e5, 1))]
    kept = validate.set_of("box", "spring", [readings(measured)])
    file = tmp_path / "a.csv"
    file.write_text(validate.text_of(kept))
    read = validate.read(file)
    assert read == kept
    assert read.rows[0].times.offloaded_total_us == pytest.approx(200.255)
    assert read.about["command"] == "a, b"
    assert read.about["rounds"] == "2"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("# set: spring\n", ""), "the header has no line '# set: ...'"),
        (("bytes", "size"), "the columns are collective,size"),
        (("1024", "1 KiB"), r"a.csv:9: ialltoall,1 KiB.*invalid literal"),
        (("1024,1,4,1,", "1024,1,4,"), r"a.csv:9: "),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    text = validate.text_of(validate.set_of("box", "spring", [readings([rounds("flat", 1024, (1, 2), (1, 3))])]))
    assert change[0] in text
    file = tmp_path / "a.csv"
    file.write_text(text.replace(*change))
    with pytest.raises(UserError, match=said):
        validate.read(file)


def test_the_kept_files_are_few_and_of_known_sites() -> None:
    assert KEPT
    assert sum(len(path.read_text().splitlines()) for path in KEPT) <= MOST_LINES
    for path in KEPT:
        kept = validate.read(path)
        assert path.name == f"{kept.about['site']}-{kept.about['set']}.csv"
        assert (validate.PROJECT / validate.site_of(kept.about["site"]).cluster).exists()
        assert kept.rows


def test_sites_that_are_none_are_named() -> None:
    with pytest.raises(UserError, match="there is no site moon; the sites are box, "):
        validate.site_of("moon")


def test_the_model_comes_near_to_what_has_calibrated_it() -> None:
    kept = validate.read(validate.PROJECT / "bench" / "predictions" / "box-node-calibration.csv")
    simulator = model.simulator_of(artifacts.find())
    verdict = validate.compare(kept, simulator, validate.PROJECT / validate.site_of("box-node").cluster)
    assert verdict.errors["both totals"] < 0.15
    assert verdict.sure_pairs_right >= 0.9 * verdict.sure_pairs
    assert "| box-node | calibration | 12 |" in validate.table_of([(kept, verdict)])
