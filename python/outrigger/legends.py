"""Legends under the axes of a figure."""

from __future__ import annotations

from typing import Any

_ROOM = 0.09  # fraction of the figure's height, for a line or two


def below(figure: Any, side: str) -> Any:  # "left" or "center"
    """Value of `loc` for figure.legend: below all axes, at the left or the center.

    matplotlib makes room there since 3.7. Debian 12 has 3.6, for which this function makes room.
    """
    import matplotlib

    if matplotlib.__version_info__ >= (3, 7):
        return f"outside lower {side}"
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.set(rect=(0, _ROOM, 1, 1 - _ROOM))
    return f"lower {side}"
