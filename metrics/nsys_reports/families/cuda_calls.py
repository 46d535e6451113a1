"""Reports on calls of the CUDA API: one by one, and together with the device work."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from ccltui.metrics.nsys_reports.rows.group_statistics import group, shares
from ccltui.metrics.nsys_reports.rows.recipe import ANY_KERNEL_NAME, Columns, Recipe, absent
from ccltui.metrics.nsys_reports.rows.report import ReportColumn
from ccltui.metrics.nsys_reports.rows.row_filter import Filter
from ccltui.metrics.nsys_reports.rows.summaries import NO_API, without_version
from ccltui.metrics.nsys_reports.rows.thread_columns import process_ids, thread_ids
from ccltui.parsers.array_types import I64
from ccltui.parsers.nsys.report_tables import KERNEL, RawColumns, ReportTables

THREADS: Final = RawColumns("ThreadNames", ("globalTid", "priority"), ("nameId",))
_NOTHING: Final = absent("CUDA API, GPU kernel, nor memory operations data")
_CATEGORIES: Final = ("CUDA_API", "CUDA_KERNEL", "MEMORY_OPER")


def call_trace(tables: ReportTables, chosen: Filter) -> Columns:
    """Make ``cuda_api_trace``: every call, in order of start, with its thread."""
    api = tables.api
    if api is None:
        return NO_API
    rows = np.flatnonzero(chosen.rows(api.start_ns, api.end_ns))
    if not len(rows):
        return NO_API
    rows = rows[np.argsort(api.start_ns[rows], kind="stable")]
    threads = api.thread[rows]
    result = np.full(len(rows), -1, np.int64) if api.result is None else api.result[rows]
    return (
        ReportColumn("Start", "time", api.start_ns[rows]),
        ReportColumn("Duration", "time", (api.end_ns - api.start_ns)[rows]),
        ReportColumn("Name", "text", call_names(tables, rows)),
        ReportColumn("Result", "count", result, None if api.result is not None else result >= 0),
        ReportColumn("CorrID", "count", api.correlation[rows]),
        ReportColumn("Pid", "count", process_ids(threads)),
        ReportColumn("Tid", "count", thread_ids(threads)),
        *thread_columns(tables, threads),
    )


def thread_columns(tables: ReportTables, threads: I64) -> tuple[ReportColumn, ReportColumn]:
    """Return priority and name of each thread, blank where the capture has none."""
    names: dict[int, tuple[int | None, str | None]] = {}
    table = tables.raw.get(THREADS)
    if table is not None:
        columns = (table.columns[name] for name in ("globalTid", "priority", "nameId"))
        for number, priority, name in zip(*columns, strict=True):
            names.setdefault(number, (priority, name))
    found, inverse = np.unique(threads, return_inverse=True)
    pairs = [names.get(one, (None, None)) for one in found.tolist()]
    priority = np.array([pair[0] or 0 for pair in pairs] or [0], np.int64)
    known = np.array([pair[0] is not None for pair in pairs] or [False])
    texts = [pair[1] or "" for pair in pairs]
    return (
        ReportColumn("T-Pri", "count", priority[inverse], known[inverse]),
        ReportColumn("Thread Name", "text", [texts[one] for one in inverse.tolist()]),
    )


def call_names(tables: ReportTables, rows: I64) -> list[str]:
    """Return the names of calls without the version of their signature."""
    if tables.api is None:
        return []
    found, inverse = np.unique(tables.api.name[rows], return_inverse=True)
    texts = [without_version(tables.names[one]) for one in found.tolist()]
    return [texts[one] for one in inverse.tolist()]


def all_summary(tables: ReportTables, chosen: Filter) -> Columns:
    """Make ``cuda_api_gpu_sum``: calls, kernels and memory operations by name."""
    ids: dict[tuple[int, str], int] = {}
    keys, values = [], []
    work, api = tables.work, tables.api
    if api is not None:
        rows = np.flatnonzero(chosen.rows(api.start_ns, api.end_ns)).astype(np.int64)
        keys += [ids.setdefault((0, name), len(ids)) for name in call_names(tables, rows)]
        values.append((api.end_ns - api.start_ns)[rows])
    if work is not None:
        rows = np.flatnonzero(chosen.rows(work.start_ns, work.end_ns)).astype(np.int64)
        kinds = np.where(work.kind[rows] == KERNEL, 1, 2).tolist()
        names = [tables.names[one] for one in work.name[rows].tolist()]
        pairs = zip(kinds, names, strict=True)
        keys += [ids.setdefault(pair, len(ids)) for pair in pairs]
        values.append((work.end_ns - work.start_ns)[rows])
    if not keys:
        return _NOTHING
    groups = group(np.array(keys, np.int64), np.concatenate(values))
    labels = list(ids)
    groups = groups.tied_by([labels[key][1] for key in groups.key.tolist()])
    shown = [labels[key] for key in groups.key.tolist()]
    return (
        ReportColumn("Time", "percent", shares(groups.total)),
        ReportColumn("Total Time", "time", groups.total),
        ReportColumn("Instances", "count", groups.count),
        *groups.statistics("time", "mean_time"),
        ReportColumn("Category", "text", [_CATEGORIES[kind] for kind, _ in shown]),
        ReportColumn("Operation", "text", [name for _, name in shown]),
    )


RECIPES: Final[Mapping[str, Recipe]] = MappingProxyType(
    {
        "cuda_api_trace": Recipe(
            call_trace, frozenset({"api", "results"}), raw=(THREADS,), single_capture=True
        ),
        "cuda_api_gpu_sum": Recipe(
            all_summary, frozenset({"api", "kernels", "memory"}), kernel_names=ANY_KERNEL_NAME
        ),
    }
)
