"""Table of the events of one rank, as columns of the trace."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.model.classify import TYPES
from ccltui.parsers.array_types import I32, I64, Bool
from ccltui.tui.state.answers import Findings, Span
from ccltui.tui.state.pane_states import COLLECTIVES, EVENTS_STATE, Among, Listing, Search
from ccltui.tui.state.scene import Scene

if TYPE_CHECKING:
    from ccltui.metrics.model.calls import Calls
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.columns import RankTrace


_LOOK_BACK = 256
"""Most kernels that may have started since one that still runs."""


class Running(Struct, frozen=True):
    """Device work: its recorded name, its stream (-1: unknown), its length."""

    name: str
    stream: int
    dur_ns: int


def running_at_cursor(scene: Scene) -> Running | None:
    """Return the selected rank's work at the cursor, the latest to start; None when idle."""
    found = _trace_and_time(scene)
    return None if found is None else running_at(*found)


def row_at_cursor(scene: Scene) -> int | None:
    """Return the row of that work; on an idle rank, of the first to start in the cursor's cell."""
    found = _trace_and_time(scene)
    if found is None:
        return None
    trace, time_ns = found
    row = _row_at(trace, time_ns)
    if row is not None:
        return row
    starts = trace.group("gpu").start_ns
    after = int(starts.searchsorted(time_ns))
    cell_ns = scene.state.time.cell_ns
    return after if after < len(starts) and starts[after] - time_ns < cell_ns else None


def _trace_and_time(scene: Scene) -> tuple[RankTrace, int] | None:
    """Return the trace of the selected rank, and the selected time on its clock."""
    selection = scene.state.selection
    lane = scene.findings.lanes.get(selection.rank or "")
    if lane is None or selection.time_ns is None:
        return None
    trace = scene.trace(lane.label)
    if trace is None:
        return None
    import numpy as np  # noqa: PLC0415  (after the first paint)

    time_ns = np.array(scene.findings.origin_ns + selection.time_ns, np.int64)
    return trace, int(lane.own(time_ns))


def running_at(trace: RankTrace, time_ns: int) -> Running | None:
    """Return the device work of a rank at a time of its own clock."""
    row = _row_at(trace, time_ns)
    if row is None:
        return None
    gpu = trace.group("gpu")
    track = int(gpu.track[row])
    stream = trace.tracks[track].stream if 0 <= track < len(trace.tracks) else -1
    return Running(trace.text(int(gpu.name[row])), stream, int(gpu.dur_ns[row]))


def _row_at(trace: RankTrace, time_ns: int) -> int | None:
    gpu = trace.group("gpu")
    passed = int(gpu.start_ns.searchsorted(time_ns, side="right"))
    first = max(passed - _LOOK_BACK, 0)
    ends = gpu.start_ns[first:passed] + gpu.dur_ns[first:passed]
    rows = (ends > time_ns).nonzero()[0]
    return first + int(rows[-1]) if len(rows) else None


NONE = -1


class CallColumns(Struct, frozen=True):
    """Columns that only collectives have, int64 [rows], -1 where unknown.

    ``communicator`` and ``k`` identify the matched collective of a row.
    """

    communicator: I64
    k: I64
    lag_ns: I64
    late_ns: I64
    message_bytes: I64
    step: I64

    @classmethod
    def unknown(cls, rows: int) -> CallColumns:
        """Return columns in which every value is unknown."""
        return cls(*(np.full(rows, NONE, np.int64) for _ in range(6)))


class EventTable(Struct, frozen=True, dict=True):
    """Events of a rank: ``order`` [n] are the rows in view, of ``total`` in the window.

    ``start_ns`` counts from the job's origin, on its clock; ``text`` maps ids in ``name`` to names.
    """

    rank: str
    listing: Listing
    start_ns: I64
    dur_ns: I64
    name: I32
    text: Callable[[int], str]
    order: I64
    total: int
    calls: CallColumns | None = None

    def __len__(self) -> int:
        return len(self.order)

    @cached_property
    def _place(self) -> I64:
        """Place of every row in the order, -1 where it is filtered out."""
        place = np.full(len(self.start_ns), NONE, np.int64)
        place[self.order] = np.arange(len(self.order))
        return place

    def time_ns(self, row: int) -> int:
        """Return the start of a row since the job's origin."""
        return int(self.start_ns[row])

    def name_of(self, row: int) -> str:
        """Return the name of a row."""
        return self.text(int(self.name[row]))

    def collective(self, row: int) -> tuple[int, int] | None:
        """Return communicator and number of the matched collective of a row."""
        if self.calls is None or self.calls.k[row] < 0:
            return None
        return int(self.calls.communicator[row]), int(self.calls.k[row])

    def at(self, scene: Scene) -> int:
        """Return the cursor's place: of the row chosen here, else the collective, else the time."""
        selection, chosen = scene.state.selection, EVENTS_STATE.of(scene.state).chosen
        time_ns = 0 if selection.time_ns is None else selection.time_ns
        if isinstance(chosen, int) and chosen < len(self.start_ns):
            place = int(self._place[chosen])
            if place >= 0 and self.time_ns(chosen) == time_ns:
                return place
        if self.calls is not None and selection.k is not None:
            same = (self.calls.communicator == selection.communicator) & (
                self.calls.k == selection.k
            )
            places = self._place[np.flatnonzero(same)]
            if len(places) and places[0] >= 0:
                return int(places[0])
        return self._nearest(time_ns)

    def _nearest(self, start_ns: int) -> int:
        if not len(self.order):
            return 0
        row = max(int(np.searchsorted(self.start_ns, start_ns, side="right")) - 1, 0)
        before = self._place[: row + 1]
        kept = np.flatnonzero(before >= 0)
        return int(before[kept[-1]]) if len(kept) else 0


def event_table(view: View, findings: Findings, rank: str, listing: Listing) -> EventTable:
    """List the events of a rank. Raises re.error for a bad pattern, KeyError without the rank."""
    if listing.kind == COLLECTIVES:
        return _collectives(view, findings, rank, listing)
    trace = view.facts.ranks[rank].trace
    gpu = trace.group("gpu")
    starts = view.on_job_clock(rank, gpu.start_ns) - view.origin_ns
    inside = _inside(starts, findings.span)
    return _listed(
        EventTable(rank, listing, starts, gpu.dur_ns, gpu.name, trace.text, inside, len(inside))
    )


def _collectives(view: View, findings: Findings, rank: str, listing: Listing) -> EventTable:
    calls = view.facts.named_calls[rank]
    starts = view.on_job_clock(rank, calls.start_ns) - view.origin_ns
    columns = _call_columns(view, findings, rank, calls)
    for index, communicator in enumerate(findings.communicators or ()):
        mine = columns.communicator == index
        if mine.any():  # the corrected start, as in the other panes
            member = communicator.labels.index(rank)
            starts[mine] = communicator.start_ns[columns.k[mine], member]
    code = (calls.group.astype(np.int64) + 1) * len(TYPES) + calls.kind
    distinct, name = np.unique(code, return_inverse=True)
    names = [_call_name(view, int(one)) for one in distinct]
    inside = _inside(starts, findings.span)
    return _listed(
        EventTable(
            rank,
            listing,
            starts,
            calls.dur_ns,
            name.astype(np.int32),
            names.__getitem__,
            inside,
            len(inside),
            columns,
        )
    )


def _call_name(view: View, code: int) -> str:
    group, kind = code // len(TYPES) - 1, TYPES[code % len(TYPES)]
    return f"{kind} {view.group_label(group)}" if group >= 0 else kind


def _call_columns(view: View, findings: Findings, label: str, calls: Calls) -> CallColumns:
    columns = CallColumns.unknown(len(calls))
    columns.message_bytes[:] = calls.message_bytes
    columns.step[:] = calls.step
    for index, communicator in enumerate(findings.communicators or ()):
        if label not in communicator.labels:
            continue
        member = communicator.labels.index(label)
        rows = view.arrivals.groups[communicator.number].match.rows[communicator.row, member]
        k = np.flatnonzero(rows >= 0)
        rows = rows[k]
        columns.communicator[rows] = index
        columns.k[rows] = k
        columns.lag_ns[rows] = communicator.lag_ns[k]
        columns.late_ns[rows] = communicator.late_ns[k, member]
    return columns


def _inside(times_ns: I64, span: Span | None) -> I64:
    """Return the rows that begin in the window."""
    if span is None:
        return np.arange(len(times_ns))
    inside: Bool = (times_ns >= span.start_ns) & (times_ns < span.end_ns)
    return np.flatnonzero(inside)


def _listed(table: EventTable) -> EventTable:
    """Return the table with its rows filtered and sorted."""
    listing, rows = table.listing, table.order
    if listing.pattern:
        rows = rows[_matching(table, listing.pattern)[rows]]
    key = _key(table, listing.sorting.column)
    if key is not None:
        rows = rows[np.argsort(key[rows], kind="stable")]
    if listing.sorting.reverse:
        rows = rows[::-1]
    return replace(table, order=rows)


def _matching(table: EventTable, pattern: str) -> Bool:
    """Return a mask of rows whose name matches the pattern; each distinct name is tested once."""
    found = re.compile(pattern, re.IGNORECASE).search
    names = np.unique(table.name)
    hits = [name for name in names.tolist() if found(table.text(name))]
    return np.isin(table.name, hits)


_NUMBERS: Final = {
    "lag": "lag_ns",
    "bytes": "message_bytes",
    "k": "k",
    "it": "step",
    "this rank late": "late_ns",
}
_ASCENDING: Final = ("k", "it")


def _key(table: EventTable, order: str) -> I64 | None:
    """Return the sort key of a column, ascending for places and names, descending for sizes.

    None for the order of time, in which rows already are.
    """
    if order == "dur":
        return np.negative(table.dur_ns)
    if order == "what":
        names, place = np.unique(table.name, return_inverse=True)
        by_name = np.argsort(np.array([table.text(name) for name in names.tolist()]))
        rank = np.empty(len(by_name), np.int64)
        rank[by_name] = np.arange(len(by_name))
        return rank[place]
    if table.calls is None or order not in _NUMBERS:
        return None
    number: I64 = getattr(table.calls, _NUMBERS[order])
    if order in _ASCENDING:
        return np.where(number < 0, np.iinfo(np.int64).max, number)  # unknown ones last
    return np.negative(number)


_SEEN = 3


class Hits(Struct, frozen=True):
    """Ascending ``places`` of hits, in the unit of :func:`ccltui.tui.moves.time_moves.place`.

    Times on the timeline, collectives in Alignment, rows in Events. ``seen`` lists existing names
    where nothing matches.
    """

    places: I64
    seen: tuple[str, ...] = ()


def hits(view: View, findings: Findings, search: Search) -> Hits:
    """Search the names of a pane. Raises re.error for a bad pattern."""
    if search.among is Among.ROWS:
        return _rows(view, findings, search)
    if search.among is Among.COLLECTIVES:
        return _matching_collectives(view, findings, search)
    return _times(view, search)


def _rows(view: View, findings: Findings, search: Search) -> Hits:
    table = event_table(view, findings, search.rank, search.listing)
    return _found(search, table.name[table.order], np.arange(len(table)), table.text)


def _times(view: View, search: Search) -> Hits:
    trace = view.facts.ranks[search.rank].trace
    gpu = trace.group("gpu")
    starts = view.on_job_clock(search.rank, gpu.start_ns) - view.origin_ns
    return _found(search, gpu.name, starts, trace.text)


def _matching_collectives(view: View, findings: Findings, search: Search) -> Hits:
    """Match the type of a collective, or the kernel of the rank (else of the first member)."""
    communicator = (findings.communicators or ())[search.communicator]
    member = communicator.labels.index(search.rank) if search.rank in communicator.labels else 0
    label = communicator.labels[member]
    calls, trace = view.facts.named_calls[label], view.facts.ranks[label].trace
    rows = view.arrivals.groups[communicator.number].match.rows[communicator.row, member]
    here = np.flatnonzero(rows >= 0)
    kernels = np.full(len(rows), -1, np.int64)
    kernels[here] = calls.rows.events_of(trace).name[calls.rows.numbers[rows[here]]]
    pairs, names = np.unique(
        np.stack([communicator.kind_id.astype(np.int64), kernels]), axis=1, return_inverse=True
    )

    def text(name: int) -> str:
        kind, kernel = pairs[:, name].tolist()
        return f"{communicator.kind[kind]} {trace.text(kernel)}".rstrip()

    return _found(search, names, np.arange(len(rows)), text)


def _found(search: Search, names: I32 | I64, places: I64, text: Callable[[int], str]) -> Hits:
    distinct, counts = np.unique(names, return_counts=True)
    found = re.compile(search.pattern, re.IGNORECASE).search
    matching = [name for name in distinct.tolist() if found(text(name))]
    if matching:
        return Hits(np.unique(places[np.isin(names, matching)]))
    frequent = Counter(dict(zip(distinct.tolist(), counts.tolist(), strict=True)))
    seen = tuple(text(name) for name, _ in frequent.most_common(_SEEN))
    return Hits(np.empty(0, np.int64), seen)
