"""Draw ticks at round steps that leave room for their labels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ccltui.draw import glyphs
from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes
from ccltui.parsers.array_types import I64

MIN_CELLS = 12


def round_step(span: int, cells: int, *, apart: int = MIN_CELLS) -> int:
    """The smallest 1, 2, 5 times a power of ten with ticks at least ``apart`` cells apart."""
    wanted = max(span * apart / max(cells, 1), 1)
    power = 1
    while True:
        for factor in (1, 2, 5):
            if factor * power >= wanted:
                return factor * power
        power *= 10


def ticks(start: int, end: int, step: int) -> Iterator[int]:
    """Multiples of ``step`` in [start, end)."""
    first = -(-start // step) * step
    yield from range(first, end, step)


def put_tick(planes: Planes, x: int, label: str) -> None:
    """Draw a tick on the ruler, with its label if it fits completely."""
    text = glyphs.TICK + label
    planes.put(0, x, text if x + len(text) <= planes.width else glyphs.TICK, Ink.RULER)


def put_hits(planes: Planes, gutter: int, columns: I64) -> None:
    """Mark columns (int64, any order; columns out of view are ignored) on the ruler.

    On a label only the style changes, so that it stays readable; the cursor is not changed.
    """
    inside = columns[(columns >= 0) & (columns < planes.width - gutter)]
    at = np.unique(inside) + gutter
    at = at[planes.style[0, at] != Ink.CURSOR]
    planes.style[0, at] = Ink.HIT
    planes.glyph[0, at[planes.glyph[0, at] == glyphs.BLANK]] = ord(glyphs.HIT)


def put_area(planes: Planes, gutter: int, first: int, last: int) -> None:
    """Mark the visible columns from ``first`` to ``last`` on the ruler."""
    start, end = max(first, 0) + gutter, min(last + 1, planes.width - gutter) + gutter
    style = planes.style[0, start : max(end, start)]
    style[style != Ink.CURSOR] = Ink.AREA
