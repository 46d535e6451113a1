"""Make reports by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np

from ccltui.metrics.nsys_reports import event_summaries, nvtx_ranges, table_reports
from ccltui.metrics.nsys_reports.event_summaries import NO_TRACE
from ccltui.metrics.nsys_reports.nvtx_ranges import prefixed_by_ranges, projection_summary
from ccltui.metrics.nsys_reports.pooled import Chosen, pool
from ccltui.metrics.nsys_reports.report import (
    ANY_KERNEL_NAME,
    Columns,
    Kind,
    Make,
    Recipe,
    Report,
    ReportColumn,
)
from ccltui.metrics.nsys_reports.row_filter import EVERYTHING, Filter, of_thread, without_domains
from ccltui.parsers.array_types import I64
from ccltui.parsers.nsys.report_tables import MEMORY_KINDS, Part, ReportTables, Work
from ccltui.parsers.nsys.typed_table import report_title

_LAUNCH = (
    *(("GrdX", "grid_x"), ("GrdY", "grid_y"), ("GrdZ", "grid_z")),
    *(("BlkX", "block_x"), ("BlkY", "block_y"), ("BlkZ", "block_z")),
    ("Reg/Trd", "registers"),
)


def device_trace(tables: ReportTables, chosen: Filter) -> Columns:
    """Return all device work; sizes in bytes, cells that the source lacks are masked."""
    work = tables.work
    if work is None:
        return NO_TRACE
    rows = np.flatnonzero(chosen.rows(work.start_ns, work.end_ns)).astype(np.int64)
    if not len(rows):
        return NO_TRACE
    names = [tables.names[name] for name in work.name[rows].tolist()]
    return (
        ReportColumn("Start", "time", work.start_ns[rows]),
        ReportColumn("Duration", "time", (work.end_ns - work.start_ns)[rows]),
        _known("CorrId", "count", work.correlation[rows]),
        *(_known(name, "count", work.detail(detail)[rows]) for name, detail in _LAUNCH),
        _known("StcSMem", "size", work.detail("static_memory")[rows]),
        _known("DymSMem", "size", work.detail("dynamic_memory")[rows]),
        _known("Bytes", "size", work.detail("bytes")[rows]),
        _throughput(work, rows),
        _memory_kind("SrcMemKd", work.detail("source_kind")[rows]),
        _memory_kind("DstMemKd", work.detail("target_kind")[rows]),
        ReportColumn("Device", "text", _devices(tables, work, rows)),
        _known("Ctx", "count", work.detail("context")[rows]),
        _green(work.detail("green_context")[rows]),
        _known("Strm", "count", work.detail("stream")[rows]),
        ReportColumn("Name", "text", names),
    )


def _known(name: str, kind: Kind, values: I64) -> ReportColumn:
    return ReportColumn(name, kind, values, values >= 0)


def _green(values: I64) -> ReportColumn:
    return ReportColumn("GreenCtx", "count", values, values > 0)  # 0 also means none


def _throughput(work: Work, rows: I64) -> ReportColumn:
    """Return bytes * floor(1 s / duration), as nsys computes the throughput; bytes/s."""
    sizes = work.detail("bytes")[rows]
    duration = (work.end_ns - work.start_ns)[rows]
    known = (sizes >= 0) & (duration > 0)
    per_second = 1_000_000_000 // np.maximum(duration, 1)
    return ReportColumn("Throughput", "rate", sizes * per_second.astype(np.float64), known)


def _memory_kind(name: str, kinds: I64) -> ReportColumn:
    texts = [MEMORY_KINDS[kind] if 0 <= kind < len(MEMORY_KINDS) else "" for kind in kinds.tolist()]
    return ReportColumn(name, "text", texts)


def _devices(tables: ReportTables, work: Work, rows: I64) -> list[str]:
    found, inverse = np.unique(work.device[rows], return_inverse=True)
    texts = []
    for device in found.tolist():
        name = tables.devices.get(device)
        unnamed = "" if device < 0 else f"GPU {device}"
        texts.append(f"{name} ({device})" if name else unnamed)
    return [texts[index] for index in inverse.tolist()]


def _recipe(make: Make, *parts: Part, names_kernels: bool = False) -> Recipe:
    return Recipe(make, frozenset(parts), kernel_names=ANY_KERNEL_NAME if names_kernels else ())


_CUDA: Final = {
    "cuda_gpu_trace": Recipe(
        device_trace,
        frozenset({"kernels", "memory", "places", "details"}),
        kernel_names=ANY_KERNEL_NAME,
        single_capture=True,
    ),
    "cuda_gpu_sum": _recipe(
        event_summaries.device_summary, "kernels", "memory", names_kernels=True
    ),
    "cuda_gpu_kern_sum": _recipe(event_summaries.kernel_summary, "kernels", names_kernels=True),
    "cuda_gpu_mem_time_sum": _recipe(event_summaries.memory_time_summary, "memory"),
    "cuda_gpu_mem_size_sum": _recipe(event_summaries.memory_size_summary, "memory", "details"),
    "cuda_api_sum": _recipe(event_summaries.api_summary, "api"),
    "nvtx_sum": _recipe(event_summaries.range_summary, "ranges"),
    "nvtx_gpu_proj_sum": _recipe(
        projection_summary, "kernels", "memory", "places", "api", "ranges"
    ),
    "osrt_sum": _recipe(event_summaries.os_summary, "os_calls"),
}

REPORTS: Final[Mapping[str, Recipe]] = MappingProxyType(
    _CUDA | dict(table_reports.RECIPES) | dict(nvtx_ranges.RECIPES) | dict(event_summaries.RECIPES)
)
"""The reports that can be computed, by their current names."""

PREFIX_PARTS: Final[frozenset[Part]] = frozenset({"places", "api", "ranges"})
"""What naming kernels by their ranges needs besides the kernels."""


def make_report(
    name: str,
    tables: ReportTables,
    chosen: Filter = EVERYTHING,
    *,
    by_range: bool = False,
    number: int | None = None,
) -> Report:
    """Make one report of a capture.

    Args:
        name: Current name of the report.
        tables: The capture.
        chosen: The rows to take.
        by_range: Whether kernels are named by the range that launched them.
        number: Value of the numeric argument of the report, None for its default.

    Raises:
        KeyError: The name is not in REPORTS.
    """
    make = _maker(REPORTS[name], number)
    named = prefixed_by_ranges(tables) if by_range else tables
    if isinstance(named, str):
        plain = make(tables, chosen)
        columns: Columns = plain if isinstance(plain, str) else named
    else:
        columns = make(_filtered(name, named, chosen), chosen)
    return _report(name, columns, tables, is_filtered=chosen != EVERYTHING)


def _filtered(name: str, tables: ReportTables, chosen: Filter) -> ReportTables:
    """Return the tables with what a filter takes besides rows by their times."""
    if chosen.thread is not None:
        tables = of_thread(tables, chosen.thread)
    if chosen == EVERYTHING or REPORTS[name].keeps_domains:
        return tables
    return without_domains(tables, chosen)


def make_pooled_report(
    name: str, captures: Sequence[Chosen], *, by_range: bool = False, number: int | None = None
) -> Report:
    """Make one report of several captures together; arguments as in `make_report`.

    Raises:
        KeyError: The name is not in REPORTS.
    """
    recipe = REPORTS[name]
    if recipe.single_capture:
        absent = "its times are those of one capture: --each prints one a capture."
        return Report(name, report_title(name), absent=absent)
    if by_range:
        prefixed = ((one.filter, prefixed_by_ranges(one.tables)) for one in captures)
        captures = [
            Chosen(named, one) for one, named in prefixed if isinstance(named, ReportTables)
        ]
    tables = pool(captures)
    is_filtered = any(capture.filter != EVERYTHING for capture in captures)
    columns = _maker(recipe, number)(tables, EVERYTHING)
    return _report(name, columns, tables, is_filtered=is_filtered)


def _maker(recipe: Recipe, number: int | None) -> Make:
    if number is None or recipe.number is None:
        return recipe.make
    return recipe.number.make(number)


def _report(name: str, columns: Columns, tables: ReportTables, *, is_filtered: bool) -> Report:
    if isinstance(columns, str):
        absent = columns if not is_filtered else f"{columns[:-1]} in the chosen time."
        return Report(name, report_title(name), absent=absent, notes=tables.notes)
    return Report(name, report_title(name), columns, notes=tables.notes)
