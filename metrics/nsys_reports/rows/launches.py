"""Pair device work with the API calls that launched it, and both with the ranges around them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ccltui.metrics.nsys_reports.rows.row_filter import EVERYTHING, Filter
from ccltui.parsers.array_types import I64
from ccltui.parsers.nsys.report_tables import Calls, Ranges, Work


@dataclass(frozen=True, slots=True)
class Pairs:
    """Rows of device work with the rows of the calls of their process and correlation.

    Work appears once per such call, and not at all without one.
    """

    work: I64
    call: I64

    def __len__(self) -> int:
        return len(self.work)

    def take(self, places: I64) -> Pairs:
        """Return the pairs at these places."""
        return Pairs(self.work[places], self.call[places])


def pair_launches(work: Work, rows: I64, api: Calls, chosen: Filter = EVERYTHING) -> Pairs:
    """Pair ``rows`` of the work with the chosen calls, in order of the rows.

    As in nsys, a filter selects the calls by their own times: work that runs in the window and was
    launched before it has no call.
    """
    rows = rows[work.correlation[rows] >= 0]
    calls = np.flatnonzero((api.correlation >= 0) & chosen.rows(api.start_ns, api.end_ns))
    wanted, keys = _keys(work, rows, api, calls)
    order = np.lexsort((api.start_ns[calls], keys))
    calls, keys = calls[order], keys[order]
    first = np.searchsorted(keys, wanted, "left")
    count = np.searchsorted(keys, wanted, "right") - first
    offset = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    return Pairs(np.repeat(rows, count), calls[np.repeat(first, count) + offset])


def _keys(work: Work, rows: I64, api: Calls, calls: I64) -> tuple[I64, I64]:
    """Return one number per (process, correlation), for rows of the work and for calls."""
    process, correlation = (
        np.unique(np.concatenate(both), return_inverse=True)[1]
        for both in (
            (work.process[rows], api.process[calls]),
            (work.correlation[rows], api.correlation[calls]),
        )
    )
    keys = process.astype(np.int64) * (int(correlation.max(initial=0)) + 1) + correlation
    return keys[: len(rows)], keys[len(rows) :]


@dataclass(frozen=True, slots=True)
class Enclosed:
    """Which pairs lie inside which ranges: the call inside the range, on the same thread.

    ``pairs`` is sorted by thread and start of the call. ``ranges`` and ``places`` have one entry
    per range (its place among the rows asked for) and pair (its place in ``pairs``).
    """

    pairs: Pairs
    ranges: I64
    places: I64


def enclosed(ranges: Ranges, rows: I64, pairs: Pairs, api: Calls) -> Enclosed:
    """Find the pairs inside each of ``rows`` of the ranges: one entry per range and pair."""
    order = np.lexsort((api.start_ns[pairs.call], api.thread[pairs.call]))
    pairs = pairs.take(order)
    thread, start = api.thread[pairs.call], api.start_ns[pairs.call]
    end = api.end_ns[pairs.call]
    low, high = (np.zeros(len(rows), np.int64) for _ in range(2))
    for one in np.unique(ranges.thread[rows]).tolist():
        here = np.flatnonzero(ranges.thread[rows] == one)
        first, last = (int(np.searchsorted(thread, one, side)) for side in ("left", "right"))
        low[here] = first + np.searchsorted(start[first:last], ranges.start_ns[rows[here]])
        high[here] = first + np.searchsorted(start[first:last], ranges.end_ns[rows[here]], "right")
    count = np.maximum(high - low, 0)
    offset = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    owner = np.repeat(np.arange(len(rows)), count)
    place = np.repeat(low, count) + offset
    inside = end[place] <= ranges.end_ns[rows[owner]]
    return Enclosed(pairs, owner[inside], place[inside])


def chosen_work(work: Work, chosen: Filter, kind: int | None = None) -> I64:
    """Return the rows of device work, of one kind or of all, that the filter selects."""
    rows = chosen.rows(work.start_ns, work.end_ns)
    if kind is not None:
        rows &= work.kind == kind
    return np.flatnonzero(rows).astype(np.int64)
