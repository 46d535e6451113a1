"""Interface of a pane, and the registry that panes are looked up in by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from ccltui.draw.text import Line
from ccltui.tui.state.answers import Query, Span
from ccltui.tui.state.pane_states import AS_FOUND, Among, Sorting
from ccltui.tui.state.scene import Scene, longest_names, rank_name
from ccltui.tui.state.view_state import EventTarget, Shown, ViewState

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes
    from ccltui.tui.state.compared import Compared, ComparedQuery


def queries_of(scene: Scene) -> tuple[ComparedQuery, ...]:
    """Return the query for the numbers of B, none without a second path."""
    if scene.other is None:
        return ()
    from ccltui.tui.state.compared import query_of  # noqa: PLC0415  (rare)

    query = query_of(scene)
    return () if query is None else (query,)


def compared(scene: Scene) -> Compared | None:
    """Return the numbers of B under the filters of the view; None without a second path."""
    if scene.other is None:
        return None
    from ccltui.tui.state.compared import STILL, Compared, query_of  # noqa: PLC0415  (rare)

    found: Any = scene.answers.to(query_of(scene))
    return Compared(STILL) if found is None or found.answer is None else found.answer


_LEAST = 8
_MOST = 24


def gutter(scene: Scene) -> int:
    """Return the columns for labels, one width for all charts so that their cells line up."""
    longest, named = longest_names(scene.findings)
    named = named if scene.state.roomy else longest
    return min(max(2 * longest + 3, named + 2, _LEAST), _MOST)


NO_TRACE: Final = "no trace is here: record one with torch.profiler or nsys (docs/collect.md)"
"""Reason why a pane of traces is not offered where only logs, dumps or tables lie."""
Record = dict[str, str | int | float | None]
"""Row of an exported table, by column name."""


class Axis(Enum):
    """Quantity along the horizontal axis of a chart."""

    TIME = "time"
    COLLECTIVES = "collectives"


class Pane(ABC):
    """Base class of a pane: its names, queries, picture, selection and export.

    Everything that depends on the pane in view is an attribute or a method here, so that adding a
    pane takes one module and one line in `ccltui.tui.panes`. State that a pane stores in the view
    is declared with `OwnState`. Panes are declared before the first frame is painted: modules that
    need numpy or metrics are imported in methods.
    """

    name: str
    """Identifier of the pane in the view, in ids of actions and widgets and in file names."""
    key: str
    """Key that opens it from all panes, "" where only a row of another one leads here."""
    title: str
    short_title: str
    """Title for narrow screens."""
    about: str
    """First paragraph of the pane's help."""

    axis: Axis | None = None
    """Axis of a chart; None where the pane is no chart."""
    among: Among | None = None
    """Kind of names that a search covers; None where names cannot be searched."""
    details: frozenset[Shown] = frozenset()
    """Contents that the drawer can have beside the pane."""
    is_of_traces: bool = True
    """Whether actions on stragglers and filters are among its hints."""
    is_of_ranks: bool = True
    """Whether its rows may come from ranks that are only partly read."""
    opens_without_traces: bool = False
    """Whether the explorer begins with this pane in a directory without traces."""
    from_pane: str = ""
    """Name of the pane that escape goes back to; such a pane has a tab only while it is in view."""
    names_communicator: bool = False
    """Whether its numbers, and so its command line, are of the communicator in view alone."""

    @property
    def is_chart(self) -> bool:
        """Whether the pane draws ranks along an axis."""
        return self.axis is not None

    @property
    def is_searchable(self) -> bool:
        """Whether names can be searched."""
        return self.among is not None

    @property
    def has_drawer(self) -> bool:
        """Whether the drawer can be beside the pane."""
        return bool(self.details)

    # Availability

    def why_unavailable(self, scene: Scene) -> str | None:
        """Return the reason why the pane has nothing to show, None where it can be opened."""
        job = scene.session.job
        has_none = job is not None and not job.capture.files
        return NO_TRACE if self.is_of_traces and has_none else None

    def queries(self, scene: Scene) -> Iterable[Query[Any]]:
        """Return the queries that the pane needs answers to while it shows this scene."""
        return ()

    # Picture

    @abstractmethod
    def paint(self, scene: Scene, height: int, width: int) -> Planes:
        """Draw the pane in so many cells."""

    def shift(self, before: Scene, after: Scene) -> int:
        """Return by how many columns the picture moved, 0 when it is a different picture."""
        return 0

    def legend(self, scene: Scene, *, narrow: bool) -> Line:
        """Return the text beside the tabs, shortened where ``narrow``."""
        return []

    def status(self, scene: Scene, width: int) -> tuple[Line, Line]:
        """Return the two lines about the cursor."""
        return [], []

    # Rows

    def count(self, scene: Scene) -> int:
        """Return the number of rows that the cursor can be put on."""
        return 0

    def row(self, scene: Scene) -> int:
        """Return the row of the cursor."""
        return 0

    def to_row(self, scene: Scene, row: int) -> ViewState:
        """Put the cursor on a row that exists."""
        return scene.state

    def clicked(self, scene: Scene, row: int) -> ViewState:
        """Put the cursor on the row under the pointer."""
        return self.to_row(scene, row)

    def why_no_rows(self, scene: Scene) -> str:
        """Return the reason why there is no row to move to."""
        return "nothing is loaded yet"

    # Filtering

    is_filtered: bool = False
    """Whether rows can be filtered by a pattern for their names."""

    def row_pattern(self, scene: Scene) -> str:
        """Return the regular expression that rows are limited by, "" for none."""
        return ""

    def with_row_pattern(self, scene: Scene, pattern: str) -> ViewState:
        """Limit the rows to those whose name matches; "" lists all."""
        return scene.state

    # Sorting

    has_columns: bool = False
    """Whether columns of its table can be left out."""
    is_sorted: bool = False
    """Whether rows can be sorted by each of the pane's columns."""

    def sort_columns(self, scene: Scene) -> tuple[str, ...]:
        """Return the titles of the columns; "" is the order in which rows are found."""
        return ("",)

    def sorting(self, scene: Scene) -> Sorting:
        """Return the order of the rows."""
        return AS_FOUND

    def with_sorting(self, scene: Scene, sorting: Sorting) -> ViewState:
        """Sort the rows."""
        return scene.state

    # Kinds of rows, and rows below others

    def kinds(self, scene: Scene) -> Sequence[str]:
        """Return the kinds of rows that the pane lists in turn, none where they are the same."""
        return ()

    def with_next_kind(self, scene: Scene) -> ViewState:
        """List the next kind of rows."""
        return scene.state

    def with_fold(self, scene: Scene) -> ViewState:
        """Fold or unfold the selected row, or that which it is below."""
        return scene.state

    # Searching

    def hit_place(self, scene: Scene) -> int:
        """Return the place of the cursor in the unit of the hits; -1 where it has none."""
        return -1

    def to_hit(self, scene: Scene, place: int) -> ViewState:
        """Put the cursor on a hit of the search."""
        return scene.state

    def name_at_cursor(self, scene: Scene) -> str | None:
        """Return the name under the cursor that a search can look for."""
        return None

    name_end: str = "$"
    """Regular expression of what follows such a name in the names that are searched."""

    # Comparing

    def kernel_row(self, scene: Scene) -> tuple[str, int] | None:
        """Return rank and row of the device work under the cursor, None where there is none."""
        return None

    def why_no_kernel(self, scene: Scene) -> str:
        """Return the reason why no kernel is under the cursor."""
        return "no kernel is under the cursor"

    def event_at_cursor(self, scene: Scene) -> EventTarget | None:
        """Return the event under the cursor; by default the device work there."""
        found = self.kernel_row(scene)
        return None if found is None else EventTarget(found[0], "gpu", found[1])

    def why_no_event(self, scene: Scene) -> str:
        """Return the reason why no event is under the cursor."""
        return "no event is under the cursor"

    def side(self, scene: Scene) -> tuple[str, int | None] | None:
        """Return the rank and the step under the cursor, as one side of a comparison."""
        selection, marked = scene.state.selection, scene.findings.steps
        if selection.rank is None or selection.rank not in scene.findings.lanes:
            return None
        at = selection.time_ns
        inside = [s.id for s in marked if at is not None and s.start_ns <= at < s.end_ns]
        first = marked[0].id if marked else None
        return selection.rank, inside[0] if inside else first

    def suggested_side(self, scene: Scene, side: tuple[str, int | None]) -> str:
        """Return a suggested other side, as it would be typed; the first other rank by default."""
        ranks = [label for label in scene.ranks if label != side[0]]
        return rank_name(ranks[0]) if ranks else ""

    # Export

    def why_no_export(self, scene: Scene) -> str | None:
        """Return the reason why there is nothing to export, None where there is something."""
        return None if scene.findings.span is not None else "no rank is loaded yet"

    def records(self, scene: Scene) -> Iterator[Record]:
        """Yield rows in view; by default every collective of the communicator."""
        return iter(()) if scene.communicator is None else scene.communicator.records()

    def command(self, scene: Scene) -> list[str] | None:
        """Return words of a command that prints the pane's numbers; None: that of its metric."""
        return None

    def metric(self, scene: Scene) -> str:
        """Return the name of the metric that prints the numbers of the pane."""
        return "straggler_lag" if scene.state.drawer is None else "straggler_cause"

    def measured(self, scene: Scene) -> Span | None:
        """Return the time span that the pane's numbers cover, None where it is the window."""
        return None

    def chosen_step(self, scene: Scene) -> int | None:
        """Return the step that the pane's numbers cover, None where they cover the window."""
        return None


_REGISTERED: dict[str, Pane] = {}


def register(pane: Pane) -> None:
    """Add a pane after those that are registered.

    Raises:
        ValueError: Another pane has its name or its key.
    """
    for other in _REGISTERED.values():
        if pane.name == other.name or (pane.key and pane.key == other.key):
            raise ValueError(f"pane {other.name} has the name or the key of {pane.name}")
    _REGISTERED[pane.name] = pane


def unregister(pane: Pane) -> None:
    """Remove a pane. Raises KeyError where it is not registered."""
    del _REGISTERED[pane.name]


def all_panes() -> tuple[Pane, ...]:
    """Return all panes in the order of their tabs."""
    return tuple(_REGISTERED.values())


def pane_named(name: str) -> Pane:
    """Return the pane of that name. Raises KeyError where there is none."""
    return _REGISTERED[name]


def pane_in_view(scene: Scene) -> Pane:
    """Return the pane that has the keys."""
    return _REGISTERED[scene.state.pane]


def panes_with_tabs(scene: Scene) -> list[Pane]:
    """Return the panes that have something to show, and the one in view."""
    return [
        pane
        for pane in all_panes()
        if pane.name == scene.state.pane
        or (not pane.from_pane and pane.why_unavailable(scene) is None)
    ]


def shows_drawer(scene: Scene) -> bool:
    """Return whether the drawer is open beside a pane that supports its content."""
    drawer = scene.state.drawer
    return drawer is not None and drawer.shown in pane_in_view(scene).details


def drawer_shows(scene: Scene, shown: Shown) -> bool:
    """Return whether the drawer is on the screen with this content."""
    drawer = scene.state.drawer
    return drawer is not None and drawer.shown is shown and shows_drawer(scene)


def drawer_has_keys(scene: Scene) -> bool:
    """Return whether row keys act on the drawer."""
    drawer = scene.state.drawer
    return drawer is not None and drawer.focused and shows_drawer(scene)
