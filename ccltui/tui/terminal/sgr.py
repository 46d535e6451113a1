"""Looks of cells and the escape sequences that set them (SGR)."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

Look = tuple[str, str, str]
"""Attributes, foreground, background, as SGR parameters."""

PLAIN: Final[Look] = ("", "", "")
_INVISIBLE_ON_BLANKS = frozenset({"1", "2", "3"})


@lru_cache(4096)
def look_of(sgr: str) -> Look:
    """Return the look that SGR parameters set, given that Textual always starts with a reset."""
    attributes: list[str] = []
    foreground = background = ""
    parts = sgr.split(";")
    index = 0
    while index < len(parts):
        code = parts[index]
        size = 1
        if code in ("38", "48"):
            size = 5 if parts[index + 1 : index + 2] == ["2"] else 3
        value = ";".join(parts[index : index + size])
        if code in ("", "0"):
            attributes, foreground, background = [], "", ""
        elif code == "39":
            foreground = ""
        elif code == "49":
            background = ""
        elif _is_colour(code, "3", "9"):
            foreground = value
        elif _is_colour(code, "4", "10"):
            background = value
        else:
            attributes.append(code)
        index += size
    return (";".join(attributes), foreground, background)


def _is_colour(code: str, normal: str, bright: str) -> bool:
    return code[:-1] in (normal, bright) and code[-1:] in "012345678" and code[-1:] != ""


@lru_cache(4096)
def blank_look(look: Look) -> Look:
    """Return the part of a look that is visible on a space."""
    if look[0] and not _INVISIBLE_ON_BLANKS.issuperset(look[0].split(";")):
        return look
    return ("", "", look[2])


@lru_cache(16384)
def change(before: Look | None, after: Look) -> str:
    """Return the shortest SGR sequence from one look to another; ``before`` None is unknown."""
    if before == after:
        return ""
    added = before is not None and before[0] == after[0]
    if added and before is not None and _only_adds(before, after):
        parts = [new for old, new in zip(before[1:], after[1:], strict=True) if old != new]
        return f"\x1b[{';'.join(parts)}m"
    parts = [part for part in after if part]
    return f"\x1b[{';'.join(('0', *parts) if parts else ())}m"


def _only_adds(before: Look, after: Look) -> bool:
    return not (before[1] and not after[1]) and not (before[2] and not after[2])
