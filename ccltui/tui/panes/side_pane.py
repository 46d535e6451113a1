"""Base class of panes of files beside the traces: a list of rows from one query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ccltui.draw.palette import Ink
from ccltui.tui.state.answers import FileQuery, Query
from ccltui.tui.state.own.own_state import OwnState, RowState
from ccltui.tui.state.pane import Pane, Record
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import ViewState
from ccltui.tui.styled_text import Line

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes

R = TypeVar("R")


class SidePane(Pane, Generic[R]):
    """List of rows that one query returns, with a selected row."""

    is_of_traces = False
    opens_without_traces = True
    kind: type[FileQuery[Sequence[R]]]
    """The query that returns the rows."""
    definition: str
    """Explanation of the numbers, shown as the first line about the cursor."""

    def __init__(self) -> None:
        self.own = OwnState(self.name, RowState())

    def query(self, scene: Scene) -> FileQuery[Sequence[R]]:
        """Return the query for the open directory."""
        raise NotImplementedError

    def queries(self, scene: Scene) -> Iterable[Query[Any]]:
        """Yield the query for the rows, once the directory is known."""
        return () if scene.session.job is None else (self.query(scene),)

    def rows(self, scene: Scene) -> Sequence[R] | None:
        """Return the rows, None while they are being read."""
        return scene.answers.latest(self.kind)

    def count(self, scene: Scene) -> int:
        """Return the number of rows that are read."""
        return len(self.rows(scene) or ())

    def row(self, scene: Scene) -> int:
        """Return the selected row, limited to the rows there are now."""
        return self.own.of(scene.state).row

    def to_row(self, scene: Scene, row: int) -> ViewState:
        """Select a row."""
        return self.own.put(scene.state, replace(self.own.of(scene.state), row=row))

    def status(self, scene: Scene, width: int) -> tuple[Line, Line]:
        """Return the explanation of the numbers."""
        return [(f" {self.definition}", Ink.TEXT)], []

    def why_no_export(self, scene: Scene) -> str | None:
        """Return None: rows can be written without any trace."""
        return None if self.count(scene) else super().why_no_export(scene)

    def records(self, scene: Scene) -> Iterator[Record]:
        """Yield the rows without their curves."""
        from ccltui.tui.state.side_tables import records_of

        return records_of(self.rows(scene) or ())


def paint_lines(planes: Planes, lines: Sequence[tuple[str, Ink]], row: int) -> None:
    """Draw a page of texts with the selected one, repeated in full below where it is cut.

    Args:
        planes: the cells of the whole pane.
        lines: at least one text, each with its ink.
        row: the selected line.
    """
    from ccltui.draw.text import wrap

    height, width = planes.height, planes.width
    at = min(row, len(lines) - 1)
    selected = lines[at][0]
    below = wrap(selected.strip(), width - 2, most=3, indent="  ") if len(selected) >= width else []
    room = max(height - len(below), 1)
    first = at // room * room
    for y, (text, ink) in enumerate(lines[first : first + room]):
        on = first + y == at
        shown = text if len(text) <= width - 1 else text[: width - 2] + "…"
        line = ("▶" if on else " ") + shown
        planes.put(y, 0, line.ljust(width), Ink.LABEL_ON if on else ink)
        planes.listed[y] = first + y
    for y, text in enumerate(below, height - len(below)):
        planes.put(y, 1, text, Ink.DIM)
