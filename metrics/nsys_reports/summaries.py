"""Make summary reports: total, count and spread by name, over all devices and processes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct

from ccltui.metrics.nsys_reports.report import Columns, Kind, ReportColumn
from ccltui.metrics.nsys_reports.row_filter import Filter
from ccltui.parsers.array_types import F64, I32, I64, Bool
from ccltui.parsers.nsys.report_tables import KERNEL, STYLES, Calls, ReportTables, Work


class Groups(Struct, frozen=True):
    """One row per group, by falling total. ``std`` is that of a sample (n - 1), 0 for one value."""

    key: I64
    count: I64
    total: I64
    mean: F64
    median: F64
    smallest: I64
    largest: I64
    std: F64

    def __len__(self) -> int:
        return len(self.key)

    def take(self, places: I64) -> Groups:
        """Return the groups at these places."""
        return Groups(*(getattr(self, name)[places] for name in Groups.__struct_fields__))

    def tied_by(self, texts: Sequence[str]) -> Groups:
        """Return the groups with those of equal totals in order of these texts, one per group."""
        ranks = np.unique(np.array([*texts, ""], object)[:-1], return_inverse=True)
        return self.take(np.lexsort((ranks[1], -self.total)))

    def statistics(self, kind: Kind, mean_kind: Kind, prefix: str = "") -> list[ReportColumn]:
        """Return the columns Avg, Med, Min, Max and StdDev."""
        return [
            ReportColumn(f"{prefix}Avg", mean_kind, self.mean),
            ReportColumn(f"{prefix}Med", mean_kind, self.median),
            ReportColumn(f"{prefix}Min", kind, self.smallest),
            ReportColumn(f"{prefix}Max", kind, self.largest),
            ReportColumn(f"{prefix}StdDev", mean_kind, self.std),
        ]

    def time_columns(self, count: str) -> list[ReportColumn]:
        """Return share, total, number (under the header ``count``) and statistics of durations."""
        whole = int(self.total.sum())
        share = self.total * 100 / whole if whole else np.zeros(len(self))
        return [
            ReportColumn("Time", "percent", share),
            ReportColumn("Total Time", "time", self.total),
            ReportColumn(count, "count", self.count),
            *self.statistics("time", "mean_time"),
        ]


def group(keys: I64, values: I64) -> Groups:
    """Group values by equal keys; ties of the total are in order of first appearance."""
    if not len(keys):
        none, nothing = np.empty(0, np.int64), np.empty(0, np.float64)
        return Groups(none, none, none, nothing, nothing, none, none, nothing)
    order = np.lexsort((values, keys))
    keys, first_rows = keys[order], order
    values = values[order]
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    count = np.diff(np.concatenate([starts, [len(keys)]]))
    total = np.add.reduceat(values, starts)
    mean = total / count
    middle = (values[starts + (count - 1) // 2] + values[starts + count // 2]) / 2
    spread = values - np.repeat(mean, count)
    squares = np.add.reduceat(spread * spread, starts)
    std = np.sqrt(squares / np.maximum(count - 1, 1))
    rank = np.lexsort((np.minimum.reduceat(first_rows, starts), -total))
    return Groups(
        keys[starts][rank],
        count[rank],
        total[rank],
        mean[rank],
        middle[rank],
        values[starts][rank],
        values[starts + count - 1][rank],
        std[rank],
    )


NO_KERNELS = "the capture does not contain CUDA kernel data."
NO_MEMORY = "the capture does not contain GPU memory data."
NO_DEVICE_WORK = "the capture does not contain GPU kernel/memory operations data."
NO_TRACE = "the capture does not contain GPU trace data."
NO_API = "the capture does not contain CUDA trace data."
NO_LAUNCHES = "the capture does not contain CUDA API data."
NO_OS = "the capture does not contain OS Runtime trace data."
NO_RANGES = "the capture does not contain NV Tools Extension (NVTX) data."

_VERSION_SUFFIX = re.compile(r"_v\d{4}$")  # cudaLaunchKernel_v7000; five digits stay


def kernel_summary(tables: ReportTables, chosen: Filter) -> Columns:
    """Make ``cuda_gpu_kern_sum``: kernels by name."""
    work, rows = _work_rows(tables, chosen, lambda work: work.kind == KERNEL)
    if work is None or not len(rows):
        return NO_KERNELS
    groups = _by_name(tables, work.name[rows], _durations(work, rows))
    return (*groups.time_columns("Instances"), _texts(tables, groups, "Name"))


def device_summary(tables: ReportTables, chosen: Filter) -> Columns:
    """Make ``cuda_gpu_sum``: kernels, copies and fills by name, with their category."""
    work, rows = _work_rows(tables, chosen, lambda work: work.kind >= KERNEL)
    if work is None or not len(rows):
        return NO_DEVICE_WORK
    is_kernel = (work.kind[rows] == KERNEL).astype(np.int64)
    groups = group(work.name[rows].astype(np.int64) * 2 + is_kernel, _durations(work, rows))
    groups = groups.tied_by([tables.names[key // 2] for key in groups.key.tolist()])
    categories = np.where(groups.key % 2 == 1, "CUDA_KERNEL", "MEMORY_OPER").tolist()
    names = [tables.names[key] for key in (groups.key // 2).tolist()]
    return (
        *groups.time_columns("Instances"),
        ReportColumn("Category", "text", categories),
        ReportColumn("Operation", "text", names),
    )


def memory_time_summary(tables: ReportTables, chosen: Filter) -> Columns:
    """Make ``cuda_gpu_mem_time_sum``: durations of copies and fills by operation."""
    work, rows = _work_rows(tables, chosen, lambda work: work.kind != KERNEL)
    if work is None or not len(rows):
        return NO_MEMORY
    groups = _by_name(tables, work.name[rows], _durations(work, rows))
    return (*groups.time_columns("Count"), _texts(tables, groups, "Operation"))


def memory_size_summary(tables: ReportTables, chosen: Filter) -> Columns:
    """Make ``cuda_gpu_mem_size_sum``: bytes of copies and fills by operation."""
    work, rows = _work_rows(tables, chosen, lambda work: work.kind != KERNEL)
    if work is None or not len(rows):
        return NO_MEMORY
    sizes = work.detail("bytes")[rows]
    known = sizes >= 0
    if not known.any():
        return "the capture does not contain the sizes of memory operations."
    groups = _by_name(tables, work.name[rows[known]], sizes[known])
    return (
        ReportColumn("Total", "size", groups.total),
        ReportColumn("Count", "count", groups.count),
        *groups.statistics("size", "size"),
        _texts(tables, groups, "Operation"),
    )


def api_summary(tables: ReportTables, chosen: Filter) -> Columns:
    """Make ``cuda_api_sum``: calls of the CUDA runtime and driver by name."""
    return _calls_summary(tables, tables.api, chosen, NO_API, without_version)


def os_summary(tables: ReportTables, chosen: Filter) -> Columns:
    """Make ``osrt_sum``: calls into the operating system by name."""
    return _calls_summary(tables, tables.os_calls, chosen, NO_OS, str)


def range_summary(tables: ReportTables, chosen: Filter) -> Columns:
    """Make ``nvtx_sum``: ranges by style and name. Ranges nest, so shares must not be added."""
    ranges = tables.ranges
    if ranges is None:
        return NO_RANGES
    rows = np.flatnonzero(chosen.rows(ranges.start_ns, ranges.end_ns))
    if not len(rows):
        return NO_RANGES
    labels, texts = range_labels(tables)
    groups = group(labels[rows] * 2 + ranges.style[rows], (ranges.end_ns - ranges.start_ns)[rows])
    groups = groups.tied_by([texts[key // 2] for key in groups.key.tolist()])
    styles = [STYLES[key] for key in (groups.key % 2).tolist()]
    return (
        *groups.time_columns("Instances"),
        ReportColumn("Style", "text", styles),
        ReportColumn("Range", "text", [texts[key] for key in (groups.key // 2).tolist()]),
    )


def range_labels(tables: ReportTables) -> tuple[I64, list[str]]:
    """Return the label of each range, and the texts of labels: ``domain:text`` or ``text``.

    The default domain has no prefix.
    """
    ranges = tables.ranges
    if ranges is None:
        return np.empty(0, np.int64), []
    width = len(tables.names) + 1
    codes = ranges.text.astype(np.int64) * width + ranges.domain + 1
    found, inverse = np.unique(codes, return_inverse=True)
    texts = []
    for code in found.tolist():
        text, domain = divmod(code, width)
        prefix = f"{tables.names[domain - 1]}:" if domain else ""
        texts.append(prefix + tables.names[text])
    return _interned(inverse, texts)


def _interned(codes: I64, texts: Sequence[str]) -> tuple[I64, list[str]]:
    """Renumber codes so that they are equal exactly where their texts are."""
    ids: dict[str, int] = {}
    of_code = np.array([ids.setdefault(text, len(ids)) for text in texts], np.int64)
    return of_code[codes], list(ids)


def _calls_summary(
    tables: ReportTables,
    calls: Calls | None,
    chosen: Filter,
    absent: str,
    shown: Callable[[str], str],
) -> Columns:
    if calls is None:
        return absent
    rows = np.flatnonzero(chosen.rows(calls.start_ns, calls.end_ns))
    if not len(rows):
        return absent
    found, inverse = np.unique(calls.name[rows], return_inverse=True)
    keys, texts = _interned(
        inverse.astype(np.int64), [shown(tables.names[one]) for one in found.tolist()]
    )
    groups = group(keys, (calls.end_ns - calls.start_ns)[rows])
    names = [texts[key] for key in groups.key.tolist()]
    return (
        *groups.time_columns("Num Calls"),
        ReportColumn("Name", "text", names),
    )


def without_version(name: str) -> str:
    """Return the name of a function without the version of its signature."""
    return _VERSION_SUFFIX.sub("", name)


def _work_rows(
    tables: ReportTables, chosen: Filter, kinds: Callable[[Work], Bool]
) -> tuple[Work | None, I64]:
    work = tables.work
    if work is None:
        return None, np.empty(0, np.int64)
    rows = np.flatnonzero(chosen.rows(work.start_ns, work.end_ns) & kinds(work))
    return work, rows.astype(np.int64)


def _by_name(tables: ReportTables, names: I32, values: I64) -> Groups:
    """Group values by name; groups of equal totals are in order of their names."""
    groups = group(names.astype(np.int64), values)
    return groups.tied_by([tables.names[key] for key in groups.key.tolist()])


def _durations(work: Work, rows: I64) -> I64:
    return work.end_ns[rows] - work.start_ns[rows]


def _texts(tables: ReportTables, groups: Groups, name: str) -> ReportColumn:
    return ReportColumn(name, "text", [tables.names[key] for key in groups.key.tolist()])
