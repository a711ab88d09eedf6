"""`outrigger lab chaos`: what is done to service processes can be had again, and a run that is wrong is seen."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from test_report import EXAMPLE
from typer.testing import CliRunner
from waiting import wait_until

from outrigger.artifacts import Artifacts
from outrigger.chaos import command, strikes, victims
from outrigger.chaos.outcome import Recovery, asked_for, recoveries, takeovers
from outrigger.chaos.runs import Runs
from outrigger.errors import UserError

LOG = """\
2026-11-25 20:53:10.000000 keeper[6368] warn: service process 0 (pid 6369) was killed; it is replaced
2026-11-25 20:53:10.012500 service[6400] info: replaced another service process: takes 7 operations again
2026-11-25 20:53:11.000000 service[6401] info: others take this core
2026-11-25 20:53:12.250000 service[6402] info: replaced another service process: takes 0 operations again
not a line of the log: replaced another service process: takes 9 operations again
"""


def test_strikes_are_the_same_for_a_seed() -> None:
    for number in range(200):
        seed = f"seed/{number}"
        drawn = strikes.draw(seed, 3.0, 4, stops=True)
        assert drawn == strikes.draw(seed, 3.0, 4, stops=True)
        assert sum(strike.kills for strike in drawn) == 4
        assert all(0 <= strike.at_s <= 3.0 for strike in drawn)
        assert all(strike.stop_s is None or strike.stop_s < 5 for strike in drawn)
        assert drawn == sorted(drawn, key=lambda strike: strike.at_s)
        assert not any(strike.stop_s for strike in strikes.draw(seed, 3.0, 1, stops=False))
    many = [strikes.draw(f"seed/{number}", 3.0, 2, stops=True) for number in range(200)]
    assert any(drawn[0].at_s == 0 for drawn in many), "some while the job starts"
    assert any(drawn[0].at_s == drawn[1].at_s for drawn in many), "some at once"
    assert any(not strike.kills for drawn in many for strike in drawn)
    cut = [strike for drawn in (strikes.draw(f"{i}", 3.0, 1, False, cuts=True) for i in range(100)) for strike in drawn]
    assert 20 < sum(strike.cut_s is not None for strike in cut) < 80
    assert all(strike.cut_s is None or 0 < strike.cut_s <= 2 for strike in cut)


def test_a_recovery_lasts_from_the_kill_to_the_takeover() -> None:
    first, second = (moment for moment, _ in takeovers(LOG))
    assert [count for _, count in takeovers(LOG)] == [7, 0]
    found = recoveries([first - 0.0125, second - 0.5], LOG)
    assert [(round(recovery.took_s, 4), recovery.operations) for recovery in found] == [(0.0125, 7), (0.5, 0)]
    assert recoveries([second + 1], LOG) == (), "no takeover comes before its kill"
    assert recoveries([first - 1], "") == ()
    assert isinstance(found[0], Recovery)


def test_those_that_ask_for_another_one_are_told_from_those_that_are_killed() -> None:
    lost = "has lost its connection to service process 1 on node n1"
    asks = f"2026-11-25 20:53:12.3 service[6402] warning: {lost}\n"
    noted = (
        f"2026-11-25 20:53:12.4 keeper[6368] warning: service process 0 (pid 6402) on node n0 {lost} after it had "
        "taken ibcast, number 3 of communicator 12; it is replaced\n"
    )
    assert asked_for(LOG) == 0
    assert asked_for(LOG + asks + noted) == 1


def test_only_service_processes_of_that_job_are_met(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    daemon = Path(os.readlink("/proc/self/exe"))
    environment = {**os.environ, victims.LOG: victims.setting_of(log)}

    def start(word: str, variables: dict[str, str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, word], env=variables, cwd=tmp_path)

    (tmp_path / "serve").write_text("import time; time.sleep(30)")
    (tmp_path / "keep").write_text("import time; time.sleep(30)")
    ours, keeper, other = (
        start("serve", environment), start("keep", environment), start("serve", dict(os.environ)),
    )  # fmt: skip
    try:
        assert wait_until(lambda: victims.service_processes(daemon, log) == [ours.pid])
        assert victims.service_processes(daemon, tmp_path / "b.log") == []
        assert victims.service_processes(tmp_path / "another", log) == []
    finally:
        for process in (ours, keeper, other):
            process.kill()
            process.wait()


def runs_of(tmp_path: Path, program: str, *, compares: bool = False) -> Runs:
    """Native runs, which have no service process to kill."""
    script = tmp_path / "program.py"
    script.write_text(program)
    return Runs(Artifacts(tmp_path), ("--native", "-n", "1", "--", sys.executable, str(script)), tmp_path, compares)


def test_a_program_that_fails_by_itself_is_no_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = runs_of(tmp_path, "raise SystemExit(3)")
    monkeypatch.setattr("outrigger.chaos.runs._command", lambda runs, report: [sys.executable, runs.options[-1]])
    with pytest.raises(UserError, match="exit code 3 without any disturbance"):
        runs.undisturbed()


@pytest.mark.parametrize(
    ("program", "wrong"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", f"exit code {-signal.SIGKILL}"),
        ("print('other')", "another output"),
        ("print('same')", None),
    ],
)
def test_what_is_wrong_with_a_run_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, wrong: str | None
) -> None:
    runs = runs_of(tmp_path, "print('same')", compares=True)
    (tmp_path / "daemon").write_text("")
    monkeypatch.setattr(Artifacts, "daemon", property(lambda self: self.root / "daemon"))
    monkeypatch.setattr("outrigger.chaos.runs._command", lambda runs, report: [sys.executable, runs.options[-1]])
    undisturbed = runs.undisturbed()
    assert undisturbed.output == b"same\n"
    (tmp_path / "program.py").write_text(program)
    (tmp_path / "x-1.json").write_text(json.dumps(EXAMPLE))
    outcome = runs.run("x/1", [strikes.Strike(0.0)], undisturbed)
    assert (outcome.wrong is None) if wrong is None else (wrong in str(outcome.wrong))
    assert outcome.kills == 0 and outcome.stops == 0
    assert (tmp_path / "x-1.out").exists() == (wrong is not None), "files of runs that were right are not kept"


def test_the_build_that_is_named_is_the_one_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[str, ...]] = []

    def nobody_met(_screen: object, runs: Runs, *_: object) -> None:
        started.append(runs.options)
        raise UserError("no service process was found")

    monkeypatch.setattr(command, "_run_all", nobody_met)
    (tmp_path / "build").mkdir()
    app = typer.Typer()
    app.command()(command.chaos)
    monkeypatch.chdir(tmp_path)
    CliRunner().invoke(app, ["--build", "build", "--out", "out", "--", "prog"])
    words = started[0]
    assert words[words.index("--build") + 1] == str(tmp_path / "build")


@pytest.mark.parametrize("services", ["0", "-1"])
def test_without_service_processes_there_is_nothing_to_kill(services: str) -> None:
    app = typer.Typer()
    app.command()(command.chaos)
    result = CliRunner().invoke(app, ["--services", services, "--", "prog"])
    assert isinstance(result.exception, UserError)
    assert f"--services {services}: lab chaos kills service processes" in str(result.exception)
