"""Names of the panes, and typed access to the part of a view that belongs to one pane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final, Generic, Protocol, Self, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

OVERVIEW: Final = "overview"
METRICS: Final = "metrics"
METRIC: Final = "metric"
ALIGNMENT: Final = "alignment"
TIMELINE: Final = "timeline"
EVENTS: Final = "events"
FILES: Final = "files"
STEPS: Final = "steps"
KERNELS: Final = "kernels"
PARALLELISM: Final = "parallelism"
RANKS: Final = "ranks"
RUNS: Final = "runs"
CLUSTER: Final = "cluster"
REPORTS: Final = "reports"
HANGS: Final = "hangs"
HOURS: Final = "hours"


Value = str | int | float | None
"""What a row is sorted by: text, a number, or None where it is not known."""


class Sorting(Struct, frozen=True):
    """Title of the column that rows are sorted by, "" for the order in which they are found.

    Numbers are largest first and texts in order of letters, the other way round where ``reverse``.
    """

    column: str = ""
    reverse: bool = False

    def following(self, columns: Sequence[str], step: int) -> Sorting:
        """Return the order by the next column, or the previous for -1; after the last comes none.

        Args:
            columns: titles of the columns; "" is the order in which the rows are found.
            step: 1 or -1.
        """
        at = columns.index(self.column) if self.column in columns else 0
        return Sorting(columns[(at + step) % len(columns)])

    def order(self, values: Sequence[Value]) -> list[int]:
        """Return the places of values in this order; those that are not known are last."""
        known = [place for place, value in enumerate(values) if value is not None]
        texts = [place for place in known if isinstance(values[place], str)]
        texts.sort(key=lambda place: str(values[place]).lower(), reverse=self.reverse)
        numbers = [place for place in known if not isinstance(values[place], str)]
        numbers.sort(key=lambda place: float(values[place] or 0), reverse=not self.reverse)
        unknown = [place for place, value in enumerate(values) if value is None]
        return [*numbers, *texts, *unknown]

    def marked(self, title: str) -> str:
        """Return the heading of a column, with a mark where it is the one of the order."""
        return f"{'▴' if self.reverse else '▼'}{title}" if title and title == self.column else title

    @property
    def text(self) -> str:
        """Return the order for a legend, "" for the order in which rows are found."""
        if not self.column:
            return "reversed" if self.reverse else ""
        return f"by {self.column}{', reversed' if self.reverse else ''}"


AS_FOUND: Final = Sorting()
IN_TIME: Final = Sorting("start")


S = TypeVar("S")


class HasOwnStates(Protocol):
    """View that stores states of single panes by pane name."""

    @property
    def own(self) -> Mapping[str, object]:
        """States that differ from their defaults."""

    def with_own(self, pane: str, state: object) -> Self:
        """Return the view with another state of a pane."""


V = TypeVar("V", bound=HasOwnStates)


class OwnState(Struct, Generic[S], frozen=True):
    """Accessor of a pane's state by name: a frozen value, ``default`` until it is changed."""

    pane: str
    default: S

    def of(self, view: HasOwnStates) -> S:
        """Return the pane's state in a view."""
        return cast("S", view.own.get(self.pane, self.default))

    def put(self, view: V, state: S) -> V:
        """Return the view with another state of the pane."""
        return view.with_own(self.pane, state)


class ListState(Struct, frozen=True):
    """State of a pane that is a list.

    Attributes:
        row: place of the cursor.
        chosen: name or number of the row of the cursor, where the list finds it in any order.
        pattern: filter of the rows, "" for none.
        sorting: order of the rows.
        kind: what rows are, where a list has several kinds; "" for the first.
        toggled: names of the rows that are folded or unfolded other than at first.
        hidden_columns: titles of the columns that are left out.
    """

    row: int = 0
    pattern: str = ""
    sorting: Sorting = AS_FOUND
    kind: str = ""
    toggled: frozenset[str] = frozenset()
    chosen: str | int | None = None
    hidden_columns: frozenset[str] = frozenset()


class AlignmentState(Struct, frozen=True):
    """Colour scale of lag, and number of ranks in the pane."""

    linear: bool = False  # colours of lag by equal steps, else by equal factors
    ranks_in_view: int = 0  # 0 for all


class TimelineState(Struct, frozen=True):
    """Content of the rows, number of rows per rank, and ranks whose host is unfolded."""

    kernels: str = ""  # category of kernels, "" for all
    merged: bool = False  # one row per rank, else two
    ranks_per_lane: int = 1
    hosts: tuple[str, ...] = ()


ALIGNMENT_STATE: Final = OwnState(ALIGNMENT, AlignmentState())
TIMELINE_STATE: Final = OwnState(TIMELINE, TimelineState())


COLLECTIVES: Final = "collectives"
DEVICE: Final = "device work"
"""Kinds of rows of Events."""


class Listing(Struct, frozen=True):
    """What Events lists of the selected rank: kind of rows, their order, and filter by name."""

    kind: str = COLLECTIVES
    sorting: Sorting = IN_TIME
    pattern: str = ""


EVENTS_STATE: Final = OwnState(EVENTS, ListState(kind=COLLECTIVES, sorting=IN_TIME))
"""State of Events; ``chosen`` is the row of the table that was chosen there."""


def listing_of(view: HasOwnStates) -> Listing:
    """Return what Events lists in a view."""
    own = EVENTS_STATE.of(view)
    return Listing(own.kind, own.sorting, own.pattern)


def with_event(view: V, event: int | None) -> V:
    """Return the view with another chosen row of Events, None for none."""
    return EVENTS_STATE.put(view, replace(EVENTS_STATE.of(view), chosen=event))


class Section(Enum):
    """Parts of Overview that have rows to select, from top to bottom."""

    FINDINGS = "findings"
    RANKS = "ranks"
    CAPTURES = "captures"


class OverviewState(Struct, frozen=True):
    """Selected row of each part, and the finding whose evidence was shown last."""

    section: Section = Section.FINDINGS
    capture: int = 0  # row of the selected capture
    loss: int = 0  # the selected finding
    shown: int | None = None  # the finding whose evidence was shown last
    shown_at: object = None  # the cursor at its place
    rank: int = 0  # row of the bars of ranks


OVERVIEW_STATE: Final = OwnState(OVERVIEW, OverviewState())


class Among(Enum):
    """Kind of names that a search covers, which also defines the unit of the places of its hits."""

    TIMES = "device work of a rank: starts in ns since the origin"
    COLLECTIVES = "collectives of a communicator: their numbers"
    ROWS = "rows of a list of events: their places"


class Search(Struct, frozen=True):
    """Regular expression, and the names that it is matched with."""

    among: Among
    rank: str
    communicator: int
    listing: Listing
    pattern: str
