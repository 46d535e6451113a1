"""Make the report ``nvtx_gpu_proj_sum``: the span of device work launched by each range.

A range is projected onto the work whose launch lies inside it on the same thread: from the
first start to the last end of that work, gaps included.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.nsys_reports.report import Columns, ReportColumn
from ccltui.metrics.nsys_reports.row_filter import EVERYTHING, Filter
from ccltui.metrics.nsys_reports.summaries import (
    NO_KERNELS,
    NO_LAUNCHES,
    NO_RANGES,
    group,
    range_labels,
)
from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import MISSING
from ccltui.parsers.nsys.report_tables import (
    KERNEL,
    STYLES,
    Calls,
    Names,
    Ranges,
    ReportTables,
    Work,
)


class Pairs(Struct, frozen=True):
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


class Enclosed(Struct, frozen=True):
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
    for one in distinct_values(ranges.thread[rows]).tolist():
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


class Stacks(Struct, frozen=True):
    """Place of each of some ranges in the stack of its thread.

    ``parent`` is the place of the range around it among the same ranges, -1 without one; ``level``
    counts the ranges around it; ``num_children`` those directly inside.
    """

    parent: I64
    level: I64
    num_children: I64

    def paths(self, numbers: I64, order: I64) -> list[str]:
        """Return the numbers of the ranges around each range and its own: ``:3:17``."""
        parents = self.parent.tolist()
        known: dict[int, str] = {}

        def path(place: int) -> str:
            pending = []
            while place >= 0 and place not in known:
                pending.append(place)
                place = parents[place]
            text = known[place] if place >= 0 else ""
            for one in reversed(pending):
                text = known[one] = f"{text}:{numbers[one]}"
            return text

        return [path(place) for place in order.tolist()]


def stacks(ranges: Ranges, rows: I64) -> Stacks:
    """Return the stacks of ``rows`` of the ranges; other ranges do not count.

    A range is inside another if it neither begins before it nor ends after it. Push/pop ranges
    nest; start/end ranges may overlap, so that a range can be inside several of which none is
    inside another: the shortest of them is its parent, as in nsys. Of ranges with equal times the
    one that is first in the table is outside.
    """
    parent = np.full(len(rows), -1, np.int64)
    level, children = (np.zeros(len(rows), np.int64) for _ in range(2))
    start, end, thread = (
        column[rows] for column in (ranges.start_ns, ranges.end_ns, ranges.thread)
    )
    order = np.lexsort((np.arange(len(rows)), -end, start, thread))
    starts, ends, threads = start.tolist(), end.tolist(), thread.tolist()
    open_ranges: list[int] = []
    for place in order.tolist():
        open_ranges = [
            one
            for one in open_ranges
            if threads[one] == threads[place] and ends[one] >= starts[place]
        ]
        around = [one for one in reversed(open_ranges) if ends[one] >= ends[place]]
        if around:
            inner = min(around, key=lambda one: ends[one] - starts[one])
            parent[place] = inner
            children[inner] += 1
            level[place] = level[inner] + 1
        open_ranges.append(place)
    return Stacks(parent, level, children)


def range_numbers(ranges: Ranges, rows: I64) -> I64:
    """Return the row numbers of ranges, counted from 1 where the source has none."""
    numbers = np.arange(1, len(ranges) + 1) if ranges.number is None else ranges.number
    result: I64 = numbers[rows]
    return result


class Projections(Struct, frozen=True):
    """The ranges that launched work, one row each, and the work that no range launched.

    ``rows`` are rows of the ranges; times are the first start and the last end of the work of each;
    ``num_ops`` counts launches, so that the kernels of one graph are one. ``free`` and
    ``free_calls`` are rows of the work outside of all ranges and of its calls.
    """

    rows: I64
    start_ns: I64
    end_ns: I64
    num_ops: I64
    free: I64
    free_calls: I64


def closed_on_thread(ranges: Ranges, chosen: Filter) -> I64:
    """Return the rows of the ranges that end on the thread where they began.

    An export names the thread that ended a range only where it is another one.
    """
    rows = chosen.rows(ranges.start_ns, ranges.end_ns)
    if ranges.end_thread is not None:
        rows &= ranges.end_thread == MISSING
    return np.flatnonzero(rows).astype(np.int64)


def projection_sources(tables: ReportTables) -> tuple[Ranges, Work, Calls] | str:
    """Return what a projection needs, or the first part that the capture lacks, as nsys does."""
    if tables.ranges is None:
        return NO_RANGES
    if tables.api is None:
        return NO_LAUNCHES
    if tables.work is None:
        return NO_KERNELS
    return tables.ranges, tables.work, tables.api


def project(ranges: Ranges, work: Work, api: Calls, chosen: Filter) -> Projections:
    """Project ranges onto device work."""
    rows = closed_on_thread(ranges, chosen)
    pairs = pair_launches(work, chosen_work(work, chosen), api, chosen)
    inside = enclosed(ranges, rows, pairs, api)
    ops = inside.pairs.work
    first = np.full(len(rows), np.iinfo(np.int64).max)
    last = np.full(len(rows), np.iinfo(np.int64).min)
    np.minimum.at(first, inside.ranges, work.start_ns[ops[inside.places]])
    np.maximum.at(last, inside.ranges, work.end_ns[ops[inside.places]])
    launches = np.stack([inside.ranges, work.correlation[ops[inside.places]]], 1)
    owners, num_ops = np.unique(np.unique(launches, axis=0)[:, 0], return_counts=True)
    outside = np.ones(len(ops), bool)
    outside[inside.places] = False
    return Projections(
        rows[owners],
        first[owners],
        last[owners],
        num_ops.astype(np.int64),
        ops[outside],
        inside.pairs.call[outside],
    )


def projection_summary(tables: ReportTables, chosen: Filter) -> Columns:
    """Return the projected durations by style and name of the range."""
    sources = projection_sources(tables)
    if isinstance(sources, str):
        return sources
    ranges, work, api = sources
    projected = project(ranges, work, api, chosen)
    rows = projected.rows
    if not len(rows):
        return "the capture has no range that launched GPU work."
    stack = stacks(ranges, rows)
    labels, texts = range_labels(tables)
    keys = labels[rows] * 2 + ranges.style[rows]
    groups = group(keys, projected.end_ns - projected.start_ns)
    groups = groups.tied_by([texts[key // 2] for key in groups.key.tolist()])
    place = np.searchsorted(np.sort(groups.key), keys)
    order = np.argsort(groups.key)

    def total_of(values: I64) -> I64:
        sums = np.bincount(place, values, len(groups)).astype(np.int64)
        result = np.empty_like(sums)
        result[order] = sums
        return result

    num_ops = total_of(projected.num_ops)
    return (
        ReportColumn("Range", "text", [texts[key] for key in (groups.key // 2).tolist()]),
        ReportColumn("Style", "text", [STYLES[key] for key in (groups.key % 2).tolist()]),
        ReportColumn("Total Proj Time", "time", groups.total),
        ReportColumn("Total Range Time", "time", total_of((ranges.end_ns - ranges.start_ns)[rows])),
        ReportColumn("Range Instances", "count", groups.count),
        *groups.statistics("time", "mean_time", "Proj "),
        ReportColumn("Total GPU Ops", "count", num_ops),
        ReportColumn("Avg GPU Ops", "mean", num_ops / groups.count),
        ReportColumn("Avg Range Lvl", "mean", total_of(stack.level) / groups.count),
        ReportColumn("Avg Num Child", "mean", total_of(stack.num_children) / groups.count),
    )


def prefixed_by_ranges(tables: ReportTables) -> ReportTables | str:
    """Return the tables with the text of the innermost range around its launch before each kernel.

    Kernels that no range launched keep their names. Without ranges, return the reason.
    """
    work, api, ranges = tables.work, tables.api, tables.ranges
    if ranges is None:
        return NO_RANGES
    if work is None or api is None:
        return tables
    names = Names()
    name = np.array([names.of(text) for text in tables.names], np.int32)[work.name]
    rows, owners = _innermost(tables)
    pairs, inverse = np.unique(
        np.stack([ranges.text[owners], work.name[rows]], 1), axis=0, return_inverse=True
    )
    ids = [
        names.of(f"{tables.names[prefix]}/{tables.names[kernel]}")
        for prefix, kernel in pairs.tolist()
    ]
    name[rows] = np.array(ids, np.int32)[inverse.ravel()] if ids else name[rows]
    return replace(tables, names=names.texts(), work=replace(work, name=name))


def _innermost(tables: ReportTables) -> tuple[I64, I64]:
    """Return the kernels that a range launched, and the row of the innermost range of each."""
    work, api, ranges = tables.work, tables.api, tables.ranges
    if work is None or api is None or ranges is None:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    closed = closed_on_thread(ranges, EVERYTHING)
    pairs = pair_launches(work, chosen_work(work, EVERYTHING, KERNEL), api)
    inside = enclosed(ranges, closed, pairs, api)
    rows, owners = inside.pairs.work[inside.places], closed[inside.ranges]
    # Of the ranges around a launch the innermost began last, and of those that began with it
    # it ends first.
    order = np.lexsort((-ranges.end_ns[owners], ranges.start_ns[owners], rows))
    rows, owners = rows[order], owners[order]
    last = np.flatnonzero(np.append(rows[1:] != rows[:-1], True)) if len(rows) else rows
    return rows[last], owners[last]
