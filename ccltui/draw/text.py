"""Make text safe for a terminal: names from files never act as escapes or markup."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from typing import Final, Literal

from ccltui.parsers.safe_text import safe_text

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
