"""The Files pane: captures and files of the directory, each with its state."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ccltui.draw.palette import Ink
from ccltui.draw.table import Column, table
from ccltui.draw.text import fit_middle
from ccltui.parsers.numbers import counted
from ccltui.tui.state.own.own_state import ListState, OwnState
from ccltui.tui.state.own.pane_names import FILES as NAME
from ccltui.tui.state.own.sorting import Sorting, Value
from ccltui.tui.state.pane import Pane
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import ViewState
from ccltui.tui.styled_text import Line

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes
    from ccltui.tui.state.file_rows import FileRow

_STATE = 20
"""Width reserved for states; the full state of the selected row is shown below."""
_BETWEEN = 34


_COLUMNS: Final = ("file", "kind", "rank", "size", "state")
FILES_STATE: Final = OwnState(NAME, ListState())


class FilesPane(Pane):
    """The directory file by file, and captures to switch to."""

    name = NAME
    key = "5"
    title = "Files"
    short_title = "Files"
    about = (
        "What lies in the directory: captures to switch to, then every file and its state. "
        "x: cannot be read, and why; !: read in part, and what is missing."
    )
    is_of_traces = False

    def paint(self, scene: Scene, height: int, width: int) -> Planes:
        """Draw a page of rows that contains the selected one."""
        return _paint(scene, height, width)

    def legend(self, scene: Scene, *, narrow: bool) -> Line:
        """Return the number of files and captures, the filter and the order."""
        job = scene.session.job
        if job is None:
            return []
        files, captures = len(job.discovery.files), len(job.discovery.captures)
        pattern = FILES_STATE.of(scene.state).pattern
        found = f"{counted(files, 'file')}  {counted(captures, 'capture')} "
        counts = f"/{pattern}/ {len(_rows(scene))} of {found}" if pattern else found
        order = self.sorting(scene).text
        return [(f"{counts} {order} " if order else counts, Ink.TAB)]

    def status(self, scene: Scene, width: int) -> tuple[Line, Line]:
        """Return the full name and the state of the selected file."""
        chosen = _chosen(scene)
        if chosen is None:
            return [], []
        name, kind, _, size, state = chosen.cells
        return [(f" {name}   {kind}   {size}", Ink.TEXT)], [(f" {state}", Ink.DIM)]

    def count(self, scene: Scene) -> int:
        """Return the number of captures and files."""
        return len(_rows(scene))

    def row(self, scene: Scene) -> int:
        """Return the selected row."""
        return FILES_STATE.of(scene.state).row

    def to_row(self, scene: Scene, row: int) -> ViewState:
        """Select a row."""
        return FILES_STATE.put(scene.state, replace(FILES_STATE.of(scene.state), row=row))

    is_filtered = True

    def row_pattern(self, scene: Scene) -> str:
        """Return the pattern of the rows that are listed."""
        return FILES_STATE.of(scene.state).pattern

    def with_row_pattern(self, scene: Scene, pattern: str) -> ViewState:
        """List captures and files with a cell that matches."""
        own = replace(FILES_STATE.of(scene.state), pattern=pattern, row=0)
        return FILES_STATE.put(scene.state, own)

    is_sorted = True

    def sort_columns(self, scene: Scene) -> tuple[str, ...]:
        """Return the columns; "" is the order of captures, then files."""
        return ("", *_COLUMNS)

    def sorting(self, scene: Scene) -> Sorting:
        """Return the order of the rows."""
        return FILES_STATE.of(scene.state).sorting

    def with_sorting(self, scene: Scene, sorting: Sorting) -> ViewState:
        """Sort captures and files together; the cursor moves to the first."""
        own = replace(FILES_STATE.of(scene.state), sorting=sorting, row=0)
        return FILES_STATE.put(scene.state, own)

    def why_no_rows(self, scene: Scene) -> str:
        """Return the reason: nothing is found yet, or the filter leaves nothing."""
        pattern = self.row_pattern(scene)
        if pattern:
            return f"no file matches /{pattern}/: / changes the filter"
        return super().why_no_rows(scene)


FILES: Final = FilesPane()


def _rows(scene: Scene) -> list[FileRow]:
    """Return the rows that match the filter: captures, then files."""
    from ccltui.tui.state.file_rows import file_rows

    rows, own = file_rows(scene), FILES_STATE.of(scene.state)
    if own.pattern:
        matches = re.compile(own.pattern, re.IGNORECASE).search
        rows = [row for row in rows if any(map(matches, row.cells))]
    if not own.sorting.column:
        return rows[::-1] if own.sorting.reverse else rows
    places = own.sorting.order([_sorted_by(row, own.sorting.column) for row in rows])
    return [rows[place] for place in places]


def _sorted_by(row: FileRow, column: str) -> Value:
    if column == "size":
        return row.size_bytes
    return row.rank if column == "rank" else row.cells[_COLUMNS.index(column)]


def _chosen(scene: Scene) -> FileRow | None:
    """Return the selected row, None where there are no rows."""
    rows = _rows(scene)
    return rows[min(FILES_STATE.of(scene.state).row, len(rows) - 1)] if rows else None


def chosen_capture(scene: Scene) -> str | None:
    """Return the capture that enter opens, None where the selected row opens none."""
    chosen = _chosen(scene)
    return None if chosen is None else chosen.capture


def why_no_capture(scene: Scene) -> str | None:
    """Return the reason when the selected row opens no capture."""
    if _chosen(scene) is None:
        return "nothing is found yet"
    if chosen_capture(scene) is None:
        return "this file is not in another capture"
    return None


def _paint(scene: Scene, height: int, width: int) -> Planes:
    from ccltui.draw.planes import Planes

    planes = Planes.blank(height, width, Ink.TEXT)
    rows = _rows(scene)
    if not rows:
        read = scene.session.job is not None
        text = "No file here." if read else "Files appear here as soon as the directory is read."
        if pattern := FILES_STATE.of(scene.state).pattern:
            text = f"No file matches /{pattern}/: / changes the filter."
        planes.put(1, 1, text, Ink.DIM)
        return planes
    marked = FILES_STATE.of(scene.state).sorting.marked
    named = max(width - _STATE - _BETWEEN, 22)
    columns = (
        Column(marked("file"), widest=named),
        Column(marked("kind"), widest=16),
        Column(marked("rank"), "right", 9),
        Column(marked("size"), "right"),
        Column(marked("state"), widest=width),
    )
    room = max(height - 1, 1)
    at = min(FILES_STATE.of(scene.state).row, len(rows) - 1)
    first = at // room * room
    shown = rows[first : first + room]
    lines = table(
        columns, [(fit_middle(row.cells[0], named), *row.cells[1:]) for row in shown], 2 * width
    )
    planes.put(0, 1, lines[0], Ink.DIM)
    for index, (row, line) in enumerate(zip(shown, lines[1:], strict=True)):
        on = first + index == at
        text = ("▶" if on else " ") + line
        planes.put_fitted(1 + index, 0, text.rstrip(), Ink.LABEL_ON if on else row.ink)
        planes.listed[1 + index] = first + index
    return planes
