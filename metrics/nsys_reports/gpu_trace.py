"""Make the report ``cuda_gpu_trace``: every kernel, copy and fill in order of start."""

from __future__ import annotations

import numpy as np

from ccltui.metrics.nsys_reports.rows.recipe import Columns
from ccltui.metrics.nsys_reports.rows.report import Kind, ReportColumn
from ccltui.metrics.nsys_reports.rows.row_filter import Filter
from ccltui.metrics.nsys_reports.rows.summaries import NO_TRACE
from ccltui.parsers.array_types import I64
from ccltui.parsers.nsys.report_tables import MEMORY_KINDS, ReportTables, Work

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
