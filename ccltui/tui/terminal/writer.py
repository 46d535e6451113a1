"""Changed cells as the shortest text that writes them: where the cursor goes, in which look."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ccltui.tui.terminal.screen_cells import Row
from ccltui.tui.terminal.sgr import Look, blank_look, change

_SMALL = 600
"""So short a text is not worth looking for a shorter one."""


@dataclass(slots=True)
class Run:
    """Neighbouring cells of one row that are written in one look."""

    y: int
    x: int
    text: str
    look: Look

    @property
    def end(self) -> int:
        """Column after the last cell."""
        return self.x + len(self.text)

    @property
    def is_blank(self) -> bool:
        """Whether only the background shows."""
        return not self.text.strip(" ")

    def takes(self, x: int, text: str, look: Look) -> bool:
        """Make a cell part of this run if it can be."""
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
    """Runs of the cells in these columns; unknown ones are left out."""
    runs: list[Run] = []
    for x in changed:
        text, look = wanted.text[x], wanted.look[x]
        if text is None or look is None:
            continue
        if not runs or not runs[-1].takes(x, text, look):
            runs.append(Run(y, x, text, look))
    return runs


@dataclass(slots=True)
class Pen:
    """Where the terminal writes next and in which look, None where that is not known."""

    width: int
    cursor: tuple[int, int] | None = None
    look: Look | None = None
    parts: list[str] = field(default_factory=list)

    def text(self) -> str:
        """What was written."""
        return "".join(self.parts)

    def turn(self, look: Look) -> None:
        """Write in another look from here on."""
        if look != self.look:
            self.parts.append(change(self.look, look))
            self.look = look

    def write(self, run: Run, row: Row) -> None:
        """Write a run of a row that looks so in the end."""
        self._go(run.x, run.y, row)
        look, now = run.look, self.look
        if now is not None and run.is_blank:
            if blank_look(now) == look:
                look = now
            elif not now[0] and not look[0]:
                look = ("", now[1], look[2])
        self.turn(look)
        self.parts.append(run.text)
        self.cursor = (run.end, run.y) if run.end < self.width else None

    def _go(self, x: int, y: int, row: Row) -> None:
        """Bring the cursor to a cell: over unchanged cells, or by writing them again."""
        if self.cursor == (x, y):
            return
        if self.cursor is None or self.cursor[1] != y or self.cursor[0] > x:
            self.parts.append(f"\x1b[{y + 1};{x + 1}H")
            return
        start = self.cursor[0]
        move = "\x1b[C" if x - start == 1 else f"\x1b[{x - start}C"
        again = self._again(row, start, x) if x - start < len(move) else None
        cheaper = again is not None and len(again.encode()) < len(move)
        self.parts.append(again if again is not None and cheaper else move)

    def _again(self, row: Row, start: int, end: int) -> str | None:
        """The text of cells that the present look writes as they are."""
        if self.look is None:
            return None
        blank = blank_look(self.look)
        found = ""
        for text, look in zip(row.text[start:end], row.look[start:end], strict=True):
            if text is None or look != (blank if text == " " else self.look):
                return None
            found += text
        return found


def written(pen: Pen, runs: Sequence[Run], rows: Mapping[int, Row]) -> Pen:
    """The pen after these runs: in order, or look by look where that is shorter."""
    plain = _after(pen, runs, rows)
    if sum(map(len, plain.parts)) - sum(map(len, pen.parts)) < _SMALL:
        return plain
    sorted_ = _after(pen, _by_look(runs, pen.look), rows)
    return min(plain, sorted_, key=lambda after: len(after.text().encode()))


def _after(pen: Pen, runs: Iterable[Run], rows: Mapping[int, Row]) -> Pen:
    after = Pen(pen.width, pen.cursor, pen.look, pen.parts[:])
    for run in runs:
        after.write(run, rows[run.y])
    return after


def _by_look(runs: Sequence[Run], look: Look | None) -> list[Run]:
    """Runs of one look after those of another, each from the top; blanks in any that fits."""
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
