"""Draw stacked bars of time: the parts of a step."""

from __future__ import annotations

from collections.abc import Mapping

from ccltui.draw import glyphs
from ccltui.draw.palette import KIND_INKS, Ink, filled, style_of
from ccltui.draw.planes import Planes
from ccltui.draw.ruler import round_step, ticks
from ccltui.parsers import numbers


def put_scale(planes: Planes, y: int, x: int, most_ns: int) -> None:
    """Ticks of time from 0 at ``x`` to ``most_ns`` at the right edge."""
    cells = planes.width - x
    if cells < 1:
        return
    for at in ticks(0, most_ns, round_step(most_ns, cells)):
        text = glyphs.TICK + (numbers.duration(at) if at else "0")
        planes.put(y, x + at * cells // most_ns, text, Ink.RULER)


def put_bar(
    planes: Planes, y: int, x: int, parts_ns: Mapping[str, int], most_ns: int, *, colour: bool
) -> None:
    """Draw kinds of time end to end, each to the nearest cell."""
    if y >= planes.height or x >= planes.width:
        return
    cells, passed, left = planes.width - x, 0, 0
    for kind, part_ns in parts_ns.items():
        passed += part_ns
        right = round(passed * cells / max(most_ns, 1))
        if right > left:
            ink = KIND_INKS[kind]
            glyph = filled(ink, colour=colour)
            style = style_of(glyph, ink)
            planes.put(y, x + left, glyph * (right - left), style)
        left = max(right, left)
