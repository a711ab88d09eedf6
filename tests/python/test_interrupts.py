"""Long commands: their bar, and what is left of them at a Ctrl-C."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

from outrigger import bar, formats, launch
from outrigger.artifacts import Artifacts
from outrigger.bench import interrupts, jobs, pairs, runner
from outrigger.bench.figures import Configuration, Side
from outrigger.mpis import Mpi

MPI = Mpi("mpich", "4.0.2", Path("mpirun"), None)


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None)


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_bar_expects_what_was_until_now(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(bar.time, "monotonic", lambda: now)
    console = terminal()
    with bar.Bar(console) as shown:
        shown.counts("first", 0, 4)
        assert "0:00 so far first" in " ".join(written(console).split())
        now += 30.0
        shown.counts("second", 1, 4)
    assert "1:30 left second" in " ".join(written(console).split())


def test_no_bar_without_a_terminal() -> None:
    console = Console(file=io.StringIO())
    with bar.Bar(console) as shown:
        shown.counts("x", 1, 2)
    assert written(console) == ""


@dataclass
class Bench:
    """Measures so many before it is interrupted."""

    name: str
    measured: bool = True
    interrupted: bool = False

    def measure(self) -> str:
        if not self.measured:
            raise KeyboardInterrupt
        return self.name


@pytest.mark.parametrize(
    ("benches", "names", "said"),
    [
        ([Bench("a"), Bench("b")], ["a", "b"], False),
        ([Bench("a", interrupted=True), Bench("b")], ["a"], True),
        ([Bench("a"), Bench("b", measured=False), Bench("c")], ["a"], True),
    ],
)
def test_what_was_measured_is_kept(benches: list[Bench], names: list[str], said: bool) -> None:
    console = Console(file=io.StringIO())
    assert [found for _, found in interrupts.each(console, benches, Bench.measure)] == names
    assert (interrupts.SAID in written(console)) == said


def test_nothing_measured_is_interrupted() -> None:
    with pytest.raises(KeyboardInterrupt):
        list(interrupts.each(Console(file=io.StringIO()), [Bench("a", measured=False)], Bench.measure))


def interrupted_pairs(after_runs: int, monkeypatch: pytest.MonkeyPatch) -> pairs.Pairs[int]:
    made = iter(range(after_runs))

    def run(_job: launch.Job) -> int:
        try:
            return next(made)
        except StopIteration:
            raise KeyboardInterrupt from None

    found = pairs.Pairs(launch.Job(program=("x",), ranks=2, mpi=MPI), Artifacts(Path()), 1.0, int)
    monkeypatch.setattr(found, "_run", run)
    return found


def test_whole_pairs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(file=io.StringIO())
    found = interrupted_pairs(5, monkeypatch)
    assert found.measure(console, 9) == [
        (0, 1),
        (3, 2),
    ]  # the second one the other way round; half of the third is lost
    assert found.interrupted
    with pytest.raises(KeyboardInterrupt):
        interrupted_pairs(1, monkeypatch).measure(console, 9)


def test_configurations_that_were_printed_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of `outrigger bench`, whose program measures one after the other in one run."""
    side = Side(2.0, 4.0, 2.0, 0.0, 1.0)
    line = formats.line_of(Configuration("ialltoall", "malloc", 8, 2, 1, 1, 2.0, side, side)).decode()
    request = runner.Request(("ialltoall",), ("malloc",), (8, 16), 2, 1, 1)
    measuring = runner.Runner(request, MPI, Artifacts(Path()), jobs.Site())
    told: list[int] = []
    measuring.shows = told.append
    printed = line

    def start(_job: launch.Job, complete: Callable[[str], bool], _limit_s: float) -> tuple[str, str]:
        complete(printed)
        raise KeyboardInterrupt

    monkeypatch.setattr(measuring, "why_native", lambda: "")
    monkeypatch.setattr(measuring, "_job", lambda *_: launch.Job(program=("x",), ranks=2, mpi=MPI))
    monkeypatch.setattr(measuring, "_start", start)
    monkeypatch.setattr(launch, "make_plan", lambda *_: launch.Plan(Path(), ("mpirun",), {}, None))  # type: ignore[arg-type]
    measured = measuring.measure()
    assert [found.bytes for found in measured.configurations] == [8]
    assert measuring.interrupted and told == [1]
    printed = ""
    with pytest.raises(KeyboardInterrupt):
        measuring.measure()


def test_ctrl_c_leaves_figures(tmp_path: Path, write_programs: Callable[[Mapping[str, str]], None]) -> None:
    """A real command with a real signal."""
    placement = '{"version":1,"cores":[],"ranks":[],"services":[],"service_cpus":[]}'
    line = '{"ranks": 2, "init_ms": {"min": 1.0, "mean": 1.0, "max": 1.0}}'
    version = 'case $1 in --version) echo "HYDRA build details:"; echo "Version: 4.0.2"; exit ;; esac'
    write_programs(
        {
            "bin/outriggerd": f"echo '{placement}'",
            "lib/liboutrigger-mpich.so": "",
            "bench/mpich/startup": "",
            # Five runs, the first pair of which is not counted; the sixth takes for ever.
            "mpi/bin/mpiexec": f'{version}\necho run >>"$0.called"; [ $(wc -l <"$0.called") -lt 6 ] || sleep 60\n'
            f"echo '{line}'",
        }
    )
    figures = tmp_path / "figures.json"
    words = ["bench", "startup", "--build", tmp_path, "--mpi", tmp_path / "mpi", "--json", figures]
    process = subprocess.Popen(
        [sys.executable, "-m", "outrigger", *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "NO_COLOR": "1"},
    )  # fmt: skip
    called = tmp_path / "mpi" / "bin" / "mpiexec.called"
    for _ in range(1200):
        if called.exists() and len(called.read_text().splitlines()) == 6:
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert interrupts.SAID in out and "Medians of 1 jobs" in out, out
    (found,) = json.loads(figures.read_text())
    assert found["runs"] == 1
    assert process.returncode == 0
