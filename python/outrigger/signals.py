"""Signal handlers for a limited time."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from types import FrameType

Handler = Callable[[int, FrameType | None], object] | int | None
"""As from signal.getsignal(): None if it is not Python's."""


def put_back(before: Mapping[signal.Signals, Handler]) -> None:
    """Restores the earlier handlers.

    Python cannot restore handlers of other libraries, such as those in LD_PRELOAD (UCX has one for SIGHUP): such
    signals get the default action.
    """
    for number, handler in before.items():
        signal.signal(number, signal.SIG_DFL if handler is None else handler)
