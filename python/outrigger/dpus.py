"""Service processes on the DPUs of a job: on those of all its hosts, or on none."""

from __future__ import annotations

import contextlib
import secrets
import shlex
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from outrigger.dpu_process import SECONDS_TO_END, CannotStartError, Ready, Running, Way, start
from outrigger.plan import Share
from outrigger.settings import DPUS

_SECRET_BYTES = 16
_STARTED_AT_ONCE = 32


@dataclass(frozen=True)
class Fleet:
    """DPUs of a job, all ready, or the reason why none is used."""

    shares: tuple[Share, ...] = ()
    running: tuple[Running, ...] = ()
    secret: str = ""
    problem: str | None = None

    def environment(self) -> dict[str, str]:
        """Environment for the ranks."""
        if not self.running:
            return {}
        pairs = [
            f"{share.host.name}={each.dpu}:{each.ready.port}"
            for share, each in zip(self.shares, self.running, strict=True)
            if each.ready is not None
        ]
        return {DPUS: f"{self.secret}@{','.join(pairs)}"}

    def ready(self) -> dict[str, Ready]:
        """Ready lines of the DPUs, by name."""
        return {each.dpu: each.ready for each in self.running if each.ready is not None}

    def pass_on_logs(self) -> None:
        """Output of the DPUs since the last call. Must be called regularly, or they block."""
        for each in self.running:
            each.pass_on_log()

    def notes(self) -> list[str]:
        """After the job: failures of DPUs during it."""
        return [note for each in self.running if (note := each.lost()) is not None]


def placeholders(shares: Sequence[Share]) -> dict[str, str]:
    """Environment of the ranks with placeholders: ports and secret are chosen at the start of the DPUs."""
    if not shares:
        return {}
    pairs = [f"{share.host.name}={share.dpu}:PORT" for share in shares]
    return {DPUS: f"SECRET@{','.join(pairs)}"}


def as_comments(shares: Sequence[Share], how: Way) -> list[str]:
    """Commands that a job runs on DPUs before its ranks, as shell comments."""
    return [f"# for DPU {share.dpu}: echo SECRET | {shlex.join(how.command(share.dpu or ''))}" for share in shares]


@dataclass(frozen=True)
class Attempt:
    """Result of starting one DPU."""

    share: Share
    running: Running | None
    """None: it is not ready."""
    problem: str = ""
    """Reason and remedy if it is not ready."""


@contextlib.contextmanager
def each_started(shares: Sequence[Share], how: Way, secret: str) -> Iterator[list[Attempt]]:
    """Starts the DPUs of all hosts at once. They end with the context."""
    running: list[Running] = []
    try:
        yield _start_all(shares, how, secret, running)
    finally:
        end_all(running)


def _start_all(shares: Sequence[Share], how: Way, secret: str, running: list[Running]) -> list[Attempt]:
    """Fills `running` step by step, so that an interrupt leaves none behind."""

    def attempt(share: Share) -> Attempt:
        try:
            each = start(share.dpu or "", how, secret)
            running.append(each)
            each.wait_until_ready()
        except CannotStartError as error:
            return Attempt(share, None, str(error))
        return Attempt(share, each)

    pool = ThreadPoolExecutor(_STARTED_AT_ONCE)
    try:
        return list(pool.map(attempt, shares))
    except BaseException:
        for each in list(running):  # ends all waits for them
            each.process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _why_not(attempts: Sequence[Attempt]) -> str | None:
    """One line for all that failed."""
    failed = [attempt for attempt in attempts if attempt.running is None]
    if not failed:
        return None
    share = failed[0].share
    others = f" (and {len(failed) - 1} more DPU{'s' * (len(failed) > 2)})" if len(failed) > 1 else ""
    return (
        f"DPU {share.dpu} of {share.host.name}: {failed[0].problem}{others}; service processes run on the hosts instead"
    )


@contextlib.contextmanager
def started(shares: Sequence[Share], how: Way) -> Iterator[Fleet]:
    """Starts the DPUs of all hosts. If one fails, none is used: the decision must be the same for the whole job."""
    secret = new_secret()
    with each_started(shares, how, secret) as attempts:
        running = [attempt.running for attempt in attempts if attempt.running is not None]
        problem = _why_not(attempts)
        if problem is not None:
            end_all(running)
            yield Fleet(problem=problem)
        else:
            yield Fleet(tuple(shares), tuple(running), secret)


def new_secret() -> str:
    """Secret shared by both ends of a job, in hexadecimal."""
    return secrets.token_hex(_SECRET_BYTES)


def end_all(running: Sequence[Running]) -> None:
    """Ends all at once: each takes some time."""
    for each in running:
        each.hang_up()
    deadline = time.monotonic() + SECONDS_TO_END
    for each in running:
        each.end(deadline)
