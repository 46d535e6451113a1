"""Make the report ``nvtx_gpu_proj_sum``: the span of device work launched by each range.

A range is projected onto the work whose launch lies inside it on the same thread: from the
first start to the last end of that work, gaps included.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ccltui.metrics.nsys_reports.group_statistics import group
from ccltui.metrics.nsys_reports.report import ReportColumn
from ccltui.metrics.nsys_reports.row_filter import Filter
from ccltui.metrics.nsys_reports.summaries import NO_DEVICE_WORK, NO_RANGES, Columns, range_labels
from ccltui.parsers.array_types import I64
from ccltui.parsers.nsys.report_tables import PUSH_POP, STYLES, Calls, Ranges, ReportTables, Work


@dataclass(frozen=True, slots=True)
class Launched:
    """Device work with its launch, sorted by (thread, start of the launch); equal lengths."""

    thread: I64
    call_start_ns: I64
    call_end_ns: I64
    start_ns: I64
    end_ns: I64


@dataclass(frozen=True, slots=True)
class Projections:
    """One row per range: first start, last end and number of its work; 0 without any."""

    start_ns: I64
    end_ns: I64
    num_ops: I64


def projection_summary(tables: ReportTables, chosen: Filter) -> Columns:
    """Return the projected durations by style and name of the range."""
    work, api, ranges = tables.work, tables.api, tables.ranges
    if ranges is None:
        return NO_RANGES
    if work is None or api is None:
        return NO_DEVICE_WORK
    rows = np.flatnonzero(chosen.rows(ranges.start_ns, ranges.end_ns))
    projected = project(ranges, rows, launched(work, api, chosen))
    rows = rows[projected.num_ops > 0]
    if not len(rows):
        return "the capture has no range that launched GPU work."
    has_work = projected.num_ops > 0
    span_ns = (projected.end_ns - projected.start_ns)[has_work]
    level, children = nesting(ranges, rows)
    labels, texts = range_labels(tables)
    keys = labels[rows] * 2 + ranges.style[rows]
    groups = group(keys, span_ns)
    place = np.searchsorted(np.sort(groups.key), keys)
    order = np.argsort(groups.key)

    def total_of(values: I64) -> I64:
        sums = np.bincount(place, values, len(groups)).astype(np.int64)
        result = np.empty_like(sums)
        result[order] = sums
        return result

    num_ops = total_of(projected.num_ops[has_work])
    return (
        ReportColumn("Range", "text", [texts[key] for key in (groups.key // 2).tolist()]),
        ReportColumn("Style", "text", [STYLES[key] for key in (groups.key % 2).tolist()]),
        ReportColumn("Total Proj Time", "time", groups.total),
        ReportColumn("Total Range Time", "time", total_of((ranges.end_ns - ranges.start_ns)[rows])),
        ReportColumn("Range Instances", "count", groups.count),
        *groups.statistics("time", "mean_time", "Proj "),
        ReportColumn("Total GPU Ops", "count", num_ops),
        ReportColumn("Avg GPU Ops", "mean", num_ops / groups.count),
        ReportColumn("Avg Range Lvl", "mean", total_of(level) / groups.count),
        ReportColumn("Avg Num Child", "mean", total_of(children) / groups.count),
    )


def launched(work: Work, api: Calls, chosen: Filter) -> Launched:
    """Pair each piece of work with the first call of its process that has its correlation."""
    rows = np.flatnonzero(chosen.rows(work.start_ns, work.end_ns) & (work.correlation >= 0))
    calls = np.flatnonzero(api.correlation >= 0)
    calls = calls[np.lexsort((api.start_ns[calls], api.correlation[calls], api.process[calls]))]
    keys, first = np.unique(
        np.stack([api.process[calls], api.correlation[calls]]), axis=1, return_index=True
    )
    found = _find(keys, np.stack([work.process[rows], work.correlation[rows]]))
    rows, call = rows[found >= 0], calls[first[found[found >= 0]]]
    order = np.lexsort((api.start_ns[call], api.thread[call]))
    rows, call = rows[order], call[order]
    return Launched(
        api.thread[call],
        api.start_ns[call],
        api.end_ns[call],
        work.start_ns[rows],
        work.end_ns[rows],
    )


def project(ranges: Ranges, rows: I64, ops: Launched) -> Projections:
    """Return the projections of ``rows`` of the ranges."""
    start, end, count = (np.zeros(len(rows), np.int64) for _ in range(3))
    for thread in np.unique(ranges.thread[rows]).tolist():
        here = np.flatnonzero(ranges.thread[rows] == thread)
        low, high = (int(np.searchsorted(ops.thread, thread, side)) for side in ("left", "right"))
        if low == high:
            continue
        first = low + np.searchsorted(ops.call_start_ns[low:high], ranges.start_ns[rows[here]])
        # Calls of one thread do not overlap, so their ends rise as their starts do.
        ends = np.maximum.accumulate(ops.call_end_ns[low:high])
        last = low + np.searchsorted(ends, ranges.end_ns[rows[here]], "right")
        some = np.flatnonzero(last > first)
        if len(some):
            chosen = here[some]
            start[chosen] = _reduced(np.minimum, ops.start_ns, first[some], last[some])
            end[chosen] = _reduced(np.maximum, ops.end_ns, first[some], last[some])
            count[chosen] = (last - first)[some]
    return Projections(start, end, count)


def nesting(ranges: Ranges, rows: I64) -> tuple[I64, I64]:
    """Return the depth of each of ``rows``, and the number of ``rows`` directly inside it.

    Only push/pop ranges of one thread nest; ranges that are not in ``rows`` do not count.
    """
    level, children = (np.zeros(len(rows), np.int64) for _ in range(2))
    start, end, thread = (
        column[rows] for column in (ranges.start_ns, ranges.end_ns, ranges.thread)
    )
    places = np.flatnonzero(ranges.style[rows] == PUSH_POP)
    places = places[np.lexsort((-end[places], start[places], thread[places]))]
    around: list[int] = []
    for place in places.tolist():
        while around and not (
            thread[around[-1]] == thread[place]
            and start[place] < end[around[-1]]
            and end[place] <= end[around[-1]]
        ):
            around.pop()
        if around:
            children[around[-1]] += 1
        level[place] = len(around)
        around.append(place)
    return level, children


def _reduced(operation: np.ufunc, values: I64, first: I64, last: I64) -> I64:
    """Reduce values over each slice first:last (none is empty)."""
    padded = np.append(values, values[-1])
    result: I64 = operation.reduceat(padded, np.stack([first, last], 1).ravel())[::2]
    return result


def _find(keys: I64, wanted: I64) -> I64:
    """Return the column of ``keys`` (sorted, 2 rows) equal to each of ``wanted``, else -1."""
    if not keys.shape[1]:
        return np.full(wanted.shape[1], -1)
    both, inverse = np.unique(np.concatenate([keys, wanted], 1), axis=1, return_inverse=True)
    position = np.full(both.shape[1], -1)
    inverse = inverse.ravel()
    position[inverse[: keys.shape[1]]] = np.arange(keys.shape[1])
    return position[inverse[keys.shape[1] :]]
