"""Runs of one program, each with its own strikes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from outrigger import report_data
from outrigger.artifacts import Artifacts
from outrigger.bench import jobs
from outrigger.chaos import strikes, victims
from outrigger.chaos.outcome import Outcome, asked_for, recoveries
from outrigger.chaos.places import Here, Place
from outrigger.errors import UserError

_LOOK_S = 0.002
_FEWEST_S, _TIMES_LONGER = 60.0, 20.0
"""A run that takes this much longer than an undisturbed one hangs."""


@dataclass(frozen=True)
class Runs:
    """The start of runs, and the place of their files until they have succeeded."""

    found: Artifacts
    options: tuple[str, ...]
    """Options of `outrigger run`, with the program."""
    place: Path
    compares: bool
    """A run's output must equal the undisturbed one's."""
    where: Place = field(default_factory=Here)

    def undisturbed(self) -> Undisturbed:
        """UserError: the program fails without strikes."""
        run = _Run(self, "undisturbed")
        run.strike((), "")
        if run.code == 0:
            run.err.unlink()
        else:
            ended = "hangs" if run.code is None else f"ends with exit code {run.code}"
            raise UserError(
                f"the program {ended} without any disturbance; see {run.out} and {run.err}{run.last_word()}"
            )
        return Undisturbed(run.took_s, run.out.read_bytes())

    def run(self, seed: str, drawn: Sequence[strikes.Strike], undisturbed: Undisturbed) -> Outcome:
        """Its files stay after an error."""
        run = _Run(self, seed.replace("/", "-"), max(_FEWEST_S, _TIMES_LONGER * undisturbed.took_s))
        run.strike(drawn, seed)
        found = recoveries(run.kills, run.log.read_text(errors="replace") if run.log.exists() else "")
        wrong = self._what_is_wrong(run, undisturbed)
        if wrong is None:
            for path in (run.log, run.out, run.err, run.report):
                path.unlink(missing_ok=True)
        return Outcome(seed, len(run.kills), run.stops, run.cuts, run.took_s, found, wrong)

    def _what_is_wrong(self, run: _Run, undisturbed: Undisturbed) -> str | None:
        if run.code is None:
            return f"hangs: ended after {run.took_s:.0f} s; see {run.out} and {run.err}"
        if run.code != 0:
            return f"exit code {run.code}; see {run.err}{run.last_word()}"
        if self.compares and run.out.read_bytes() != undisturbed.output:
            return f"another output than that of the undisturbed run; see {run.out}"
        try:
            report = report_data.read(run.report)
        except UserError as error:
            return f"{error}; see {run.out}"
        restarts = sum(service.restarts for service in report.services)
        # A process killed at the very end need not be replaced, and one with broken connections asks for its
        # replacement.
        known = len(run.kills) + (asked_for(run.log.read_text(errors="replace")) if run.cuts else 0)
        if restarts <= known:
            return None
        return f"{restarts} restarts of {len(run.kills)} kills; see {run.log} and {run.err}"


@dataclass(frozen=True)
class Undisturbed:
    """A run without strikes."""

    took_s: float
    output: bytes


@dataclass
class _Run:
    runs: Runs
    name: str
    limit_s: float = 600.0
    code: int | None = None
    """None: ended at its time limit."""
    took_s: float = 0.0
    kills: list[float] = field(default_factory=list)
    """Times in seconds since the epoch."""
    stops: int = 0
    cuts: int = 0
    _stopped: list[tuple[float, int]] = field(default_factory=list)
    """End of the stop, and pid."""
    _cut_off: list[tuple[float, str]] = field(default_factory=list)

    @property
    def log(self) -> Path:
        return self.runs.place / f"{self.name}.log"

    @property
    def out(self) -> Path:
        return self.runs.place / f"{self.name}.out"

    @property
    def err(self) -> Path:
        return self.runs.place / f"{self.name}.err"

    @property
    def report(self) -> Path:
        return self.runs.place / f"{self.name}.json"

    def last_word(self) -> str:
        """The last line of its errors, after a colon; empty if there is none."""
        lines = self.err.read_text(errors="replace").split("\n") if self.err.exists() else []
        said = [line for line in lines if line.strip()]
        return f": {said[-1]}" if said else ""

    def strike(self, drawn: Sequence[strikes.Strike], seed: str) -> None:
        """From its start to its end."""
        environment = {**os.environ, victims.LOG: victims.setting_of(self.log)}
        command = _command(self.runs, self.report)
        left = list(enumerate(drawn))
        with self.out.open("wb") as out:
            errors = self.err.open("wb")
            with errors:
                began = time.monotonic()
                process = subprocess.Popen(
                    command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, process_group=0
                )
                try:
                    while process.poll() is None and time.monotonic() - began < self.limit_s:
                        if left and time.monotonic() - began >= left[0][1].at_s and self._hit(*left[0], seed):
                            left.pop(0)
                        self._go_on()
                        time.sleep(_LOOK_S)
                finally:
                    self._go_on(everybody=True)
                    self.code = process.poll()
                    self.took_s = time.monotonic() - began
                    if process.poll() is None:
                        jobs.end(process)

    def _hit(self, number: int, strike: strikes.Strike, seed: str) -> bool:
        """False: there is no target (yet)."""
        there = victims.service_processes(self.runs.found.daemon, self.log)
        there = [pid for pid in there if all(pid != stopped for _, stopped in self._stopped)]
        if not there:
            return False
        if strike.cut_s is not None:
            self._cut_off_one(number, strike.cut_s, seed)
            return True
        pid = strikes.pick(seed, number, there)
        with suppress(ProcessLookupError):
            if strike.stop_s is None:
                os.kill(pid, signal.SIGKILL)
                self.kills.append(time.time())
            else:
                os.kill(pid, signal.SIGSTOP)
                self.stops += 1
                self._stopped.append((time.monotonic() + strike.stop_s, pid))
        return True

    def _cut_off_one(self, number: int, cut_s: float, seed: str) -> None:
        host = strikes.pick(seed, number, self.runs.where.hosts())
        if all(host != cut for _, cut in self._cut_off):
            self.runs.where.link(host, "down")
            self.cuts += 1
            self._cut_off.append((time.monotonic() + cut_s, host))

    def _go_on(self, *, everybody: bool = False) -> None:
        for until, host in list(self._cut_off):
            if everybody or time.monotonic() >= until:
                self._cut_off.remove((until, host))
                self.runs.where.link(host, "up")
        for until, pid in list(self._stopped):
            if everybody or time.monotonic() >= until:
                self._stopped.remove((until, pid))
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)


def _command(runs: Runs, report: Path) -> list[str]:
    return [*runs.where.starts(), "run", *runs.where.options(), "--report-to", str(report), *runs.options]
