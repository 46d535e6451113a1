"""The Events pane: a table of the events of the selected rank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from ccltui.draw.palette import Ink
from ccltui.draw.table import Column, table
from ccltui.draw.text import fit
from ccltui.parsers import numbers
from ccltui.tui.moves.cursor import until_read
from ccltui.tui.panes.cursor_text import collective_text
from ccltui.tui.state.answers import Query
from ccltui.tui.state.name_search import Among
from ccltui.tui.state.pane import Pane, Record
from ccltui.tui.state.pane_names import EVENTS as NAME
from ccltui.tui.state.pane_states import Listed, Sort, listing_of, with_event
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.sorting import Sorting
from ccltui.tui.state.view_state import EventTarget, Shown, ViewState
from ccltui.tui.styled_text import Line

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes
    from ccltui.tui.state.event_table import CallColumns, EventTable
    from ccltui.tui.state.query_kinds import EventQuery

_RESOLUTION_NS = 1_000
_TIMES = (Column("start", "right"), Column("dur", "right"))
_NARROW = 100
_BESIDE = (52, 68)
"""Width of the other columns beside the type: on a narrow screen, with one more on a wider."""
_LEAST_NAME = 12
"""Cells of a name where these leave it none: then the columns at the right are dropped."""


_UNKNOWN = -1


class EventsPane(Pane):
    """Events of the selected rank: its collectives, or all work of its device."""

    name = NAME
    key = "4"
    title = "Events"
    short_title = "Events"
    about = (
        "Collectives of the selected rank, or all work of its device. lag: how long after the "
        "first rank the last one came; k: place among the collectives of its communicator."
    )
    among = Among.ROWS
    details = frozenset(Shown)

    def queries(self, scene: Scene) -> Iterable[Query[Any]]:
        """Yield the query of the list in view."""
        query = event_query(scene)
        return () if query is None else (query,)

    def paint(self, scene: Scene, height: int, width: int) -> Planes:
        """Draw a page of the list that contains the selected row."""
        return _paint(scene, height, width)

    def legend(self, scene: Scene, *, narrow: bool) -> Line:
        """Return the rank of the listed events, their number and their order."""
        events, listing = _listed(scene), listing_of(scene.state)
        rank = scene.state.selection.rank
        if events is None or rank is None:
            return []
        count = _counted(len(events), listing.listed)
        filtered = f" /{fit(listing.pattern, 12).rstrip()}/" if listing.pattern else ""
        of = f"{count}{filtered}"
        turned = ", reversed" if listing.reverse else ""
        return [(f"{rank_name(rank)}  {of}  by {listing.sort.value}{turned} ", Ink.TAB)]

    def status(self, scene: Scene, width: int) -> tuple[Line, Line]:
        """Return the selected collective, and the full name of the selected row with its place."""
        above: Line = [(f" {collective_text(scene)}", Ink.TEXT)]
        return above, [(f" {_event_text(scene)}", Ink.DIM)]

    def count(self, scene: Scene) -> int:
        """Return the number of listed events."""
        events = _listed(scene)
        return 0 if events is None else len(events)

    def row(self, scene: Scene) -> int:
        """Return the place of the cursor in the list."""
        events = _listed(scene)
        return 0 if events is None else events.at(scene)

    def to_row(self, scene: Scene, row: int) -> ViewState:
        """Select the event at a place of the list, and its collective in the other panes."""
        return _to_event(scene, row)

    def why_no_rows(self, scene: Scene) -> str:
        """Return the reason: the list is empty, or not computed yet."""
        if not scene.findings.lanes:
            return super().why_no_rows(scene)
        unlisted = _listed(scene) is None
        return "still listing" if unlisted else "no event is listed: F changes the filter"

    def hit_place(self, scene: Scene) -> int:
        """Return the place of the cursor in the list."""
        return self.row(scene)

    def to_hit(self, scene: Scene, place: int) -> ViewState:
        """Select the event at a place of the list."""
        return self.to_row(scene, max(min(place, self.count(scene) - 1), 0))

    def name_at_cursor(self, scene: Scene) -> str | None:
        """Return the name of the selected event."""
        events = _listed(scene)
        return None if not events else events.name_of(int(events.order[events.at(scene)]))

    def kernel_row(self, scene: Scene) -> tuple[str, int] | None:
        """Return the selected row, where device work is listed."""
        events = _listed(scene)
        if not events or events.listing.listed is not Listed.DEVICE:
            return None
        return events.rank, int(events.order[events.at(scene)])

    def why_no_kernel(self, scene: Scene) -> str:
        """Return the reason: collectives are listed, or nothing."""
        return "collectives are listed: C lists the device work, R on a kernel shows its block"

    def event_at_cursor(self, scene: Scene) -> EventTarget | None:
        """Return the selected row: a collective of the rank, or device work."""
        events = _listed(scene)
        if not events:
            return None
        row = int(events.order[events.at(scene)])
        is_call = events.listing.listed is Listed.COLLECTIVES
        return EventTarget(events.rank, "call" if is_call else "gpu", row)

    def why_no_event(self, scene: Scene) -> str:
        """Return the reason: no row is listed."""
        return self.why_no_rows(scene)

    def records(self, scene: Scene) -> Iterator[Record]:
        """Yield the listed events in their order."""
        events = _listed(scene)
        return super().records(scene) if events is None else _records(events)


EVENTS: Final = EventsPane()


def event_query(scene: Scene) -> EventQuery | None:
    """Return the query for the list of the selected rank, None while there is none to make."""
    from ccltui.tui.state.query_kinds import EventQuery

    rank, findings = scene.state.selection.rank, scene.findings
    if rank is None or rank not in findings.lanes or not findings.is_matched:
        return None
    return EventQuery(findings.matched, rank, listing_of(scene.state))


def _listed(scene: Scene) -> EventTable | None:
    """Return the newest list, None before the first."""
    from ccltui.tui.state.wanted_queries import listed_events

    return listed_events(scene)


def _event_text(scene: Scene) -> str:
    """Return the full name of the selected row, and its place."""
    events = _listed(scene)
    if events is None or not len(events):
        return ""
    at = events.at(scene)
    place = f"row {numbers.count(at + 1)} of {numbers.count(len(events))}"
    total = "" if len(events) == events.total else f" ({numbers.count(events.total)} unfiltered)"
    return f"{place}{total}   {events.name_of(int(events.order[at]))}"


def _to_event(scene: Scene, place: int) -> ViewState:
    from ccltui.tui.moves.cursor import in_view, show_communicator

    table, state = _listed(scene), scene.state
    if table is None:
        return state
    row = int(table.order[place])
    time_ns, rank, found = table.time_ns(row), table.rank, table.collective(row)
    if found is not None:
        communicator, k = found
        if communicator != state.selection.communicator:
            state = show_communicator(scene, communicator)
        state = state.select(rank=rank, k=k)
    state = replace(state.select(rank=rank, time_ns=time_ns), worst=None)
    return in_view(with_event(state, row))


def _records(table: EventTable) -> Iterator[Record]:
    for row in table.order.tolist():
        cells: Record = {
            "start_ns": table.time_ns(row),
            "dur_ns": int(table.dur_ns[row]),
            "name": table.name_of(row),
        }
        if table.calls is not None:
            columns = ("k", "lag_ns", "late_ns", "message_bytes", "step")
            known = {name: int(getattr(table.calls, name)[row]) for name in columns}
            cells |= {name: None if value < 0 else value for name, value in known.items()}
        yield {"rank": table.rank, **cells}


def _paint(scene: Scene, height: int, width: int) -> Planes:
    from ccltui.draw.planes import Planes

    planes = Planes.blank(height, width, Ink.TEXT)
    events, query = _listed(scene), event_query(scene)
    if events is None or query is None or events.rank != query.rank:
        planes.put(1, 1, until_read(scene, "Events appear here as they are listed."), Ink.DIM)
        return planes
    room = max(height - 1, 1)
    at = events.at(scene)
    first = at // room * room  # whole pages: the picture scrolls only when it must
    rows = [int(row) for row in events.order[first : first + room]]
    lines = _lines(events, rows, width)
    planes.put(0, 1, lines[0], Ink.DIM)
    for index, line in enumerate(lines[1:]):
        on = first + index == at
        text = ("▶" if on else " ") + line
        planes.put(1 + index, 0, text.ljust(width), Ink.LABEL_ON if on else Ink.TEXT)
        planes.listed[1 + index] = first + index
    if not rows:
        planes.put(2, 1, _nothing(events), Ink.DIM)
    return planes


def _counted(number: int, listed: Listed) -> str:
    """Return a number of rows; device work has no plural."""
    if listed is Listed.COLLECTIVES:
        return numbers.counted(number, "collective")
    return f"{numbers.count(number)} {listed.value}"


def _nothing(events: EventTable) -> str:
    listing = events.listing
    of = f"of {numbers.counted(events.total, 'row')} of {listing.listed.value}"
    if listing.pattern:
        return f"No name matches {listing.pattern!r} (0 {of}): F changes it."
    return f"No {listing.listed.value} of this rank in the window."


def _lines(events: EventTable, rows: list[int], width: int) -> list[str]:
    if events.calls is None:
        device = (*_TIMES, Column("what", widest=max(width - 30, 20)))
        return table(
            _marked(events, device),
            [[*_times(events, row), events.name_of(row)] for row in rows],
            width,
        )
    what = Column("what", widest=max(width - _BESIDE[width >= _NARROW], _LEAST_NAME))
    columns = (
        Column("k", "right"),
        *_TIMES,
        Column("lag", "right"),
        what,
        Column("bytes", "right"),
        Column("it", "right"),
        Column("this rank late", "right"),
    )
    cells = [_collective(events, events.calls, row) for row in rows]
    return table(_marked(events, columns), cells, width - 2)


def _marked(events: EventTable, columns: Sequence[Column]) -> list[Column]:
    """Return the columns with a mark before the title of the one that rows are sorted by."""
    listing = events.listing
    at = {Sort.TIME: "start", Sort.DURATION: "dur", Sort.NAME: "what"}
    by = Sorting(at.get(listing.sort, listing.sort.value), listing.reverse)
    return [replace(column, title=by.marked(column.title)) for column in columns]


def _times(events: EventTable, row: int) -> list[str]:
    start = numbers.instant(events.time_ns(row), _RESOLUTION_NS)
    return [start, numbers.duration(int(events.dur_ns[row]))]


def _collective(events: EventTable, calls: CallColumns, row: int) -> list[str]:
    k, step, size = int(calls.k[row]), int(calls.step[row]), int(calls.message_bytes[row])
    lag, late = int(calls.lag_ns[row]), int(calls.late_ns[row])
    return [
        "--" if k == _UNKNOWN else numbers.count(k),
        *_times(events, row),
        "--" if lag == _UNKNOWN else numbers.duration(lag),
        events.name_of(row),
        "--" if size == _UNKNOWN else numbers.binary_size(size),
        "" if step == _UNKNOWN else str(step),
        "--" if late == _UNKNOWN else numbers.signed_duration(late),
    ]
