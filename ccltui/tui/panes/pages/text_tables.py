"""Find the tables in a page of text, to sort and filter their rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from ccltui.tui.state.own.sorting import Sorting, Value

_BETWEEN: Final = re.compile(r"\s{2,}")
_NUMBER: Final = re.compile(r"([+-]?[\d,]*\.?\d+(?:[eE][+-]?\d+)?)\s*(B|KiB|MiB|GiB|TiB|%)?")
_BYTES: Final = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_ABSENT: Final = frozenset({"", "-", "--"})


class TextTable(Struct, frozen=True):
    """A table: the line of its titles, the lines of its rows up to ``end``, titles and cells."""

    titles_at: int
    end: int
    titles: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]

    def order(self, sorting: Sorting) -> list[int]:
        """Return the lines of the rows in order, as they are where there is no such column."""
        lines = list(range(self.titles_at + 1, self.end))
        if sorting.column not in self.titles:
            return lines
        column = self.titles.index(sorting.column)
        return [
            lines[place] for place in sorting.order([value_of(row[column]) for row in self.cells])
        ]


def tables_of(lines: Sequence[str]) -> list[TextTable]:
    """Return the tables of a page: titles and rows of as many cells, two blanks or more apart.

    Args:
        lines: the lines of the page. A row may have blanks in its last cell only.
    """
    found: list[TextTable] = []
    at = 0
    while at < len(lines):
        titles = _BETWEEN.split(lines[at].strip())
        end, cells = at + 1, []
        while len(titles) > 1 and end < len(lines) and lines[end].strip():
            row = _BETWEEN.split(lines[end].strip(), maxsplit=len(titles) - 1)
            if len(row) != len(titles):
                break
            cells.append(tuple(row))
            end += 1
        is_table = bool(cells) and not any(isinstance(value_of(t), float) for t in titles)
        if is_table:
            found.append(TextTable(at, end, tuple(titles), tuple(cells)))
        at = end if is_table else at + 1
    return found


def value_of(cell: str) -> Value:
    """Return what a cell is sorted by: its number, in bytes where it is a size, else its text."""
    if cell in _ABSENT:
        return None
    found = _NUMBER.fullmatch(cell)
    if found is None:
        return cell
    return float(found[1].replace(",", "")) * _BYTES.get(found[2] or "", 1)
