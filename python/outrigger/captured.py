"""Runs a program for its output."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

from outrigger.errors import UserError


def captured(
    command: Sequence[str],
    timeout_s: float,
    *,
    said: str = "",
    environment: Mapping[str, str] | None = None,
    if_missing: str = "",
    if_silent: str = "",
) -> subprocess.CompletedProcess[str]:
    """Output of a program that gets `said` as input, and its exit code.

    UserErrors, with a hint, if it cannot be run or does not end.
    """
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            input=said,
            env=environment,
            timeout=timeout_s,
            check=False,
        )
    except OSError as error:
        raise UserError(f"cannot run {command[0]}: {error.strerror}{if_missing}") from error
    except subprocess.TimeoutExpired:
        raise UserError(f"{' '.join(command)}: no answer within {timeout_s:.0f} s{if_silent}") from None
