"""The directory: captures and files, each with its state."""

from __future__ import annotations

from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes
from ccltui.draw.table import Column, table
from ccltui.draw.text import fit_middle
from ccltui.tui.state.file_rows import file_rows
from ccltui.tui.state.scene import Scene

_STATE = 20
"""Room that is kept for the states; the whole of one stands below."""
_BETWEEN = 34


def paint(scene: Scene, height: int, width: int) -> Planes:
    """A page of rows, the selected one in it."""
    planes = Planes.blank(height, width, Ink.TEXT)
    rows = file_rows(scene)
    if not rows:
        read = scene.session.job is not None
        text = "No file here." if read else "Files appear here as soon as the directory is read."
        planes.put(1, 1, text, Ink.DIM)
        return planes
    named = max(width - _STATE - _BETWEEN, 22)
    columns = (
        Column("file", widest=named),
        Column("kind", widest=16),
        Column("rank", "right", 9),
        Column("size", "right"),
        Column("state", widest=width),
    )
    room = max(height - 1, 1)
    at = min(scene.state.file, len(rows) - 1)
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
