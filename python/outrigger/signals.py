"""Signals that a command handles for a while."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def handled(numbers: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Calls `handler` for these signals; afterwards they do what they did before.

    Python cannot put back a handler that is not its own, such as one of a library in LD_PRELOAD (UCX has one for
    SIGHUP): what the signal then does is the default.
    """
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, signal.SIG_DFL if earlier is None else earlier)
