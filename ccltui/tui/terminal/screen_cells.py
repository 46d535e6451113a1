"""Rows of terminal cells, and movements within them."""

from __future__ import annotations

from typing import TypeVar

from msgspec import Struct

from ccltui.tui.terminal.sgr import Look

T = TypeVar("T")


class Shift(Struct, frozen=True):
    """A hint that in rows [top, bottom) all cells from ``left`` on have moved by ``columns``."""

    top: int
    bottom: int
    left: int
    columns: int


class Row(Struct):
    """Characters and looks of one row; None for a cell that is unknown."""

    text: list[str | None]
    look: list[Look | None]

    @classmethod
    def unknown(cls, width: int) -> Row:
        """Return a row whose cells are all unknown."""
        return cls([None] * width, [None] * width)

    def copy(self) -> Row:
        """Return a copy."""
        return Row(self.text[:], self.look[:])

    def put(self, x: int, text: str, look: Look) -> None:
        """Set cells from column ``x`` on."""
        self.text[x : x + len(text)] = text
        self.look[x : x + len(text)] = [look] * len(text)

    def changes(self, before: Row) -> list[int]:
        """Return the columns whose cells differ from ``before``."""
        cells = zip(self.text, before.text, self.look, before.look, strict=True)
        return [x for x, (a, b, c, d) in enumerate(cells) if a != b or c != d]

    def shifted(self, left: int, columns: int) -> Row:
        """Return this row after the cells from ``left`` on have moved; new cells are unknown."""
        return Row(_moved(self.text, left, columns), _moved(self.look, left, columns))

    def agreement(self, other: Row, left: int) -> int:
        """Count the cells from column ``left`` on that are known and the same in ``other``."""
        pairs = zip(
            self.text[left:], other.text[left:], self.look[left:], other.look[left:], strict=True
        )
        return sum(a == b and c == d and a is not None for a, b, c, d in pairs)


def _moved(cells: list[T | None], left: int, columns: int) -> list[T | None]:
    tail = cells[left:]
    hole: list[T | None] = [None] * min(abs(columns), len(tail))
    tail = tail[-columns:] + hole if columns < 0 else hole + tail[: max(len(tail) - columns, 0)]
    return cells[:left] + tail
