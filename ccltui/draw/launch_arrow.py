"""Draw the way from the launch of device work to its start, over the lanes of one rank."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from ccltui.draw import glyphs
from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes

_DOWN, _ALONG, _ARRIVES = "│", "─", "▶"


class ArrowEnd(Struct, frozen=True):
    """One end of an arrow: a row of the picture, and a column of the chart, in view or not."""

    row: int
    column: int


def put_arrow(planes: Planes, gutter: int, launch: ArrowEnd, work: ArrowEnd) -> None:
    """Draw down from the launch to the row of the work, and along it to the start of the work.

    Along the row only blank cells are drawn on. An end out of view is marked at the edge; nothing
    is drawn where both ends are beyond one edge.
    """
    cells = planes.width - gutter
    ends = launch.column, work.column
    if cells < 1 or max(ends) < 0 or min(ends) >= cells:
        return
    from_x, to_x = (gutter + min(max(column, 0), cells - 1) for column in ends)
    for y in range(min(launch.row, work.row) + 1, max(launch.row, work.row)):
        planes.put(y, from_x, _DOWN, Ink.KEY)
    if 0 <= work.row < planes.height:
        left, right = sorted((from_x, to_x))
        blank = left + np.flatnonzero(planes.glyph[work.row, left : right + 1] == glyphs.BLANK)
        planes.glyph[work.row, blank], planes.style[work.row, blank] = ord(_ALONG), Ink.KEY
    planes.put(work.row, to_x, _ARRIVES, Ink.CURSOR)
    planes.put(launch.row, from_x, glyphs.CURSOR, Ink.CURSOR)
