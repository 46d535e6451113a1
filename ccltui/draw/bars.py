"""Draw stacked bars of time: the parts of a step."""

from __future__ import annotations

from collections.abc import Sequence

from ccltui.draw import glyphs
from ccltui.draw.palette import Ink, filled, style_of
from ccltui.draw.planes import Planes
from ccltui.draw.ruler import round_step, ticks
from ccltui.parsers import numbers

_INKS = (Ink.COMPUTE, Ink.EXPOSED, Ink.OVERLAPPED, Ink.COPY, Ink.IDLE)
_ORDER = (0, 2, 1, 3, 4)
"""Order of the parts: computing, overlapped, exposed, copies, idle."""


def put_scale(planes: Planes, y: int, x: int, most_ns: int) -> None:
    """Ticks of time from 0 at ``x`` to ``most_ns`` at the right edge."""
    cells = planes.width - x
    if cells < 1:
        return
    for at in ticks(0, most_ns, round_step(most_ns, cells)):
        text = glyphs.TICK + (numbers.duration(at) if at else "0")
        planes.put(y, x + at * cells // most_ns, text, Ink.RULER)


def put_bar(
    planes: Planes, y: int, x: int, parts_ns: Sequence[int], most_ns: int, *, colour: bool
) -> None:
    """Parts (computing, exposed, overlapped, copies, idle) end to end, to the nearest cell."""
    if y >= planes.height or x >= planes.width:
        return
    cells, passed, left = planes.width - x, 0, 0
    for part in _ORDER:
        passed += parts_ns[part]
        right = round(passed * cells / max(most_ns, 1))
        if right > left:
            glyph = filled(_INKS[part], colour=colour)
            style = style_of(glyph, _INKS[part])
            planes.put(y, x + left, glyph * (right - left), style)
        left = max(right, left)
