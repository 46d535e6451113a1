"""Picture of cells with one character and one style id each; coverage levels, and rulers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from ccltui.draw.palette import Ink
from ccltui.draw.text import clean, fit, wrap
from ccltui.parsers.array_types import I64, U8, U32


def _codes(text: str) -> U32:
    return np.array([ord(character) for character in text], np.uint32)


HEIGHTS: Final = _codes(" ▁▂▃▄▅▆▇█")
"""Coverage of a cell, in eighths from the bottom."""
LEFT: Final = _codes(" ▏▎▍▌▋▊▉█")
"""A box that ends inside a cell, in eighths from the left."""
RIGHT: Final = _codes(" ▕▕▐▐▐▐██")
"""A box that begins inside a cell: the nearest character, as there are no right-aligned eighths."""
DENSITY: Final = _codes(" .:-=+*#")
"""Characters of lag levels without colour."""
BLANK: Final = ord(" ")
FULL: Final = ord("█")
UPPER_HALF: Final = ord("▀")
CURSOR: Final = "▼"
TICK: Final = "╷"
HIT: Final = "▴"
POINTER: Final = "▶"


Span = tuple[int, int, int]
"""Row, first column, column after the last one."""


class Planes(Struct, frozen=True):
    """Characters (uint32 code points) and style ids (uint8), both of shape [rows, columns].

    ``listed`` maps rows of the picture to rows of a list; ``beside`` has, for a second column, its
    first cell and the row of the list there.
    """

    glyph: U32
    style: U8
    listed: dict[int, int] = field(default_factory=dict)
    beside: dict[int, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def blank(cls, height: int, width: int, style: int) -> Planes:
        """An empty picture of one style."""
        shape = (max(height, 0), max(width, 0))
        return cls(np.full(shape, BLANK, np.uint32), np.full(shape, style, np.uint8))

    def listed_at(self, y: int, x: int) -> int | None:
        """Return the row of a list at a cell, None where there is none."""
        column, row = self.beside.get(y, (self.width, None))
        return row if x >= column else self.listed.get(y)

    @property
    def height(self) -> int:
        """Number of rows."""
        return int(self.glyph.shape[0])

    @property
    def width(self) -> int:
        """Number of columns."""
        return int(self.glyph.shape[1])

    def put(self, y: int, x: int, text: str, style: int) -> int:
        """Write cleaned ``text`` at a place, cut at the edges; returns the column after it."""
        text = clean(text)
        end = x + len(text)
        if 0 <= y < self.height and x < self.width and end > 0:
            left, right = max(x, 0), min(end, self.width)
            codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
            self.glyph[y, left:right] = codes[left - x : right - x]
            self.style[y, left:right] = style
        return end

    def put_fitted(self, y: int, x: int, text: str, style: int) -> None:
        """Write ``text`` from a place to the right edge; truncation leaves an ellipsis."""
        self.put(y, x, fit(text, self.width - x), style)

    def put_wrapped(self, y: int, text: str, style: int, *, most: int = 3, indent: str = "") -> int:
        """Write ``text`` below a place, wrapped between words; returns the row after it."""
        lines = wrap(text, self.width - 2, most=most, indent=indent)
        for line in lines:
            self.put(y, 1, line, style)
            y += 1
        return y

    def put_row(self, y: int, text: str, style: int, *, on: bool, width: int | None = None) -> None:
        """Write a row of a list from the left edge on, marked where the cursor is on it."""
        line = f"{'▶' if on else ' '}{text}"
        size = self.width if width is None else width
        self.put(y, 0, line.ljust(size), Ink.LABEL_ON if on else style)

    def paste(self, other: Planes, y: int, x: int) -> None:
        """Copy another picture into this one, its corner at (y, x), cut at the edges."""
        height = min(other.height, self.height - y)
        width = min(other.width, self.width - x)
        if height > 0 and width > 0:
            self.glyph[y : y + height, x : x + width] = other.glyph[:height, :width]
            self.style[y : y + height, x : x + width] = other.style[:height, :width]

    def row_text(self, y: int) -> str:
        """Characters of one row."""
        text: bytes = self.glyph[y].tobytes()
        return text.decode("utf-32-le")

    def runs(self, y: int) -> list[tuple[str, int]]:
        """One row as (text, style id) pieces of equal style."""
        text, style = self.row_text(y), self.style[y]
        cuts = [0, *(np.flatnonzero(style[1:] != style[:-1]) + 1).tolist(), len(style)]
        return [
            (text[start:end], int(style[start])) for start, end in pairwise(cuts) if end > start
        ]

    def changes_from(self, before: Planes, *, join: int = 6) -> list[Span] | None:
        """Spans of cells that differ, or None if the shapes differ.

        Gaps shorter than ``join`` cells are filled: moving the cursor costs about as many bytes.
        """
        if before.glyph.shape != self.glyph.shape:
            return None
        changed = (self.glyph != before.glyph) | (self.style != before.style)
        spans: list[Span] = []
        for y in np.flatnonzero(changed.any(axis=1)).tolist():
            columns = np.flatnonzero(changed[y])
            cuts = np.flatnonzero(np.diff(columns) > join)
            starts = columns[np.concatenate([[0], cuts + 1])].tolist()
            ends = (columns[np.concatenate([cuts, [-1]])] + 1).tolist()
            spans.extend((y, start, end) for start, end in zip(starts, ends, strict=True))
        return spans


FURTHEST: Final = 32
"""Largest shift in cells: larger ones rarely match, and the search costs time."""
_WORTHWHILE: Final = 8
"""Least number of cells that must match after the shift and did not before."""


def moved_rows(before: Planes, now: Planes, left: int, guess: int = 0) -> list[tuple[int, int]]:
    """Rows, and the best shift in columns of their cells from ``left`` on.

    Steps of training resemble each other: at the same zoom another step gives the same picture
    except for a fraction of a cell. Shifts by up to ``FURTHEST`` columns and by ``guess`` are
    tried. Both pictures have the same shape; rows with little gain are left out.
    """
    old, new = _cells(before, left), _cells(now, left)
    same = (old == new).sum(axis=1)
    width = old.shape[1]
    rows = np.flatnonzero(width - same >= _WORTHWHILE)
    if not len(rows):
        return []
    near = min(FURTHEST, width - 1)
    tried = np.array([by for by in (guess, *range(-near, near + 1)) if abs(by) < width])
    alike = np.stack([_alike(old[rows], new[rows], int(by)) for by in tried])
    best = alike.argmax(axis=0)
    chosen = np.flatnonzero(alike.max(axis=0) - same[rows] >= _WORTHWHILE)
    return [(int(rows[row]), int(tried[best[row]])) for row in chosen]


def _cells(planes: Planes, left: int) -> npt.NDArray[np.uint64]:
    """Character and style of each cell combined in one number."""
    glyph = planes.glyph[:, left:].astype(np.uint64)
    return np.asarray((glyph << np.uint64(8)) | planes.style[:, left:])


def _alike(
    old: npt.NDArray[np.uint64], new: npt.NDArray[np.uint64], by: int
) -> npt.NDArray[np.intp]:
    """Number of equal cells of each row after shifting the old ones ``by`` columns to the right."""
    width = old.shape[1]
    was = old[:, max(-by, 0) : width - max(by, 0)]
    comes = new[:, max(by, 0) : width + min(by, 0)]
    return np.asarray((was == comes).sum(axis=1))


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
    text = TICK + label
    planes.put(0, x, text if x + len(text) <= planes.width else TICK, Ink.RULER)


def put_hits(planes: Planes, gutter: int, columns: I64) -> None:
    """Mark columns (int64, any order; columns out of view are ignored) on the ruler.

    On a label only the style changes, so that it stays readable; the cursor is not changed.
    """
    inside = columns[(columns >= 0) & (columns < planes.width - gutter)]
    at = np.unique(inside) + gutter
    at = at[planes.style[0, at] != Ink.CURSOR]
    planes.style[0, at] = Ink.HIT
    planes.glyph[0, at[planes.glyph[0, at] == BLANK]] = ord(HIT)


def put_area(planes: Planes, gutter: int, first: int, last: int) -> None:
    """Mark the visible columns from ``first`` to ``last`` on the ruler."""
    start, end = max(first, 0) + gutter, min(last + 1, planes.width - gutter) + gutter
    style = planes.style[0, start : max(end, start)]
    style[style != Ink.CURSOR] = Ink.AREA
