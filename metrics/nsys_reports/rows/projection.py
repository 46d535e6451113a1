"""Make the report ``nvtx_gpu_proj_sum``: the span of device work launched by each range.

A range is projected onto the work whose launch lies inside it on the same thread: from the
first start to the last end of that work, gaps included.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ccltui.metrics.nsys_reports.rows.group_statistics import group
from ccltui.metrics.nsys_reports.rows.launches import chosen_work, enclosed, pair_launches
from ccltui.metrics.nsys_reports.rows.range_stacks import stacks
from ccltui.metrics.nsys_reports.rows.recipe import Columns
from ccltui.metrics.nsys_reports.rows.report import ReportColumn
from ccltui.metrics.nsys_reports.rows.row_filter import Filter
from ccltui.metrics.nsys_reports.rows.summaries import (
    NO_KERNELS,
    NO_LAUNCHES,
    NO_RANGES,
    range_labels,
)
from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import MISSING
from ccltui.parsers.nsys.report_tables import STYLES, Calls, Ranges, ReportTables, Work


@dataclass(frozen=True, slots=True)
class Projections:
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
    work, api, ranges = tables.work, tables.api, tables.ranges
    if ranges is None:
        return NO_RANGES
    if api is None:
        return NO_LAUNCHES
    if work is None:
        return NO_KERNELS
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
