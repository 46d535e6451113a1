"""What the user looks at: panes, viewports and the one cursor they share. No terminal here."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from ccltui.tui.state.viewport import ColumnView, TimeView


class Pane(Enum):
    """The panes, by the digit that opens them."""

    SUMMARY = "1"
    ALIGNMENT = "2"
    TIMELINE = "3"
    EVENTS = "4"
    FILES = "5"
    STEPS = "6"
    RUNS = "7"
    CLUSTER = "8"
    REPORTS = "9"

    @property
    def title(self) -> str:
        """Full name."""
        return self.name.capitalize()

    @property
    def short_title(self) -> str:
        """Name where there is little room."""
        short = {"1": "Sum", "2": "Align", "3": "Time", "8": "Clu", "9": "Rep"}
        return short.get(self.value, self.title)


CHARTS: Final = frozenset({Pane.ALIGNMENT, Pane.TIMELINE})
SEARCHED: Final = CHARTS | {Pane.EVENTS}
WITH_DRAWER: Final = SEARCHED | {Pane.STEPS}
"""Panes that have a detail beside them."""


class Order(Enum):
    """Order of the ranks; by group means by the groups of the communicator in view."""

    RANK = "rank"
    HARM = "harm"
    NODE = "node"
    GROUP = "group"

    def following(self) -> Order:
        """The next order in turn."""
        orders = list(Order)
        return orders[(orders.index(self) + 1) % len(orders)]


class Layout(Enum):
    """How a wide screen shows the charts: one above the other, side by side, or one alone."""

    STACK = "one above the other"
    SIDE = "side by side"
    SINGLE = "one alone"

    def following(self) -> Layout:
        """The next layout in turn."""
        layouts = list(Layout)
        return layouts[(layouts.index(self) + 1) % len(layouts)]


class Section(Enum):
    """The parts of Summary, from top to bottom."""

    LOSSES = "losses"
    METRICS = "metrics"
    NOTES = "notes"


class Shown(Enum):
    """What the drawer is about."""

    COLLECTIVE = "collective"
    BLOCK = "block"
    VERSUS = "versus"


class Listed(Enum):
    """What the rows of Events are."""

    COLLECTIVES = "collectives"
    DEVICE = "device work"


class Sort(Enum):
    """Order of the rows of Events: by time ascending, by sizes the largest first."""

    TIME = "time"
    DURATION = "duration"
    NAME = "name"
    LAG = "lag"
    BYTES = "bytes"


DEFAULT_FLOOR_NS: Final = 100_000
_MOST_VIEWS: Final = 100


@dataclass(frozen=True, slots=True)
class Selection:
    """The shared cursor: a rank by label, a collective of a communicator, a time."""

    rank: str | None = None
    communicator: int = 0
    k: int | None = None
    time_ns: int | None = None  # since the job's origin, on its clock


@dataclass(frozen=True, slots=True)
class Listing:
    """Which events of the selected rank are listed, and how; ``pattern`` filters by name."""

    listed: Listed = Listed.COLLECTIVES
    sort: Sort = Sort.TIME
    pattern: str = ""

    @property
    def sorts(self) -> tuple[Sort, ...]:
        """Orders that these rows can have."""
        everything = tuple(Sort)
        return everything if self.listed is Listed.COLLECTIVES else everything[:3]

    def sorted_next(self) -> Listing:
        """The next order in turn."""
        at = self.sorts.index(self.sort) + 1
        return replace(self, sort=self.sorts[at % len(self.sorts)])

    def switched(self) -> Listing:
        """The other kind of rows, in order of time."""
        other = Listed.DEVICE if self.listed is Listed.COLLECTIVES else Listed.COLLECTIVES
        return Listing(other, Sort.TIME, self.pattern)


@dataclass(frozen=True, slots=True)
class Area:
    """Measured time from where it began; ``end_ns`` None: up to the cursor."""

    start_ns: int
    end_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Drawer:
    """The detail beside the panes: what it shows, whether it has the keys, and its row."""

    focused: bool = False
    row: int = 0
    shown: Shown = Shown.COLLECTIVE
    by_size: bool = False  # rows of what is compared: largest change first, else in order


@dataclass(frozen=True, slots=True)
class Versus:
    """What is laid over each other: a rank and a step (None: all that is measured) twice."""

    one: tuple[str, int | None]
    other: tuple[str, int | None]


@dataclass(frozen=True, slots=True)
class ViewState:
    """Everything that keys change. A new state is a new object; nothing else is mutable."""

    pane: Pane = Pane.SUMMARY
    selection: Selection = field(default_factory=Selection)
    time: TimeView = field(default_factory=TimeView)
    columns: ColumnView = field(default_factory=ColumnView)
    roomy: bool = False  # whether rank labels have room for more than a name
    rows: int = 1  # screen rows of the selected pane below its heading
    section: Section = Section.METRICS  # of Summary, which the cursor is in
    metric: int = 0
    loss: int | None = None  # whose evidence was shown last
    note: int = 0
    first_rank: int = 0  # of the per-rank table, when it is opened
    table_open: bool = False
    floor_ns: int = DEFAULT_FLOOR_NS
    order: Order = Order.RANK
    merged: bool = False
    linear: bool = False  # colours of lag: by equal steps, else by equal factors
    layout: Layout = Layout.STACK
    maximised: bool = False
    pins: tuple[str, ...] = ()  # ranks that stay on top, in this order
    unfolded: tuple[str, ...] = ()  # ranks whose streams are shown
    kernels: str = ""  # category of kernels on the timeline, "" for all
    ranks_in_view: int = 0  # of Alignment, 0 for all
    ranks_per_lane: int = 1  # of Timeline
    worst: int | None = None  # place of the selected collective by harm
    file: int = 0  # row of Files
    run: int = 0  # row of Runs
    machine: int = 0  # row of Cluster
    report: int = 0  # line of Reports
    step: int | None = None  # chosen in Steps, by its id
    steps_in_order: bool = False  # rows of Steps: in order of time, else the slowest first
    listing: Listing = field(default_factory=Listing)
    event: int | None = None  # row of Events that was chosen there
    drawer: Drawer | None = None  # None: closed
    block: tuple[str, int] | None = None  # rank and row of the kernel whose block is shown
    versus: Versus | None = None
    area: Area | None = None
    search: str = ""  # a regular expression, "" for none

    @property
    def shows_drawer(self) -> bool:
        """Whether the drawer is open, and beside a pane that has one."""
        if self.drawer is None or self.pane not in WITH_DRAWER:
            return False
        # A step is no collective.
        return self.pane is not Pane.STEPS or self.drawer.shown is Shown.VERSUS

    @property
    def drawer_has_keys(self) -> bool:
        """Whether keys of rows are the drawer's."""
        return self.drawer is not None and self.drawer.focused and self.shows_drawer

    def select(
        self,
        *,
        rank: str | None = None,
        communicator: int | None = None,
        k: int | None = None,
        time_ns: int | None = None,
    ) -> ViewState:
        """Move the shared cursor; what is not given stays."""
        old = self.selection
        return replace(
            self,
            selection=Selection(
                rank=old.rank if rank is None else rank,
                communicator=old.communicator if communicator is None else communicator,
                k=old.k if k is None else k,
                time_ns=old.time_ns if time_ns is None else time_ns,
            ),
        )


def place(state: ViewState) -> object:
    """What makes two views different places: where one is and how close, not the cursor in it."""
    return (
        state.pane,
        (state.time.left_ns, state.time.cell_ns),
        (state.columns.first, state.columns.per_cell, state.columns.repeat),
        state.selection.communicator,
        state.drawer is not None,
        state.maximised,
    )


@dataclass(frozen=True, slots=True)
class History:
    """Views before and after this one, the nearest last; ``by`` is the action that led here.

    An action that is repeated, as in panning, is one step.
    """

    before: tuple[ViewState, ...] = ()
    after: tuple[ViewState, ...] = ()
    by: str = ""

    def left(self, old: ViewState, new: ViewState, by: str) -> History:
        """After an action that led from one view to another."""
        if place(old) == place(new):
            return replace(self, by=by)
        if by == self.by:
            return replace(self, after=())
        return History((*self.before, old)[-_MOST_VIEWS:], (), by)
