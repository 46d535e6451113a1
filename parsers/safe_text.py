"""Make text and file names safe to print: nothing controls a terminal or misleads a reader."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

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


_DIGITS = re.compile(r"([0-9]+)")

NaturalKey = tuple[tuple[tuple[tuple[str, int, str], ...], ...], str]


def printable(text: str) -> str:
    r"""Return ``text`` as safe text in which two different names always differ.

    The backslash is doubled, so that no name equals the escaped form of another, and spaces that
    are not the ASCII one are escaped as well.
    """
    safe = safe_text(text.replace("\\", "\\\\"))
    if safe.isprintable():
        return safe
    return "".join([one if one.isprintable() else escape(one) for one in safe])


def natural_key(path: str) -> NaturalKey:
    """Return a sort key that puts ``iteration_5`` before ``iteration_10``, folder by folder."""
    return tuple(_component_key(component) for component in path.split("/")), path


# The names of a directory are sorted several times; most share their folders.
@lru_cache(maxsize=16_384)
def _component_key(component: str) -> tuple[tuple[str, int, str], ...]:
    parts = _DIGITS.split(component)
    digits = [part.lstrip("0") for part in parts[1::2]] + [""]
    texts = parts[0::2]
    return tuple((text, len(number), number) for text, number in zip(texts, digits, strict=True))


def listed(names: list[str] | tuple[str, ...], limit: int = 8) -> str:
    """``a, b, c and 5 more``: names in a sentence, the rest as a number."""
    if len(names) <= limit:
        return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
    return f"{', '.join(names[:limit])} and {len(names) - limit} more"
