"""Draw numbers as one line of plain text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

_HEIGHTS = "▁▂▃▄▅▆▇█"
_EIGHTHS = " ▏▎▍▌▋▊▉"


def spark(values: Sequence[float | None], width: int) -> str:
    """Sparkline between the smallest and the largest value, one cell per value; blank if absent.

    If there are more values than cells, a cell shows the maximum of its values.
    """
    shares = _shares(values, width)
    known = [value for value in shares if value is not None]
    if not known:
        return " " * len(shares)
    low, high = min(known), max(known)
    return "".join(_height(value, low, high) for value in shares)


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
    if high == low:
        return _HEIGHTS[3]
    return _HEIGHTS[min(int((value - low) / (high - low) * 8), 7)]


def bar(done: float, width: int) -> str:
    """Horizontal bar, ``done`` between 0 and 1, exact to an eighth of a cell."""
    eighths = round(min(max(done, 0.0), 1.0) * width * 8)
    text = "█" * (eighths // 8)
    if eighths % 8:
        text += _EIGHTHS[eighths % 8]
    return text.ljust(width)
