"""The reports by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from metrics.nsys_reports import summaries
from metrics.nsys_reports.projection import projection_summary
from metrics.nsys_reports.report import Report
from metrics.nsys_reports.select import EVERYTHING, Filter
from metrics.nsys_reports.summaries import Columns
from metrics.nsys_reports.trace import device_trace
from parsers.nsys.report_tables import ReportTables
from parsers.nsys.text_names import report_title

REPORTS: Final[Mapping[str, Callable[[ReportTables, Filter], Columns]]] = MappingProxyType(
    {
        "cuda_gpu_trace": device_trace,
        "cuda_gpu_sum": summaries.device_summary,
        "cuda_gpu_kern_sum": summaries.kernel_summary,
        "cuda_gpu_mem_time_sum": summaries.memory_time_summary,
        "cuda_gpu_mem_size_sum": summaries.memory_size_summary,
        "cuda_api_sum": summaries.api_summary,
        "nvtx_sum": summaries.range_summary,
        "nvtx_gpu_proj_sum": projection_summary,
        "osrt_sum": summaries.os_summary,
    }
)
"""How each report that can be computed here is made, by its name of today."""


def make_report(name: str, tables: ReportTables, chosen: Filter = EVERYTHING) -> Report:
    """One report of a capture. Raises KeyError for a name that is not in REPORTS."""
    columns = REPORTS[name](tables, chosen)
    if isinstance(columns, str):
        absent = columns if chosen == EVERYTHING else f"{columns[:-1]} in the chosen time."
        return Report(name, report_title(name), absent=absent, notes=tables.notes)
    return Report(name, report_title(name), columns, notes=tables.notes)
