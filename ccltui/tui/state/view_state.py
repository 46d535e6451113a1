"""State of the view: the pane, the viewports and the cursor that all panes share."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from ccltui.tui.state.pane_names import OVERVIEW
from ccltui.tui.state.viewport import ColumnView, TimeView


class Order(Enum):
    """Order of the ranks; by group means by the groups of the communicator in view."""

    RANK = "rank"
    WAIT_CAUSED = "wait caused"
    NODE = "node"
    GROUP = "group"

    def following(self) -> Order:
        """Return the next order in turn."""
        orders = list(Order)
        return orders[(orders.index(self) + 1) % len(orders)]


WIDE: Final = 160
"""Columns from which both charts are on the screen."""


class Layout(Enum):
    """Layout of the charts on a wide screen: stacked, side by side, or one alone."""

    STACK = "one above the other"
    SIDE = "side by side"
    SINGLE = "one alone"

    def following(self) -> Layout:
        """Return the next layout in turn."""
        layouts = list(Layout)
        return layouts[(layouts.index(self) + 1) % len(layouts)]


class Shown(Enum):
    """Content of the drawer."""

    COLLECTIVE = "collective"
    BLOCK = "block"
    VERSUS = "versus"
    EVENT = "event"
    CHAIN = "chain"


_MOST_VIEWS: Final = 100


class Selection(Struct, frozen=True):
    """The shared cursor: a rank by label, a collective of a communicator, a time."""

    rank: str | None = None
    communicator: int = 0
    k: int | None = None
    time_ns: int | None = None  # since the job's origin, on its clock


class Area(Struct, frozen=True):
    """Measured time from its beginning; ``end_ns`` None: up to the cursor."""

    start_ns: int
    end_ns: int | None = None


class Drawer(Struct, frozen=True):
    """The detail beside the panes: its content, whether it has the keys, and its row."""

    focused: bool = False
    row: int = 0
    shown: Shown = Shown.COLLECTIVE
    by_size: bool = False  # rows of a comparison: largest change first, else in order


class EventTarget(Struct, frozen=True):
    """An event by what the pane under the cursor has of it.

    ``row`` is that of an event group, "call" for a row of the rank's collectives, "member" for a
    row of the matched group ``number``.
    """

    rank: str
    group: str
    row: int
    number: int = -1


class Versus(Struct, frozen=True):
    """Two sides of a comparison: each a rank and a step (None: all that is measured)."""

    one: tuple[str, int | None]
    other: tuple[str, int | None]


class ViewState(Struct, frozen=True):
    """All state that keys change. A new state is a new object; nothing else is mutable."""

    pane: str = OVERVIEW  # by its name
    selection: Selection = field(default_factory=Selection)
    time: TimeView = field(default_factory=TimeView)
    columns: ColumnView = field(default_factory=ColumnView)
    roomy: bool = False  # whether there is space for more than the names of ranks in their labels
    rows: int = 1  # screen rows of the selected pane below its heading
    floor_ns: int | None = None  # lag from which a rank is drawn as late; None: not changed
    order: Order = Order.RANK
    layout: Layout = Layout.STACK
    maximised: bool = False
    pins: tuple[str, ...] = ()  # ranks pinned to the top, in this order
    unfolded: tuple[str, ...] = ()  # ranks whose streams are shown
    worst: int | None = None  # place of the selected collective by caused wait
    drawer: Drawer | None = None  # None: closed
    block: tuple[str, int] | None = None  # rank and row of the kernel whose block is shown
    versus: Versus | None = None
    event: EventTarget | None = None  # the event that is inspected
    area: Area | None = None
    search: str = ""  # a regular expression, "" for none
    own: Mapping[str, object] = field(default_factory=dict)  # see OwnState, by the pane's name

    def with_own(self, pane: str, state: object) -> ViewState:
        """Return the view with another state of a single pane; see `OwnState`."""
        return replace(self, own={**self.own, pane: state})

    def select(
        self,
        *,
        rank: str | None = None,
        communicator: int | None = None,
        k: int | None = None,
        time_ns: int | None = None,
    ) -> ViewState:
        """Move the shared cursor; parts that are not given stay."""
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
    """Return a key that differs between places: pane, position and zoom, not the cursor."""
    return (
        state.pane,
        (state.time.left_ns, state.time.cell_ns),
        (state.columns.first, state.columns.per_cell, state.columns.repeat),
        state.selection.communicator,
        state.drawer is not None,
        state.event,
        state.maximised,
    )


class History(Struct, frozen=True):
    """Views before and after this one, the nearest last; ``by`` is the action that led here.

    An action that is repeated, as in panning, is one step.
    """

    before: tuple[ViewState, ...] = ()
    after: tuple[ViewState, ...] = ()
    by: str = ""

    def left(self, old: ViewState, new: ViewState, by: str) -> History:
        """Return the history after an action that led from one view to another."""
        if place(old) == place(new):
            return replace(self, by=by)
        if by == self.by:
            return replace(self, after=())
        return History((*self.before, old)[-_MOST_VIEWS:], (), by)
