"""Draw a value of each rank over hours as colours, with a ruler of the time of day in UTC."""

from __future__ import annotations

import datetime
from typing import Final

import numpy as np
from msgspec import Struct

from ccltui.draw import glyphs
from ccltui.draw.alignment_chart import ON_TIME, levels
from ccltui.draw.palette import HEAT, LEVELS, Ink
from ccltui.draw.planes import Planes
from ccltui.draw.ruler import put_tick
from ccltui.draw.timeline_chart import put_cursor
from ccltui.parsers.array_types import I64

_SECOND_US: Final = 1_000_000
_STEPS_S: Final = (10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_APART: Final = 8
"""Cells between ticks: ``╷20:30`` and two blanks; a longer label leaves the next tick out."""
_LEAST_SPAN: Final = 12
"""Windows in view at the closest zoom: each is then several cells wide."""


class HourCells(Struct, frozen=True):
    """Which windows the cells show: ``per_cell`` in each, or each ``repeat`` cells wide."""

    first: int
    count: int
    per_cell: int
    repeat: int

    @classmethod
    def of(cls, windows: int, cells: int, *, zoom: int, at: int) -> HourCells:
        """Return the cells of a zoom: each step halves what is in view, around window ``at``."""
        span = span_of(windows, zoom)
        per_cell = -(-span // max(cells, 1))
        repeat = max(cells // span, 1)
        shown, there = max(cells // repeat, 1), -(-windows // per_cell)
        first = max(min(at // per_cell - shown // 2, there - shown), 0) * per_cell
        return cls(first, min(shown * per_cell, windows - first), per_cell, repeat)

    def column(self, window: int) -> int:
        """First column of a window (negative left of the view)."""
        return (window - self.first) // self.per_cell * self.repeat


def span_of(windows: int, zoom: int) -> int:
    """Return how many of so many windows a zoom shows."""
    return max(windows >> zoom, min(windows, _LEAST_SPAN))


def pooled(late_ns: I64, view: HourCells) -> I64:
    """Return the largest value of each cell, int64 [ranks, cells]; -1 where there is none."""
    chosen = late_ns[:, view.first : view.first + view.count]
    padding = -chosen.shape[1] % view.per_cell
    padded = np.pad(chosen, ((0, 0), (0, padding)), constant_values=-1)
    cells = padded.reshape(len(padded), -1, view.per_cell).max(axis=2)
    return np.repeat(cells, view.repeat, axis=1)


def draw_hours(
    late_ns: I64,
    view: HourCells,
    *,
    width: int,
    first_us: int,
    window_us: int,
    floor_ns: int,
    top_ns: int,
    at: int,
    colour: bool,
) -> Planes:
    """Draw a ruler, and a row of cells for each row of ``late_ns`` (ns, -1 where there is none).

    ``first_us`` is when the first window begins, µs since the epoch; ``at`` the selected window,
    -1 for none. The scale is that of `levels`.
    """
    rows = pooled(late_ns, view)[:, :width]
    planes = Planes.blank(len(rows) + 1, width, Ink.TEXT)
    planes.style[0] = Ink.RULER
    _ruler(planes, view, first_us, window_us)
    if at >= 0:
        put_cursor(planes, 0, view.column(at), width)
    level = levels(rows, floor_ns, top_ns)
    blank = np.where(rows < 0, ord(" "), ord(ON_TIME))
    used = rows.shape[1]
    if colour:
        heat = HEAT + level.astype(np.int64) * (LEVELS + 1)
        planes.glyph[1:, :used] = np.where(level > 0, glyphs.BLANK, blank)
        planes.style[1:, :used] = np.where(level > 0, heat, Ink.IDLE)
    else:
        planes.glyph[1:, :used] = np.where(level > 0, glyphs.DENSITY[level], blank)
        planes.style[1:, :used] = np.where(level > 0, Ink.TEXT, Ink.IDLE)
    return planes


def _ruler(planes: Planes, view: HourCells, first_us: int, window_us: int) -> None:
    """Draw ticks at round times of day."""
    per_tick = _APART * view.per_cell * window_us // (view.repeat * _SECOND_US)
    step_s = next((one for one in _STEPS_S if one >= per_tick), _STEPS_S[-1])
    form = "%H:%M:%S" if step_s < 60 else "%H:%M" if step_s < 86400 else "%m-%d"
    begin_s = (first_us + view.first * window_us) // _SECOND_US
    end_s = begin_s + view.count * window_us // _SECOND_US
    free = 0
    for second in range(-(-begin_s // step_s) * step_s, end_s, step_s):
        window = (second * _SECOND_US - first_us) // window_us
        x = view.column(window)
        text = datetime.datetime.fromtimestamp(second, datetime.UTC).strftime(form)
        if free <= x < planes.width:
            put_tick(planes, x, text)
            free = x + len(text) + 2
