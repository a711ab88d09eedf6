"""A progress bar with the remaining time."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

_BETWEEN_S = 0.2


def clock(seconds: float) -> str:
    """1:05."""
    whole = max(0, round(seconds))
    return f"{whole // 60}:{whole % 60:02d}"


class _Left(ProgressColumn):
    """Counts down between updates; counts up while the end is unknown."""

    def render(self, task: Task) -> Text:
        now = time.monotonic()
        until = task.fields["until"]
        return Text(f"{clock(now - task.fields['began'])} so far" if until is None else f"{clock(until - now)} left")


class Bar:
    """The bar of all runs together.

    Unless it `draws_itself`, which needs a thread, it is drawn at each update: code that starts programs by
    job_process.py may have no other thread.
    """

    def __init__(self, console: Console, *, draws_itself: bool = False) -> None:
        self._progress = Progress(
            BarColumn(30),
            _Left(),
            TextColumn("{task.description}"),
            console=console,
            auto_refresh=draws_itself,
            transient=True,
            disable=not console.is_terminal,
        )
        self._drawn = 0.0
        self._began = time.monotonic()
        self._task = self._progress.add_task("", total=1.0, until=None, began=self._began)

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def shows(self, what: str, spent_s: float, expected_s: float) -> None:
        """`what` runs; `spent_s` of the total time have passed."""
        self._draw(what, max(expected_s, 1e-9), spent_s, max(expected_s - spent_s, 0.0))

    def counts(self, what: str, done: int, total: int) -> None:
        """`what` runs after `done` of `total` steps, whose times are assumed equal."""
        spent_s = time.monotonic() - self._began
        left_s = spent_s / done * (total - done) if done else None
        self._draw(what, max(total, 1), min(done, total), left_s)

    def _draw(self, what: str, total: float, completed: float, left_s: float | None) -> None:
        until = None if left_s is None else time.monotonic() + left_s
        self._progress.update(self._task, description=what, total=total, completed=completed, until=until)
        if time.monotonic() - self._drawn >= _BETWEEN_S:
            self._drawn = time.monotonic()
            self._progress.refresh()
