"""A page of lines, some of them rows of a list, drawn so that the selected row is in view."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes
from ccltui.draw.text import wrap
from ccltui.parsers.numbers import counted

Drawn = Callable[[Planes, int], object]
"""Draws one line at a row of the picture."""

MARK = "▶"


class Page(Struct):
    """Lines from top to bottom.

    ``rows`` has the row of the list that each line is part of, ``begins`` whether a line begins a
    text, which is not cut at the bottom of the screen.
    """

    width: int
    lines: list[Drawn] = field(default_factory=list)
    rows: list[int | None] = field(default_factory=list)
    begins: list[bool] = field(default_factory=list)

    def add(self, drawn: Drawn, row: int | None = None, *, begins: bool = True) -> None:
        """Add a line, the first of a text or, where ``begins`` is false, a later one."""
        self.lines.append(drawn)
        self.rows.append(row)
        self.begins.append(begins)

    def text(self, text: str, ink: Ink, *, most: int = 4) -> None:
        """Add text without a row, wrapped between words."""
        for at, line in enumerate(wrap(text, self.width - 2, most=most)):
            self.add(_written(line, 1, ink), begins=not at)

    def line(self, text: str, ink: Ink, *, row: int | None = None, on: bool = False) -> None:
        """Add one line of a table, which is not wrapped: its blanks separate columns."""
        if on:
            self.add(_written(MARK + text.ljust(self.width - 1), 0, Ink.LABEL_ON), row)
        else:
            self.add(_written(text, 1, ink), row)

    def blank(self) -> None:
        """Add an empty line, except after another one and at the top."""
        if self.lines and self.lines[-1] is not _nothing:
            self.add(_nothing)

    def row(self, row: int, text: str, ink: Ink, *, on: bool, most: int = 4) -> None:
        """Add a row of the list, wrapped between words, with a mark where it is selected."""
        shown = Ink.LABEL_ON if on else ink
        for at, line in enumerate(wrap(text, self.width - 2, most=most, indent="  ")):
            mark = MARK if on and not at else " "
            whole = mark + (line.ljust(self.width - 1) if on else line)
            self.add(_written(whole, 0, shown), row, begins=not at)

    def paint(self, height: int, selected: int) -> Planes:
        """Draw the lines that fit; they move by half a page where the selected row is below.

        Where lines are left, the last one has their number, and no text is cut above it.
        """
        planes = Planes.blank(height, self.width, Ink.TEXT)
        places = [at for at, row in enumerate(self.rows) if row == selected]
        first = self._first(height, places[-1] if places else 0)
        end = self._end(first, height)
        for y, drawn in enumerate(self.lines[first:end]):
            drawn(planes, y)
            row = self.rows[first + y]
            if row is not None:
                planes.listed[y] = row
        if left := len(self.lines) - end:
            planes.put(height - 1, 1, f"↓ {counted(left, 'more line')}", Ink.DIM)
        return planes

    def _end(self, first: int, height: int) -> int:
        """Line after the last one in view: a text that continues below is left out as a whole."""
        end = first + height
        if end >= len(self.lines):
            return len(self.lines)
        end = least = max(end - 1, first)
        while least > first and not self.begins[least]:
            least -= 1
        return least if least > first else end  # a single text that is longer than the page

    def _first(self, height: int, last_line: int) -> int:
        """First line in view. Half pages, so that most moves change two rows of cells only."""
        room = len(self.lines) - height
        if room <= 0 or last_line < height - 1:
            return 0
        half = max(height // 2, 1)
        return min(-(-(last_line - height + 2) // half) * half, room)


def _written(text: str, x: int, ink: Ink) -> Drawn:
    return lambda planes, y: planes.put(y, x, text, ink)


def _nothing(planes: Planes, y: int) -> None:
    del planes, y
