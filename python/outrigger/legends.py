"""Legends under the axes of a figure."""

from __future__ import annotations

from typing import Any

_ROOM = 0.09  # of the figure's height, for a line or two


def below(figure: Any, side: str) -> Any:  # of the words that matplotlib lists
    """What to give to figure.legend as `loc`: under all axes, at the left or the center.

    matplotlib makes room there from 3.7 on. Debian 12 has 3.6, for which room is made here.
    """
    import matplotlib

    if matplotlib.__version_info__ >= (3, 7):
        return f"outside lower {side}"
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.set(rect=(0, _ROOM, 1, 1 - _ROOM))
    return f"lower {side}"
