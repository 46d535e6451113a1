"""Escape text from files that could control a terminal or spreadsheet, or mislead a reader."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

_FIRST_SURROGATE_ESCAPE, _LAST_SURROGATE_ESCAPE = 0xDC80, 0xDCFF


def escape(character: str) -> str:
    r"""Return an unsafe character in escaped form: ``\x1b``, ``\u202e``, ``\xff`` for a byte.

    Two digits from 0x80 on are a byte of a file name that is no UTF-8, four digits a character.
    """
    code = ord(character)
    if _FIRST_SURROGATE_ESCAPE <= code <= _LAST_SURROGATE_ESCAPE:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def safe_text(text: str, replace: Callable[[str], str] = escape) -> str:
    r"""Return ``text`` with every unsafe character written as its escape.

    Unsafe are control characters (C0, DEL, C1), characters that are invisible or change the
    direction of text (zero-width, bidirectional marks, embeddings and isolates, the byte order
    mark), separators of lines and paragraphs, surrogates, and what Unicode has not assigned.
    Letters of every script, combining marks, wide characters, emoji and spaces of any width
    stay. The result can be encoded, and is its own safe text.

    Args:
        text: What a file, a path or a message holds.
        replace: What stands for one unsafe character.
    """
    if text.isprintable():
        return text
    return "".join([one if _is_safe(one) else replace(one) for one in text])


def _is_safe(character: str) -> bool:
    # isprintable() counts all spaces but the ASCII one as unprintable: in French and Japanese
    # texts they are ordinary.
    return character.isprintable() or unicodedata.category(character) == "Zs"
