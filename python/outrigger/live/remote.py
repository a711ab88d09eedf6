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
from outrigger.live import snapshot
from outrigger.live.sources import Told

MOST_HOSTS = 256
_ANSWERS_WITHIN_SECONDS = 10.0
_TRIES_AGAIN_SECONDS = 5.0
_MOST_WORDS = 200
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:%-]{0,254}")
"""None begins with a dash: to ssh it would be an option."""


def _command() -> str:
    """As this one was started; there it has the same path, or is found as here."""
    here = Path(sys.argv[0])
    return shlex.quote(str(here)) if here.is_absolute() and here.name == "outrigger" else "outrigger"


def _last_words(file: bytes) -> str:
    lines = file.decode(errors="replace").strip().splitlines()
    return "".join(letter for letter in lines[-1] if letter.isprintable())[:_MOST_WORDS] if lines else ""


class Host:
    """One that is asked. A thread takes what it says, so that a slow one keeps nobody waiting."""

    def __init__(self, ssh: str, name: str) -> None:
        self._words = [ssh, "-o", "BatchMode=yes", "-o", "ConnectTimeout=8", name, _command(), "exporter", "--lines"]
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
            return Told(snapshot.nodes_from_json(self._line, f"what {self._name} says"))
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
                process.kill()
                code = process.wait()
                errors.seek(0)
                self._problem = _last_words(errors.read()) or f"it has ended with code {code}"
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
