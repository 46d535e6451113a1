"""Reports on kernels by their launch: by grid and block, and the time from call to execution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from ccltui.metrics.nsys_reports.families.cuda_calls import call_names
from ccltui.metrics.nsys_reports.rows.group_statistics import Groups, group, shares
from ccltui.metrics.nsys_reports.rows.launches import Pairs, chosen_work, pair_launches
from ccltui.metrics.nsys_reports.rows.recipe import ANY_KERNEL_NAME, Columns, Recipe
from ccltui.metrics.nsys_reports.rows.report import ReportColumn
from ccltui.metrics.nsys_reports.rows.row_filter import Filter
from ccltui.metrics.nsys_reports.rows.summaries import NO_KERNELS, NO_LAUNCHES
from ccltui.metrics.nsys_reports.rows.thread_columns import process_ids, thread_ids
from ccltui.parsers.array_types import I64
from ccltui.parsers.nsys.report_tables import KERNEL, Calls, Part, ReportTables, Work

_GRID: Final = ("grid_x", "grid_y", "grid_z")
_BLOCK: Final = ("block_x", "block_y", "block_z")


def launch_summary(tables: ReportTables, chosen: Filter) -> Columns:
    """Make ``cuda_gpu_kern_gb_sum``: kernels by grid, block and name."""
    work = tables.work
    rows = np.empty(0, np.int64) if work is None else chosen_work(work, chosen, KERNEL)
    if work is None or not len(rows):
        return NO_KERNELS
    shapes = np.stack([work.detail(name)[rows] for name in (*_GRID, *_BLOCK)], 1)
    rows_by_key = np.concatenate([shapes, work.name[rows, None].astype(np.int64)], 1)
    found, keys = np.unique(rows_by_key, axis=0, return_inverse=True)
    groups = group(keys.ravel().astype(np.int64), (work.end_ns - work.start_ns)[rows])
    groups = groups.tied_by([tables.names[found[key, 6]] for key in groups.key.tolist()])
    chosen_keys = found[groups.key]
    return (
        ReportColumn("Time", "percent", shares(groups.total)),
        ReportColumn("Total Time", "time", groups.total),
        ReportColumn("Instances", "count", groups.count),
        *groups.statistics("time", "mean_time"),
        ReportColumn("GridXYZ", "text", _shapes(chosen_keys[:, :3])),
        ReportColumn("BlockXYZ", "text", _shapes(chosen_keys[:, 3:6])),
        ReportColumn("Name", "text", [tables.names[one] for one in chosen_keys[:, 6].tolist()]),
    )


@dataclass(frozen=True, slots=True)
class Phases:
    """Phases of launches in ns, and the rows they belong to.

    ``queue_ns`` is not positive where a kernel began before its call returned.
    """

    pairs: Pairs
    call_ns: I64
    queue_ns: I64
    kernel_ns: I64
    total_ns: I64


def launch_phases(work: Work, api: Calls, chosen: Filter) -> Phases:
    """Return the phases of all launches of kernels, in order of the calls."""
    pairs = pair_launches(work, chosen_work(work, chosen, KERNEL), api, chosen)
    pairs = pairs.take(np.argsort(api.start_ns[pairs.call], kind="stable"))
    call_start, call_end = api.start_ns[pairs.call], api.end_ns[pairs.call]
    start, end = work.start_ns[pairs.work], work.end_ns[pairs.work]
    return Phases(
        pairs,
        call_end - call_start,
        start - call_end,
        end - start,
        np.maximum(call_end, end) - call_start,
    )


def execution_trace(tables: ReportTables, chosen: Filter) -> Columns:
    """Make ``cuda_kern_exec_trace``: call, queue and kernel of every launch."""
    work, api = tables.work, tables.api
    if work is None or not (work.kind == KERNEL).any():
        return NO_KERNELS
    if api is None:
        return NO_LAUNCHES
    phases = launch_phases(work, api, chosen)
    if not len(phases.pairs):
        return NO_KERNELS
    rows, calls = phases.pairs.work, phases.pairs.call
    queued = phases.queue_ns > 0
    return (
        ReportColumn("API Start", "time", api.start_ns[calls]),
        ReportColumn("API Dur", "time", phases.call_ns),
        ReportColumn("Queue Start", "time", api.end_ns[calls], queued),
        ReportColumn("Queue Dur", "time", phases.queue_ns, queued),
        ReportColumn("Kernel Start", "time", work.start_ns[rows]),
        ReportColumn("Kernel Dur", "time", phases.kernel_ns),
        ReportColumn("Total Dur", "time", phases.total_ns),
        ReportColumn("PID", "count", process_ids(api.thread[calls])),
        ReportColumn("TID", "count", thread_ids(api.thread[calls])),
        ReportColumn("DevId", "count", work.device[rows].astype(np.int64)),
        ReportColumn("API Function", "text", call_names(tables, calls)),
        ReportColumn("GridXYZ", "text", _shapes(_details(work, rows, _GRID))),
        ReportColumn("BlockXYZ", "text", _shapes(_details(work, rows, _BLOCK))),
        ReportColumn("Kernel Name", "text", _names(tables, work, rows)),
    )


def execution_summary(tables: ReportTables, chosen: Filter) -> Columns:
    """Make ``cuda_kern_exec_sum``: phases of launches by thread, device, call and kernel."""
    work, api = tables.work, tables.api
    if work is None or not (work.kind == KERNEL).any():
        return NO_KERNELS
    if api is None:
        return NO_LAUNCHES
    phases = launch_phases(work, api, chosen)
    if not len(phases.pairs):
        return NO_KERNELS
    rows, calls = phases.pairs.work, phases.pairs.call
    ids: dict[tuple[int, int, str, str], int] = {}
    launches = zip(
        api.thread[calls].tolist(),
        work.device[rows].tolist(),
        call_names(tables, calls),
        _names(tables, work, rows),
        strict=True,
    )
    keys = np.array([ids.setdefault(launch, len(ids)) for launch in launches], np.int64)
    total = _by_key(keys, phases.total_ns)
    order = np.argsort(-total.mean, kind="stable")
    shown = [list(ids)[key] for key in order.tolist()]
    queued = np.flatnonzero(phases.queue_ns > 0)
    threads = np.array([launch[0] for launch in shown], np.int64)
    columns = [
        ReportColumn("PID", "count", process_ids(threads)),
        ReportColumn("TID", "count", thread_ids(threads)),
        ReportColumn("DevId", "count", np.array([launch[1] for launch in shown], np.int64)),
        ReportColumn("Count", "count", total.count[order]),
        ReportColumn("QCount", "count", np.bincount(keys[queued], minlength=len(ids))[order]),
    ]
    columns += _spread("T", total, order, len(ids))
    columns += _spread("A", _by_key(keys, phases.call_ns), order, len(ids))
    columns += _spread("Q", _by_key(keys[queued], phases.queue_ns[queued]), order, len(ids))
    columns += _spread("K", _by_key(keys, phases.kernel_ns), order, len(ids))
    return (
        *columns,
        ReportColumn("API Name", "text", [launch[2] for launch in shown]),
        ReportColumn("Kernel Name", "text", [launch[3] for launch in shown]),
    )


def _by_key(keys: I64, values: I64) -> Groups:
    """Group by keys that are numbered from 0, in order of the keys."""
    groups = group(keys, values)
    return groups.take(np.argsort(groups.key))


def _spread(prefix: str, groups: Groups, order: I64, num_keys: int) -> list[ReportColumn]:
    """Return the five statistics per key in this order; blank for keys without a value.

    The deviation of no values is printed as 0, as nsys does.
    """
    known = np.zeros(num_keys, bool)
    known[groups.key] = True
    columns = []
    for column in groups.statistics("time", "mean_time", prefix):
        values = np.zeros(num_keys, np.asarray(column.values).dtype)
        values[groups.key] = column.values
        mask = None if column.name.endswith("StdDev") else known[order]
        columns.append(ReportColumn(column.name, column.kind, values[order], mask))
    return columns


def _details(work: Work, rows: I64, names: tuple[str, ...]) -> I64:
    return np.stack([work.detail(name)[rows] for name in names], 1)


def _shapes(shapes: I64) -> list[str]:
    """Write dimensions as nsys does: each at least four characters wide."""
    return [" ".join(f"{value:4}" for value in shape) for shape in shapes.tolist()]


def _names(tables: ReportTables, work: Work, rows: I64) -> list[str]:
    return [tables.names[one] for one in work.name[rows].tolist()]


_LAUNCHES: Final[frozenset[Part]] = frozenset({"kernels", "places", "details", "api"})

RECIPES: Final[Mapping[str, Recipe]] = MappingProxyType(
    {
        "cuda_gpu_kern_gb_sum": Recipe(
            launch_summary, frozenset({"kernels", "details"}), kernel_names=ANY_KERNEL_NAME
        ),
        "cuda_kern_exec_trace": Recipe(
            execution_trace, _LAUNCHES, kernel_names=ANY_KERNEL_NAME, single_capture=True
        ),
        "cuda_kern_exec_sum": Recipe(
            execution_summary, _LAUNCHES, kernel_names=ANY_KERNEL_NAME, single_capture=True
        ),
    }
)
