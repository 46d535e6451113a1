"""File names for messages: escape them, sort them naturally and list them."""

from __future__ import annotations

import re
from functools import lru_cache

from ccltui.parsers.safe_text import escape, safe_text

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
