"""Lay out text: aligned tables, tables of Markdown, and names that are safe in them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from ccltui.parsers.safe_text import safe_text

_ENTITIES: Final = str.maketrans({"<": "&lt;", ">": "&gt;"})
_ENTITY: Final = re.compile(r"&(?=#?\w+;)")
"""An ampersand that begins an entity; any other, as in C++, is one in Markdown as well."""
# A backslash is literal before a letter, and an escape before punctuation.
_MARKUP: Final = re.compile(r"\\(?=[!-/:-@\[-`{-~])|[`|\[\]]")


def table_row(cells: Sequence[str]) -> str:
    """Line of a table with escaped cells."""
    return "| " + " | ".join(map(escaped, cells)) + " |"


def markdown_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], align: Sequence[str] = ()
) -> list[str]:
    """Lines of a table; ``align`` is "left" or "right" for the first columns, left for others."""
    rule = ["---:" if side == "right" else "---" for side in align]
    rule += ["---"] * (len(header) - len(rule))
    return [table_row(header), f"| {' | '.join(rule)} |", *map(table_row, rows)]


def escaped(text: str) -> str:
    """Return ``text`` as safe text without tags, links, images, code spans or cell borders."""
    plain = _ENTITY.sub("&amp;", safe_text(text))
    entities = _MARKUP.sub(r"\\\g<0>", plain).translate(_ENTITIES)
    # An arrow, as in names of copies, ends no tag: every "<" before it is an entity.
    return entities.replace("-&gt;", "->")


def code(text: str) -> str:
    """Return ``text`` as a code span, or escaped where a span cannot contain it."""
    plain = escaped(text).replace("\\|", "|")
    return f"`{text}`" if plain == text else escaped(text)


Align = Literal["left", "right"]

GAP: Final = "  "
EMPTY: Final = "-"
"""Text of an empty cell of a table, so that columns stay countable."""


def text_bytes(lines: Iterable[str]) -> bytes:
    """Encode lines as UTF-8, each as safe text and ended by a line feed."""
    return "".join([f"{safe_text(line)}\n" for line in lines]).encode()


def text_width(text: str) -> int:
    """Width of ``text`` in terminal columns."""
    if text.isascii():
        return len(text)
    return sum(_char_width(char) for char in text)


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    align: Sequence[Align] = (),
    widest: Mapping[int, int] | None = None,
) -> list[str]:
    """Lines of a table; cells become safe text, empty ones EMPTY; the last column is not padded.

    Args:
        header: Titles of the columns.
        rows: Cells of each row.
        align: Sides of the first columns, left for the others.
        widest: Widths in characters that a column does not exceed, by its index. A cell that is
            wider is written whole and moves the rest of its own row only.
    """
    limits = widest or {}
    cells = [[safe_text(cell) or EMPTY for cell in row] for row in (header, *rows)]
    widths = [
        max(
            (width for row in cells if (width := text_width(row[column])) <= limits[column])
            if column in limits
            else (text_width(row[column]) for row in cells)
        )
        for column in range(len(header))
    ]
    sides: list[Align] = ["left"] * len(header)
    sides[: len(align)] = align
    return [_line(row, widths, sides) for row in cells]


def _char_width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _line(row: Sequence[str], widths: Sequence[int], sides: Sequence[Align]) -> str:
    last = len(row) - 1
    padded = (
        _pad(cell, width, side, is_last=column == last)
        for column, (cell, width, side) in enumerate(zip(row, widths, sides, strict=True))
    )
    return GAP.join(padded)


def _pad(cell: str, width: int, side: Align, *, is_last: bool) -> str:
    blanks = " " * (width - text_width(cell))
    if side == "right":
        return blanks + cell
    return cell if is_last else cell + blanks
