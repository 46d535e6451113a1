"""Write changed cells with few bytes: choose cursor moves, looks and the order of the runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from ccltui.tui.terminal.screen_cells import Row
from ccltui.tui.terminal.sgr import Look, blank_look, change

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
    def end(self) -> int:
        """The column after the last cell."""
        return self.x + len(self.text)

    @property
    def is_blank(self) -> bool:
        """Whether only the background is visible."""
        return not self.text.strip(" ")

    def extend(self, x: int, text: str, look: Look) -> bool:
        """Append a cell if it can be written with this run; return whether it could."""
        if x != self.end:
            return False
        if look == self.look or (text == " " and blank_look(self.look) == look):
            self.text += text
            return True
        if self.is_blank and blank_look(look) == self.look:
            self.text += text
            self.look = look
            return True
        return False


def runs_of(y: int, wanted: Row, changed: Iterable[int]) -> list[Run]:
    """Return the runs of the cells in these columns, without unknown cells."""
    runs: list[Run] = []
    for x in changed:
        text, look = wanted.text[x], wanted.look[x]
        if text is None or look is None:
            continue
        if not runs or not runs[-1].extend(x, text, look):
            runs.append(Run(y, x, text, look))
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
