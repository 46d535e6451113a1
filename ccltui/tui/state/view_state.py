"""State of the view: the pane, the viewports on an integer grid, the cursor that panes share."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from ccltui.tui.state.pane_states import OVERVIEW


class TimeView(Struct, frozen=True):
    """View of ``cell_ns`` cells from cell ``k0`` on, limited to [start_ns, end_ns).

    Times are ns since the job's origin, and cell 0 begins at ``phase_ns``. ``cells`` is the width
    of the pane.
    """

    start_ns: int = 0
    end_ns: int = 1
    cells: int = 1
    k0: int = 0
    cell_ns: int = 1
    phase_ns: int = 0

    @classmethod
    def whole(cls, start_ns: int, end_ns: int, cells: int) -> TimeView:
        """Return a view of the whole span in so many cells."""
        return cls(start_ns, max(end_ns, start_ns + 1), max(cells, 1)).fit()

    @property
    def left_ns(self) -> int:
        """Time of the left edge."""
        return self.k0 * self.cell_ns + self.phase_ns

    @property
    def right_ns(self) -> int:
        """Time of the right edge."""
        return self.left_ns + self.cells * self.cell_ns

    @property
    def widest_ns(self) -> int:
        """Cell size at which the whole span is in view."""
        return max(-(-(self.end_ns - self.start_ns) // self.cells), 1)

    def column(self, time_ns: int) -> int:
        """Return the cell of a time, relative to the left edge; may be outside the view."""
        return (time_ns - self.left_ns) // self.cell_ns

    def edge_ns(self, column: int) -> int:
        """Return the time of the left edge of a column, which may be outside the view."""
        return self.left_ns + column * self.cell_ns

    def nearest(self, time_ns: int) -> int:
        """Return the time within the span that is nearest to a time."""
        return min(max(time_ns, self.start_ns), self.end_ns - 1)

    def fit(self) -> TimeView:
        """Return a view of the whole span."""
        cell = self.widest_ns
        while self.start_ns // cell + self.cells < -(-self.end_ns // cell):
            cell += -(-cell // self.cells)  # the grid does not start where the span does
        return replace(self, cell_ns=cell, k0=self.start_ns // cell, phase_ns=0)

    def resized(self, cells: int) -> TimeView:
        """Return the same left edge and zoom in another width; a view of everything stays one."""
        if cells == self.cells:
            return self
        everything = self == self.fit()
        view = replace(self, cells=max(cells, 1))
        return view.fit() if everything else view._clamped()

    def bounded(self, start_ns: int, end_ns: int) -> TimeView:
        """Return the same view of another span; a view of everything stays one."""
        everything = self == self.fit()
        view = replace(self, start_ns=start_ns, end_ns=max(end_ns, start_ns + 1))
        return view.fit() if everything else view._clamped()

    def moved(self, shift_ns: int) -> TimeView:
        """Return the view of the same moments where all times grow by ``shift_ns``."""
        if self == self.fit():
            return replace(
                self, start_ns=self.start_ns + shift_ns, end_ns=self.end_ns + shift_ns
            ).fit()
        cells, phase_ns = divmod(self.phase_ns + shift_ns, self.cell_ns)
        return replace(
            self,
            start_ns=self.start_ns + shift_ns,
            end_ns=self.end_ns + shift_ns,
            k0=self.k0 + cells,
            phase_ns=phase_ns,
        )

    def pan(self, cells: int) -> TimeView:
        """Move by whole cells."""
        return replace(self, k0=self.k0 + cells)._clamped()

    def zoom_in(self, at_ns: int) -> TimeView:
        """Halve the time per cell; ``at_ns`` keeps its column."""
        return self._zoomed(max(self.cell_ns // 2, 1), at_ns)

    def zoom_out(self, at_ns: int) -> TimeView:
        """Double the time per cell, up to the whole span."""
        cell = self.cell_ns * 2
        return self.fit() if cell >= self.widest_ns else self._zoomed(cell, at_ns)

    def _zoomed(self, cell_ns: int, at_ns: int) -> TimeView:
        column = min(max(self.column(at_ns), 0), self.cells - 1)
        k0 = at_ns // cell_ns - column
        return replace(self, cell_ns=cell_ns, k0=k0, phase_ns=0)._clamped()

    def centred(self, at_ns: int) -> TimeView:
        """Return the view with ``at_ns`` in the middle."""
        k0 = (at_ns - self.phase_ns) // self.cell_ns - self.cells // 2
        return replace(self, k0=k0)._clamped()

    def showing(self, at_ns: int, like_ns: int | None = None) -> TimeView:
        """Return the view unchanged when ``at_ns`` is in it, else centred on ``at_ns``.

        The position of ``at_ns`` in its cell is then that of ``like_ns``: equal surroundings of
        both give the same picture, which costs next to nothing to draw.
        """
        if 0 <= self.column(at_ns) < self.cells:
            return self
        moved = 0 if like_ns is None else at_ns - like_ns
        return replace(self, phase_ns=(self.phase_ns + moved) % self.cell_ns).centred(at_ns)

    def _clamped(self) -> TimeView:
        first = (self.start_ns - self.phase_ns) // self.cell_ns
        last = -(-(self.end_ns - self.phase_ns) // self.cell_ns) - self.cells
        return replace(self, k0=max(min(self.k0, last), first))


_WIDEST = 8


class ColumnView(Struct, frozen=True):
    """View of some of ``count`` collectives: ``per_cell`` in a cell, or ``repeat`` cells each.

    ``per_cell`` is a power of two that divides ``first``.
    """

    count: int = 0
    cells: int = 1
    first: int = 0
    per_cell: int = 1
    repeat: int = 1

    @classmethod
    def whole(cls, count: int, cells: int) -> ColumnView:
        """Return a view of all collectives in so many cells."""
        return cls(count, max(cells, 1)).fit()

    @property
    def shown(self) -> int:
        """Number of whole collectives that fit into the view."""
        return max(self.cells // self.repeat, 1) * self.per_cell

    def fit(self) -> ColumnView:
        """Return the finest zoom that shows all."""
        per_cell = 1
        while per_cell * self.cells < self.count:
            per_cell *= 2
        repeat = max(self.cells // self.count, 1) if self.count else 1
        return replace(self, first=0, per_cell=per_cell, repeat=repeat if per_cell == 1 else 1)

    def resized(self, cells: int) -> ColumnView:
        """Return the same collectives in another width; a view of everything stays one."""
        if cells == self.cells:
            return self
        everything = self == self.fit()
        view = replace(self, cells=max(cells, 1))
        return view.fit() if everything else view._clamped(self.first)

    def pan(self, cells: int) -> ColumnView:
        """Move by about so many cells, at least by one collective."""
        steps = max(abs(cells) // self.repeat, 1) * self.per_cell
        return self._clamped(self.first + (steps if cells > 0 else -steps))

    def zoom_in(self, k: int) -> ColumnView:
        """Halve the number of collectives; ``k`` stays about where it is."""
        if self.per_cell > 1:
            return self._around(replace(self, per_cell=self.per_cell // 2), k)
        return self._around(
            replace(self, repeat=max(min(self.repeat * 2, _WIDEST), self.repeat)), k
        )

    def zoom_out(self, k: int) -> ColumnView:
        """Double the number of collectives, up to all of them."""
        if self.shown >= self.count:
            return self.fit()
        if self.repeat > 1:
            return self._around(replace(self, repeat=self.repeat // 2), k)
        return self._around(replace(self, per_cell=self.per_cell * 2), k)

    def _around(self, view: ColumnView, k: int) -> ColumnView:
        column = min(max((k - self.first) * self.cells // max(self.shown, 1), 0), self.cells - 1)
        return view._clamped(k - column * view.shown // view.cells)

    def centred(self, k: int) -> ColumnView:
        """Return the view with collective ``k`` in the middle."""
        return self._clamped(k - self.shown // 2)

    def showing(self, k: int) -> ColumnView:
        """Return the view unchanged when ``k`` is in it, else centred on ``k``."""
        return self if self.first <= k < self.first + self.shown else self.centred(k)

    def _clamped(self, first: int) -> ColumnView:
        last = max(self.count - self.shown, 0)
        first = max(min(first, last + self.per_cell - 1), 0)
        return replace(self, first=first // self.per_cell * self.per_cell)


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
