"""Widget of styled lines: header, tabs, status and keys."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from ccltui.tui.styled_text import Line


def strip_of(line: Line, styles: Sequence[Style], ascii_table: dict[int, int] | None) -> Strip:
    """Convert a line to a Textual strip."""
    segments = [
        Segment(text.translate(ascii_table) if ascii_table else text, styles[style])
        for text, style in line
    ]
    return Strip(segments, sum(len(text) for text, _ in line))


class TextLines(Widget):
    """A few lines that are replaced as a whole; equal lines cost nothing."""

    def __init__(
        self,
        styles: Sequence[Style],
        ascii_table: dict[int, int] | None,
        *,
        id: str,
    ) -> None:
        super().__init__(id=id, markup=False)
        self._styles = styles
        self._ascii = ascii_table
        self._lines: list[Line] = []

    def show(self, lines: list[Line]) -> None:
        """Replace the lines."""
        if lines != self._lines:
            self._lines = lines
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Return one line; blank where there is none."""
        if y < len(self._lines):
            return strip_of(self._lines[y], self._styles, self._ascii)
        return Strip.blank(self.size.width, self._styles[0])
