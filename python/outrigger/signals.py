"""Signals that a command handles for a while."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from types import FrameType

Handler = Callable[[int, FrameType | None], object] | int | None
"""As signal.getsignal() gives it: none where it is not Python's."""


def put_back(before: Mapping[signal.Signals, Handler]) -> None:
    """These signals do again what they did before.

    Python cannot put back a handler that is not its own, such as one of a library in LD_PRELOAD (UCX has one for
    SIGHUP): what the signal then does is the default.
    """
    for number, handler in before.items():
        signal.signal(number, signal.SIG_DFL if handler is None else handler)
