"""A model of the terminal's screen: out of everything to be written, only what differs is sent.

It understands colours, absolute moves, line feeds and text of width one. Anything else goes
through as it came, and the model forgets what it thought it knew.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from rich.cells import cell_len

Look = tuple[str, str, str]
"""Attributes, foreground, background, as SGR parameters."""

SYNC_START = "\x1b[?2026h"
SYNC_END = "\x1b[?2026l"

T = TypeVar("T")

_PLAIN: Look = ("", "", "")
_TOKEN = re.compile(
    r"\x1b\[(?P<sgr>[\d;]*)m"
    r"|\x1b\[(?P<row>\d+);(?P<column>\d+)H"
    r"|(?P<feed>\n)"
    r"|(?P<sync>\x1b\[\?2026[hl])"
    # Modes, queries and titles that leave the cells alone.
    r"|(?P<harmless>\x1b\[\?(?:25|100[02346]|101[56]|2004|2031|2048)[hl]|\x1b\[\?\d+\$p"
    r"|\x1b\[[<>=]\d*u|\x1b\][^\x1b\x07]*(?:\x07|\x1b\\))"
    r"|(?P<blank> +)"
    r"|(?P<text>[^\x00-\x20\x7f]+)"
    r"|(?P<unknown>\x1b\[[?>=<!]?[\d;:]*[ -/]*[@-~]|\x1b.|.)",
    re.DOTALL,
)
_NARROW = re.compile(r"[!-~\u00a1-\u02ff\u2500-\u259f]*")
_INVISIBLE_ON_BLANKS = frozenset({"1", "2", "3"})
_REWRITE = 3  # unchanged cells that cost no more than moving the cursor over them
_WORTHWHILE = 8  # cells a shift must save in a row


@lru_cache(4096)
def look_of(sgr: str) -> Look:
    """The look that SGR parameters set, given that Textual always starts from a reset."""
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
    """What of a look can be seen on a space."""
    if look[0] and not _INVISIBLE_ON_BLANKS.issuperset(look[0].split(";")):
        return look
    return ("", "", look[2])


@lru_cache(16384)
def change(before: Look | None, after: Look) -> str:
    """Shortest SGR that leads from one look to another; before is None when unknown."""
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


@dataclass(frozen=True, slots=True)
class Shift:
    """A hint: in rows [top, bottom) everything from ``left`` on has moved by ``columns``."""

    top: int
    bottom: int
    left: int
    columns: int


@dataclass(slots=True)
class _Row:
    """Characters and looks of one row; None is unknown."""

    text: list[str | None]
    look: list[Look | None]

    @classmethod
    def unknown(cls, width: int) -> _Row:
        return cls([None] * width, [None] * width)

    def copy(self) -> _Row:
        return _Row(self.text[:], self.look[:])

    def put(self, x: int, text: str, look: Look) -> None:
        self.text[x : x + len(text)] = text
        self.look[x : x + len(text)] = [look] * len(text)

    def same(self, other: _Row, x: int) -> bool:
        return self.text[x] == other.text[x] and self.look[x] == other.look[x]

    def shifted(self, left: int, columns: int) -> _Row:
        """This row after the cells from ``left`` on have moved; what came in is unknown."""
        return _Row(_moved(self.text, left, columns), _moved(self.look, left, columns))

    def agreement(self, other: _Row, left: int) -> int:
        pairs = zip(
            self.text[left:], other.text[left:], self.look[left:], other.look[left:], strict=True
        )
        return sum(a == b and c == d and a is not None for a, b, c, d in pairs)


def _moved(cells: list[T | None], left: int, columns: int) -> list[T | None]:
    tail = cells[left:]
    hole: list[T | None] = [None] * min(abs(columns), len(tail))
    tail = tail[-columns:] + hole if columns < 0 else hole + tail[: max(len(tail) - columns, 0)]
    return cells[:left] + tail


class ScreenModel:
    """What the terminal shows, as far as it is known."""

    def __init__(self, width: int, height: int) -> None:
        self.width = width
        self.height = height
        self._rows = [_Row.unknown(width) for _ in range(height)]
        self._wanted: dict[int, _Row] = {}
        self._cursor: tuple[int, int] | None = None
        self._look: Look | None = None
        self._hints: dict[tuple[int, int, int], int] = {}
        self._held_sync = False
        # Where the full stream would write, and how; None until it says where.
        self._pen: tuple[int, int] | None = None
        self._pen_look: Look = _PLAIN

    def forget(self) -> None:
        """Know nothing: the next cells are sent whatever they are."""
        self._rows = [_Row.unknown(self.width) for _ in range(self.height)]
        self._wanted.clear()
        self._hints.clear()
        self._cursor = self._look = None

    def expect(self, shift: Shift) -> None:
        """Take a hint for the next frame; a wrong one costs nothing but the look at it.

        Several hints for one place before a frame comes are one longer move.
        """
        place = (shift.top, shift.bottom, shift.left)
        self._hints[place] = self._hints.get(place, 0) + shift.columns

    def feed(self, data: str) -> str:
        """What to send so that the terminal looks as if it had been sent ``data``."""
        out: list[str] = []
        for token in _TOKEN.finditer(data):
            kind, value = token.lastgroup, token.group()
            if kind == "sgr":
                self._pen_look = look_of(token["sgr"])
            elif kind == "column":
                self._pen = (int(token["column"]) - 1, int(token["row"]) - 1)
            elif kind == "sync":
                self._sync(out, value)
            elif kind == "harmless":
                self._send(out, value)
            elif kind == "unknown" or self._pen is None:
                self._pass_on(out, value)
            elif kind == "feed":
                self._pen = (0, self._pen[1] + 1)
            else:
                x, y = self._pen
                self._pen = (x + self._place(out, x, y, value, self._pen_look), y)
        self._commit(out)
        return "".join(out)

    def _place(self, out: list[str], x: int, y: int, text: str, look: Look) -> int:
        """Put text into the wanted picture; returns the cells it takes."""
        narrow = text[0] == " " or _NARROW.fullmatch(text) or all(map(_is_narrow, text))
        if not narrow or y >= self.height or x + len(text) > self.width:
            return self._pass_through(out, x, y, text, look)
        row = self._wanted.get(y)
        if row is None:
            row = self._wanted[y] = self._rows[y].copy()
        row.put(x, text, blank_look(look) if text[0] == " " else look)
        return len(text)

    def _pass_through(self, out: list[str], x: int, y: int, text: str, look: Look) -> int:
        """Send text as it is where its cells cannot be known."""
        self._commit(out)
        self._send(out, f"\x1b[{y + 1};{x + 1}H{change(None, look)}{text}")
        self._cursor, self._look = None, look
        if y < self.height:
            self._rows[y] = _Row.unknown(self.width)
        return cell_len(text)

    def _pass_on(self, out: list[str], value: str) -> None:
        """Send what is not understood, from where the full stream would, and forget."""
        self._commit(out)
        pen = self._pen
        move = "" if pen in (None, self._cursor) else f"\x1b[{pen[1] + 1};{pen[0] + 1}H"
        self._send(out, move + change(self._look, self._pen_look) + value)
        self.forget()
        self._pen = None

    def _sync(self, out: list[str], value: str) -> None:
        """Hold back the start of a synchronised update until there is something in it."""
        self._commit(out)
        if value == SYNC_START:
            self._held_sync = True
        elif self._held_sync:
            self._held_sync = False
        else:
            out.append(value)

    def _send(self, out: list[str], text: str) -> None:
        if self._held_sync:
            self._held_sync = False
            out.append(SYNC_START)
        out.append(text)

    def _commit(self, out: list[str]) -> None:
        """Send the difference between the wanted rows and those on the screen."""
        if self._wanted:
            for y in sorted(self._wanted):
                wanted = self._wanted[y]
                before = self._rows[y]
                if before.text == wanted.text and before.look == wanted.look:
                    continue
                before = self._shift(out, y, before, wanted)
                self._rewrite(out, y, before, wanted)
                self._rows[y] = wanted
            self._drop_used_hints()
            self._wanted.clear()

    def _drop_used_hints(self) -> None:
        """A hint waits for the frame of its rows; other rows may come first."""
        for top, bottom, left in list(self._hints):
            if any(top <= y < bottom for y in self._wanted):
                del self._hints[top, bottom, left]

    def _shift(self, out: list[str], y: int, before: _Row, wanted: _Row) -> _Row:
        """Move cells within the row where a hint says so and it saves enough."""
        for (top, bottom, left), columns in self._hints.items():
            if not top <= y < bottom or not columns:
                continue
            moved = before.shifted(left, columns)
            gain = moved.agreement(wanted, left) - before.agreement(wanted, left)
            if gain < _WORTHWHILE:
                continue
            # Terminals fill the hole with the current background: use none of ours.
            code = f"{abs(columns)}{'P' if columns < 0 else '@'}"
            self._send(out, f"{change(self._look, _PLAIN)}\x1b[{y + 1};{left + 1}H\x1b[{code}")
            self._look, self._cursor = _PLAIN, (left, y)
            return moved
        return before

    def _rewrite(self, out: list[str], y: int, before: _Row, wanted: _Row) -> None:
        x = 0
        while x < self.width:
            if wanted.same(before, x):
                x += 1
                continue
            self._move(out, x, y, wanted)
            end = x + 1
            while end < self.width and not wanted.same(before, end):
                end += 1
            for at in range(x, end):
                self._cell(out, wanted, at)
            self._cursor = (end, y) if end < self.width else None
            x = end

    def _move(self, out: list[str], x: int, y: int, wanted: _Row) -> None:
        """Bring the cursor to a cell, over unchanged cells or by a move."""
        if self._cursor == (x, y):
            return
        if self._cursor is not None and self._cursor[1] == y and self._cursor[0] < x:
            start = self._cursor[0]
            if x - start <= _REWRITE and self._repeats(wanted, start, x):
                self._send(out, "".join(cell or " " for cell in wanted.text[start:x]))
            else:
                self._send(out, "\x1b[C" if x - start == 1 else f"\x1b[{x - start}C")
        else:
            self._send(out, f"\x1b[{y + 1};{x + 1}H")

    def _repeats(self, wanted: _Row, start: int, end: int) -> bool:
        """Whether cells can be sent again without any change of look."""
        return all(
            cell is not None and cell.isascii() and look == self._look
            for cell, look in zip(wanted.text[start:end], wanted.look[start:end], strict=True)
        )

    def _cell(self, out: list[str], wanted: _Row, x: int) -> None:
        text, look = wanted.text[x], wanted.look[x]
        if text is None or look is None:
            return
        if text == " " and self._look is not None and blank_look(self._look) == look:
            look = self._look
        elif text == " " and self._look is not None and not self._look[0] and not look[0]:
            look = ("", self._look[1], look[2])
        if look != self._look:
            self._send(out, change(self._look, look))
            self._look = look
        self._send(out, text)


def _is_narrow(character: str) -> bool:
    return cell_len(character) == 1
