"""Widgets that paint cells and styled lines, the loading bar, and the Rich styles of both."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from ccltui.draw.palette import Depth, Ink, Look, Theme, looks, rgb
from ccltui.draw.text import ASCII, HALVES, Line, bar, fit
from ccltui.parsers import numbers
from ccltui.tui.chrome_lines import cut, spread
from ccltui.tui.options import ExplorerOptions
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.session import FileState, Session
from ccltui.tui.terminal import compat

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes


class Appearance(Struct, frozen=True):
    """Colours and characters that this terminal can show; ``table`` replaces those it cannot."""

    depth: Depth
    theme: Theme
    table: dict[int, int] | None

    @classmethod
    def before_start(cls, options: ExplorerOptions) -> Appearance:
        """Return what options and environment set; Textual removes NO_COLOR when it starts."""
        asked: dict[str, Depth] = {"never": "mono", "16": "16", "truecolor": "truecolor"}
        depth: Depth = "mono" if "NO_COLOR" in os.environ else asked.get(options.color, "256")
        theme: Theme = "dark" if options.theme == "auto" else options.theme
        if options.theme == "auto" and ground_of(os.environ) == "light":
            theme = "light"
        return cls(depth, theme, _table(options))

    def for_terminal(self, color_system: str | None) -> Appearance:
        """Return the same appearance, limited to the colours of the terminal."""
        if color_system is None:
            return replace(self, depth="mono")
        poor = color_system in ("standard", "windows") and self.depth != "mono"
        return replace(self, depth="16") if poor else self

    @property
    def heat_in_colour(self) -> bool:
        """Whether lag is shown by colours; else by characters, legible on any background."""
        return self.depth != "mono" and self.theme != "ansi" and self.table is not ASCII

    @property
    def styles(self) -> tuple[Style, ...]:
        """Rich style of every style id."""
        return styles(self.depth, self.theme)

    @property
    def ground(self) -> str:
        """Background colour in the notation of a style sheet."""
        index = None if self.depth == "mono" else looks(self.depth, self.theme)[Ink.TEXT].background
        if index is None:
            return "ansi_default"
        if index < 16:
            return "ansi_black" if index < 8 else "ansi_bright_white"
        return "#{:02x}{:02x}{:02x}".format(*rgb(index))


def ground_of(environ: Mapping[str, str]) -> Theme | None:
    """Return the theme that COLORFGBG implies; None where it is unset or malformed."""
    last = environ.get("COLORFGBG", "").rpartition(";")[2]
    if not last.isdigit():
        return None
    return "light" if int(last) in (7, *range(9, 16)) else "dark"


def _table(options: ExplorerOptions) -> dict[int, int] | None:
    encoding = getattr(sys.__stdout__, "encoding", None) or "utf-8"
    if options.ascii or not encoding.lower().startswith("utf"):
        return ASCII
    return HALVES if os.environ.get("TERM") == "linux" else None


@cache
def styles(depth: Depth, theme: Theme) -> tuple[Style, ...]:
    """Return the Rich style of every style id. Palette indices are kept, but for true colours."""
    exact = depth == "truecolor"
    return tuple(_style(look, exact=exact) for look in looks(depth, theme))


def _style(look: Look, *, exact: bool) -> Style:
    return Style(
        color=_colour(look.foreground, exact=exact),
        bgcolor=_colour(look.background, exact=exact),
        bold=look.bold or None,
        reverse=look.reverse or None,
    )


def _colour(index: int | None, *, exact: bool) -> Color:
    if index is None:
        return Color.default()
    return Color.from_rgb(*rgb(index)) if exact and index >= 16 else Color.from_ansi(index)


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
