"""Escape JSON so that it is safe to print and parses to the same names."""

from __future__ import annotations

import re
from typing import Final

from ccltui.parsers.safe_text import safe_text

# C0 is always escaped inside strings; line feeds between them are formatting.
_BEYOND: Final = re.compile("[\x7f-\U0010ffff]+")


def printable_json(text: str) -> str:
    r"""Return a JSON text with each unsafe character as ``\uXXXX``; it parses to the same value.

    Outside of strings JSON is ASCII, so only strings change.
    """
    if text.isascii() and "\x7f" not in text:
        return text
    return _BEYOND.sub(lambda match: safe_text(match[0], _escape), text)


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    pairs = zip(units[::2], units[1::2], strict=True)
    return "".join(f"\\u{high:02x}{low:02x}" for high, low in pairs)
