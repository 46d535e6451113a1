"""Help for one pane, generated from the registry."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.screen import ModalScreen

from ccltui.draw.palette import Ink
from ccltui.tui.actions import GROUPS, active
from ccltui.tui.keymap import shown_keys
from ccltui.tui.lines import Line, cut
from ccltui.tui.viewstate import Pane
from ccltui.tui.widgets.textline import TextLines

_ABOUT = {
    Pane.SUMMARY: (
        "Every metric, its unit and its value; min and max name the rank.",
        "The line above the keys defines the selected number. A number that is absent",
        "says why. Headline = mean over ranks unless its definition says otherwise.",
    ),
    Pane.ALIGNMENT: (
        "Rows are ranks, columns are collectives of one communicator in order of time.",
        "Colour is how much later than the first rank this rank arrived; a cell with several",
        "collectives or ranks shows the largest. Below the floor a cell is blank.",
        "A rank that waits has a LONG kernel; the late rank has the shortest one.",
    ),
    Pane.TIMELINE: (
        "Per rank one row of compute and one of network, on corrected clocks.",
        "A network cell is exposed or hidden under compute by majority; heights are shares",
        "of busy time, rounded up: any activity shows.",
    ),
}
_KEYS_WIDTH = 16


def help_lines(pane: Pane, width: int) -> list[Line]:
    """Everything a pane knows, group by group, in two columns where there is room."""
    blank: Line = cut([], width, Ink.TEXT)
    lines = [cut([(f" Help: {pane.title}", Ink.HEADER)], width, Ink.HEADER_DIM), blank]
    lines += [cut([(f" {text}", Ink.TEXT)], width, Ink.TEXT) for text in _ABOUT[pane]]
    lines.append(blank)
    columns = max(min(width // 52, 3), 1)
    entries = _entries(pane)
    rows = -(-len(entries) // columns)
    size = width // columns
    for row in range(rows):
        pieces: Line = []
        for column in range(columns):
            index = column * rows + row
            cell = entries[index] if index < len(entries) else []
            pieces += cut(cell, size, Ink.TEXT)
        lines.append(cut(pieces, width, Ink.TEXT))
    return lines


def _entries(pane: Pane) -> list[Line]:
    entries: list[Line] = []
    for group in GROUPS:
        actions = [action for action in active(pane) if action.group == group]
        if actions:
            entries.append([(f" {group}", Ink.STRONG)])
        for action in actions:
            keys = shown_keys(action).ljust(_KEYS_WIDTH)
            entries.append([(f"  {keys} ", Ink.KEY), (action.help, Ink.TEXT)])
    return entries


class HelpScreen(ModalScreen[None]):
    """Covers the panes until a key closes it; longer help scrolls."""

    def __init__(
        self, pane: Pane, styles: Sequence[Style], ascii_table: dict[int, int] | None
    ) -> None:
        super().__init__()
        self._pane = pane
        self._first = 0
        self._text = TextLines(styles, ascii_table, id="help")
        self._foot = TextLines(styles, ascii_table, id="help-keys")

    def compose(self) -> ComposeResult:
        """The text, and how to leave it."""
        yield self._text
        yield self._foot

    def on_mount(self) -> None:
        """Fill."""
        self._fill()

    def on_resize(self) -> None:
        """Fill anew for the new size."""
        self._fill()

    def _fill(self) -> None:
        width, height = self.app.size
        lines = help_lines(self._pane, width)
        last = max(len(lines) - (height - 1), 0)
        self._first = max(min(self._first, last), 0)
        self._text.show(lines[self._first : self._first + height - 1])
        more = "j/k scroll   " if last else ""
        self._foot.show([cut([(f" {more}any other key closes", Ink.DIM)], width, Ink.TEXT)])

    def on_key(self, event: events.Key) -> None:
        """Scroll, or close."""
        event.stop()
        event.prevent_default()
        step = {"j": 1, "down": 1, "k": -1, "up": -1, "pagedown": 10, "pageup": -10}
        if event.key in step:
            self._first += step[event.key]
            self._fill()
        else:
            self.dismiss(None)
