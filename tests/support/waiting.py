"""Waiting for what another process or thread does."""

from __future__ import annotations

import time
from collections.abc import Callable

LATE_S = 0.1
"""A pause that takes so much longer is a hang of the machine, which keeps no time limit."""


def wait_until(condition: Callable[[], bool], timeout_s: float = 60.0, *, pause_s: float = 0.02) -> bool:
    """True once the condition holds, False after the time. Looks at it at least once, and once more at the end."""
    end = time.monotonic() + timeout_s
    while True:
        looked = time.monotonic()
        if condition():
            return True
        if looked > end:
            return False
        began = time.monotonic()
        time.sleep(pause_s)
        late_s = time.monotonic() - began - pause_s
        if late_s > LATE_S:
            end += late_s
