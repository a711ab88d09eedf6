"""Errors that the user can fix."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Printed as one message without a traceback; the exit code is 2."""


def or_known(word: str, known: Iterable[str]) -> str:
    """Suggests a name for an unknown word: a similar one, else all names."""
    names = list(dict.fromkeys(known))
    if close := difflib.get_close_matches(word, names, n=1):
        return f"did you mean {close[0]}?"
    return f"there are {', '.join(names)}"
