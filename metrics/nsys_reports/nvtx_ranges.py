"""Reports on NVTX ranges, and on the device work that each launches.

A range is projected onto the work whose launch lies inside it on the same thread: from the
first start to the last end of that work, gaps included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.nsys_reports.event_summaries import (
    NO_DEVICE_WORK,
    NO_KERNELS,
    NO_LAUNCHES,
    NO_RANGES,
    group,
    range_labels,
)
from ccltui.metrics.nsys_reports.report import Columns, Recipe, ReportColumn, absent
from ccltui.metrics.nsys_reports.row_filter import EVERYTHING, Filter, process_ids, thread_ids
from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import MISSING
from ccltui.parsers.nsys.report_tables import (
    KERNEL,
    PUSH_POP,
    START_END,
    STYLES,
    Calls,
    Names,
    Part,
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
