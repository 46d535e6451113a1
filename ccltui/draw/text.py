"""Lines of text: made safe for a terminal, in styled pieces, as bars and as aligned tables.

The splash draws with it before anything is installed for sure, so it imports no other package.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from ccltui.parsers.safe_text import safe_text

_HEIGHTS = "▁▂▃▄▅▆▇█"
_EIGHTHS = " ▏▎▍▌▋▊▉"


def spark(values: Sequence[float | None], width: int) -> str:
    """Sparkline from 0 to the largest value, one cell per value; blank if absent.

    A value of 0 has the lowest cell to itself. Where a value is negative the scale begins at the
    smallest one, and a first cell ``±`` says so. If there are more values than cells, a cell shows
    the maximum of its values.
    """
    known = [value for value in values if value is not None]
    low, high = min([0, *known]), max([0, *known])
    sign = "±" if low < 0 else ""
    shares = _shares(values, width - len(sign))
    return sign + "".join(_height(value, low, high) for value in shares)


def _shares(values: Sequence[float | None], width: int) -> list[float | None]:
    if len(values) <= width:
        return list(values)
    bounds = [len(values) * cell // width for cell in range(width + 1)]
    return [
        max((value for value in values[start:end] if value is not None), default=None)
        for start, end in pairwise(bounds)
    ]


def _height(value: float | None, low: float, high: float) -> str:
    if value is None:
        return " "
    if value == low:
        return _HEIGHTS[0]
    steps = len(_HEIGHTS) - 1
    return _HEIGHTS[max(1, min(round((value - low) / (high - low) * steps), steps))]


def bar(done: float, width: int) -> str:
    """Horizontal bar, ``done`` between 0 and 1, exact to an eighth of a cell."""
    eighths = round(min(max(done, 0.0), 1.0) * width * 8)
    text = "█" * (eighths // 8)
    if eighths % 8:
        text += _EIGHTHS[eighths % 8]
    return text.ljust(width)


Piece = tuple[str, int]
"""Cleaned text and its style id."""
Line = list[Piece]

GAP: Final = "   "


Align = Literal["left", "right"]

_PLAIN = re.compile(r"[ -~\u2500-\u259f]*")
_CONTROL_PICTURES = 0x2400
_DELETE_PICTURE = "\u2421"
_UNKNOWN = "?"
ELLIPSIS = "…"

ASCII: Final = str.maketrans(
    " ▁▂▃▄▅▆▇█▏▎▍▌▋▊▉▕▐▀▼╷▶◀…─│╭╮╰╯├┤┬┴±×←↑→↓▴░▒▓•●·▾▸",
    " ..::==##|||||##||^v'><~-|++++++++~x<^>v^:=%**.v>",
)
"""Translation for terminals that cannot show these characters."""

HALVES: Final = str.maketrans("▁▂▃▅▆▇▏▎▍▋▊▉▕╭╮╰╯●", "▄▄▄███▌▌▌███▐┌┐└┘•")
"""Translation for terminals whose fonts have half blocks but no eighths, and no round corners."""


def clean(text: str) -> str:
    """Return the text in cells of width one, without control sequences.

    Control characters become visible symbols (␛, ␊); characters that
    are invisible, combine, change direction or take two cells become ``?``.
    """
    if _PLAIN.fullmatch(text):
        return text
    return "".join(map(_in_one_cell, safe_text(text, _picture)))


def _picture(character: str) -> str:
    """One cell for an unsafe character: cells are counted in characters, an escape has four."""
    code = ord(character)
    if code < 0x20:
        return chr(_CONTROL_PICTURES + code)
    return _DELETE_PICTURE if code == 0x7F else _UNKNOWN


def _in_one_cell(character: str) -> str:
    category = unicodedata.category(character)
    if category[0] == "M":
        return _UNKNOWN
    if category == "Zs":
        return " "
    return _UNKNOWN if unicodedata.east_asian_width(character) in "WF" else character


def fit(text: str, width: int, *, align: Align = "left") -> str:
    """Clean ``text`` in exactly ``width`` cells; truncation leaves an ellipsis."""
    if width <= 0:
        return ""
    text = clean(text)
    if len(text) > width:
        return text[: width - 1] + ELLIPSIS
    return text.rjust(width) if align == "right" else text.ljust(width)


def fit_middle(text: str, width: int) -> str:
    """Clean ``text`` in at most ``width`` cells, cut in the middle to keep both ends of a path."""
    text = clean(text)
    if len(text) <= width:
        return text
    if width <= 1:
        return ELLIPSIS[:width]
    tail = (width - 1) * 2 // 3
    return text[: width - 1 - tail] + ELLIPSIS + text[len(text) - tail :]


def wrap(text: str, width: int, *, most: int = 3, indent: str = "") -> list[str]:
    """Clean ``text`` in lines of at most ``width`` cells, broken between words.

    Lines after the first begin with ``indent``; text beyond ``most`` lines is replaced by an
    ellipsis, between words or in a long one.
    """
    width = max(width, len(indent) + 2)
    lines = textwrap.wrap(clean(text), width, subsequent_indent=indent, break_on_hyphens=False)
    if len(lines) <= most:
        return lines
    last = f"{lines[most - 1]} {lines[most].strip()}"[: width - 1]
    blank = last.rfind(" ")
    # Break between words, but split a long word: it may be the name in question.
    kept = last[:blank] if blank >= width // 2 else last
    return [*lines[: most - 1], f"{kept.rstrip()}{ELLIPSIS}"]


_BETWEEN_COLUMNS = 2


class Column(NamedTuple):
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
    return [
        _table_line(row[:kept], columns[:kept], widths[:kept], width) for row in (heading, *cells)
    ]


def _widths(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> list[int]:
    widths = []
    for index, column in enumerate(columns):
        content = max((len(row[index]) for row in cells), default=0)
        widths.append(min(max(content, len(column.title), column.least), column.widest))
    return widths


def _kept(widths: Sequence[int], width: int) -> int:
    used = 0
    for index, column in enumerate(widths):
        used += column + (_BETWEEN_COLUMNS if index else 0)
        if used > width and index:
            return index
    return len(widths)


def _table_line(
    row: Sequence[str], columns: Sequence[Column], widths: Sequence[int], width: int
) -> str:
    parts = [
        fit(cell, size, align=column.align)
        for cell, column, size in zip(row, columns, widths, strict=True)
    ]
    return (" " * _BETWEEN_COLUMNS).join(parts)[:width].rstrip()
