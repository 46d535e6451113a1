"""The events of the selected rank, row by row."""

from __future__ import annotations

from ccltui.draw import numbers
from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes
from ccltui.draw.table import Column, table
from ccltui.tui.state.event_table import NONE, CallColumns, EventTable
from ccltui.tui.state.queries import event_query
from ccltui.tui.state.scene import Scene

_RESOLUTION_NS = 1_000
_TIMES = (Column("start", "right"), Column("dur", "right"))
_NARROW = 100
_BESIDE = (52, 68)
"""Columns beside what collectives are: on a narrow screen, and with one more on a wider."""


def paint(scene: Scene, height: int, width: int) -> Planes:
    """A page of the list, the selected row in it."""
    planes = Planes.blank(height, width, Ink.TEXT)
    events, query = scene.events, event_query(scene)
    if events is None or query is None or events.query.rank != query.rank:
        planes.put(1, 1, "Events appear here as they are listed.", Ink.DIM)
        return planes
    room = max(height - 1, 1)
    at = events.at(scene)
    first = at // room * room  # whole pages: the picture moves only when it must
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


def _nothing(events: EventTable) -> str:
    listing = events.query.listing
    of = f"of {numbers.count(events.total)} rows of {listing.listed.value}"
    if listing.pattern:
        return f"No name matches {listing.pattern!r} (0 {of}): F changes it."
    return f"No {listing.listed.value} of this rank in the window."


def _lines(events: EventTable, rows: list[int], width: int) -> list[str]:
    if events.calls is None:
        device = (*_TIMES, Column("what", widest=max(width - 30, 20)))
        return table(device, [[*_times(events, row), events.name_of(row)] for row in rows], width)
    what = Column("what", widest=width - _BESIDE[width >= _NARROW])
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
    return table(columns, cells, width - 2)


def _times(events: EventTable, row: int) -> list[str]:
    start = numbers.instant(events.time_ns(row), _RESOLUTION_NS)
    return [start, numbers.duration(int(events.dur_ns[row]))]


def _collective(events: EventTable, calls: CallColumns, row: int) -> list[str]:
    k, step, size = int(calls.k[row]), int(calls.step[row]), int(calls.message_bytes[row])
    lag, late = int(calls.lag_ns[row]), int(calls.late_ns[row])
    return [
        "--" if k == NONE else numbers.count(k),
        *_times(events, row),
        "--" if lag == NONE else numbers.duration(lag),
        events.name_of(row),
        "--" if size == NONE else numbers.binary_size(size),
        "" if step == NONE else str(step),
        "--" if late == NONE else numbers.signed_duration(late),
    ]
