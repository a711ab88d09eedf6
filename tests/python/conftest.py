"""For all tests here."""

from __future__ import annotations

import signal

from hypothesis import settings

# A shell's background job ignores it, and would pass that on to the programs that are interrupted here.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says how busy the machine is.
settings.register_profile("outrigger", deadline=None)
settings.load_profile("outrigger")
