"""How well typed words fit a text: at the beginning of words, within them, or abbreviated."""

from __future__ import annotations

import re
from typing import Final

_WORD: Final = re.compile(r"[a-z0-9]+")


def misfit(words: str, text: str) -> int | None:
    """Return how badly words fit a text, 0 for best; None where a word does not fit at all.

    Each word, in any order and case, counts 0 if it is a word of the text, 1 if one begins with it,
    2 if it is within the text, and 3 if it abbreviates a word or has the initials of several.
    """
    text = text.lower()
    parts = _WORD.findall(text)
    total = 0
    for word in words.lower().split():
        found = _misfit(word, text, parts)
        if found is None:
            return None
        total += found
    return total


def _misfit(word: str, text: str, parts: list[str]) -> int | None:
    if word in parts:
        return 0
    if any(part.startswith(word) for part in parts):
        return 1
    if word in text:
        return 2
    if not word.isalpha():  # numbers are not abbreviated
        return None
    initials = "".join(part[0] for part in parts)
    return 3 if word in initials or any(_abbreviates(word, part) for part in parts) else None


def _abbreviates(word: str, part: str) -> bool:
    """Return whether a word has the first letter of another, and letters of it in their order."""
    letters = iter(part)
    return word[0] == part[0] and all(letter in letters for letter in word)
