"""The Events pane: a table of the events of the selected rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, overload

from msgspec import Struct
from msgspec.structs import replace

from ccltui.draw.palette import Ink
from ccltui.draw.text import Line, fit
from ccltui.parsers import numbers
from ccltui.tui.moves.cursor import in_view, show_communicator, until_read
from ccltui.tui.panes.chart_pane import collective_text
from ccltui.tui.panes.list_pane import Column, ListPane
from ccltui.tui.state.pane import Record
from ccltui.tui.state.pane_states import (
    COLLECTIVES,
    DEVICE,
    EVENTS_STATE,
    IN_TIME,
    Among,
    listing_of,
    with_event,
)
from ccltui.tui.state.pane_states import EVENTS as NAME
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.view_state import EventTarget, Shown, ViewState

if TYPE_CHECKING:
    from ccltui.tui.state.event_table import EventTable
    from ccltui.tui.state.query_kinds import EventQuery

_RESOLUTION_NS = 1_000
_LEAST_NAME = 12
"""Cells of a name where the other columns leave it none."""
_LATE_FROM = 90
"""Width from which there is a column for how late the rank was: below it names need the room."""


class Event(Struct, frozen=True):
    """A row of the table of a rank."""

    table: EventTable
    row: int

    @property
    def name(self) -> str:
        """Name of the event."""
        return self.table.name_of(self.row)

    @property
    def time_ns(self) -> int:
        """Start, since the origin of the job."""
        return self.table.time_ns(self.row)

    @property
    def dur_ns(self) -> int:
        """Length."""
        return int(self.table.dur_ns[self.row])

    def of_call(self, column: str) -> int | None:
        """Return a number of a collective, None where it is not known or the row is none."""
        if self.table.calls is None:
            return None
        value = int(getattr(self.table.calls, column)[self.row])
        return None if value < 0 else value


class Events(Sequence[Event]):
    """The listed rows of a table, which may be millions: each is made when it is asked for."""

    def __init__(self, table: EventTable) -> None:
        self.table = table

    def __len__(self) -> int:
        return len(self.table)

    @overload
    def __getitem__(self, at: int) -> Event: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Event]: ...
    def __getitem__(self, at: int | slice) -> Event | Sequence[Event]:
        """Return the row at a place, or those at several."""
        if isinstance(at, int):
            return Event(self.table, int(self.table.order[at]))
        return [Event(self.table, row) for row in self.table.order[at].tolist()]


def _instant(ns: int) -> str:
    return numbers.instant(ns, _RESOLUTION_NS)


def _of(column: str) -> Callable[[Event], int | None]:
    return lambda event: event.of_call(column)


_OF_MATCH: Final = frozenset({"lag", "this rank late"})
"""Columns that compare a collective with those of other ranks."""


class EventsPane(ListPane[Event]):
    """Events of the selected rank: its collectives, or all work of its device."""

    name = NAME
    names_communicator = True
    key = "4"
    title = "Events"
    short_title = "Events"
    about = (
        "Collectives of the selected rank, or all work of its device. lag: how long after the "
        "first rank the last one came; k: place among the collectives of its communicator."
    )
    among = Among.ROWS
    details = frozenset(Shown)
    is_filtered = False  # / searches, and F filters
    is_sorted = False  # keys to the left and right choose a rank
    first_order = IN_TIME
    keeps_filter = True
    names_kind = False
    columns = (
        Column("k", _of("k"), numbers.count),
        Column("start", lambda event: event.time_ns, _instant),
        Column("dur", lambda event: event.dur_ns, numbers.duration),
        Column("lag", _of("lag_ns"), numbers.duration),
        Column(
            "what",
            lambda event: event.name,
            text=lambda event, room: fit(event.name, room).rstrip(),
            align="left",
            takes_rest=True,
            least=_LEAST_NAME,
            widest=lambda width: width,
        ),
        Column("bytes", _of("message_bytes"), numbers.binary_size),
        Column("it", _of("step"), unknown=""),
        Column("this rank late", _of("late_ns"), numbers.signed_duration, from_width=_LATE_FROM),
    )
    of_calls = frozenset({"k", "lag", "bytes", "it", "this rank late"})

    def __init__(self) -> None:
        super().__init__()
        self.own = EVENTS_STATE

    def query(self, scene: Scene) -> EventQuery | None:
        """Return the query for the list in view."""
        return event_query(scene)

    def found_rows(self, scene: Scene) -> Sequence[Event] | None:
        """Return the newest list of the rank, None before it: the query filters and sorts it."""
        from ccltui.tui.state.wanted_queries import listed_events

        table, query = listed_events(scene), self.query(scene)
        if table is None or query is None or table.rank != query.rank:
            return None
        return self.made_from("events", Events, table)

    def rows(self, scene: Scene) -> Sequence[Event]:
        """Return the newest list."""
        return self.found_rows(scene) or ()

    def kinds(self, scene: Scene) -> tuple[str, str]:
        """Return what is listed of a rank."""
        return COLLECTIVES, DEVICE

    def with_next_kind(self, scene: Scene) -> ViewState:
        """List the other kind of rows, in order of time."""
        state = scene.with_state(super().with_next_kind(scene))
        return self.changed(state, sorting=IN_TIME, chosen=None)

    def sort_columns(self, scene: Scene) -> tuple[str, ...]:
        """Return the orders that rows of this kind can have."""
        titles = super().sort_columns(scene)
        if self.kind(scene) == COLLECTIVES:
            return titles
        return tuple(title for title in titles if title not in self.of_calls)

    def columns_in(self, scene: Scene, width: int) -> Sequence[Column[Event]]:
        """Return the columns; device work has no numbers of collectives."""
        shown, table = super().columns_in(scene, width), self.table(scene)
        if table is not None and table.calls is not None:
            # Arrivals at collectives that are not the same ones compare nothing.
            return [one for one in shown if not scene.disproved or one.title not in _OF_MATCH]
        return [column for column in shown if column.title not in self.of_calls]

    def table(self, scene: Scene) -> EventTable | None:
        """Return the newest table of events."""
        rows = self.found_rows(scene)
        return rows.table if isinstance(rows, Events) else None

    def counted(self, scene: Scene) -> str:
        """Return the number of rows without a filter; device work has no plural."""
        table = self.table(scene)
        total = 0 if table is None else table.total
        if self.kind(scene) == COLLECTIVES:
            return numbers.counted(total, "collective")
        return f"{numbers.count(total)} {DEVICE}"

    def remark(self, scene: Scene, *, narrow: bool) -> str:
        """Return the rank of the listed events."""
        table = self.table(scene)
        return "" if table is None else rank_name(table.rank)

    def status(self, scene: Scene, width: int) -> tuple[Line, Line]:
        """Return the selected collective, and the full name of the selected row with its place."""
        above: Line = [(f" {collective_text(scene)}", Ink.TEXT)]
        return above, [(f" {self._place(scene)}", Ink.DIM)]

    def _place(self, scene: Scene) -> str:
        event, count = self.chosen(scene), self.count(scene)
        if event is None:
            return ""
        place = f"row {numbers.count(self.row(scene) + 1)} of {numbers.count(count)}"
        total = event.table.total
        whole = "" if count == total else f" ({numbers.count(total)} unfiltered)"
        return f"{place}{whole}   {event.name}"

    def row(self, scene: Scene) -> int:
        """Return the place of the cursor of all panes in the list."""
        table = self.table(scene)
        return 0 if table is None else table.at(scene)

    def to_row(self, scene: Scene, row: int) -> ViewState:
        """Select the event at a place of the list, and its collective in the other panes."""
        table, state = self.table(scene), scene.state
        if table is None:
            return state
        event = int(table.order[row])
        found = table.collective(event)
        if found is not None:
            communicator, k = found
            if communicator != state.selection.communicator:
                state = show_communicator(scene, communicator)
            state = state.select(rank=table.rank, k=k)
        time_ns = table.time_ns(event)
        state = replace(state.select(rank=table.rank, time_ns=time_ns), worst=None)
        return in_view(with_event(state, event))

    def why_no_rows(self, scene: Scene) -> str:
        """Return the reason: the list is empty, or not computed yet."""
        table = self.table(scene)
        if table is None:
            return until_read(scene, "events appear here as they are listed")
        listing = table.listing
        if listing.pattern:
            of = f"of {numbers.counted(table.total, 'row')} of {listing.kind}"
            return f"no name matches {listing.pattern!r} (0 {of}): F changes it"
        return f"no {listing.kind} of this rank in the window"

    def hit_place(self, scene: Scene) -> int:
        """Return the place of the cursor in the list."""
        return self.row(scene)

    def to_hit(self, scene: Scene, place: int) -> ViewState:
        """Select the event at a place of the list."""
        return self.to_row(scene, max(min(place, self.count(scene) - 1), 0))

    def name_at_cursor(self, scene: Scene) -> str | None:
        """Return the name of the selected event."""
        event = self.chosen(scene)
        return None if event is None else event.name

    def kernel_row(self, scene: Scene) -> tuple[str, int] | None:
        """Return the selected row, where device work is listed."""
        event = self.chosen(scene)
        if event is None or event.table.listing.kind != DEVICE:
            return None
        return event.table.rank, event.row

    def why_no_kernel(self, scene: Scene) -> str:
        """Return the reason: collectives are listed, or nothing."""
        return "collectives are listed: C lists the device work, R on a kernel shows its block"

    def event_at_cursor(self, scene: Scene) -> EventTarget | None:
        """Return the selected row: a collective of the rank, or device work."""
        event = self.chosen(scene)
        if event is None:
            return None
        is_call = event.table.listing.kind == COLLECTIVES
        return EventTarget(event.table.rank, "call" if is_call else "gpu", event.row)

    def why_no_event(self, scene: Scene) -> str:
        """Return the reason: no row is listed."""
        return self.why_no_rows(scene)

    def records(self, scene: Scene) -> Iterator[Record]:
        """Yield the listed events in their order."""
        for event in self.rows(scene):
            table = event.table
            yield {
                "rank": table.rank,
                "start_ns": event.time_ns,
                "dur_ns": event.dur_ns,
                "name": event.name,
                **({} if table.calls is None else {name: event.of_call(name) for name in _OF_CALL}),
            }


_OF_CALL: Final = ("k", "lag_ns", "late_ns", "message_bytes", "step")
EVENTS: Final = EventsPane()


def event_query(scene: Scene) -> EventQuery | None:
    """Return the query for the list of the selected rank, None while there is none to make."""
    from ccltui.tui.state.query_kinds import EventQuery

    rank, findings = scene.state.selection.rank, scene.findings
    if rank is None or rank not in findings.lanes or not findings.is_matched:
        return None
    return EventQuery(findings.matched, rank, listing_of(scene.state))
