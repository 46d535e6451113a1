"""Name kernels by the range that launched them: ``forward/gemm``, the argument ``:nvtx-name``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ccltui.metrics.nsys_reports.rows.launches import chosen_work, enclosed, pair_launches
from ccltui.metrics.nsys_reports.rows.projection import closed_on_thread
from ccltui.metrics.nsys_reports.rows.row_filter import EVERYTHING
from ccltui.metrics.nsys_reports.rows.summaries import NO_RANGES
from ccltui.parsers.array_types import I64
from ccltui.parsers.nsys.report_tables import KERNEL, Names, ReportTables


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
