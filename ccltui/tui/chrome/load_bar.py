"""Widget that shows the loading progress, in total and by file."""

from __future__ import annotations

from ccltui.draw.bars import bar
from ccltui.draw.palette import Ink
from ccltui.draw.text import fit
from ccltui.parsers import numbers
from ccltui.tui.chrome.canvas import TextLines
from ccltui.tui.chrome.chrome_lines import cut, spread
from ccltui.tui.state.scene import rank_name
from ccltui.tui.state.session import FileState, Session
from ccltui.tui.styled_text import Line

_BAR = 24


def load_total(session: Session, width: int) -> Line:
    """Return the line of the progress over all files."""
    if session.phase == "opening":
        return cut([(" looking for traces", Ink.TEXT)], width, Ink.TEXT)
    if session.elsewhere:
        return cut([(f" {session.elsewhere}; --cancel ends it", Ink.TEXT)], width, Ink.TEXT)
    share = session.done_bytes / max(session.total_bytes, 1)
    done = numbers.decimal_size(session.done_bytes)
    total = numbers.decimal_size(session.total_bytes)
    expected = numbers.counted(session.ranks_expected, "rank")
    left: Line = [
        (" loading ", Ink.TEXT),
        (bar(share, _BAR), Ink.COMPUTE),
        (f"  {session.ranks_loaded}/{expected}  {done} of {total}", Ink.TEXT),
    ]
    return spread(left, [("esc stops and keeps what is there ", Ink.DIM)], width, Ink.TEXT)


def load_files(session: Session, width: int, rows: int) -> list[Line]:
    """Return a bar for each file, those being read first, as many as fit."""
    rank = {"reading": 0, "queued": 1, "failed": 2, "done": 3}
    files = sorted(session.files.values(), key=lambda state: rank[state.status])
    cell = 18
    per_row = max((width - 1) // cell, 1)
    lines = []
    for start in range(0, min(len(files), rows * per_row), per_row):
        pieces: Line = [(" ", Ink.TEXT)]
        for state in files[start : start + per_row]:
            pieces += _file_cell(state, cell)
        lines.append(cut(pieces, width, Ink.TEXT))
    return lines


def _file_cell(state: FileState, width: int) -> Line:
    name = fit(rank_name(state.label), 6)
    if state.status == "failed":
        return [(f"{name} ", Ink.TEXT), (fit("x failed", width - 7), Ink.ERROR)]
    share = 1.0 if state.status == "done" else state.done_bytes / max(state.total_bytes, 1)
    return [(f"{name} ", Ink.TEXT), (bar(share, width - 9), Ink.COMPUTE), ("  ", Ink.TEXT)]


_MOST_ROWS = 4
_SHORT = 30


class LoadBar(TextLines):
    """Loading progress: a few rows while files are read, and none afterwards."""

    def show_session(self, session: Session, width: int, height: int, *, shown: bool) -> None:
        """Show the progress of loading; hide the widget when loading is over."""
        self.display = session.busy and shown
        if session.busy:
            rows = 1 if height < _SHORT else _MOST_ROWS
            bars = load_files(session, width, rows)
            self.styles.height = 1 + len(bars)
            self.show([load_total(session, width), *bars])
