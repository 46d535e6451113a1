"""Widget that shows the loading progress, in total and by file."""

from __future__ import annotations

from ccltui.tui.chrome import loading_lines
from ccltui.tui.chrome.text_line import TextLines
from ccltui.tui.state.session import Session

_MOST_ROWS = 4
_SHORT = 30


class LoadBar(TextLines):
    """Loading progress: a few rows while files are read, and none afterwards."""

    def show_session(self, session: Session, width: int, height: int, *, shown: bool) -> None:
        """Show the progress of loading; hide the widget when loading is over."""
        self.display = session.busy and shown
        if session.busy:
            rows = 1 if height < _SHORT else _MOST_ROWS
            bars = loading_lines.load_files(session, width, rows)
            self.styles.height = 1 + len(bars)
            self.show([loading_lines.load_total(session, width), *bars])
