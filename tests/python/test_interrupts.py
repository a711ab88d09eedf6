"""Long commands: their bar, and what is left of them at a Ctrl-C."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer
from rich.console import Console
from waiting import wait_until

from outrigger import bar, formats, launch
from outrigger.artifacts import Artifacts
from outrigger.bench import harm, interrupts, jobs, pairs, runner
from outrigger.bench.figures import Configuration, Side
from outrigger.chaos import command as chaos
from outrigger.chaos.outcome import Outcome
from outrigger.chaos.runs import Undisturbed
from outrigger.mpis import Mpi
from outrigger.settings import Settings

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
def test_what_was_measured_is_kept(
    benches: list[Bench], names: list[str], said: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interrupts, "_said", False)
    console = Console(file=io.StringIO())
    assert [found for _, found in interrupts.each(console, benches, Bench.measure)] == names
    assert (interrupts.SAID in written(console)) == said


def test_nothing_measured_is_interrupted() -> None:
    console = Console(file=io.StringIO())
    with pytest.raises(KeyboardInterrupt):
        list(interrupts.each(console, [Bench("a", measured=False)], Bench.measure))
    assert interrupts.NOTHING in written(console)


def test_an_interrupted_command_says_so_by_its_exit_code() -> None:
    interrupts.leave()
    interrupts.say(Console(file=io.StringIO()))
    with pytest.raises(typer.Exit) as left:
        interrupts.leave()
    assert left.value.exit_code == 130


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


def test_pairs_of_harm_are_kept_where_its_calls_are_interrupted(
    tmp_path: Path, write_programs: Callable[[Mapping[str, str]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_programs({f"bench/mpich/{name}": "" for name in ("harm", "calls")})
    bench = harm.Bench(harm.Request(2, 1, 1, 64, Settings(), jobs.Site()), MPI, Artifacts(tmp_path))
    one = harm.Run(2, 1, {"copy": harm.Rate("GiB/s", 1.0)})
    monkeypatch.setattr(bench.pairs, "_run", lambda _job: one)
    monkeypatch.setattr(bench.pairs, "why_native", lambda *_: "")
    monkeypatch.setattr(bench.pairs, "command", lambda: "")

    def interrupted(_job: launch.Job) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bench._calls, "_run", interrupted)
    found = bench.measure(Console(file=io.StringIO()))
    assert (found.pairs, found.calls, bench.interrupted) == (1, None, True)


@dataclass
class ChaosRuns:
    """The second disturbed run is interrupted."""

    runs: int = 1

    def undisturbed(self) -> Undisturbed:
        return Undisturbed(1.0, b"")

    def run(self, seed: str, _drawn: object, _undisturbed: Undisturbed) -> Outcome:
        if not self.runs:
            raise KeyboardInterrupt
        self.runs -= 1
        return Outcome(seed, 0, 0, 0, 1.0, (), None)


def test_runs_of_chaos_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "_said", False)
    wanted = chaos._Wanted(3, 1, stops=False, cuts=False)
    console = Console(file=io.StringIO())
    assert len(chaos._run_all(console, ChaosRuns(), wanted, "s")) == 1  # type: ignore[arg-type]
    assert interrupts.SAID in written(console)
    with pytest.raises(KeyboardInterrupt):
        chaos._run_all(console, ChaosRuns(0), wanted, "s")  # type: ignore[arg-type]
    assert interrupts.NOTHING in written(console)


def test_configurations_that_were_printed_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """`outrigger bench` measures one after the other in one run."""
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
    assert wait_until(lambda: called.exists() and len(called.read_text().splitlines()) == 6)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert interrupts.SAID in out and "Medians of 1 jobs" in out, out
    (found,) = json.loads(figures.read_text())
    assert found["runs"] == 1
    assert process.returncode == interrupts.EXIT_CODE
