"""A model of the terminal's screen that reduces output to the differences, in few bytes.

It understands colours, absolute moves, line feeds and text of width one. Any other sequence is
sent unchanged, and every cell is unknown after it. Cursor moves, looks and the order of the runs
are chosen by their bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace
from rich.cells import cell_len

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


_SMALL = 100
"""Characters up to which no shorter order is tried."""
_LONG_BLANK = re.compile(r"( {12,})")
"""Blanks that are longer than the sequences that erase them and move behind them."""


class Run(Struct):
    """Adjacent cells of one row that are written in one look."""

    y: int
    x: int
    text: str
    look: Look

    @property
    def is_blank(self) -> bool:
        """Whether only the background is visible."""
        return not self.text.strip(" ")


def runs_of(y: int, wanted: Row, changed: Iterable[int]) -> list[Run]:
    """Return the runs of the cells in these columns, without unknown cells.

    A blank joins a run of any look with its background. One plain loop: the first frame has
    thousands of cells.
    """
    runs: list[Run] = []
    end, cells = -1, [""]
    now = blank = PLAIN
    is_blank = False
    for x in changed:
        text, look = wanted.text[x], wanted.look[x]
        if text is None or look is None:
            continue
        if x == end and (look == now or (text == " " and look == blank)):
            is_blank = is_blank and text == " "
        elif x == end and is_blank and blank_look(look) == now:
            now, blank, is_blank = look, now, text == " "
            runs[-1].look = look
        else:
            if runs:
                runs[-1].text = "".join(cells)
            runs.append(Run(y, x, "", look))
            cells = []
            now, blank, is_blank = look, blank_look(look), text == " "
        cells.append(text)
        end = x + 1
    if runs:
        runs[-1].text = "".join(cells)
    return runs


class CellWriter(Struct):
    """Collects output; knows the terminal's cursor and look, or None where they are unknown."""

    width: int
    cursor: tuple[int, int] | None = None
    look: Look | None = None
    erases: bool = False  # whether erased cells take the background
    parts: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return the output."""
        return "".join(self.parts)

    def set_look(self, look: Look) -> None:
        """Write the next cells in this look."""
        if look != self.look:
            self.parts.append(change(self.look, look))
            self.look = look

    def write(self, run: Run, row: Row) -> None:
        """Write a run; ``row`` is the whole row after the frame."""
        self._go(run.x, run.y, row)
        look, now = run.look, self.look
        if now is not None and run.is_blank:
            if blank_look(now) == look:
                look = now
            elif not now[0] and not look[0]:
                look = ("", now[1], look[2])
        self.set_look(look)
        erases = self.erases and not blank_look(look)[0]  # erased cells have a background only
        x = run.x
        for text in _LONG_BLANK.split(run.text) if erases else [run.text]:
            if not text:
                continue
            self._go(x, run.y, row)
            x += len(text)
            if erases and _LONG_BLANK.fullmatch(text):
                self.parts.append(f"\x1b[{len(text)}X")  # the cursor stays
            else:
                self.parts.append(text)
                self.cursor = (x, run.y) if x < self.width else None

    def _go(self, x: int, y: int, row: Row) -> None:
        """Move the cursor to a cell: over unchanged cells, or by writing them again if shorter."""
        before, self.cursor = self.cursor, (x, y)
        if before == (x, y):
            return
        if before is None or before[1] != y or before[0] > x:
            self.parts.append(f"\x1b[{y + 1};{x + 1}H")
            return
        start = before[0]
        move = "\x1b[C" if x - start == 1 else f"\x1b[{x - start}C"
        again = self._unchanged(row, start, x) if x - start < len(move) else None
        cheaper = again is not None and len(again.encode()) < len(move)
        self.parts.append(again if again is not None and cheaper else move)

    def _unchanged(self, row: Row, start: int, end: int) -> str | None:
        """Return the text of cells in the current look; None if one has another look."""
        if self.look is None:
            return None
        blank = blank_look(self.look)
        found = ""
        for text, look in zip(row.text[start:end], row.look[start:end], strict=True):
            if text is None or look != (blank if text == " " else self.look):
                return None
            found += text
        return found


def write_runs(writer: CellWriter, runs: Sequence[Run], rows: Mapping[int, Row]) -> CellWriter:
    """Return the writer after these runs: in order, or sorted by look where that is shorter."""
    in_order = _after(writer, runs, rows)
    if sum(map(len, in_order.parts)) - sum(map(len, writer.parts)) < _SMALL:
        return in_order
    sorted_ = _after(writer, _by_look(runs, writer.look), rows)
    return min(in_order, sorted_, key=lambda after: len(after.text().encode()))


def _after(writer: CellWriter, runs: Iterable[Run], rows: Mapping[int, Row]) -> CellWriter:
    after = replace(writer, parts=writer.parts[:])
    for run in runs:
        after.write(run, rows[run.y])
    return after


def _by_look(runs: Sequence[Run], look: Look | None) -> list[Run]:
    """Sort runs by look, each look from the top; blanks go to any look with their background."""
    places: dict[Look, int] = {} if look is None else {look: 0}
    for run in runs:
        if not run.is_blank:
            places.setdefault(run.look, len(places))
    fitting = {blank_look(known): place for known, place in reversed(places.items())}
    for run in runs:
        if run.is_blank:
            place = fitting.setdefault(run.look, len(places))
            places.setdefault(run.look, place)
    return sorted(runs, key=lambda run: places[run.look])


SYNC_START = "\x1b[?2026h"
SYNC_END = "\x1b[?2026l"

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
_LEAST_GAIN = 24  # cells a shift must save in a row: it takes as many bytes as a few cells


class ScreenModel:
    """Cells of the terminal's screen, as far as they are known."""

    def __init__(self, width: int, height: int) -> None:
        self.width = width
        self.height = height
        self.erases = False
        """Whether the terminal erases characters (ECH) and fills them with the background."""
        self._rows = [Row.unknown(width) for _ in range(height)]
        self._wanted: dict[int, Row] = {}
        self._cursor: tuple[int, int] | None = None
        self._look: Look | None = None
        self._hints: dict[tuple[int, int, int], int] = {}
        self._held_sync = False
        # Position and look of the full stream; None until its first absolute move.
        self._input_cursor: tuple[int, int] | None = None
        self._input_look: Look = PLAIN

    def forget(self) -> None:
        """Treat every cell as unknown, so that the next ones are sent in any case."""
        self._rows = [Row.unknown(self.width) for _ in range(self.height)]
        self._wanted.clear()
        self._hints.clear()
        self._cursor = self._look = None

    def expect(self, shift: Shift) -> None:
        """Note a hint for the next frame; a wrong one costs only the comparison.

        Several hints for one place before the next frame add up to one move.
        """
        place = (shift.top, shift.bottom, shift.left)
        self._hints[place] = self._hints.get(place, 0) + shift.columns

    def feed(self, data: str) -> str:
        """Return what to send so that the screen looks as if it had been sent ``data``."""
        out: list[str] = []
        for token in _TOKEN.finditer(data):
            kind, value = token.lastgroup, token.group()
            if kind == "sgr":
                self._input_look = look_of(token["sgr"])
            elif kind == "column":
                self._input_cursor = (int(token["column"]) - 1, int(token["row"]) - 1)
            elif kind == "sync":
                self._sync(out, value)
            elif kind == "harmless":
                self._send(out, value)
            elif kind == "unknown" or self._input_cursor is None:
                self._send_unknown(out, value)
            elif kind == "feed":
                self._input_cursor = (0, self._input_cursor[1] + 1)
            else:
                x, y = self._input_cursor
                self._input_cursor = (x + self._place(out, x, y, value, self._input_look), y)
        self._commit(out)
        return "".join(out)

    def _place(self, out: list[str], x: int, y: int, text: str, look: Look) -> int:
        """Put text into the wanted rows; return the number of its cells."""
        narrow = text[0] == " " or _NARROW.fullmatch(text) or all(map(_is_narrow, text))
        if not narrow or y >= self.height or x + len(text) > self.width:
            return self._send_wide(out, x, y, text, look)
        row = self._wanted.get(y)
        if row is None:
            row = self._wanted[y] = self._rows[y].copy()
        row.put(x, text, blank_look(look) if text[0] == " " else look)
        return len(text)

    def _send_wide(self, out: list[str], x: int, y: int, text: str, look: Look) -> int:
        """Send text unchanged where its cells cannot be known; return the number of its cells."""
        self._commit(out)
        self._send(out, f"\x1b[{y + 1};{x + 1}H{change(None, look)}{text}")
        self._cursor, self._look = None, look
        if y < self.height:
            self._rows[y] = Row.unknown(self.width)
        return cell_len(text)

    def _send_unknown(self, out: list[str], value: str) -> None:
        """Send an unknown sequence at the position of the full stream, and forget the screen."""
        self._commit(out)
        at = self._input_cursor
        move = "" if at in (None, self._cursor) else f"\x1b[{at[1] + 1};{at[0] + 1}H"
        self._send(out, move + change(self._look, self._input_look) + value)
        self.forget()
        self._input_cursor = None

    def _sync(self, out: list[str], value: str) -> None:
        """Hold back the start of a synchronised update until it contains something."""
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
        if not self._wanted:
            return
        writer = CellWriter(self.width, self._cursor, self._look, erases=self.erases)
        runs: list[Run] = []
        for y in sorted(self._wanted):
            wanted, before = self._wanted[y], self._rows[y]
            if before.text != wanted.text or before.look != wanted.look:
                before = self._shift(writer, y, before, wanted)
                runs += runs_of(y, wanted, wanted.changes(before))
        writer = write_runs(writer, runs, self._wanted)
        self._cursor, self._look = writer.cursor, writer.look
        self._rows = [self._wanted.get(y, row) for y, row in enumerate(self._rows)]
        if writer.parts:
            self._send(out, writer.text())
        self._drop_used_hints()
        self._wanted.clear()

    def _drop_used_hints(self) -> None:
        """Drop hints whose rows were in this frame; other rows may be drawn before them."""
        for top, bottom, left in list(self._hints):
            if any(top <= y < bottom for y in self._wanted):
                del self._hints[top, bottom, left]

    def _shift(self, writer: CellWriter, y: int, before: Row, wanted: Row) -> Row:
        """Move cells within the row where a hint applies and saves at least `_LEAST_GAIN` cells.

        Returns the row before the remaining changes.
        """
        for (top, bottom, left), columns in self._hints.items():
            if not top <= y < bottom or not columns:
                continue
            moved = before.shifted(left, columns)
            gain = moved.agreement(wanted, left) - before.agreement(wanted, left)
            if gain < _LEAST_GAIN:
                continue
            # Terminals fill the gap with the current background: reset it first.
            writer.set_look(PLAIN)
            code = f"{abs(columns)}{'P' if columns < 0 else '@'}"
            writer.parts.append(f"\x1b[{y + 1};{left + 1}H\x1b[{code}")
            writer.cursor = (left, y)
            return moved
        return before


def _is_narrow(character: str) -> bool:
    return cell_len(character) == 1
