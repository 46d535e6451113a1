"""Framed regions on one grid: one above the other, some of them beside each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct, field

from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes
from ccltui.draw.text import fit

Draw = Callable[[Planes, int, int, int], object]
"""Draws a line at a row and a column, in so many cells."""


class Region(Struct):
    """A title, a note at the right end of its rule, and lines, some of which are rows of a list."""

    title: str = ""
    note: str = ""
    lines: list[tuple[Draw, int | None]] = field(default_factory=list)

    def add(self, draw: Draw, row: int | None = None) -> None:
        """Add a line."""
        self.lines.append((draw, row))

    def picture(self, picture: Planes) -> None:
        """Add a picture."""
        self.add(lambda planes, y, x, width: planes.paste(picture, y, x))
        self.lines += [(_nothing, None)] * (picture.height - 1)

    def text(self, text: str, ink: Ink) -> None:
        """Add one line of text, cut where it is too long."""
        self.add(lambda planes, y, x, width: planes.put(y, x, fit(text, width).rstrip(), ink))

    @property
    def height(self) -> int:
        """Rows with the rule above; 0 without lines, where the region is left out."""
        return 1 + len(self.lines) if self.lines else 0


def _nothing(planes: Planes, y: int, x: int, width: int) -> None:
    del planes, y, x, width


class _Column(Struct, frozen=True):
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
    planes: Planes,
    left: Sequence[Region],
    right: Sequence[Region],
    below: Sequence[Region],
    bottom: str,
) -> int:
    """Draw regions and return the row below them; the first one is as wide as the picture.

    Args:
        planes: the picture.
        left: regions from top to bottom; with ``right`` all but the first are in the left column.
        right: regions of the right column; none for one column.
        below: regions below the columns, as wide as the picture.
        bottom: text in the lowest line.
    """
    last = planes.width - 1
    whole = _Column(planes, 0, last)
    y = whole.put(left[:1], 0, "╭╮")
    middle = middle_of(planes.width) if right else last
    columns_end = _Column(planes, 0, middle).put(left[1:], y)
    if right:
        columns_end = max(columns_end, _Column(planes, middle, last).put(right, y))
    end = whole.put(below, columns_end)
    whole.rule(end, "╰╯", "", bottom)
    for x, first, stop in ((0, 1, end), (last, 1, end), (middle, y, columns_end)):
        for row in range(first, min(stop, planes.height)):
            if planes.glyph[row, x] == ord(" "):
                planes.put(row, x, "│", Ink.RULER)
    if right:
        planes.put(y, middle, "┬", Ink.RULER)
        if columns_end < planes.height and planes.glyph[columns_end, middle] == ord("─"):
            planes.put(columns_end, middle, "┴", Ink.RULER)
    return end + 1


def middle_of(width: int) -> int:
    """Return the column of the line between two columns."""
    return width * 3 // 5
