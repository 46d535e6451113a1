"""Terminals in memory: what a user would see after a stream of bytes."""

from __future__ import annotations

from typing import Any

import pyte

Cell = tuple[str, str, str, bool, bool, bool]


class Terminal:
    """A pyte screen that is fed text and read cell by cell."""

    def __init__(self, width: int, height: int) -> None:
        self.screen = pyte.Screen(width, height)
        self._stream = pyte.Stream(self.screen)

    def feed(self, text: str) -> None:
        """Show ``text``."""
        self._stream.feed(text)

    def cells(self) -> list[list[Cell]]:
        """What can be seen of every cell: a blank has no foreground."""
        buffer = self.screen.buffer
        return [
            [_visible(buffer[y][x]) for x in range(self.screen.columns)]
            for y in range(self.screen.lines)
        ]

    def text(self) -> list[str]:
        """Characters of every row."""
        return list(self.screen.display)


def _visible(cell: Any) -> Cell:
    plain_blank = cell.data == " " and not cell.reverse and not cell.underscore
    foreground = "" if plain_blank else cell.fg
    bold = False if plain_blank else cell.bold
    return cell.data, foreground, cell.bg, bold, cell.underscore, cell.reverse


def differences(left: Terminal, right: Terminal) -> list[tuple[int, int, Cell, Cell]]:
    """Cells that look different: row, column, and both cells."""
    ours, theirs = left.screen.buffer, right.screen.buffer
    if all(ours[y] == theirs[y] for y in range(left.screen.lines)):
        return []  # most screens, without a look at what can be seen of each cell
    return [
        (y, x, a, b)
        for y, (left_row, right_row) in enumerate(zip(left.cells(), right.cells(), strict=True))
        for x, (a, b) in enumerate(zip(left_row, right_row, strict=True))
        if a != b
    ]
