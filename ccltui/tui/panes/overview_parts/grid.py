"""Framed regions on one grid: one above the other, or below the first in two columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes
from ccltui.draw.text import fit

Draw = Callable[[Planes, int, int, int], object]
"""Draws a line at a row and a column, in so many cells."""


@dataclass(slots=True)
class Region:
    """A title, a note at the right end of its rule, and lines, some of which are rows of a list."""

    title: str = ""
    note: str = ""
    lines: list[tuple[Draw, int | None]] = field(default_factory=list)

    def add(self, draw: Draw, row: int | None = None) -> None:
        """Add a line."""
        self.lines.append((draw, row))

    def text(self, text: str, ink: Ink) -> None:
        """Add one line of text, cut where it is too long."""
        self.add(lambda planes, y, x, width: planes.put(y, x, fit(text, width).rstrip(), ink))

    @property
    def height(self) -> int:
        """Rows with the rule above; 0 without lines, where the region is left out."""
        return 1 + len(self.lines) if self.lines else 0


@dataclass(frozen=True, slots=True)
class _Column:
    """Part of a picture from its left to its right line."""

    planes: Planes
    x: int
    end: int

    def put(self, regions: Sequence[Region], y: int, ends: str = "├┤") -> int:
        """Draw regions one below the other, and return the row after them."""
        for region in regions:
            if not region.lines:
                continue
            self.rule(y, ends, region.title, region.note)
            for draw, row in region.lines:
                y += 1
                draw(self.planes, y, self.x + 2, self.end - self.x - 3)
                if row is not None and self.x:
                    self.planes.beside[y] = self.x, row
                elif row is not None:
                    self.planes.listed[y] = row
            y += 1
        return y

    def rule(self, y: int, ends: str, title: str, note: str) -> None:
        """Draw a line with a title at its left and a note at its right end."""
        planes, x, end = self.planes, self.x, self.end
        planes.put(y, x, ends[0] + "─" * (end - x - 1) + ends[1], Ink.RULER)
        at = x + 2
        if title:
            at = planes.put(y, at, f" {fit(title, min(len(title), end - at - 3))} ", Ink.STRONG)
        room = end - at - 4
        if note and room >= min(len(note), 8):
            text = f" {fit(note, min(len(note), room))} "
            planes.put(y, end - 1 - len(text) if title else x + 2, text, Ink.DIM)


def put_regions(
    planes: Planes, left: Sequence[Region], right: Sequence[Region], bottom: str
) -> int:
    """Draw regions and return the row below them; the first one is as wide as the picture.

    Args:
        planes: the picture.
        left: regions from top to bottom; with ``right`` all but the first are in the left column.
        right: regions of the right column; none for one column.
        bottom: text in the lowest line.
    """
    last = planes.width - 1
    whole = _Column(planes, 0, last)
    y = whole.put(left[:1], 0, "╭╮")
    middle = middle_of(planes.width) if right else last
    end = _Column(planes, 0, middle).put(left[1:], y)
    if right:
        end = max(end, _Column(planes, middle, last).put(right, y))
    for x in {0, middle, last}:
        for row in range(1 if x in (0, last) else y, min(end, planes.height)):
            if planes.glyph[row, x] == ord(" "):
                planes.put(row, x, "│", Ink.RULER)
    whole.rule(end, "╰╯", "", bottom)
    if right:
        planes.put(y, middle, "┬", Ink.RULER)
        if end < planes.height and planes.glyph[end, middle] == ord("─"):
            planes.put(end, middle, "┴", Ink.RULER)
    return end + 1


def middle_of(width: int) -> int:
    """Return the column of the line between two columns."""
    return width * 3 // 5
