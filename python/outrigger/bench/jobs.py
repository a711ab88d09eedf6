"""Hosts of a benchmark, and jobs whose results are complete before they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from outrigger import binding, cores, job_process, launch, libraries, piped, signals
from outrigger.bench import natives
from outrigger.errors import UserError
from outrigger.hosts import Hosts, find_where
from outrigger.mpis import Mpi
from outrigger.settings import Settings

GRACE_S = 10.0
"""Time for a job to end once its results are complete."""
_SECONDS_TO_END = 5.0
_POLL_S = 0.2


@dataclass(frozen=True)
class Site:
    """Hosts, and the placement of ranks on each."""

    hosts: Hosts = field(default_factory=Hosts)
    bind: str = binding.BUNCH

    @property
    def many(self) -> bool:
        """Hosts were named."""
        return self.hosts.hostfile is not None

    @property
    def binds(self) -> bool:
        """Ranks are bound, and a core is reserved for service processes."""
        return self.bind != binding.NONE

    def job(self, program: Sequence[str], ranks: int, mpi: Mpi, settings: Settings | None = None) -> launch.Job:
        """An offloaded job here; use `dataclasses.replace` for native and other variants."""
        return launch.Job(
            program=tuple(program),
            ranks=ranks,
            mpi=mpi,
            settings=settings or Settings(),
            bind=self.bind,
            where=find_where(self.hosts, ranks, mpi.implementation, os.environ),
            variables=launch.Variables(self.variables(mpi, ranks)),
            library_path=libraries.directory_for(Path(program[0]), mpi),
        )

    def variables(self, mpi: Mpi, ranks: int) -> dict[str, str]:
        """Makes ranks that share cores yield while they wait.

        The number of unbound ranks of other hosts per core is unknown, so Open MPI must be told there.
        """
        name = "OMPI_MCA_mpi_yield_when_idle"
        told = self.many and not self.binds and mpi.family == "openmpi" and name not in os.environ
        bound_to = len(cores.allowed_cores()) - (1 if self.binds else 0)
        crowded = self.many or ranks > bound_to
        return {**(natives.crowded(mpi) if crowded else {}), **({name: "1"} if told else {})}


@dataclass(frozen=True)
class Ended:
    """The end of a job."""

    code: int
    output: str
    by_itself: bool
    """False: its results were complete, but it had to be ended."""


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a launcher, the leader of a process group, and its ranks: first by SIGTERM, then by SIGKILL."""
    process.terminate()
    try:
        process.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def _ended_with_us(start: Callable[[], subprocess.Popen[bytes]]) -> Iterator[subprocess.Popen[bytes]]:
    """A launcher that ends with its ranks when this command is ended, by Ctrl-C or SIGTERM."""
    early: list[int] = []
    started = False

    def leave(number: int, _frame: object) -> None:
        if not started:
            early.append(number)
        elif number == signal.SIGINT:
            raise KeyboardInterrupt
        else:
            raise SystemExit(128 + number)

    ending = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    handled = ending if threading.current_thread() is threading.main_thread() else ()
    before = {number: handler for number in handled if (handler := signal.getsignal(number)) != signal.SIG_IGN}
    for number in before:
        signal.signal(number, leave)
    process = None
    try:
        process = start()
        started = True
        if early:
            leave(early[0], None)
        yield process
    finally:
        signals.put_back(before)
        if process is not None and process.poll() is None:
            end(process)


class _Output:
    """Output of a process. Its errors are passed to this command's until it is being ended."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None and process.stderr is not None
        self._output = piped.Lines(process.stdout)
        self._errors = piped.Lines(process.stderr)
        self.passes_errors = True

    @property
    def _ended(self) -> bool:
        return self._output.ended and self._errors.ended

    def next_lines(self, wait_s: float) -> str:
        """Empty: nothing new."""
        piped.wait((self._output, self._errors), wait_s)
        for line in self._errors.take():
            if self.passes_errors:
                sys.stderr.write(line)
                sys.stderr.flush()
        return "".join(self._output.take())

    def rest(self) -> str:
        """The output of an ended process. Its children may keep the output open."""
        text, end = self.next_lines(0), time.monotonic() + _SECONDS_TO_END
        while not self._ended and (left := end - time.monotonic()) > 0:
            text += self.next_lines(left)
        return text


def run_command(
    command: Sequence[str],
    environment: Mapping[str, str],
    complete: Callable[[str], bool],
    timeout_s: float,
    grace_s: float = GRACE_S,
    starter: Sequence[str] = (),
) -> Ended:
    """Runs a launcher; ends it some time after `complete` reports that its output has all results.

    Some MPIs hang in MPI_Finalize between hosts; results before that are valid. `starter`: see job_process.words.
    """
    deadline = time.monotonic() + timeout_s

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*starter, *command], env=dict(environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, process_group=0,
        )  # fmt: skip

    output, enough = "", False
    with _ended_with_us(start) as process:
        printed = _Output(process)
        while process.poll() is None:
            output += printed.next_lines(_POLL_S)
            if not enough and complete(output):
                enough = True
                deadline = min(deadline, time.monotonic() + grace_s)
            if time.monotonic() > deadline:
                break
        by_itself = process.poll() is not None
        printed.passes_errors = by_itself or not enough  # launchers' messages about their end do not matter
    rest = printed.rest() if by_itself or not enough else ""
    output += rest if by_itself else ""
    if not by_itself and not enough:
        raise UserError(f"still running after {timeout_s:.0f} s, ended: {' '.join(command)}")
    return Ended(launch.exit_code(process.returncode) if by_itself else 0, output, by_itself)


def has_json_line(output: str) -> bool:
    """True if a whole line of JSON has been printed."""
    return any(line.startswith("{") and line.endswith("}\n") for line in output.splitlines(keepends=True))


def run(plan: launch.Plan, complete: Callable[[str], bool], timeout_s: float) -> Ended:
    """Starts a plan, see run_command. The launcher ends with this command in any case."""
    environment = {**os.environ, **plan.environment}
    return run_command(plan.command, environment, complete, timeout_s, starter=job_process.words(plan.daemon))


def unended(mpi: Mpi) -> str:
    """Note about jobs that had to be ended."""
    return (
        f"{mpi.title}: ranks had not left MPI_Finalize {GRACE_S:.0f} s after the last figure, and were ended. "
        "The figures are complete."
    )


def save_json(console: Console, path: Path | None, text: str) -> None:
    """For --json; does nothing if that is not given."""
    if path is None:
        return
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write --json {path}: {error.strerror}") from error
    console.print(f"Figures: [bold]{escape(str(path))}[/]", soft_wrap=True)
