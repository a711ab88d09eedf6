"""Other machines' jobs by ssh: `outrigger exporter --lines` runs there as long as this command does."""

from __future__ import annotations

import atexit
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from outrigger.errors import UserError
from outrigger.live import answer, snapshot
from outrigger.live.answer import Told

MOST_HOSTS = 256
_ANSWERS_WITHIN_SECONDS = 10.0
_TRIES_AGAIN_SECONDS = 5.0
_OPTIONS = ("BatchMode=yes", "ConnectTimeout=8", "ServerAliveInterval=5", "ServerAliveCountMax=2")
"""Nothing is asked of who sits here, and a connection that has been cut is noticed, as nothing is sent there."""
_ENDS_WITHIN_SECONDS = 3.0
_MOST_ERRORS_BYTES = 1 << 16
_NOT_FOUND = 127
"""By a shell."""
_WANTS_AN_ANSWER = ("Host key verification failed", "Permission denied (")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:%-]{0,254}")
"""None begins with a dash: to ssh it would be an option."""


def _command() -> str:
    """As this one was started; there it has the same path, or is found as here."""
    here = Path(sys.argv[0])
    return shlex.quote(str(here)) if here.is_absolute() and here.name == "outrigger" else "outrigger"


def _why(name: str, code: int, file: bytes) -> str:
    """What was said there last, from outrigger's own words on where there are any, and what to do."""
    lines = [line.strip() for line in file.decode(errors="replace").strip().splitlines()]
    own = [at for at, line in enumerate(lines) if line.startswith("outrigger: ")]
    said = answer.printable(" ".join(lines[own[-1] if own else -1 :]))
    if code == _NOT_FOUND:
        return f"{said} (it has to be where it is here, or on the PATH that ssh gives)"
    if any(words in said for words in _WANTS_AN_ANSWER):
        return f"{said} (`ssh {name}` must work without a question)"
    return said or f"it has ended with code {code}"


def _end_of(process: subprocess.Popen[bytes]) -> int:
    """Of one that says nothing more: its exit code."""
    try:
        return process.wait(_ENDS_WITHIN_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


class Host:
    """One that is asked. A thread takes what it says, so that a slow one keeps nobody waiting."""

    def __init__(self, ssh: str, name: str) -> None:
        options = [word for option in _OPTIONS for word in ("-o", option)]
        self._words = [ssh, *options, name, _command(), "exporter", "--lines"]
        self._name = name
        self._line = b""
        self._heard = self._began = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self._problem = ""
        atexit.register(self._end)

    @property
    def answered(self) -> bool:
        """It has said something, or will not."""
        return bool(self._line or self._problem)

    def __call__(self) -> Told:
        """What it has said last: a Source."""
        now = time.monotonic()
        if self._process is None and (self._began == 0.0 or now - self._began > _TRIES_AGAIN_SECONDS):
            self._start(now)
        if self._problem:
            return Told((), (f"{self._name} cannot be asked by ssh: {self._problem}",))
        if now - max(self._heard, self._began) > _ANSWERS_WITHIN_SECONDS:
            return Told((), (f"{self._name} does not answer: nothing for {now - max(self._heard, self._began):.0f} s",))
        if not self._line:
            return Told(())
        try:
            return answer.decode(self._line, f"what {self._name} says", self._name)
        except UserError as error:
            return Told((), (str(error),))

    def _start(self, now: float) -> None:
        self._began, self._line = now, b""
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - the thread closes it
        process = subprocess.Popen(
            self._words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )
        self._process = process

        def listen() -> None:
            assert process.stdout is not None
            with process.stdout as said, errors:
                while line := said.readline(snapshot.MOST_BYTES):
                    self._line, self._heard, self._problem = line, time.monotonic(), ""
                code = _end_of(process)
                errors.seek(0)
                self._problem = _why(self._name, code, errors.read(_MOST_ERRORS_BYTES))
                self._process = None

        threading.Thread(target=listen, daemon=True).start()

    def _end(self) -> None:
        """With this command."""
        if self._process is not None:
            self._process.terminate()


def wait_for_answers(asked: Sequence[Host]) -> None:
    """Until all have said something; not for ever."""
    end = time.monotonic() + _ANSWERS_WITHIN_SECONDS
    for host in asked:
        host()
    while time.monotonic() < end and not all(host.answered for host in asked):
        time.sleep(0.05)


def hosts(names: Sequence[str]) -> list[Host]:
    """A source each, of names separated by commas."""
    all_names = list(dict.fromkeys(name for word in names for name in word.split(",") if name))
    if len(all_names) > MOST_HOSTS:
        raise UserError(f"--hosts names {len(all_names)} hosts; at most {MOST_HOSTS}: use exporters and --from")
    for name in all_names:
        if not _NAME.fullmatch(name):
            raise UserError(f"--hosts: {name!r} is not the name of a host")
    if not all_names:
        return []
    ssh = shutil.which("ssh")
    if ssh is None:
        raise UserError("--hosts needs ssh, which is not installed here; or use exporters and --from")
    return [Host(ssh, name) for name in all_names]
