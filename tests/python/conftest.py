"""For all tests here."""

from __future__ import annotations

from hypothesis import settings

# How long an example takes says how busy the machine is.
settings.register_profile("outrigger", deadline=None)
settings.load_profile("outrigger")
