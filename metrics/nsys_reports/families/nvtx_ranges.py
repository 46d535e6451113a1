"""Reports on NVTX ranges alone: by name, and the stack of push/pop ranges one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from ccltui.metrics.nsys_reports.rows.group_statistics import group, shares
from ccltui.metrics.nsys_reports.rows.range_stacks import Stacks, range_numbers, stacks
from ccltui.metrics.nsys_reports.rows.recipe import Columns, Recipe, absent
from ccltui.metrics.nsys_reports.rows.report import ReportColumn
from ccltui.metrics.nsys_reports.rows.row_filter import Filter
from ccltui.metrics.nsys_reports.rows.summaries import NO_RANGES, range_labels
from ccltui.metrics.nsys_reports.rows.thread_columns import process_ids, thread_ids
from ccltui.parsers.array_types import I64
from ccltui.parsers.nsys.report_tables import PUSH_POP, START_END, Ranges, ReportTables

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
            ReportColumn("Time", "percent", shares(groups.total)),
            ReportColumn("Total Time", "time", groups.total),
            ReportColumn("Instances", "count", groups.count),
            *groups.statistics("time", "mean_time"),
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
            ReportColumn("Time", "percent", shares(groups.total)),
            ReportColumn("Total Time", "time", groups.total),
            ReportColumn("Count", "count", groups.count),
            *groups.statistics("time", "mean_time"),
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


RECIPES: Final[Mapping[str, Recipe]] = MappingProxyType(
    {
        "nvtx_pushpop_sum": Recipe(style_summary(PUSH_POP), frozenset({"ranges"})),
        "nvtx_startend_sum": Recipe(style_summary(START_END), frozenset({"ranges"})),
        "nccl_sum": _of_domain("NCCL"),
        "ucx_sum": _of_domain("UCX"),
        "nvtx_pushpop_trace": Recipe(
            stack_trace, frozenset({"ranges", "range_numbers"}), single_capture=True
        ),
    }
)
