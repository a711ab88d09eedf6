"""`outriggerd dpu` on one DPU: started by the launch agent, ends with its standard input.

So its end is certain, even after a kill -9 of this command or a network failure.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from outrigger import launchers, piped
from outrigger.errors import UserError
from outrigger.settings import INIT_TIMEOUT

_DEFAULT_DAEMON = "outriggerd"
_DEFAULT_START_S = 30.0
SECONDS_TO_END = 5.0
_LOOK_S = 0.05
_LINES_KEPT = 20
_MARK = "outriggerd: dpu "
_NOT_FOUND = 127
_SSH_FAILED = 255


@dataclass(frozen=True)
class Way:
    """How commands reach DPUs, and which program runs there."""

    agent: str = launchers.SSH
    slurm: bool = False
    """Use srun, within the allocation."""
    daemon: str = _DEFAULT_DAEMON
    """outriggerd for the DPU's architecture: a path, or a name in its PATH."""
    services: int | None = None
    """On each DPU; None: derived from its cores and its host's ranks."""
    start_s: float = _DEFAULT_START_S

    def words(self) -> list[str]:
        """Command on a DPU."""
        return [self.daemon, "dpu", "--services", str(self.services or 0)]

    def command(self, dpu: str) -> list[str]:
        """Local command that starts it."""
        return launchers.on_node(self.agent, dpu, self.words(), slurm=self.slurm)


@dataclass(frozen=True)
class Ready:
    """First line of a DPU that listens."""

    port: int
    protocol: int
    services: int
    """0: known when the host's ranks are."""
    cores: int

    def services_for(self, ranks: int, ranks_per_service: int) -> int:
        """Number of service processes for this many ranks of its host."""
        return self.services or max(1, min(self.cores, -(-ranks // ranks_per_service)))


class CannotStartError(Exception):
    """Reason why a DPU has no service processes, with a remedy."""


def way(
    agent: str, services: int | None, environment: Mapping[str, str], *, slurm: bool = False, daemon: str | None = None
) -> Way:
    """Checked values from options and environment."""
    text = environment.get(INIT_TIMEOUT, "")
    if text and not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise UserError(f"{INIT_TIMEOUT}={text}: write milliseconds, like 30000")
    if not slurm:
        launchers.split_agent(agent)
    return Way(agent, slurm, daemon or _DEFAULT_DAEMON, services, int(text) / 1000 if text else _DEFAULT_START_S)


def parse_ready(line: str) -> Ready:
    """Parses `ready protocol=3 endian=little port=4711 services=0 cores=8`; raises the reason in `failed: ...`."""
    if line.startswith("failed: "):
        raise CannotStartError(line.removeprefix("failed: "))
    fields = dict(re.findall(r"(\w+)=(\w+)", line))
    try:
        numbers = {name: int(fields[name]) for name in ("port", "protocol", "services", "cores")}
    except (KeyError, ValueError):
        reason = f"its outriggerd says '{line}', which this version does not know; install the same one"
        raise CannotStartError(reason) from None
    if fields.get("endian") != sys.byteorder:
        raise CannotStartError(f"its byte order is {fields.get('endian')}, the hosts' is {sys.byteorder}")
    if not 0 < numbers["port"] < 1 << 16:
        raise CannotStartError(f"its outriggerd listens on port {numbers['port']}, which is impossible")
    return Ready(**numbers)


@dataclass
class Running:
    """An `outriggerd dpu` and its launch agent.

    Its log comes through a pipe that must be read during every wait: see pass_on_log().
    """

    dpu: str
    way: Way
    process: subprocess.Popen[bytes]
    log: piped.Lines
    said: deque[str] = field(default_factory=lambda: deque(maxlen=_LINES_KEPT))
    ready: Ready | None = None

    def wait_until_ready(self) -> Ready:
        """Raises CannotStartError with a reason."""
        self.ready = parse_ready(self._first_words())
        return self.ready

    def _first_words(self) -> str:
        """Our line of standard output. A login may print others before it."""
        assert self.process.stdout is not None
        output = piped.Lines(self.process.stdout)
        end = time.monotonic() + self.way.start_s
        while (left := end - time.monotonic()) > 0:
            piped.wait((output, self.log), left)
            self.pass_on_log()
            for line in output.take():
                if line.startswith(_MARK) and line.endswith("\n"):
                    return line.removeprefix(_MARK).strip()
            if output.ended:
                raise CannotStartError(self._why_ended())
        by_hand = shlex.join(launchers.on_node(self.way.agent, self.dpu, [self.way.daemon, "--version"], slurm=False))
        raise CannotStartError(f"no answer within {self.way.start_s:.0f} s; try: {by_hand}")

    def _why_ended(self) -> str:
        status = self._wait(SECONDS_TO_END)
        if status is None:
            return "its launch agent has closed its output but still runs"
        self._hear_out(SECONDS_TO_END)
        last = self.said[-1] if self.said else ""
        if status == _NOT_FOUND or "No such file or directory" in last:
            return f"there is no {self.way.daemon} on it; install Outrigger there, or name another by --dpu-daemon"
        if status == _SSH_FAILED:
            return f"it cannot be reached by {self.way.agent}: {last or 'exit code 255'}"
        return last.removeprefix("outriggerd: ") or f"{shlex.join(self.way.words())} ended with exit code {status}"

    def pass_on_log(self) -> None:
        """Reads the log. Before the DPU is ready it may hold the reason of a failure; later it is passed to
        the user.
        """
        for line in self.log.take():
            if self.ready is not None:
                print(line.rstrip(), file=sys.stderr, flush=True)
            elif line.rstrip():
                self.said.append(line.rstrip())

    def _wait(self, timeout_s: float) -> int | None:
        """Exit status; None: still running."""
        end = time.monotonic() + timeout_s
        while (status := self.process.poll()) is None and time.monotonic() < end:
            piped.wait((self.log,), _LOOK_S)
            self.pass_on_log()
        return status

    def _hear_out(self, timeout_s: float) -> None:
        """Reads the rest of its output, after its end."""
        end = time.monotonic() + timeout_s
        while not self.log.ended and (left := end - time.monotonic()) > 0:
            piped.wait((self.log,), left)
            self.pass_on_log()

    def lost(self) -> str | None:
        """Message about one that ended unexpectedly with an error."""
        status = self.process.poll()
        if self.ready is None or status is None or status == 0:
            return None
        how = f"signal {-status}" if status < 0 else f"exit code {status}"
        return f"DPU {self.dpu}: {shlex.join(self.way.words())} or its launch agent has ended with {how}"

    def hang_up(self) -> None:
        """Closes its input, on which it exits."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()

    def end(self, deadline: float) -> None:
        """Waits for its end until the deadline, then ends the agent."""
        for number in (0, signal.SIGTERM, signal.SIGKILL):
            self.process.send_signal(number)
            if self._wait(max(0.2, deadline - time.monotonic())) is not None:
                break
        self._hear_out(max(1.0, deadline - time.monotonic()))
        for stream in filter(None, (self.process.stdout, self.process.stderr)):
            stream.close()


def start(dpu: str, how: Way, secret: str) -> Running:
    """Outside the terminal's process group: Ctrl-C is for the ranks, whose service processes must not end first."""
    command = how.command(dpu)
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
    except OSError as error:
        raise CannotStartError(f"cannot run {command[0]}: {error.strerror}") from error
    assert process.stdin is not None and process.stderr is not None
    running = Running(dpu, how, process, piped.Lines(process.stderr))
    with contextlib.suppress(OSError):  # it has ended already; its output has the reason
        process.stdin.write(f"{secret}\n".encode())
        process.stdin.flush()
    return running
