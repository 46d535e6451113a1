"""Draw numbers as one line of plain text: bars and sparklines, without numpy."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

_HEIGHTS = "▁▂▃▄▅▆▇█"
_EIGHTHS = " ▏▎▍▌▋▊▉"


def spark(values: Sequence[float | None], width: int) -> str:
    """Sparkline from 0 to the largest value, one cell per value; blank if absent.

    A value of 0 has the lowest cell to itself. Where a value is negative the scale begins at the
    smallest one, and a first cell ``±`` says so. If there are more values than cells, a cell shows
    the maximum of its values.
    """
    known = [value for value in values if value is not None]
    low, high = min([0, *known]), max([0, *known])
    sign = "±" if low < 0 else ""
    shares = _shares(values, width - len(sign))
    return sign + "".join(_height(value, low, high) for value in shares)


def _shares(values: Sequence[float | None], width: int) -> list[float | None]:
    if len(values) <= width:
        return list(values)
    bounds = [len(values) * cell // width for cell in range(width + 1)]
    return [
        max((value for value in values[start:end] if value is not None), default=None)
        for start, end in pairwise(bounds)
    ]


def _height(value: float | None, low: float, high: float) -> str:
    if value is None:
        return " "
    if value == low:
        return _HEIGHTS[0]
    steps = len(_HEIGHTS) - 1
    return _HEIGHTS[max(1, min(round((value - low) / (high - low) * steps), steps))]


def bar(done: float, width: int) -> str:
    """Horizontal bar, ``done`` between 0 and 1, exact to an eighth of a cell."""
    eighths = round(min(max(done, 0.0), 1.0) * width * 8)
    text = "█" * (eighths // 8)
    if eighths % 8:
        text += _EIGHTHS[eighths % 8]
    return text.ljust(width)
