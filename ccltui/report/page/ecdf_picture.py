"""Picture of cumulative distributions of times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from xml.etree.ElementTree import Element

from ccltui.parsers.numbers import duration
from ccltui.report.page import svg_elements as draw

if TYPE_CHECKING:
    from ccltui.metrics.findings.waits.rank_lateness import Distribution

_WIDTH: Final = 960
_HEIGHT: Final = 300
_LEFT: Final = 76
_RIGHT: Final = 110
_TOP: Final = 14
_BOTTOM: Final = 30
_LEAST_NS: Final = 100
"""Left end of the logarithmic axis: shorter times, zero among them, are drawn there."""


def ecdf_picture(curves: Sequence[Distribution]) -> Element:
    """Return one step curve each: the share of times up to the time below it."""
    words = "; ".join(
        f"{one.name}: median {duration(int(one.times_ns[50]))}, "
        f"95 % up to {duration(int(one.times_ns[95]))}"
        for one in curves
    )
    picture = draw.svg("ecdf", _WIDTH, _HEIGHT, "Cumulative distributions of times", words)
    low = max(min(int(one.times_ns[0]) for one in curves), _LEAST_NS)
    high = max(10 * low, *(int(one.times_ns[-1]) for one in curves))
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))

    def x_of(time_ns: int) -> float:
        place = (math.log10(max(time_ns, 10**first)) - first) / (last - first)
        return _LEFT + place * (_WIDTH - _LEFT - _RIGHT)

    def y_of(percent: float) -> float:
        return _TOP + (100 - percent) / 100 * (_HEIGHT - _TOP - _BOTTOM)

    for power in range(first, last + 1):
        x = x_of(10**power)
        draw.line(picture, x, _TOP, x, _HEIGHT - _BOTTOM, kind="rule")
        draw.label(picture, x, _HEIGHT - 10, duration(10**power), "label quiet middle")
    for percent in (0, 25, 50, 75, 100):
        draw.line(picture, _LEFT, y_of(percent), _WIDTH - _RIGHT, y_of(percent), kind="rule")
        draw.label(picture, _LEFT - 8, y_of(percent) + 4, f"{percent} %", "label quiet end")
    for number, one in enumerate(curves):
        times = one.times_ns.tolist()
        pieces = [f"M{draw.short(x_of(times[0]))} {draw.short(y_of(0))}"]
        for percent, time in enumerate(times):
            pieces.append(f"H{draw.short(x_of(time))}V{draw.short(y_of(percent))}")
        draw.path(picture, pieces, f"curve curve{number}")
        y = _TOP + 20 + 22 * number
        draw.path(picture, [f"M{_WIDTH - _RIGHT + 12} {y - 4}h22"], f"curve curve{number}")
        draw.label(picture, _WIDTH - _RIGHT + 40, y, one.name)
    return picture
