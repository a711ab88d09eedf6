"""Jobs of other machines by ssh: `outrigger exporter --lines` runs there as long as this command."""

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
"""No prompts; and a cut connection is noticed although nothing is sent there."""
_ENDS_WITHIN_SECONDS = 3.0
_MOST_ERRORS_BYTES = 1 << 16
_NOT_FOUND = 127
"""Exit code of a shell."""
_WANTS_AN_ANSWER = ("Host key verification failed", "Permission denied (")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:%-]{0,254}")
"""No leading dash: ssh would read it as an option."""


def _command() -> str:
    """The path of this command, which must be the same there, or its name."""
    here = Path(sys.argv[0])
    return shlex.quote(str(here)) if here.is_absolute() and here.name == "outrigger" else "outrigger"


def _why(name: str, code: int, file: bytes) -> str:
    """Last lines of its error output, from outrigger's own message on if there is one, with a remedy."""
    lines = [line.strip() for line in file.decode(errors="replace").strip().splitlines()]
    own = [at for at, line in enumerate(lines) if line.startswith("outrigger: ")]
    said = answer.printable(" ".join(lines[own[-1] if own else -1 :]))
    if code == _NOT_FOUND:
        return f"{said} (it needs the same path as here, or must be on the PATH of ssh)"
    if any(words in said for words in _WANTS_AN_ANSWER):
        return f"{said} (`ssh {name}` must work without a question)"
    return said or f"it has ended with code {code}"


def _end_of(process: subprocess.Popen[bytes]) -> int:
    """Exit code of a process that has closed its output."""
    try:
        return process.wait(_ENDS_WITHIN_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


class Host:
    """An observed host. A thread reads its output, so that a slow host delays no others."""

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
        """True if it has sent data, or never will."""
        return bool(self._line or self._problem)

    def __call__(self) -> Told:
        """Its latest data: a Source."""
        now = time.monotonic()
        if self._process is None and (self._began == 0.0 or now - self._began > _TRIES_AGAIN_SECONDS):
            self._start(now)
        if self._problem:
            return Told((), (f"{self._name} cannot be reached by ssh: {self._problem}",))
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
        """Ends it with this command."""
        if self._process is not None:
            self._process.terminate()


def wait_for_answers(asked: Sequence[Host]) -> None:
    """Until all have sent data, with a time limit."""
    end = time.monotonic() + _ANSWERS_WITHIN_SECONDS
    for host in asked:
        host()
    while time.monotonic() < end and not all(host.answered for host in asked):
        time.sleep(0.05)


def hosts(names: Sequence[str]) -> list[Host]:
    """One source for each name in comma-separated lists."""
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
