"""Format aligned rows: columns as wide as their content, dropped from the right if too narrow."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ccltui.draw.text import Align, clean, fit

GAP = 2


class Column(Struct, frozen=True):
    """A column: heading, alignment, maximum and minimum width."""

    title: str
    align: Align = "left"
    widest: int = 40
    least: int = 0


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Heading and rows as lines of at most ``width`` cells.

    The first column is always shown; a later one that does not fit is dropped with all columns to
    the right of it. The last shown column may be cut.
    """
    cells = [[clean(cell) for cell in row] for row in rows]
    widths = _widths(columns, cells)
    kept = _kept(widths, width)
    heading = [column.title for column in columns]
    return [_line(row[:kept], columns[:kept], widths[:kept], width) for row in (heading, *cells)]


def _widths(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> list[int]:
    widths = []
    for index, column in enumerate(columns):
        content = max((len(row[index]) for row in cells), default=0)
        widths.append(min(max(content, len(column.title), column.least), column.widest))
    return widths


def _kept(widths: Sequence[int], width: int) -> int:
    used = 0
    for index, column in enumerate(widths):
        used += column + (GAP if index else 0)
        if used > width and index:
            return index
    return len(widths)


def _line(row: Sequence[str], columns: Sequence[Column], widths: Sequence[int], width: int) -> str:
    parts = [
        fit(cell, size, align=column.align)
        for cell, column, size in zip(row, columns, widths, strict=True)
    ]
    return (" " * GAP).join(parts)[:width].rstrip()
