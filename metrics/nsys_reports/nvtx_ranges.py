"""Reports on NVTX ranges, and on the device work that they launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.nsys_reports.range_work import (
    Stacks,
    chosen_work,
    closed_on_thread,
    enclosed,
    pair_launches,
    project,
    projection_sources,
    range_numbers,
    stacks,
)
from ccltui.metrics.nsys_reports.report import Columns, Recipe, ReportColumn, absent
from ccltui.metrics.nsys_reports.row_filter import Filter, process_ids, thread_ids
from ccltui.metrics.nsys_reports.summaries import (
    NO_DEVICE_WORK,
    NO_KERNELS,
    NO_LAUNCHES,
    NO_RANGES,
    group,
    range_labels,
)
from ccltui.parsers.array_types import I64
from ccltui.parsers.nsys.report_tables import (
    KERNEL,
    PUSH_POP,
    START_END,
    STYLES,
    Part,
    Ranges,
    ReportTables,
)

_NONE_OF_STYLE: Final = {
    PUSH_POP: absent("NVTX push/pop ranges"),
    START_END: absent("NVTX start/end ranges"),
}


def style_summary(style: int) -> Callable[[ReportTables, Filter], Columns]:
    """Return the function that makes ``nvtx_pushpop_sum`` or ``nvtx_startend_sum``."""

    def make(tables: ReportTables, chosen: Filter) -> Columns:
        ranges = tables.ranges
        rows = _rows(ranges, chosen, style)
        if ranges is None or not len(rows):
            return NO_RANGES if ranges is None else _NONE_OF_STYLE[style]
        labels, texts = range_labels(tables)
        groups = group(labels[rows], (ranges.end_ns - ranges.start_ns)[rows])
        groups = groups.tied_by([texts[key] for key in groups.key.tolist()])
        return (
            *groups.time_columns("Instances"),
            ReportColumn("Range", "text", [texts[key] for key in groups.key.tolist()]),
        )

    return make


def domain_summary(domain: str) -> Callable[[ReportTables, Filter], Columns]:
    """Return the function that summarises the calls of a library by the ranges of its domain."""

    def make(tables: ReportTables, chosen: Filter) -> Columns:
        ranges = tables.ranges
        if ranges is None:
            return NO_RANGES
        ids = {name: index for index, name in enumerate(tables.names)}
        of_domain = ranges.domain == ids.get(domain, -2)
        rows = np.flatnonzero(chosen.rows(ranges.start_ns, ranges.end_ns) & of_domain)
        if not len(rows):
            return absent(f"ranges of the NVTX domain {domain}")
        groups = group(ranges.text[rows].astype(np.int64), (ranges.end_ns - ranges.start_ns)[rows])
        return (
            *groups.time_columns("Count"),
            ReportColumn("Text", "text", [tables.names[key] for key in groups.key.tolist()]),
        )

    return make


def stack_trace(tables: ReportTables, chosen: Filter) -> Columns:
    """Make ``nvtx_pushpop_trace``: every push/pop range with its place in the stack."""
    ranges = tables.ranges
    rows = _rows(ranges, chosen, PUSH_POP)
    if ranges is None or not len(rows):
        return NO_RANGES if ranges is None else _NONE_OF_STYLE[PUSH_POP]
    stack = stacks(ranges, rows)
    labels, texts = range_labels(tables)
    duration = (ranges.end_ns - ranges.start_ns)[rows]
    has_parent = np.flatnonzero(stack.parent >= 0)
    children = np.zeros(len(rows), np.int64)
    np.add.at(children, stack.parent[has_parent], duration[has_parent])
    order = np.lexsort((np.arange(len(rows)), ranges.start_ns[rows]))
    names = [texts[label] for label in labels[rows[order]].tolist()]
    levels = stack.level[order]
    threads = ranges.thread[rows[order]]
    tree = [f"{'--' * level}{name}" for level, name in zip(levels.tolist(), names, strict=True)]
    return (
        ReportColumn("Start", "time", ranges.start_ns[rows[order]]),
        ReportColumn("End", "time", ranges.end_ns[rows[order]]),
        ReportColumn("Duration", "time", duration[order]),
        ReportColumn("DurChild", "time", children[order]),
        ReportColumn("DurNonChild", "time", (duration - children)[order]),
        ReportColumn("Name", "text", names),
        ReportColumn("PID", "count", process_ids(threads)),
        ReportColumn("TID", "count", thread_ids(threads)),
        ReportColumn("Lvl", "count", levels),
        ReportColumn("NumChild", "count", stack.num_children[order]),
        *stack_columns(stack, range_numbers(ranges, rows), order),
        ReportColumn("NameTree", "text", tree),
    )


def stack_columns(stack: Stacks, numbers: I64, order: I64) -> tuple[ReportColumn, ...]:
    """Return the columns RangeId, ParentId and RangeStack."""
    parents = stack.parent[order]
    return (
        ReportColumn("RangeId", "count", numbers[order]),
        ReportColumn("ParentId", "count", numbers[parents], parents >= 0),
        ReportColumn("RangeStack", "text", stack.paths(numbers, order)),
    )


def _rows(ranges: Ranges | None, chosen: Filter, style: int) -> I64:
    if ranges is None:
        return np.empty(0, np.int64)
    rows = chosen.rows(ranges.start_ns, ranges.end_ns) & (ranges.style == style)
    return np.flatnonzero(rows).astype(np.int64)


def _of_domain(domain: str) -> Recipe:
    return Recipe(domain_summary(domain), frozenset({"ranges"}), keeps_domains=True)


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
    sources = projection_sources(tables)
    if isinstance(sources, str):
        return sources
    ranges, work, api = sources
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
        "NumGPUOps": len(distinct_values(work.correlation[free])),
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
        "nvtx_pushpop_sum": Recipe(style_summary(PUSH_POP), frozenset({"ranges"})),
        "nvtx_startend_sum": Recipe(style_summary(START_END), frozenset({"ranges"})),
        "nccl_sum": _of_domain("NCCL"),
        "ucx_sum": _of_domain("UCX"),
        "nvtx_pushpop_trace": Recipe(
            stack_trace, frozenset({"ranges", "range_numbers"}), single_capture=True
        ),
        "nvtx_kern_sum": Recipe(
            kernel_summary, _PARTS, kernel_names=("base", "mangled"), single_capture=True
        ),
        "nvtx_gpu_proj_trace": Recipe(projection_trace, _WHOLE, single_capture=True),
    }
)
