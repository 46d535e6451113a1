"""Reports: studies of all-to-all and the tables of nsys' text, line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes
from ccltui.draw.text import wrap
from ccltui.tui.state import side_tables
from ccltui.tui.state.scene import Scene

if TYPE_CHECKING:
    from ccltui.report.nsys_overview import OverviewLine


def paint(scene: Scene, height: int, width: int) -> Planes:
    """A page of lines, the selected one in it, which is whole below where it is cut."""
    planes = Planes.blank(height, width, Ink.TEXT)
    lines = side_tables.reports(scene)
    if lines is None:
        planes.put(1, 1, "Files of nsys are being read.", Ink.DIM)
        return planes
    if not lines:
        for y, text in enumerate(wrap(side_tables.NO_REPORTS, width - 2), 1):
            planes.put(y, 1, text, Ink.DIM)
        return planes
    at = min(scene.state.report, len(lines) - 1)
    whole = wrap(lines[at].text.strip(), width - 2, most=3, indent="  ")
    below = whole if len(lines[at].text) > width - 1 else []
    room = max(height - len(below), 1)
    first = at // room * room
    for y, line in enumerate(lines[first : first + room]):
        on = first + y == at
        text = ("▶" if on else " ") + _fitted(line.text, width - 1)
        planes.put(y, 0, text.ljust(width), Ink.LABEL_ON if on else _ink(line))
        planes.listed[y] = first + y
    for y, text in enumerate(below, height - len(below)):
        planes.put(y, 1, text, Ink.DIM)
    return planes


def _fitted(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _ink(line: OverviewLine) -> Ink:
    return {"heading": Ink.STRONG, "problem": Ink.WARNING, "text": Ink.TEXT}[line.role]
