"""Widgets that paint cells and styled lines, and refresh only the spans that changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from ccltui.tui.state.scene import Scene
from ccltui.tui.styled_text import Line
from ccltui.tui.terminal import compat

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes


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


Paint = Callable[[Scene, int, int], "Planes"]
"""Function of scene, height and width that returns a picture of that size."""
Shift = Callable[[Scene, Scene], int]
"""Function that returns by how many columns the picture moved between two scenes."""


def no_shift(_: Scene, __: Scene) -> int:
    """Return 0: the picture is never a shifted copy of the previous one."""
    return 0


class CellCanvas(Widget):
    """Widget that paints planes. Scenes that arrive while a frame is due share that frame."""

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
        self._paint: Paint | None = None
        self._shift: Shift = no_shift
        self._gutter = 0
        self._scene: Scene | None = None
        self._painted: Scene | None = None
        self._planes: Planes | None = None
        self._due = False

    def paint_with(self, paint: Paint, shift: Shift = no_shift) -> None:
        """Set the function that draws; until then the pane is blank."""
        self._paint, self._shift = paint, shift

    def show(self, scene: Scene, gutter: int = 0) -> None:
        """Draw a scene after the keys already queued, so that a held key costs one frame."""
        self._scene, self._gutter = scene, gutter
        if not self._due:
            self._due = True
            self.call_later(self._draw)

    @property
    def planes(self) -> Planes | None:
        """The planes on the screen, None before the first frame."""
        return self._planes

    def rest(self) -> None:
        """Keep the picture while hidden, but release the scene, which holds all findings."""
        self._scene = self._painted = None

    def on_resize(self) -> None:
        """Draw for the new size."""
        if self._scene is not None:
            self.show(self._scene, self._gutter)

    def _draw(self) -> None:
        self._due = False
        scene, (width, height) = self._scene, self.size
        if self._paint is None or scene is None or not self.display or not width or not height:
            return
        before, planes = self._planes, self._paint(scene, height, width)
        spans = None if before is None else planes.changes_from(before)
        if spans is None:
            self.refresh()
        elif spans and before is not None:
            self._expect_moves(before, planes, scene)
            self.refresh(*(Region(start, y, end - start, 1) for y, start, end in spans))
        self._planes, self._painted = planes, scene

    def _expect_moves(self, before: Planes, planes: Planes, scene: Scene) -> None:
        """Hint at parts that have only moved: the whole picture, or single rows that appear to."""
        region, left = self.region, self._gutter
        if not compat.can_shift(self.app, region):
            return
        from ccltui.draw.planes import FURTHEST, moved_rows  # noqa: PLC0415  (the splash is before)

        moved = 0 if self._painted is None else self._shift(self._painted, scene)
        if 0 < abs(moved) <= FURTHEST:
            compat.expect_shift(self.app, region, left, moved)
            return
        for y, columns in moved_rows(before, planes, left, moved):
            row = Region(region.x, region.y + y, region.width, 1)
            compat.expect_shift(self.app, row, left, columns)

    def render_line(self, y: int) -> Strip:
        """Return one row of the picture."""
        if self._planes is None or y >= self._planes.height:
            return Strip.blank(self.size.width, self._styles[0])
        return strip_of(self._planes.runs(y), self._styles, self._ascii)
