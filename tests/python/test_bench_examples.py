"""The benchmarks of examples: reading runs, what counts as hidden, the commands of lanes; the timeline's picture."""

from __future__ import annotations

import importlib.util
import io
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

from outrigger.artifacts import Artifacts
from outrigger.bench import example_commands, example_plot, examples, interrupts
from outrigger.bench.example_figures import (
    LANES,
    Lane,
    LaneFigures,
    Run,
    hidden_percent,
    legend,
    network_ms,
    summarize,
    table,
)
from outrigger.bench.example_runner import Bench, Request
from outrigger.errors import UserError
from outrigger.mpis import Mpi

FFT3D = examples.fft3d("8,8,8", 2, 3, "malloc", 8)
HALO = examples.halo("64,32", 2, 5, "malloc", 3)
TRAINING = examples.training(2, 64, 32, 5, 20, "alloc_mem")
TIMELINE = Path(__file__).resolve().parents[2] / "examples" / "fft3d" / "timeline.py"
FIELDS = {"median_ms": 10.0, "compute_ms": 4.0, "post_ms": 1.0, "wait_ms": 5.0}


def lanes(**medians: float) -> dict[str, LaneFigures]:
    times = {lane.key: 100.0 for lane in LANES} | medians
    return {key: LaneFigures(time, time, time, 1, 1, 1) for key, time in times.items()}


def bench(tmp_path: Path, pieces: int = 8, **fields: Any) -> Bench:
    program = tmp_path / "examples" / "mpich" / "fft3d"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.touch()
    example = examples.fft3d("8,8,8", 2, 3, "malloc", pieces)
    request = Request(example, 4, rounds=1, **fields)
    return Bench(request, Mpi("mpich", "4.0.2", Path("mpirun.mpich"), None), Artifacts(tmp_path))


def test_a_run_is_read_among_other_lines() -> None:
    assert FFT3D.read(f"a warning\n{json.dumps(FIELDS)}\n") == Run(10, wait_ms=5, compute_ms=4, post_ms=1)
    assert HALO.read('{"mode": "testing", "step_ms": 2.5, "mpi_ms": 1}\n') == Run(2.5, 1)
    assert TRAINING.read('{"step_ms": 3, "waited_ms": 0.5, "ranks": 2}\n') == Run(3, 0.5)


@pytest.mark.parametrize("text", ["", "{", '{"median_ms": 1}', json.dumps(FIELDS | {"wait_ms": None})])
def test_output_without_figures_is_an_error(text: str) -> None:
    with pytest.raises(UserError, match="fft3d printed"):
        FFT3D.read(text)
    with pytest.raises(UserError, match="halo printed"):
        HALO.read(text)
    with pytest.raises(UserError, match="training printed"):
        TRAINING.read(text)


def test_rounds_are_summarized_by_medians_and_extremes() -> None:
    found = summarize([Run(10, 9, 1, 0), Run(30, 7, 3, 0), Run(11, 8, 2, 0)])
    assert found == LaneFigures(11, 10, 30, wait_ms=8, compute_ms=2, post_ms=0)
    assert summarize([Run(10, 9)]) == LaneFigures(10, 10, 10, wait_ms=9)


def test_what_is_hidden() -> None:
    figures = lanes(compute=60, blocking=100, nonblocking=96, offloaded=70)
    assert network_ms(figures) == 40
    assert hidden_percent(figures, "offloaded") == 75
    assert hidden_percent(figures, "nonblocking") == 10
    assert hidden_percent(lanes(compute=101, blocking=100), "offloaded") is None


def test_the_table_has_all_lanes() -> None:
    console = Console(file=io.StringIO(), width=140)
    figures = lanes(compute=60, blocking=100, nonblocking=96, offloaded=70)
    console.print(table(figures, "Title", "iteration"), legend(figures, "iteration", 3))
    assert isinstance(console.file, io.StringIO)
    for word in ("Title", "offloaded", "all cores", "0.70", "75%", "40.0 ms"):
        assert word in console.file.getvalue()


def test_lanes_become_launcher_commands(tmp_path: Path) -> None:
    launch = example_commands.launch_options(Path("hosts"), "agent", 2)
    offload = example_commands.offload_options(("ialltoallv=ring_pull",), None, 2)
    commands = {lane.key: bench(tmp_path, launch=launch, offload=offload).command(lane, None) for lane in LANES}
    for words in commands.values():
        assert words[:7] == ["run", "-n", "4", "--mpi", "mpich", "--build", str(tmp_path)]
        assert words[7:15] == ["--choice", "fixed", "--hostfile", "hosts", "--launch-agent", "agent", "--services", "2"]
    at = commands["offloaded"].index("--algorithm")
    assert commands["offloaded"][at : at + 4] == ["--algorithm", "ialltoallv=ring_pull", "--pretend-nodes", "2"]
    assert "--native" not in commands["offloaded"]
    assert "--native" in commands["blocking"] and "--pretend-nodes" not in commands["blocking"]
    assert "--no-bind" in commands["nonblocking_all_cores"] and "--no-bind" not in commands["nonblocking"]
    assert commands["blocking"][commands["blocking"].index("--mode") + 1] == "blocking"


def test_native_at_its_best_tests_between_pieces(tmp_path: Path) -> None:
    (lane,) = (lane for lane in LANES if lane.key == "testing")
    words = bench(tmp_path, pieces=5).command(lane, None)
    assert words[words.index("--mode") + 1] == "testing"
    assert words[words.index("--pieces") + 1] == "5"
    assert "--native" in words


def test_without_binding_there_are_no_lanes_on_all_cores(tmp_path: Path) -> None:
    keys = [lane.key for lane in bench(tmp_path, binds=False).request.lanes]
    assert keys == ["compute", "blocking", "nonblocking", "testing", "offloaded"]
    figures = {key: found for key, found in lanes(compute=60).items() if key in keys}
    console = Console(file=io.StringIO(), width=140)
    console.print(table(figures, "Title", "iteration"))
    assert isinstance(console.file, io.StringIO)
    assert "all cores" not in console.file.getvalue()


def test_lanes_that_were_measured_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measuring = bench(tmp_path)
    left = 3

    def run(_lane: Lane, _trace: Path | None) -> Run:
        nonlocal left
        if not left:
            raise KeyboardInterrupt
        left -= 1
        return Run(10, 5, 4, 1)

    monkeypatch.setattr(measuring, "run", run)
    console = Console(file=io.StringIO(), width=120)
    found = measuring.measure(console, None)
    assert list(found) == ["compute", "blocking", "nonblocking"] and measuring.interrupted and measuring.rounds == 1
    monkeypatch.setattr(measuring, "why_native", lambda: "")
    monkeypatch.setattr(interrupts, "_said", False)
    left = 3
    results = example_commands.run(console, [measuring], None, None)
    assert list(results["mpich"]["hidden_percent"]) == ["nonblocking"]
    left = 1
    with pytest.raises(KeyboardInterrupt):
        measuring.measure(console, None)


def test_columns_are_what_the_program_says() -> None:
    console = Console(file=io.StringIO(), width=140)
    figures = {key: LaneFigures(each.median_ms, 1, 2, wait_ms=3) for key, each in lanes(compute=60).items()}
    console.print(table(figures, "Title", "step"), legend(figures, "step", 3))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "per step" in text and "waiting" in text
    assert "computing" not in text and "posting" not in text


def test_a_picture_of_the_lanes(tmp_path: Path) -> None:
    figures = lanes(compute=60, offloaded=55)
    picture = tmp_path / "lanes.svg"
    example_plot.save([("halo: one", "step", figures), ("halo: other", "step", figures)], picture)
    text = picture.read_text()
    for words in ("halo: one", "halo: other", "milliseconds per step", "native, all cores", "beyond it, offloaded"):
        assert f"<!-- {words}" in text, words


def test_programs_are_told_what_the_command_is() -> None:
    (lane,) = (lane for lane in LANES if lane.key == "testing")
    assert HALO.words(lane, None) == [
        "--mode", "testing", "--grid", "64,32", "--fields", "2", "--steps", "5", "--memory", "malloc", "--json",
        "--pieces", "3",
    ]  # fmt: skip
    assert TRAINING.words(lane, None) == [
        "--mode", "testing", "--layers", "2", "--width", "64", "--samples", "32", "--steps", "5", "--bucket-kib", "20",
        "--memory", "alloc_mem", "--json", "-",
    ]  # fmt: skip


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="examples/openmpi/fft3d is missing"):
        Bench(bench(tmp_path).request, Mpi("openmpi", "4", Path("mpirun"), None), Artifacts(tmp_path))


def timeline() -> ModuleType:
    spec = importlib.util.spec_from_file_location("timeline", TIMELINE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["timeline"] = module
    spec.loader.exec_module(module)
    return module


def trace(path: Path) -> Path:
    spans = (
        ("compute", 0, "forward x", 0, 2),
        ("post", 0, "forward x", 2, 3),
        ("compute", 1, "forward x", 3, 5),
        ("post", 1, "forward x", 5, 6),
        ("wait", 0, "forward y", 6, 8),
        ("wait", 1, "forward y", 8, 9),
    )
    names = ("activity", "variable", "stage", "begin_ms", "end_ms")
    intervals = [dict(zip(names, span, strict=True)) for span in spans]
    ranks = [{"rank": rank, "node": "n0", "intervals": intervals} for rank in range(2)]
    fields = {"mode": "nonblocking", "memory": "malloc", "grid": [4, 4, 4], "variables": 2, "rows": 2, "columns": 1}
    path.write_text(json.dumps(fields | {"ranks": ranks}))
    return path


def test_flights_last_from_the_post_to_the_data(tmp_path: Path) -> None:
    module = timeline()
    read = module.read(f"label={trace(tmp_path / 'trace.json')}")
    assert read.label == "label" and read.end == 9 and read.share("compute") == 4
    flights = read.ranks[0].flights
    assert [(f.variable, f.begin, f.end) for f in flights] == [(0, 2, 8), (1, 5, 9)]
    assert module.stack(flights) == [0, 1]
    assert module.stack([module.Flight(0, 0, 3), module.Flight(1, 1, 2), module.Flight(2, 2, 4)]) == [0, 1, 1]


def test_the_timeline_is_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = trace(tmp_path / "trace.json")
    picture = tmp_path / "timeline.png"
    monkeypatch.setattr(sys, "argv", ["timeline.py", "--out", str(picture), f"a={file}", str(file)])
    assert timeline().main() == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_trace_that_is_none_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["timeline.py", "--out", "x.png", str(tmp_path / "none.json")])
    assert timeline().main() == 2
    assert "none.json" in capsys.readouterr().err
