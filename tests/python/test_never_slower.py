"""Is it ever slower with Outrigger: statistics, names, table, picture, a run with a made-up mpirun, wrong options."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from typed import typed

from outrigger import formats
from outrigger.artifacts import Artifacts
from outrigger.bench import never_slower, never_slower_plot, never_slower_sites, never_slower_table
from outrigger.bench.never_slower_cells import Cell, Elapsed, Grid, Line, make_cell, ratio_of, read, read_lines
from outrigger.bench.never_slower_sites import Sites
from outrigger.errors import UserError
from outrigger.mpis import Mpi
from outrigger.settings import Settings


def rounds(middle: float, seed: int, spread: float = 0.05, count: int = 60) -> tuple[float, ...]:
    """With some that were disturbed."""
    chance = random.Random(seed)
    return tuple(
        middle * chance.gauss(1, spread) * (chance.uniform(2, 5) if chance.random() < 0.1 else 1) for _ in range(count)
    )


def elapsed(ratio: float, seed: int = 1, spread: float = 0.05) -> Elapsed:
    return Elapsed(*(rounds(middle, seed + i, spread) for i, middle in enumerate((100, 100 * ratio, 100))))


def line(ratio: float, *, collective: str = "ialltoall", size: int = 64, seed: int = 1, spread: float = 0.05) -> Line:
    pure = elapsed(ratio, seed, spread)
    total = elapsed(ratio, seed + 10, spread) if collective.startswith("i") else None
    return Line(collective, size, 2, 1000, pure, total)


def cell(
    *ratios: float, placement: str = "extra", spread: float = 0.005, mpi: str = "MPICH 4.0.2", **of: object
) -> Cell:
    lines = [line(ratio, seed=100 * i, spread=spread, **of) for i, ratio in enumerate(ratios)]  # type: ignore[arg-type]
    return make_cell(mpi, placement, [(one, one) for one in lines])


def grid(*cells: Cell, **other: object) -> Grid:
    made = Grid(
        1, "outrigger bench never-slower", "host", 2, "2026-01-01", 900.0, 10.0, True, ("ialltoall", "alltoall"),
        (64, 1 << 20), {"extra": "a core extra", "shared": "no core free"}, cells,
    )  # fmt: skip
    return replace(made, **other)  # type: ignore[arg-type]


@pytest.mark.parametrize("ratio", [0.5, 1.0, 1.5])
def test_a_band_holds_the_true_ratio(ratio: float) -> None:
    """At least 38 of 40 cells with noise of 5 % and disturbed rounds have a band with the true ratio."""
    held = 0
    for seed in range(40):
        found = ratio_of([(elapsed(ratio, seed * 7).native, elapsed(ratio, seed * 7).offloaded)])
        assert found.low <= found.ratio <= found.high < ratio * 1.15
        held += found.low <= ratio <= found.high
    assert held >= 38


def test_the_same_figures_give_the_same_band() -> None:
    sides = [(rounds(1, 1), rounds(2, 2))]
    assert ratio_of(sides) == ratio_of(sides)


def test_the_band_holds_each_launch() -> None:
    found = ratio_of([(rounds(100, 1), rounds(100 * ratio, 2)) for ratio in (0.7, 1.0, 1.6)])
    assert found.low < 0.75 and found.high > 1.5 and found.ratio == pytest.approx(1.0, abs=0.05)
    assert found.rounds == 180


def test_sides_of_two_launches_may_have_other_numbers_of_rounds() -> None:
    found = ratio_of([(rounds(100, 1, count=30), rounds(120, 2, count=75))], paired=False)
    assert found.low < 1.2 < found.high and found.native_us == pytest.approx(100, rel=0.1)


def test_only_what_is_slower_beyond_noise_is_slower() -> None:
    assert cell(1.1, 1.12).is_slower
    assert not cell(1.1, 0.99).is_slower  # not in every launch
    assert not cell(1.01, 1.015).is_slower  # within the limit
    assert not cell(1.1, spread=0.9).is_slower  # within noise


def test_native_that_differs_from_native_is_noise() -> None:
    """Each side is steady, but native's second time is off by more than the offloaded side is."""
    steady = Elapsed((100.0,) * 40, (110.0,) * 40, (120.0,) * 40)
    one = Line("ialltoall", 64, 2, 1, steady, steady)
    found = make_cell("MPI", "extra", [(one, one)])
    assert found.floor.ratio == 1.2 and found.judged.ratio == 1.1
    assert not found.is_slower and found.judged.low < 1 < found.judged.high


def test_forms_that_block_are_judged_by_the_call() -> None:
    found = cell(1.3, collective="alltoall")
    assert found.total is None and found.judged is found.pure and found.is_slower


def test_lines_are_read_among_others() -> None:
    printed = formats.line_of(line(1.0)).decode()
    assert read_lines(f"a message\n{printed}{printed[:50]}")[0].key == ("ialltoall", 64)  # the last is not whole yet
    with pytest.raises(UserError, match="cannot be"):
        read_lines(formats.line_of(replace(line(1.0), pure=Elapsed((1.0,), (0.0,), (1.0,)))).decode())
    with pytest.raises(UserError, match="cannot be read"):
        read_lines('{"collective": "ialltoall"}\n')


def test_slower_cells_are_named_the_worst_first() -> None:
    found = grid(cell(1.2), cell(2.0, size=1 << 20), cell(0.5, placement="shared"))
    first, worst, second = never_slower_table.slower_lines(found)
    assert first.startswith("2 of 3 cells are slower")
    assert "MPICH 4.0.2, extra: MPI_Ialltoall 1M: 2.0" in worst and "MPI_Ialltoall 64: 1.2" in second
    assert never_slower.exit_code(found) == 1


def test_nothing_slower_is_said_too() -> None:
    found = grid(cell(0.9), cell(1.0, size=1 << 20))
    (said,) = never_slower_table.slower_lines(found)
    assert "No cell of 2 is slower" in said
    assert never_slower.exit_code(found) == 0
    assert never_slower.exit_code(replace(found, failures=("MPICH: died",))) == 3


def test_markdown_has_a_table_for_each_placement() -> None:
    text = never_slower_table.markdown(grid(cell(1.3), cell(0.5, placement="shared", collective="alltoall")))
    assert text.count("| collective | 64 | 1M |") == 2
    (slower,) = [row for row in text.splitlines() if row.startswith("| ialltoall | **")]
    assert slower.endswith("| - |") and "1.3" in slower
    assert "* MPICH 4.0.2, extra: MPI_Ialltoall 64" in text and "Noise floor" in text


def test_a_grid_is_read_back() -> None:
    found = grid(cell(1.3), cell(0.9, collective="alltoall"))
    assert read(formats.as_json(found), "it") == found


def test_the_picture_has_every_cell(tmp_path: Path, drawn: list[Figure]) -> None:
    slow, same = cell(1.5), cell(1.0, size=1 << 20)
    found = grid(slow, same, cell(0.5, placement="shared"), cell(0.7, mpi="Open MPI 4.1.4"))
    paths = never_slower_plot.save(found, tmp_path)
    assert [path.name for path in paths] == ["mpich-4.0.2.png", "open-mpi-4.1.4.png"]
    assert all(path.stat().st_size > 10_000 for path in paths)
    extra, shared = drawn[0].axes[:2]
    said = [text.get_text() for text in extra.texts]
    assert said == [
        f"▲ {slow.judged.ratio:.2f}", never_slower_table.band(slow),
        f"{same.judged.ratio:.2f}", never_slower_table.band(same),
    ]  # fmt: skip
    assert sum(bool(patch.get_hatch()) for patch in extra.patches) == 2  # alltoall was not measured
    assert shared.get_title(loc="left").startswith("shared (2 ranks)")


def test_colours_are_the_same_at_1_and_differ_beside_it() -> None:
    assert never_slower_plot._shade(1.0) == 0.5
    assert never_slower_plot._shade(0.8) + never_slower_plot._shade(1.25) == pytest.approx(1)
    assert (never_slower_plot._shade(0.1), never_slower_plot._shade(9)) == (0, 1)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["ialltoallx"], "collective 'ialltoallx'"),
        (["all", "ibcast"], "or all, alone"),
        (["--sizes", "1M:16K"], "ends before it begins"),
        (["--sizes", "1T"], "is not a size"),
        (["--sizes", "1G"], "--sizes: 1G is more than 256M"),
        (["--sizes", ",".join(map(str, range(1, 40)))], "39 sizes"),
        (["--placement", "moon"], "--placement 'moon': there are extra, equal, shared, alone, nodes, threads"),
        (["--type", "doubles"], "--type doubles: did you mean double?"),
        (["--budget", "soon"], "--budget soon: write a positive time"),
        (["--budget", "1s"], "--budget 1s: from 10s"),
        (["-n", "1"], "-n 1: at least 2 ranks are needed"),
        (["--mpi", "lam"], "--mpi 'lam'"),
        (["--from", "/nowhere.json"], "--from /nowhere.json: No such file"),
        (["ibcast", "--from", "/nowhere.json"], "allows only --out"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, words: list[str], complaint: str) -> None:
    result = typed(["bench", "never-slower", "--out", str(tmp_path), *words])
    assert isinstance(result.exception, UserError) and complaint in str(result.exception)


def test_one_core_is_too_few_for_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(never_slower_sites.cores, "allowed_cores", lambda: [(0, 1)])
    sites = Sites.make(None)
    assert sites.ranks == 2
    with pytest.raises(UserError, match="only one core may be used here; ask for shared, alone or nodes"):
        sites.check(["extra"])
    names, notes = sites.default()
    assert names == ("shared", "alone", "nodes") and "left out" in notes[0]


def test_alone_has_no_service_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(never_slower_sites.cores, "allowed_cores", lambda: [(0, 1), (1, 1)])
    mpich = Mpi("mpich", "4.0.2", Path("mpirun.mpich"), None)
    group = Sites.make(2).group(mpich, "alone", ["/bin/true"], Artifacts(Path()))
    assert group is not None and group.offloaded.settings.services == 0 and group.native is None


def test_the_median_of_all_cells_is_said() -> None:
    assert never_slower_table.median_line(grid(cell(0.5), cell(0.75, size=64), cell(2.0, size=128))) == (
        "Median of 3 cells: 0.75 of native's time."
    )


def test_settings_reach_the_measured_jobs_alone(tmp_path: Path) -> None:
    program = tmp_path / "prog"
    program.touch(0o755)
    mpi = Mpi("mpich", "4.0.2", tmp_path / "mpiexec", None)
    sites = Sites(2, ((0, 1), (1, 2)), Settings(intranode="on"))
    group = sites.group(mpi, "shared", (str(program),), Artifacts(tmp_path))
    assert group is not None and group.offloaded.settings.intranode == "on" and group.native is None
    result = typed(["bench", "never-slower", "--out", str(tmp_path), "--intranode", "maybe"])
    assert isinstance(result.exception, UserError) and "--intranode maybe: " in str(result.exception)


def test_no_mpi_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = typed(["bench", "never-slower", "--out", str(tmp_path)])
    assert "no MPI was found" in str(result.exception)


def test_a_whole_run(
    tmp_path: Path, write_programs: Callable[[Mapping[str, str]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an mpirun that is slow where native has a core more, and that fails between nodes; then drawn again."""
    placement = '{"version":1,"cores":[],"ranks":[],"services":[],"service_cpus":[]}'
    same, slow = (formats.line_of(line(ratio, spread=0.005)).decode().strip() for ratio in (1.0, 1.5))
    mpirun = f"""echo "nodes=$OUTRIGGER_PRETEND_NODES $*" >>"$0.called"
[ -z "$OUTRIGGER_PRETEND_NODES" ] || exit 7
case "$*" in *--preload*) echo '{slow}';; *) echo '{same}';; esac"""
    programs = {
        "bin/outriggerd": f"echo '{placement}'",
        "lib/liboutrigger-mpich.so": "",
        "bench/mpich/orbench": "",
        "mpirun": mpirun,
    }
    write_programs(programs)
    mpi = Mpi("mpich", "4.0.2", tmp_path / "mpirun", None)
    monkeypatch.setattr(never_slower.command, "choose_mpis", lambda _: [mpi])
    monkeypatch.setattr(never_slower_sites.cores, "allowed_cores", lambda: [(0,), (1,)])
    out = tmp_path / "out"
    words = ["bench", "never-slower", "ialltoall", "--sizes", "64", "--mpi", "mpich", "--budget", "60s"]
    words += ["--placement", "equal,nodes", "--out", str(out), "--build", str(tmp_path)]
    result = typed(words)
    assert result.exit_code == 1, result.output
    written = json.loads((out / "never-slower.json").read_text())
    assert written["command"].startswith("outrigger bench never-slower ialltoall --sizes 64 --mpi mpich")
    (found,) = written["cells"]
    assert (found["placement"], found["launches"]) == ("equal", 3) and found["total"]["low"] > 1.3
    assert "MPICH 4.0.2, nodes: ended with exit code 7" in written["failures"][0]
    for word in ("Not measured:", "1 of 1 cells are slower", "Noise floor"):
        assert word in result.output
    called = [words for words in (tmp_path / "mpirun.called").read_text().splitlines() if words.startswith("nodes= ")]
    assert ["--preload" in words for words in called] == [False, True, True, False, False, True]
    assert ["--work 1000" in words for words in called] == [False, *[True] * 5]  # native's first sizes it for all

    again = typed(["bench", "never-slower", "--from", str(out / "never-slower.json"), "--out",
                                     str(tmp_path / "again")])  # fmt: skip
    assert again.exit_code == 1 and "1 of 1 cells are slower" in again.output
    assert (tmp_path / "again" / "never-slower.md").read_text() == (out / "never-slower.md").read_text()
    assert (tmp_path / "again" / "mpich-4.0.2.png").exists()
    head, row = (tmp_path / "again" / "never-slower.csv").read_text().splitlines()
    assert head == Path("docs/using/never-slower.csv").read_text().splitlines()[0]
    assert row.startswith("MPICH 4.0.2,equal,MPI_Ialltoall,64,1.5") and ",yes," in row
