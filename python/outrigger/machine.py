"""Description of this machine."""

from __future__ import annotations

import platform
from pathlib import Path

from outrigger import cores


def describe() -> str:
    """Its name, its processor, and the number of allowed cores."""
    model = ""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    except OSError:
        pass
    return ", ".join(filter(None, (platform.node(), model, f"{len(cores.allowed_cores())} cores")))
