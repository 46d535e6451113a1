"""Reports on NVTX ranges with the device work that they launched."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from ccltui.metrics.nsys_reports.families.nvtx_ranges import stack_columns
from ccltui.metrics.nsys_reports.rows.group_statistics import group
from ccltui.metrics.nsys_reports.rows.launches import chosen_work, enclosed, pair_launches
from ccltui.metrics.nsys_reports.rows.projection import closed_on_thread, project
from ccltui.metrics.nsys_reports.rows.range_stacks import range_numbers, stacks
from ccltui.metrics.nsys_reports.rows.recipe import Columns, Recipe
from ccltui.metrics.nsys_reports.rows.report import ReportColumn
from ccltui.metrics.nsys_reports.rows.row_filter import Filter
from ccltui.metrics.nsys_reports.rows.summaries import (
    NO_DEVICE_WORK,
    NO_KERNELS,
    NO_LAUNCHES,
    NO_RANGES,
    range_labels,
)
from ccltui.metrics.nsys_reports.rows.thread_columns import process_ids, thread_ids
from ccltui.parsers.array_types import I64
from ccltui.parsers.nsys.report_tables import KERNEL, STYLES, Part, ReportTables

_NO_THREAD: Final = -1


def kernel_summary(tables: ReportTables, chosen: Filter) -> Columns:
    """Make ``nvtx_kern_sum``: kernels by the ranges that they were launched in.

    A kernel counts in every range around its launch, and once more where ranges of one name nest.
    Kernels outside of all ranges are listed without a range.
    """
    work, api, ranges = tables.work, tables.api, tables.ranges
    if ranges is None:
        return NO_RANGES
    if work is None or not (work.kind == KERNEL).any():
        return NO_KERNELS
    if api is None:
        return NO_LAUNCHES
    kernels = chosen_work(work, chosen, KERNEL)
    pairs = pair_launches(work, kernels, api, chosen)
    rows = closed_on_thread(ranges, chosen)
    inside = enclosed(ranges, rows, pairs, api)
    owner, launched = rows[inside.ranges], inside.pairs.work[inside.places]
    outside = np.ones(len(inside.pairs), bool)
    outside[inside.places] = False
    alone = np.setdiff1d(kernels, pairs.work)
    labels, texts = range_labels(tables)
    free, free_calls = inside.pairs.work[outside], inside.pairs.call[outside]
    keys = np.concatenate(
        [
            np.stack([labels[owner], ranges.style[owner], ranges.thread[owner]], 1),
            np.stack([*(np.full(len(free), -1),) * 2, api.thread[free_calls]], 1),
            np.stack([*(np.full(len(alone), -1),) * 2, np.full(len(alone), _NO_THREAD)], 1),
        ]
    )
    kernel = np.concatenate([launched, free, alone])
    owners = np.concatenate([owner, np.full(len(free) + len(alone), -1)])
    keys = np.concatenate([keys, work.name[kernel, None]], 1)
    if not len(keys):
        return NO_KERNELS
    found, inverse = np.unique(keys, axis=0, return_inverse=True)
    inverse = inverse.ravel()
    in_range = owners >= 0
    num_ranges = _distinct(inverse[in_range], owners[in_range], len(found))
    num_kernels = _distinct(inverse, kernel, len(found))
    groups = group(inverse.astype(np.int64), (work.end_ns - work.start_ns)[kernel])
    names = [texts[label] if label >= 0 else "" for label in found[groups.key, 0].tolist()]
    threads = found[groups.key, 2]
    pids, tids = process_ids(threads), thread_ids(threads)
    known = threads != _NO_THREAD
    order = np.array(
        sorted(
            range(len(groups)),
            key=lambda i: (names[i], bool(known[i]), pids[i], tids[i], -int(groups.total[i])),
        )
    )
    groups = groups.take(order)
    shown = found[groups.key]
    return (
        ReportColumn("NVTX Range", "text", [names[place] for place in order.tolist()]),
        ReportColumn("Style", "text", _styles(shown[:, 1])),
        ReportColumn("PID", "count", pids[order], known[order]),
        ReportColumn("TID", "count", tids[order], known[order]),
        ReportColumn("NVTX Inst", "count", num_ranges[groups.key]),
        ReportColumn("Kern Inst", "count", num_kernels[groups.key]),
        ReportColumn("Total Time", "time", groups.total),
        *groups.statistics("time", "mean_time"),
        ReportColumn("Kernel Name", "text", [tables.names[one] for one in shown[:, 3].tolist()]),
    )


def projection_trace(tables: ReportTables, chosen: Filter) -> Columns:
    """Make ``nvtx_gpu_proj_trace``: every range that launched work, projected onto that work.

    The first row, without a name, is the work that no range launched.
    """
    work, api, ranges = tables.work, tables.api, tables.ranges
    if ranges is None:
        return NO_RANGES
    if api is None:
        return NO_LAUNCHES
    if work is None:
        return NO_KERNELS
    projected = project(ranges, work, api, chosen)
    rows, free = projected.rows, projected.free
    if not len(rows) and not len(free):
        return NO_DEVICE_WORK
    stack = stacks(ranges, rows)
    threads = ranges.thread[rows]
    labels, texts = range_labels(tables)
    body = (
        ReportColumn("Name", "text", [texts[one] for one in labels[rows].tolist()]),
        ReportColumn("Projected Start", "time", projected.start_ns),
        ReportColumn("Projected Duration", "time", projected.end_ns - projected.start_ns),
        ReportColumn("Orig Start", "time", ranges.start_ns[rows]),
        ReportColumn("Orig Duration", "time", (ranges.end_ns - ranges.start_ns)[rows]),
        ReportColumn("Style", "text", _styles(ranges.style[rows].astype(np.int64))),
        ReportColumn("PID", "count", process_ids(threads)),
        ReportColumn("TID", "count", thread_ids(threads)),
        ReportColumn("NumGPUOps", "count", projected.num_ops),
        ReportColumn("Lvl", "count", stack.level),
        ReportColumn("NumChild", "count", stack.num_children),
        *stack_columns(stack, range_numbers(ranges, rows), np.arange(len(rows))),
    )
    if not len(free):
        return body
    # nsys shows the thread of the work that ends last, and counts correlations of all processes
    # together.
    start, end = work.start_ns[free], work.end_ns[free]
    thread = api.thread[projected.free_calls[np.argmax(end)]]
    head: dict[str, int | str] = {
        "Name": "",
        "Projected Start": int(start.min()),
        "Projected Duration": int(end.max() - start.min()),
        "Style": "",
        "PID": int(process_ids(thread)),
        "TID": int(thread_ids(thread)),
        "NumGPUOps": len(np.unique(work.correlation[free])),
        "NumChild": 0,
        "RangeStack": "",
    }
    return tuple(_with_head(column, head.get(column.name)) for column in body)


def _with_head(column: ReportColumn, cell: int | str | None) -> ReportColumn:
    """Return the column with one cell before the others, blank for None."""
    if isinstance(cell, str):
        return ReportColumn(column.name, column.kind, [cell, *column.values])
    values = np.concatenate([[cell or 0], np.asarray(column.values)])
    known = np.ones(len(column), bool) if column.known is None else column.known
    mask = np.concatenate([[cell is not None], known])
    return ReportColumn(column.name, column.kind, values, mask)


def _styles(styles: I64) -> list[str]:
    return [STYLES[style] if style >= 0 else "" for style in styles.tolist()]


def _distinct(keys: I64, values: I64, num_keys: int) -> I64:
    """Return the number of distinct values of each key."""
    pairs = np.unique(np.stack([keys, values], 1), axis=0)
    return np.bincount(pairs[:, 0], minlength=num_keys).astype(np.int64)


_PARTS: Final[frozenset[Part]] = frozenset({"kernels", "places", "api", "ranges"})
_WHOLE: Final[frozenset[Part]] = _PARTS | {"memory", "range_numbers"}

RECIPES: Final[Mapping[str, Recipe]] = MappingProxyType(
    {
        "nvtx_kern_sum": Recipe(
            kernel_summary, _PARTS, kernel_names=("base", "mangled"), single_capture=True
        ),
        "nvtx_gpu_proj_trace": Recipe(projection_trace, _WHOLE, single_capture=True),
    }
)
