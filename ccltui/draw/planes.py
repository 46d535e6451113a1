"""Picture of cells with one character and one style id each, and differences of pictures."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from msgspec import Struct, field

from ccltui.draw.glyphs import BLANK
from ccltui.draw.text import clean, fit
from ccltui.parsers.array_types import U8, U32

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
