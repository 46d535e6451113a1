"""Panes that are pages of text: filtered by line, their tables sorted by column.

Their base class, and the Reports pane: all-to-all studies and tables of nsys text reports.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from msgspec import Struct

from ccltui.draw.palette import Ink
from ccltui.draw.text import wrap
from ccltui.tui.panes.list_pane import FilePane
from ccltui.tui.state.answers import FileQuery
from ccltui.tui.state.pane_states import REPORTS as REPORTS_NAME
from ccltui.tui.state.pane_states import Sorting, Value
from ccltui.tui.state.scene import Scene

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes
    from ccltui.parsers.job import Job
    from ccltui.report.alltoall_study import OverviewLine


_BETWEEN: Final = re.compile(r"\s{2,}")
_NUMBER: Final = re.compile(r"([+-]?[\d,]*\.?\d+(?:[eE][+-]?\d+)?)\s*(B|KiB|MiB|GiB|TiB|%)?")
_BYTES: Final = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_ABSENT: Final = frozenset({"", "-", "--"})


class TextTable(Struct, frozen=True):
    """A table: the line of its titles, the lines of its rows up to ``end``, titles and cells."""

    titles_at: int
    end: int
    titles: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]

    def order(self, sorting: Sorting) -> list[int]:
        """Return the lines of the rows in order, as they are where there is no such column."""
        lines = list(range(self.titles_at + 1, self.end))
        if sorting.column not in self.titles:
            return lines
        column = self.titles.index(sorting.column)
        return [
            lines[place] for place in sorting.order([value_of(row[column]) for row in self.cells])
        ]


def tables_of(lines: Sequence[str]) -> list[TextTable]:
    """Return the tables of a page: titles and rows of as many cells, two blanks or more apart.

    Args:
        lines: the lines of the page. A row may have blanks in its last cell only.
    """
    found: list[TextTable] = []
    at = 0
    while at < len(lines):
        titles = _BETWEEN.split(lines[at].strip())
        end, cells = at + 1, []
        while len(titles) > 1 and end < len(lines) and lines[end].strip():
            row = _BETWEEN.split(lines[end].strip(), maxsplit=len(titles) - 1)
            if len(row) != len(titles):
                break
            cells.append(tuple(row))
            end += 1
        is_table = bool(cells) and not any(isinstance(value_of(t), float) for t in titles)
        if is_table:
            found.append(TextTable(at, end, tuple(titles), tuple(cells)))
        at = end if is_table else at + 1
    return found


def value_of(cell: str) -> Value:
    """Return what a cell is sorted by: its number, in bytes where it is a size, else its text."""
    if cell in _ABSENT:
        return None
    found = _NUMBER.fullmatch(cell)
    if found is None:
        return cell
    return float(found[1].replace(",", "")) * _BYTES.get(found[2] or "", 1)


class TextLine(Protocol):
    """A line of a page."""

    @property
    def text(self) -> str:
        """Text of the line."""


T = TypeVar("T", bound=TextLine)


class TextPage(FilePane[T]):
    """Page of lines; those of its tables are sorted by any column that a table has."""

    counts = False

    def is_heading(self, row: T) -> bool:
        """Return whether a line is the heading of those after it."""
        raise NotImplementedError

    @property
    def is_sorted(self) -> bool:  # type: ignore[override]
        """Return True: its tables are sorted by each of their columns."""
        return True

    def sort_columns(self, scene: Scene) -> tuple[str, ...]:
        """Return the titles of all tables, each once; "" is the order in which rows are found."""
        tables = self.made_from("tables", _tables, self.found_rows(scene) or ())
        return ("", *dict.fromkeys(title for one in tables for title in one.titles))

    def rows(self, scene: Scene) -> Sequence[T]:
        """Return the lines: tables with the column of the order sorted, what matches the filter.

        Lines that match are listed below the heading and the titles that they belong to.
        """
        found, own = self.found_rows(scene), self.own.of(scene.state)
        if found is None or not (own.pattern or own.sorting.column):
            return found or ()
        tables = self.made_from("tables", _tables, found)
        lines = _order(len(found), tables, own.sorting)
        if own.pattern:
            titles = {one.titles_at for one in tables}
            lines = self._matching(found, lines, titles, own.pattern)
        return [found[line] for line in lines]

    def paint(self, scene: Scene, height: int, width: int) -> Planes:
        """Draw a page of lines with the selected one, repeated in full below where it is cut."""
        from ccltui.draw.planes import Planes

        rows = self.rows(scene)
        if not rows:
            return super().paint(scene, height, width)
        planes = Planes.blank(height, width, Ink.TEXT)
        paint_lines(planes, [(row.text, self.ink(row)) for row in rows], self.row(scene))
        return planes

    def _matching(
        self, found: Sequence[T], lines: Sequence[int], titles: set[int], pattern: str
    ) -> list[int]:
        matches = re.compile(pattern, re.IGNORECASE).search
        kept: list[int] = []
        above: list[int] = []  # heading and titles that no line below has brought in yet
        for line in lines:
            if self.is_heading(found[line]):
                above = [line]
            elif line in titles:
                above = [*(one for one in above if one not in titles), line]
            elif matches(found[line].text):
                kept += [*above, line]
                above = []
        return kept


def _tables(rows: Sequence[TextLine]) -> list[TextTable]:
    return tables_of([row.text for row in rows])


def _order(number: int, tables: Sequence[TextTable], sorting: Sorting) -> list[int]:
    """Return the lines of a page with the rows of its tables in order."""
    lines = list(range(number))
    for one in tables:
        lines[one.titles_at + 1 : one.end] = one.order(sorting)
    return lines


def paint_lines(planes: Planes, lines: Sequence[tuple[str, Ink]], row: int) -> None:
    """Draw a page of texts with the selected one, repeated in full below where it is cut.

    Args:
        planes: the cells of the whole pane.
        lines: at least one text, each with its ink.
        row: the selected line.
    """
    height, width = planes.height, planes.width
    at = min(row, len(lines) - 1)
    selected = lines[at][0]
    below = wrap(selected.strip(), width - 2, most=3, indent="  ") if len(selected) >= width else []
    room = max(height - len(below), 1)
    first = at // room * room
    for y, (text, ink) in enumerate(lines[first : first + room]):
        on = first + y == at
        shown = text if len(text) <= width - 1 else text[: width - 2] + "…"
        planes.put_row(y, shown, ink, on=on)
        planes.listed[y] = first + y
    for y, text in enumerate(below, height - len(below)):
        planes.put(y, 1, text, Ink.DIM)


NO_REPORTS: Final = (
    "no text of nsys stats and no all-to-all here; ccltui stats prints the tables of an export"
)


class ReportsQuery(FileQuery["Sequence[OverviewLine]"], frozen=True):
    """Overview of the nsys files below the open path."""

    path: str

    def answer(self, job: Job, cancelled: Callable[[], bool]) -> Sequence[OverviewLine]:
        """Return the lines of the overview, made in a separate process."""
        from ccltui.report.alltoall_study import nsys_overview
        from ccltui.tui.state.query_kinds import made_in_process

        return made_in_process(partial(nsys_overview, self.path), cancelled)


class ReportsPane(TextPage["OverviewLine"]):
    """Studies of all-to-all and the tables of every nsys text report."""

    name = REPORTS_NAME
    key = "9"
    title = "Reports"
    short_title = "Rep"
    about = (
        "What files of nsys contain: for each node how long its all-to-all exchanges waited for "
        "the last device (p50, p95, the whole distribution) and where device time went, shares "
        "below 1 % added up; then the tables of every text of nsys stats. ccltui stats prints "
        "them."
    )
    asks = ReportsQuery
    opens_without_traces = False  # Overview has the findings on the tables
    noun = "line"
    waiting = "files of nsys are being read"
    nothing = NO_REPORTS
    definition = "delay: longest less shortest kernel of an exchange, over the devices"

    def why_unavailable(self, scene: Scene) -> str | None:
        """Return the reason when there are no nsys reports."""
        return None if scene.session.has_reports else NO_REPORTS

    def query(self, scene: Scene) -> ReportsQuery | None:
        """Return the query for the overview of the nsys files."""
        return None if scene.session.job is None else ReportsQuery(scene.session.path)

    def is_heading(self, row: OverviewLine) -> bool:
        """Return whether the line names a table or a study."""
        return row.role == "heading"

    def ink(self, row: OverviewLine) -> Ink:
        """Return the style of what a line says."""
        return {"heading": Ink.STRONG, "problem": Ink.WARNING, "text": Ink.TEXT}[row.role]

    def remark(self, scene: Scene, *, narrow: bool) -> str:
        """Return the place of the cursor, where filter and order leave room for it."""
        count, own = self.count(scene), self.own.of(scene.state)
        if narrow or not count or own.pattern or own.sorting.text:
            return ""
        return f"line {self.row(scene) + 1} of {count}"

    def command(self, scene: Scene) -> list[str] | None:
        """Return the command that prints these tables."""
        return ["ccltui", "stats", scene.session.path, "--alltoall"]


REPORTS: Final = ReportsPane()
