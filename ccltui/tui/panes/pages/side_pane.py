"""Base class of panes of files beside the traces: a list of rows from one query."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from ccltui.draw.palette import Ink
from ccltui.draw.text import fit
from ccltui.tui.state.answers import FileQuery, Query
from ccltui.tui.state.own.own_state import ListState, OwnState
from ccltui.tui.state.own.sorting import Sorting, Value
from ccltui.tui.state.pane import Pane, Record
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import ViewState
from ccltui.tui.styled_text import Line

R = TypeVar("R")


class SidePane(Pane, Generic[R]):
    """List of rows that one query returns, with a selected row."""

    is_of_traces = False
    opens_without_traces = True
    kind: type[FileQuery[Sequence[R]]]
    """The query that returns the rows."""
    sort_keys: Mapping[str, Callable[[R], Value]] = {}
    """What rows are sorted by, by the title of the column; {} where they cannot be sorted."""
    definition: str
    """Explanation of the numbers, shown as the first line about the cursor."""

    def __init__(self) -> None:
        self.own = OwnState(self.name, ListState())

    def query(self, scene: Scene) -> FileQuery[Sequence[R]]:
        """Return the query for the open directory."""
        raise NotImplementedError

    def queries(self, scene: Scene) -> Iterable[Query[Any]]:
        """Yield the query for the rows, once the directory is known."""
        return () if scene.session.job is None else (self.query(scene),)

    def found_rows(self, scene: Scene) -> Sequence[R] | None:
        """Return all rows in the order in which they are found, None while they are being read."""
        return scene.answers.latest(self.kind)

    def rows(self, scene: Scene) -> Sequence[R] | None:
        """Return the rows that match the filter, in order, None while they are being read."""
        found, own = self.found_rows(scene), self.own.of(scene.state)
        if found is None:
            return None
        if own.pattern:
            matches = re.compile(own.pattern, re.IGNORECASE).search
            found = [row for row in found if matches(self.text_of(row))]
        key = self.sort_keys.get(own.sorting.column)
        if key is None:
            return found[::-1] if own.sorting.reverse else found
        return [found[place] for place in own.sorting.order([key(row) for row in found])]

    def text_of(self, row: R) -> str:
        """Return the text of a row that a filter is matched with."""
        raise NotImplementedError

    is_filtered = True

    def row_pattern(self, scene: Scene) -> str:
        """Return the pattern of the rows that are listed."""
        return self.own.of(scene.state).pattern

    def with_row_pattern(self, scene: Scene, pattern: str) -> ViewState:
        """List the rows whose text matches."""
        own = replace(self.own.of(scene.state), pattern=pattern, row=0)
        return self.own.put(scene.state, own)

    def why_no_rows(self, scene: Scene) -> str:
        """Return the reason: nothing is read yet, or the filter leaves nothing."""
        pattern = self.row_pattern(scene)
        if pattern:
            return f"no row matches /{pattern}/: / changes the filter"
        return super().why_no_rows(scene)

    @property
    def is_sorted(self) -> bool:  # type: ignore[override]
        """Whether rows can be sorted by each of the pane's columns."""
        return bool(self.sort_keys)

    def sort_columns(self, scene: Scene) -> tuple[str, ...]:
        """Return the titles of the columns; "" is the order in which rows are found."""
        return ("", *self.sort_keys)

    def sorting(self, scene: Scene) -> Sorting:
        """Return the order of the rows."""
        return self.own.of(scene.state).sorting

    def with_sorting(self, scene: Scene, sorting: Sorting) -> ViewState:
        """Sort the rows; the cursor moves to the first."""
        return self.own.put(scene.state, replace(self.own.of(scene.state), sorting=sorting, row=0))

    def listing_text(self, scene: Scene) -> str:
        """Return filter and order for the legend, "" where all rows are as they were found."""
        own, found = self.own.of(scene.state), self.found_rows(scene) or ()
        parts = []
        if own.pattern:
            shown = len(self.rows(scene) or ())
            parts.append(f"/{fit(own.pattern, 12).rstrip()}/ {shown} of {len(found)}")
        parts += [own.sorting.text] if own.sorting.text else []
        return "".join(f"{part}  " for part in parts)

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
