"""Rows of terminal cells with their looks, and the escape sequences that move and set them."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, TypeVar

from msgspec import Struct

Look = tuple[str, str, str]
"""Attributes, foreground, background, as SGR parameters."""

PLAIN: Final[Look] = ("", "", "")
_USUAL: Final = ("39", "49")
_OFF: Final = {"1": "22", "2": "22", "3": "23", "4": "24", "5": "25", "7": "27", "9": "29"}
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
    whole = ["0", *(part for part in after if part)] if any(after) else []
    if before is None:
        return f"\x1b[{';'.join(whole)}m"
    found = [";".join(whole)]
    attributes = _attribute_changes(before[0], after[0])
    if attributes is not None:
        colours = zip(before[1:], after[1:], _USUAL, strict=True)
        parts = [new or usual for old, new, usual in colours if old != new]
        found.append(";".join([*attributes, *parts]))
    return f"\x1b[{min(found, key=len)}m"


def _attribute_changes(before: str, after: str) -> list[str] | None:
    """Return the parameters from some attributes to others; None where only a reset does it."""
    old, new = ([part for part in text.split(";") if part] for text in (before, after))
    removed = [part for part in old if part not in new]
    if any(part not in _OFF for part in removed):
        return None
    off = {_OFF[part]: None for part in removed}  # in order, each once
    # Bold and dim end together: the one that stays is set again.
    added = [part for part in new if part not in old or _OFF.get(part) in off]
    return [*off, *added]


T = TypeVar("T")


class Shift(Struct, frozen=True):
    """A hint that in rows [top, bottom) all cells from ``left`` on have moved by ``columns``."""

    top: int
    bottom: int
    left: int
    columns: int


class Row(Struct):
    """Characters and looks of one row; None for a cell that is unknown."""

    text: list[str | None]
    look: list[Look | None]

    @classmethod
    def unknown(cls, width: int) -> Row:
        """Return a row whose cells are all unknown."""
        return cls([None] * width, [None] * width)

    def copy(self) -> Row:
        """Return a copy."""
        return Row(self.text[:], self.look[:])

    def put(self, x: int, text: str, look: Look) -> None:
        """Set cells from column ``x`` on."""
        self.text[x : x + len(text)] = text
        self.look[x : x + len(text)] = [look] * len(text)

    def changes(self, before: Row) -> list[int]:
        """Return the columns whose cells differ from ``before``."""
        cells = zip(self.text, before.text, self.look, before.look, strict=True)
        return [x for x, (a, b, c, d) in enumerate(cells) if a != b or c != d]

    def shifted(self, left: int, columns: int) -> Row:
        """Return this row after the cells from ``left`` on have moved; new cells are unknown."""
        return Row(_moved(self.text, left, columns), _moved(self.look, left, columns))

    def agreement(self, other: Row, left: int) -> int:
        """Count the cells from column ``left`` on that are known and the same in ``other``."""
        pairs = zip(
            self.text[left:], other.text[left:], self.look[left:], other.look[left:], strict=True
        )
        return sum(a == b and c == d and a is not None for a, b, c, d in pairs)


def _moved(cells: list[T | None], left: int, columns: int) -> list[T | None]:
    tail = cells[left:]
    hole: list[T | None] = [None] * min(abs(columns), len(tail))
    tail = tail[-columns:] + hole if columns < 0 else hole + tail[: max(len(tail) - columns, 0)]
    return cells[:left] + tail
