"""Base class of panes that are lists: a table of declared columns over the rows of one query.

A list declares its columns and says what its rows are. All else is here, the same for each list:
the cursor, the order by any column, the filter, rows folded below others, pages, the columns of a
second path, the legend, and what is exported and copied. Moves (`ccltui.tui.moves.view_moves`)
reach it through `Pane`; the mouse through the rows that the picture records.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ccltui.draw.palette import Ink
from ccltui.draw.text import Align, Line, fit, fit_middle
from ccltui.parsers import numbers
from ccltui.parsers.errors import GrammarError
from ccltui.tui.moves.cursor import no_time
from ccltui.tui.state.answers import FileQuery, Query
from ccltui.tui.state.pane import Pane, Record, pane_in_view, queries_of
from ccltui.tui.state.pane_states import AS_FOUND, ListState, OwnState, Sorting, Value
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import ViewState

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes

R = TypeVar("R")
T = TypeVar("T")

UNKNOWN: Final = "--"
_GAP: Final = 2
_MOST_PATTERN: Final = 12
"""Characters of a filter in the legend, which shares its line with the tabs."""


def anything(width: int) -> int:
    """Return the width of the pane: a column as wide as its content."""
    return width


class Column(Struct, Generic[R], frozen=True):
    """A column of a list.

    Attributes:
        title: heading of the column, and name of the order by it.
        value: what rows are sorted by and `form` prints, None where it is not known; a column
            without it cannot be sorted.
        form: prints a value that is known.
        text: prints a row in at most so many cells, in place of ``value`` and ``form``.
        unknown: what is printed where the value is not known.
        sort_value: what rows are sorted by where that is not ``value``.
        key: name in exported rows, with the unit; "" leaves the column out of them.
        align: side at which the cells are aligned.
        width: cells that the column has whatever its content, more where numbers need them; 0: as
            many as its content needs.
        widest: most cells of its content, by the width of the pane.
        takes_rest: whether the column has the room that the others leave, up to ``widest``.
        least: cells that such a column has at least.
        from_width: width of the pane from which the column is shown.
        beside_from: the same where the columns of a second path are shown.
        is_hidden: whether the column is only exported.
        is_once: whether a text that repeats that of the row above is left out.
    """

    title: str
    value: Callable[[R], Value] | None = None
    form: Callable[[Any], str] = str
    text: Callable[[R, int], str] | None = None
    unknown: str = UNKNOWN
    sort_value: Callable[[R], Value] | None = None
    key: str = ""
    align: Align = "right"
    width: int = 0
    widest: Callable[[int], int] = anything
    takes_rest: bool = False
    least: int = 0
    from_width: int = 0
    beside_from: int = 0
    is_hidden: bool = False
    is_once: bool = False

    @property
    def order(self) -> Callable[[R], Value] | None:
        """What rows are sorted by, None where they cannot be."""
        return None if self.is_hidden else self.sort_value or self.value

    def cells(self, rows: Sequence[R], room: int) -> list[str]:
        """Return the texts of rows in at most so many cells each."""
        texts = [self.cell(row, room) for row in rows]
        if not self.is_once:
            return texts
        before = [None, *texts]
        return ["" if text == last else text for text, last in zip(texts, before, strict=False)]

    def cell(self, row: R, room: int) -> str:
        """Return the text of a row in at most so many cells."""
        if self.text is not None:
            return self.text(row, room)
        value = None if self.value is None else self.value(row)
        return self.unknown if value is None else self.form(value)


def name_column(
    title: str, name: Callable[[R], str], shown: Callable[[R], str] | None = None, **options: Any
) -> Column[R]:
    """Return a column of names, which are sorted by letters, and cut in the middle where shown."""
    text = shown or name
    return Column(
        title,
        name,
        text=lambda row, room: fit_middle(text(row), room).rstrip(),
        align="left",
        **options,
    )


def aligned(
    columns: Sequence[Column[R]],
    titles: Sequence[str],
    rows: Sequence[R],
    width: int,
    across: Callable[[R], str | None] = lambda _: None,
) -> tuple[list[str], int]:
    """Return titles and rows in at most so many cells, and the width of the table.

    Args:
        columns: the columns.
        titles: their headings.
        rows: the rows.
        width: cells of the pane.
        across: returns the text that a row has in place of the cells after its first, else None.
    """
    from ccltui.draw.text import Column as Cells
    from ccltui.draw.text import table

    cells: list[list[str]] = []
    sizes: list[int] = []
    for column, title in zip(columns, titles, strict=True):
        room = column.width or column.widest(width)
        texts = [] if column.takes_rest else column.cells(rows, room)
        content = max(map(len, (title, *texts)))
        # A number is never cut: its column grows, and that of the names shrinks.
        if column.width and column.align == "right":
            sizes.append(max(content, column.width))
        else:
            sizes.append(column.width or min(content, room))
        cells.append(texts)
    for at, column in enumerate(columns):
        if column.takes_rest:
            left = width - 2 - sum(sizes) + sizes[at] - _GAP * (len(sizes) - 1)
            room = max(min(left, column.widest(width)), column.least)
            cells[at] = column.cells(rows, room)
            # Without a limit of its own it fills the room: numbers stay in place over pages.
            content = max(map(len, (titles[at], *cells[at])))
            sizes[at] = room if column.widest is anything else content
    shown = [
        Cells(title, column.align, size, size)
        for title, column, size in zip(titles, columns, sizes, strict=True)
    ]
    used = min(sum(sizes) + _GAP * (len(sizes) - 1), width - 1)
    lines = table(shown, list(zip(*cells, strict=True)), width - 1)
    for at, text in enumerate(map(across, rows), 1):
        if text is not None:
            name = cells[0][at - 1]
            first = f"{fit(name, sizes[0])}{' ' * _GAP}" if name and text else name
            lines[at] = fit(f"{first}{text}", width - 1).rstrip()
    return lines, used


class Page(Struct, Generic[R], frozen=True):
    """What is drawn of a list: the rows from ``first`` on, from the line ``y``.

    ``x`` is the first column to their right that is free.
    """

    rows: Sequence[R]
    first: int
    y: int
    x: int


class ListPane(Pane, Generic[R]):
    """List with a selected row, whose columns are declared."""

    is_filtered = True
    columns: tuple[Column[R], ...] = ()
    of_b: tuple[Column[R], ...] = ()
    """Columns of the second path, which follow the others where there is one."""
    first_order: Sorting = AS_FOUND
    """Order until another is chosen."""
    noun: str = "row"
    """What a row is, in the legend and in reasons."""
    counts: bool = True
    """Whether the legend states the number of rows without a filter, too."""
    waiting: str = "nothing is loaded yet"
    """Reason why no row is listed before the query is answered."""
    nothing: str = "nothing is here"
    """Reason why the query has no row."""
    definition: str = ""
    """Explanation of the numbers, the first line about the cursor where `status` says no more."""
    metric_name: str = ""
    """Metric that prints the numbers of the pane."""
    names_kind: bool = True
    """Whether the heading of the first column is the kind of the rows."""
    keeps_filter: bool = False
    """Whether a filter also holds for the next kind of rows."""
    has_bars: bool = False
    """Whether `draw_beside` draws at the right of the rows."""
    detail_lines: int = 0
    """Most lines of `details_of`; as many are kept free, so that rows stay where they are."""
    least_rows: int = 3
    """Rows that are in view before there are lines of `details_of`."""

    def __init__(self) -> None:
        self.own = OwnState(self.name, ListState(sorting=self.first_order))
        self._made: dict[str, tuple[tuple[object, ...], Any]] = {}

    # What a list says of itself

    def query(self, scene: Scene) -> Query[Any] | None:
        """Return the query for the rows, None while there is none to make."""
        return None

    def found_rows(self, scene: Scene) -> Sequence[R] | None:
        """Return all rows in the order in which they are found, None while they are not known.

        Rows that did not change are the same object: only then they are not sorted again.
        """
        raise NotImplementedError

    def words(self, row: R) -> Iterable[str]:
        """Return the texts of a row that a filter is matched with: one of them must match."""
        return ()

    def ink(self, row: R) -> Ink:
        """Return the style of a row that is not selected."""
        return Ink.TEXT

    def row_name(self, row: R) -> str | int | None:
        """Return what the cursor finds a row by in any order, None for its place."""
        return None

    def across(self, row: R) -> str | None:
        """Return the text that a row has in place of the cells after its first, None for cells."""
        return None

    def below_of(self, scene: Scene, row: R) -> Sequence[R]:
        """Return the rows that belong below another."""
        return ()

    def fold_name(self, row: R) -> str:
        """Return what identifies a row that others are below."""
        return ""

    def put_above(self, planes: Planes, scene: Scene) -> int:
        """Draw what is above the heading, and return the number of its lines."""
        return 0

    def details_of(self, row: R, width: int) -> Sequence[tuple[str, Ink]]:
        """Return lines about the selected row, which are below the list."""
        return ()

    def details_from(self, rows_end: int, lowest: int) -> int:
        """Return the line that the details begin at: the lowest, where rows may take the others."""
        del rows_end
        return lowest

    def draw_beside(self, planes: Planes, scene: Scene, page: Page[R]) -> None:
        """Draw what is beside and below the rows of a page."""

    def room(self, scene: Scene, height: int) -> int:
        """Return how many of these lines the rows may take."""
        return height

    def remark(self, scene: Scene, *, narrow: bool) -> str:
        """Return what the legend says after filter and order."""
        return ""

    # Rows

    def queries(self, scene: Scene) -> Iterable[Query[Any]]:
        """Yield the query for the rows, and for the numbers of a second path."""
        query = self.query(scene)
        if query is None:
            return ()
        return (query, *queries_of(scene)) if self.of_b else (query,)

    def made_from(self, what: str, make: Callable[..., T], *inputs: Any) -> T:
        """Return what a function makes of these objects; made once while they are the same ones.

        The rows of a list are asked for by several moves and by each part of the picture.
        """
        last = self._made.get(what)
        if last is None or any(a is not b for a, b in zip(last[0], inputs, strict=True)):
            last = self._made[what] = (inputs, make(*inputs))
        made: T = last[1]
        return made

    def rows(self, scene: Scene) -> Sequence[R]:
        """Return the rows that match the filter, in order, each followed by those below it.

        A row with a match below it is listed too, and then what matches below it, folded or not.
        """
        found, own = self.found_rows(scene), self.own.of(scene.state)
        if found is None:
            return ()

        def make(found: Sequence[R], pattern: str, sorting: Sorting, _: frozenset[str]) -> list[R]:
            return list(self._listed(scene, found, pattern, sorting))

        return self.made_from("rows", make, found, own.pattern, own.sorting, own.toggled)

    def _listed(
        self, scene: Scene, found: Sequence[R], pattern: str, sorting: Sorting
    ) -> Iterator[R]:
        matches = re.compile(pattern, re.IGNORECASE).search
        for row in self.sorted_rows(found, sorting):
            below = self.below_of(scene, row)
            if not pattern or any(map(matches, self.words(row))):
                yield row
                chosen = below if below and self.is_unfolded(scene, row) else ()
            else:
                chosen = [one for one in below if any(map(matches, self.words(one)))]
                yield from (row,) if chosen else ()
            yield from self.sorted_rows(chosen, sorting)

    def sorted_rows(self, found: Sequence[R], sorting: Sorting) -> Sequence[R]:
        """Return rows in an order; those whose value is not known are last."""
        every = (*self.columns, *self.of_b)
        order = next((one.order for one in every if one.title == sorting.column), None)
        if order is None:
            return found[::-1] if sorting.reverse else found
        return [found[place] for place in sorting.order([order(row) for row in found])]

    def count(self, scene: Scene) -> int:
        """Return the number of listed rows."""
        return len(self.rows(scene))

    def row(self, scene: Scene) -> int:
        """Return the place of the cursor: that of the row it was put on, else the same place."""
        own, rows = self.own.of(scene.state), self.rows(scene)
        if own.chosen is not None:
            for place, row in enumerate(rows):
                if self.row_name(row) == own.chosen:
                    return place
        return max(min(own.row, len(rows) - 1), 0)

    def chosen(self, scene: Scene) -> R | None:
        """Return the row under the cursor, None where none is listed."""
        rows = self.rows(scene)
        return rows[self.row(scene)] if rows else None

    def to_row(self, scene: Scene, row: int) -> ViewState:
        """Put the cursor on a row."""
        rows = self.rows(scene)
        chosen = self.row_name(rows[row]) if row < len(rows) else None
        return self.changed(scene, row=row, chosen=chosen)

    def changed(self, scene: Scene, **changes: Any) -> ViewState:
        """Return the view with other values of the state of the list."""
        return self.own.put(scene.state, replace(self.own.of(scene.state), **changes))

    def missing(self, scene: Scene) -> str | None:
        """Return the reason why there is nothing to ask for; None where there is."""
        return no_time(scene) if self.is_of_traces else None

    def why_no_rows(self, scene: Scene) -> str:
        """Return the reason: nothing is loaded, computed, found, or left by the filter."""
        missing = self.missing(scene)
        if missing is not None:
            return missing
        found, pattern = self.found_rows(scene), self.row_pattern(scene)
        if found is None:
            return self.waiting
        if not found or not pattern:
            return self.nothing
        return f"no {self.noun} matches /{pattern}/: / changes the filter"

    def why_none(self, scene: Scene) -> str | None:
        """Return the reason why no row is listed, None where one is."""
        return None if self.rows(scene) else self.why_no_rows(scene)

    def why_no_export(self, scene: Scene) -> str | None:
        """Return the reason why nothing can be written; what is no trace needs none loaded."""
        if self.is_of_traces or not self.count(scene):
            return super().why_no_export(scene)
        return None

    # Filter, order, kinds and folds

    def row_pattern(self, scene: Scene) -> str:
        """Return the pattern of the rows that are listed."""
        return self.own.of(scene.state).pattern

    def with_row_pattern(self, scene: Scene, pattern: str) -> ViewState:
        """List the rows that match; the cursor moves to the first."""
        return self.changed(scene, pattern=pattern, row=0)

    @property
    def has_columns(self) -> bool:  # type: ignore[override]
        """Whether columns can be left out."""
        return len(self.columns) > 1

    @property
    def is_sorted(self) -> bool:  # type: ignore[override]
        """Whether rows can be sorted by each of the columns."""
        return bool(self.columns)

    def sort_columns(self, scene: Scene) -> tuple[str, ...]:
        """Return the titles that rows are sorted by; "" is the order in which they are found."""
        titles = tuple(one.title for one in self.every_column(scene) if one.order is not None)
        return titles if self.first_order.column else ("", *titles)

    def sorting(self, scene: Scene) -> Sorting:
        """Return the order of the rows."""
        return self.own.of(scene.state).sorting

    def with_sorting(self, scene: Scene, sorting: Sorting) -> ViewState:
        """Sort the rows; the cursor moves to the first."""
        return self.changed(scene, sorting=sorting, row=0)

    def kind(self, scene: Scene) -> str:
        """Return what the rows are, "" where they are always the same."""
        wanted, kinds = self.own.of(scene.state).kind, self.kinds(scene)
        return wanted if wanted in kinds else (*kinds, "")[0]

    def with_next_kind(self, scene: Scene) -> ViewState:
        """List the next kind of rows."""
        kinds = self.kinds(scene)
        after = kinds[(kinds.index(self.kind(scene)) + 1) % len(kinds)]
        pattern = self.row_pattern(scene) if self.keeps_filter else ""
        return self.changed(scene, kind=after, pattern=pattern, toggled=frozenset(), row=0)

    def is_unfolded(self, scene: Scene, row: R) -> bool:
        """Return whether the rows below another are listed."""
        return self.fold_name(row) in self.own.of(scene.state).toggled

    def with_fold(self, scene: Scene) -> ViewState:
        """Fold or unfold the selected row, or that which it is below; the cursor moves there."""
        row = self.chosen(scene)
        if row is None:
            return scene.state
        name = self.fold_name(row)
        state = self.changed(scene, toggled=self.own.of(scene.state).toggled ^ {name})
        after = scene.with_state(state)
        names = [self.fold_name(one) for one in self.rows(after)]
        return self.to_row(after, names.index(name))

    # Picture

    def columns_in(self, scene: Scene, width: int) -> Sequence[Column[R]]:
        """Return the columns that a pane of this width shows: that of the order is among them."""
        own, of_b = self.own.of(scene.state), self.columns_of_b(scene)
        shown = [
            one
            for one in self.columns
            if one.title == own.sorting.column
            or width >= (one.beside_from if of_b else one.from_width)
        ]
        left_out = own.hidden_columns
        return [o for o in (*shown, *of_b) if not o.is_hidden and o.title not in left_out]

    def columns_of_b(self, scene: Scene) -> Sequence[Column[R]]:
        """Return the columns of the second path, none without one."""
        return () if scene.other is None else self.of_b

    def every_column(self, scene: Scene) -> Sequence[Column[R]]:
        """Return the columns at any width, and those of the second path where there is one."""
        return (*self.columns, *self.columns_of_b(scene))

    def hideable_columns(self, scene: Scene) -> tuple[str, ...]:
        """Return the titles of the columns that can be left out: all but the first."""
        every = self.every_column(scene)[1:]
        return tuple(one.title for one in every if one.title and not one.is_hidden)

    def heading(self, scene: Scene, column: Column[R]) -> str:
        """Return the heading of a column; that of the first is what the rows are."""
        kind, sorting = self.kind(scene), self.sorting(scene)
        title = kind if kind and self.names_kind and column is self.columns[0] else column.title
        is_order = bool(column.title) and column.title == sorting.column
        return f"{'▴' if sorting.reverse else '▼'}{title}" if is_order else title

    def lines(self, scene: Scene, rows: Sequence[R], width: int) -> tuple[list[str], int]:
        """Return heading and rows in at most so many cells, and the width of the table."""
        columns = self.columns_in(scene, width)
        titles = [self.heading(scene, one) for one in columns]
        return aligned(columns, titles, rows, width, self.across)

    def paint(self, scene: Scene, height: int, width: int) -> Planes:
        """Draw the page that contains the selected row, and what belongs to it."""
        from ccltui.draw.planes import Planes

        planes = Planes.blank(height, width, Ink.TEXT)
        rows = self.rows(scene)
        if not rows:
            why = self.why_no_rows(scene)
            planes.put_wrapped(1, f"{why[0].upper()}{why[1:]}.", Ink.DIM)
            return planes
        at = self.row(scene)
        top = self.put_above(planes, scene)
        below = max(min(self.detail_lines, height - top - 1 - self.least_rows), 0)
        room = max(self.room(scene, height - top - 1 - below - bool(below)), 1)
        # Whole pages: the picture scrolls only when it must. The last page is full, too.
        first = max(min(at // room * room, len(rows) - room), 0)
        shown = rows[first : first + room]
        lines, used = self.lines(scene, shown, width)
        planes.put(top, 1, lines[0], Ink.DIM)
        padded = used + _GAP if self.has_bars else None
        for index, (row, line) in enumerate(zip(shown, lines[1:], strict=True)):
            y, on = top + 1 + index, first + index == at
            planes.put_row(y, line, self.ink(row), on=on, width=padded)
            planes.listed[y] = first + index
        details = self.details_of(rows[at], width - 2)[:below]
        at_line = self.details_from(top + len(shown), height - below)
        for y, (text, ink) in enumerate(details, at_line):
            planes.put(y, 1, text, ink)
        self.draw_beside(planes, scene, Page(shown, first, top + 1, used + _GAP + 1))
        return planes

    # Texts

    def listing_text(self, scene: Scene, *, narrow: bool) -> str:
        """Return number of rows, filter and order for the legend."""
        own, counted = self.own.of(scene.state), self.counted(scene)
        if own.pattern:
            pattern = fit(own.pattern, _MOST_PATTERN).rstrip()
            counted = f"/{pattern}/ {numbers.count(self.num_found(scene))} of {counted}"
        elif not self.counts:
            counted = ""
        order = "" if narrow else own.sorting.text  # the heading has its mark in any case
        return "  ".join(part for part in (counted, order) if part)

    def num_found(self, scene: Scene) -> int:
        """Return the number of rows that match the filter."""
        return self.count(scene)

    def counted(self, scene: Scene) -> str:
        """Return the number of rows without a filter, and what they are."""
        return numbers.counted(len(self.found_rows(scene) or ()), self.noun)

    def legend(self, scene: Scene, *, narrow: bool) -> Line:
        """Return number of rows, filter, order, and what the list remarks."""
        parts = (self.listing_text(scene, narrow=narrow), self.remark(scene, narrow=narrow))
        text = "  ".join(part for part in parts if part)
        return [(f"{text} ", Ink.TAB)] if text else []

    def status(self, scene: Scene, width: int) -> tuple[Line, Line]:
        """Return the explanation of the numbers."""
        return ([(f" {self.definition}", Ink.TEXT)], []) if self.definition else ([], [])

    def metric(self, scene: Scene) -> str:
        """Return the name of the metric that prints the numbers."""
        return self.metric_name or super().metric(scene)

    # Export

    def exported(self, scene: Scene) -> Iterable[R]:
        """Return the rows that are exported: those that are listed."""
        return self.rows(scene)

    def records(self, scene: Scene) -> Iterator[Record]:
        """Yield the columns with a key of every row."""
        kind, left_out = self.kind(scene), self.own.of(scene.state).hidden_columns
        kept = [
            (kind if kind and one is self.columns[0] else one.key, one.value)
            for one in self.every_column(scene)
            if one.title not in left_out
        ]
        for row in self.exported(scene):
            yield {key: value(row) for key, value in kept if key and value is not None}


class FilePane(ListPane[R]):
    """List of what is read from files beside the traces."""

    is_of_traces = False
    opens_without_traces = True
    asks: type[FileQuery[Sequence[R]]]
    """The query that returns the rows."""

    def found_rows(self, scene: Scene) -> Sequence[R] | None:
        """Return all rows in the order in which they are found, None while they are being read."""
        return scene.answers.latest(self.asks)

    def records(self, scene: Scene) -> Iterator[Record]:
        """Yield all that is known of the rows, without their curves."""
        from ccltui.tui.state.query_kinds import records_of

        return records_of(self.rows(scene))


def matching_columns(text: str, scene: Scene) -> list[str]:
    """Return the columns whose titles begin with a text, each with a sign of what choosing does."""
    pane = pane_in_view(scene)
    assert isinstance(pane, ListPane)
    left_out, text = pane.own.of(scene.state).hidden_columns, text.strip().lower()
    names = [name for name in pane.hideable_columns(scene) if name.lower().startswith(text)]
    return [f"{'+' if name in left_out else '-'}{name}" for name in names]


def with_column(text: str, scene: Scene) -> ViewState:
    """Leave out a column, or list it again; without a name list all.

    Raises:
        GrammarError: There is no such column.
    """
    pane = pane_in_view(scene)
    assert isinstance(pane, ListPane)
    text = text.strip().lstrip("+-").lower()
    if not text:
        return pane.changed(scene, hidden_columns=frozenset())
    names = pane.hideable_columns(scene)
    exact = [name for name in names if name.lower() == text]
    found = exact or [name for name in names if name.lower().startswith(text)]
    if not found:
        raise GrammarError(f"no column {text!r}; there are {', '.join(names)}")
    left_out = pane.own.of(scene.state).hidden_columns
    return pane.changed(scene, hidden_columns=left_out ^ {found[0]})
