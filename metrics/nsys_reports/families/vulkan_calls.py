"""Report on calls of Vulkan one by one."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ccltui.metrics.nsys_reports.families.cuda_calls import THREADS, thread_columns
from ccltui.metrics.nsys_reports.rows.raw_rows import events, numbers, optional
from ccltui.metrics.nsys_reports.rows.recipe import Columns, Recipe, absent
from ccltui.metrics.nsys_reports.rows.report import ReportColumn
from ccltui.metrics.nsys_reports.rows.row_filter import Filter
from ccltui.metrics.nsys_reports.rows.thread_columns import process_ids, thread_ids
from ccltui.parsers.nsys.report_tables import RawColumns, ReportTables

VULKAN_CALLS: Final = RawColumns(
    "VULKAN_API",
    ("start", "end", "globalTid", "eventClass", "contextId", "correlationId"),
    ("nameId",),
)

_NO_VULKAN: Final = absent("Vulkan API trace data")


def vulkan_trace(tables: ReportTables, chosen: Filter) -> Columns:
    """Make ``vulkan_api_trace``: every call of Vulkan, in order of start, with its thread."""
    rows = sorted(events(tables, VULKAN_CALLS, chosen), key=lambda row: row["start"])
    if not rows:
        return _NO_VULKAN
    threads, start = numbers(rows, "globalTid"), numbers(rows, "start")
    return (
        ReportColumn("Start", "time", start),
        ReportColumn("Duration", "time", numbers(rows, "end") - start),
        ReportColumn("Name", "text", [row["nameId"] or "" for row in rows]),
        optional("Event Class", "count", [row["eventClass"] for row in rows]),
        optional("Context", "count", [row["contextId"] for row in rows]),
        optional("CorrID", "count", [row["correlationId"] for row in rows]),
        ReportColumn("Pid", "count", process_ids(threads)),
        ReportColumn("Tid", "count", thread_ids(threads)),
        *thread_columns(tables, threads),
    )


RECIPES: Final[Mapping[str, Recipe]] = MappingProxyType(
    {
        "vulkan_api_trace": Recipe(vulkan_trace, raw=(VULKAN_CALLS, THREADS), single_capture=True),
    }
)
