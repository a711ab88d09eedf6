"""Small charts made of characters."""

from __future__ import annotations

from collections.abc import Sequence

_LEVELS = " ▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int, top: float | None = None) -> str:
    """The last `width` values, scaled to `top` or to the highest of them."""
    shown = list(values)[-width:]
    highest = max(shown, default=0.0) if top is None else top
    if highest <= 0:
        return (_LEVELS[1] * len(shown)).rjust(width)
    steps = len(_LEVELS) - 2
    letters = (_LEVELS[1 + min(steps, max(0, round(value / highest * steps)))] for value in shown)
    return "".join(letters).rjust(width)


def bar(parts: Sequence[tuple[float, str]], width: int) -> list[tuple[str, str]]:
    """Fractions of one, each with a style, as a bar of this width; the rest is empty."""
    pieces: list[tuple[str, str]] = []
    at = 0.0
    drawn = 0
    for part, style in parts:
        at += max(0.0, part)
        until = min(width, round(at * width))
        pieces.append(("█" * (until - drawn), style))
        drawn = until
    pieces.append(("░" * (width - drawn), "dim"))
    return [piece for piece in pieces if piece[0]]
