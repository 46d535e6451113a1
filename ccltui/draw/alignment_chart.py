"""Draw the lateness of each rank at each collective, or a value of each rank over hours.

Levels grow by factors above a floor. Below the floor a cell has a dot, or is blank where no rank
takes part, so that screens without lag stay calm and cost few bytes.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ccltui.draw.palette import HEAT, LEVELS, USUAL_FLOOR_NS, Ink
from ccltui.draw.planes import (
    BLANK,
    DENSITY,
    POINTER,
    UPPER_HALF,
    Planes,
    put_tick,
    round_step,
    ticks,
)
from ccltui.draw.timeline_chart import put_cursor
from ccltui.parsers import numbers
from ccltui.parsers.array_types import I64, U8, Bool

ABSENT = -1
"""Value in a matrix of lags for a rank that is not part of a collective."""

_STEPS = np.array([1.0, 2.5, 5.0, 10.0, 20.0, 50.0, 100.0])
"""Lower ends of the levels, in hundredths of the last; the first is the floor."""
_POOL_UNTIL = 256
ON_TIME = "·"
"""Mark of a rank that arrives in time; where it takes no part the cell is blank."""
PIN = "•"
"""Mark before the name of a pinned rank."""


class Columns(Struct, frozen=True):
    """Mapping of collectives to columns: ``per_cell`` in each cell, or each ``repeat`` cells wide.

    ``per_cell`` is a power of two and divides ``first``, so that a cell always covers a whole pool.
    """

    first: int
    per_cell: int = 1
    repeat: int = 1

    def column(self, k: int) -> int:
        """First column of collective ``k`` (negative left of the view)."""
        return (k - self.first) // self.per_cell * self.repeat

    def shown(self, cells: int) -> int:
        """Number of collectives that fit into ``cells``."""
        return -(-cells // self.repeat) * self.per_cell


class Heat(Struct, frozen=True):
    """Lag of ranks × collectives (int64 ns, ``ABSENT`` where a rank has none), with max pools."""

    late_ns: I64
    _pools: list[I64] = []

    def __post_init__(self) -> None:
        pool = self.late_ns
        self._pools.append(pool)
        while pool.shape[1] > _POOL_UNTIL:
            if pool.shape[1] % 2:
                pool = np.pad(pool, ((0, 0), (0, 1)), constant_values=ABSENT)
            pool = np.maximum(pool[:, ::2], pool[:, 1::2])
            self._pools.append(pool)

    def cells(self, columns: Columns, cells: int) -> I64:
        """Maximum of each cell, int64 [ranks, cells]; ``ABSENT`` right of the last collective."""
        ranks, count = self.late_ns.shape
        starts = columns.first + np.arange(cells) // columns.repeat * columns.per_cell
        level = min(columns.per_cell.bit_length() - 1, len(self._pools) - 1)
        pool = self._pools[level]
        size = 1 << level
        out = np.full((ranks, cells), ABSENT, np.int64)
        for step in range(columns.per_cell // size):
            at = starts // size + step
            use = (at < pool.shape[1]) & (starts < count)
            out[:, use] = np.maximum(out[:, use], pool[:, at[use]])
        return out


def scale_top_ns(lag_ns: I64, floor_ns: int) -> int:
    """Return where the last level of a scale by factors begins.

    A hundred times the floor; where one lag in a hundred is longer, the lag that one in a hundred
    exceeds: lags of 150 and 300 ms have the same colour on a scale that ends at 10 ms. Where
    doubtful clocks raise the floor, the longest lag: a hundred times 2.7 s is beyond all lags.
    """
    usual = int(_STEPS[-1] * floor_ns)
    if not len(lag_ns):
        return usual
    if floor_ns > USUAL_FLOOR_NS:
        usual = min(usual, max(int(lag_ns.max()), 2 * floor_ns))
    return max(usual, int(np.percentile(lag_ns, 99)))


def levels(late_ns: I64, floor_ns: int, top_ns: int, *, even: bool = False) -> U8:
    """Level 0 (below the floor, or absent) to 7 of each lag.

    The first begins at the floor, the last at ``top_ns``; those between grow by factors, or by
    equal steps if ``even``.
    """
    if even:
        steps = np.linspace(floor_ns, top_ns, len(_STEPS))
    elif top_ns < _STEPS[-1] * floor_ns:
        steps = np.geomspace(floor_ns, top_ns, len(_STEPS))
    else:
        steps = _STEPS * (top_ns / _STEPS[-1])
    steps[0] = floor_ns
    return np.digitize(late_ns, steps).astype(np.uint8)


class Rows(Struct, frozen=True):
    """Distribution of ranks over screen rows: one each, two halves each, or groups per half."""

    ranks: int
    per_half: int
    halves: int

    @classmethod
    def of(cls, ranks: int, rows: int) -> Rows:
        """Return the finest layout that shows all ranks in ``rows`` screen rows."""
        if ranks <= rows:
            return cls(ranks, 1, 1)
        return cls(ranks, max(-(-ranks // (2 * max(rows, 1))), 1), 2)

    @property
    def per_row(self) -> int:
        """Ranks in one screen row."""
        return self.per_half * self.halves

    @property
    def rows(self) -> int:
        """Screen rows in use."""
        return -(-self.ranks // self.per_row)


def align(
    heat: Heat,
    labels: Sequence[str],
    columns: Columns,
    *,
    height: int,
    width: int,
    gutter: int,
    floor_ns: int,
    selected: tuple[int, int],
    order: Sequence[int] | None = None,
    colour: bool = True,
    top_ns: int,
    even: bool = False,
    pinned: Sequence[int] = (),
    tall: int = 1,
) -> Planes:
    """Draw a ruler, and a heat row per rank or group; ``selected`` is (rank row, collective).

    ``order`` gives the rows of the matrix that belong to ``labels``, all rows by
    default; ``top_ns`` and ``even`` are those of `levels`; ``pinned`` are rank rows to mark; each
    row is ``tall`` lines, with its name on the first.
    """
    planes = Planes.blank(height, width, Ink.TEXT)
    cells = width - gutter
    if cells < 1 or height < 2:
        return planes
    rank, k = selected
    _ruler(planes, columns, gutter, cells, heat.late_ns.shape[1])
    put_cursor(planes, gutter, columns.column(k), cells)
    rows = Rows.of(len(labels), height - 1)
    late = heat.cells(columns, cells)
    chosen = late if order is None else late[list(order)]
    upper, lower = _halves(levels(chosen, floor_ns, top_ns, even=even), rows)
    glyph, style = _paint(upper, lower) if colour else _density(upper, lower)
    on_time = _on_time(chosen, upper + lower, rows)
    on_time[:, np.arange(cells) % columns.repeat != 0] = False  # one mark for each collective
    end = 1 + rows.rows * tall
    planes.glyph[1:end, gutter:] = np.repeat(glyph, tall, axis=0)
    planes.style[1:end, gutter:] = np.repeat(style, tall, axis=0)
    first = slice(1, end, tall)
    planes.glyph[first, gutter:] = np.where(on_time, ord(ON_TIME), glyph)
    planes.style[first, gutter:] = np.where(on_time, Ink.IDLE, style)
    for row in range(rows.rows):
        y = 1 + row * tall
        _label(planes, y, row, labels, rows, gutter=gutter, chosen=rank)
        if row * rows.per_row in pinned and planes.glyph[y, 0] == BLANK:
            planes.put(y, 0, PIN, Ink.LABEL)
    return planes


def _halves(level: U8, rows: Rows) -> tuple[U8, U8]:
    """Maximum level of the ranks in the upper and the lower half of every screen row."""
    missing = rows.rows * rows.per_row - rows.ranks
    padded = np.pad(level, ((0, missing), (0, 0)))
    shape = (rows.rows, rows.halves, rows.per_half, level.shape[1])
    groups = padded.reshape(shape).max(axis=2)
    return groups[:, 0], groups[:, -1]


def _on_time(late_ns: I64, level: U8, rows: Rows) -> Bool:
    """Cells in which a rank takes part and none is late."""
    missing = rows.rows * rows.per_row - rows.ranks
    there = np.pad((late_ns != ABSENT).astype(np.uint8), ((0, missing), (0, 0)))
    there = there.reshape(rows.rows, rows.per_row, late_ns.shape[1]).sum(axis=1)
    on_time: Bool = np.logical_and(there > 0, level == 0)
    return on_time


def _paint(upper: U8, lower: U8) -> tuple[npt.NDArray[np.uint32], U8]:
    glyph = np.where(upper == lower, BLANK, UPPER_HALF).astype(np.uint32)
    return glyph, (HEAT + upper * LEVELS + lower).astype(np.uint8)


def _density(upper: U8, lower: U8) -> tuple[npt.NDArray[np.uint32], U8]:
    level = np.maximum(upper, lower)
    return DENSITY[level], np.full(level.shape, Ink.TEXT, np.uint8)


def _ruler(planes: Planes, columns: Columns, gutter: int, cells: int, count: int) -> None:
    planes.style[0] = Ink.RULER
    planes.put(0, 0, f"×{columns.per_cell}", Ink.RULER)
    shown = columns.shown(cells)
    step = round_step(shown, cells, apart=8)
    for k in ticks(columns.first, min(columns.first + shown, count), step):
        put_tick(planes, gutter + columns.column(k), numbers.count(k))


def _label(
    planes: Planes, y: int, row: int, labels: Sequence[str], rows: Rows, *, gutter: int, chosen: int
) -> None:
    first = row * rows.per_row
    members = labels[first : first + rows.per_row]
    text = members[0]
    if len(members) > 1:
        text += ("/" if len(members) == 2 else "-") + members[-1]
    on = first <= chosen < first + rows.per_row
    text = (POINTER if on else " ") + text
    planes.put(y, 0, text[: gutter - 1].ljust(gutter - 1), Ink.LABEL_ON if on else Ink.LABEL)


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
    _hours_ruler(planes, view, first_us, window_us)
    if at >= 0:
        put_cursor(planes, 0, view.column(at), width)
    level = levels(rows, floor_ns, top_ns)
    blank = np.where(rows < 0, ord(" "), ord(ON_TIME))
    used = rows.shape[1]
    if colour:
        heat = HEAT + level.astype(np.int64) * (LEVELS + 1)
        planes.glyph[1:, :used] = np.where(level > 0, BLANK, blank)
        planes.style[1:, :used] = np.where(level > 0, heat, Ink.IDLE)
    else:
        planes.glyph[1:, :used] = np.where(level > 0, DENSITY[level], blank)
        planes.style[1:, :used] = np.where(level > 0, Ink.TEXT, Ink.IDLE)
    return planes


def _hours_ruler(planes: Planes, view: HourCells, first_us: int, window_us: int) -> None:
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
