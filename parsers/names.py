"""Names of files as data: how they are shown, and the order in which they are listed."""

from __future__ import annotations

import re

_DIGITS = re.compile(r"([0-9]+)")
_FIRST_SURROGATE_ESCAPE, _LAST_SURROGATE_ESCAPE = 0xDC80, 0xDCFF

NaturalKey = tuple[tuple[tuple[tuple[str, int, str], ...], ...], str]


def shown(text: str) -> str:
    r"""``text`` with every character that a terminal would act on written as an escape.

    Control characters, direction marks, bytes that are no UTF-8 (``\xff``) and the backslash
    itself: two different names never look the same, and the result can always be encoded.
    """
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(map(_shown_character, text))


def _shown_character(character: str) -> str:
    code = ord(character)
    if character == "\\":
        return "\\\\"
    if character.isprintable():
        return character
    if _FIRST_SURROGATE_ESCAPE <= code <= _LAST_SURROGATE_ESCAPE:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def natural_key(path: str) -> NaturalKey:
    """Sort key that puts ``iteration_5`` before ``iteration_10``, folder by folder."""
    return tuple(_component_key(component) for component in path.split("/")), path


def _component_key(component: str) -> tuple[tuple[str, int, str], ...]:
    parts = _DIGITS.split(component)
    digits = [part.lstrip("0") for part in parts[1::2]] + [""]
    texts = parts[0::2]
    return tuple((text, len(number), number) for text, number in zip(texts, digits, strict=True))


def listed(names: list[str] | tuple[str, ...], limit: int = 8) -> str:
    """``a, b, c and 5 more``: names in a sentence, never an endless one."""
    if len(names) <= limit:
        return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
    return f"{', '.join(names[:limit])} and {len(names) - limit} more"
