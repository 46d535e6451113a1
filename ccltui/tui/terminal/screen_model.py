"""A model of the terminal's screen that reduces output to the differences.

It understands colours, absolute moves, line feeds and text of width one. Any other sequence is
sent unchanged, and every cell is unknown after it.
"""

from __future__ import annotations

import re

from rich.cells import cell_len

from ccltui.tui.terminal.screen_cells import Row, Shift
from ccltui.tui.terminal.sgr import PLAIN, Look, blank_look, change, look_of
from ccltui.tui.terminal.writer import CellWriter, Run, runs_of, write_runs

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
