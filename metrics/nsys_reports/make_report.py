"""Make reports by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ccltui.metrics.nsys_reports import summaries
from ccltui.metrics.nsys_reports.gpu_trace import device_trace
from ccltui.metrics.nsys_reports.pooled import Chosen, pool
from ccltui.metrics.nsys_reports.projection import projection_summary
from ccltui.metrics.nsys_reports.report import Report
from ccltui.metrics.nsys_reports.row_filter import EVERYTHING, Filter
from ccltui.metrics.nsys_reports.summaries import Columns
from ccltui.parsers.nsys.report_tables import Part, ReportTables
from ccltui.parsers.nsys.text_reports.report_names import report_title


@dataclass(frozen=True, slots=True)
class Recipe:
    """Function that makes a report, and the parts of a capture that it needs.

    ``single_capture``: not defined for pooled captures. ``calls_are_launches``: see `pool`.
    """

    make: Callable[[ReportTables, Filter], Columns]
    parts: frozenset[Part]
    single_capture: bool = False
    calls_are_launches: bool = False


def _recipe(make: Callable[[ReportTables, Filter], Columns], *parts: Part) -> Recipe:
    return Recipe(make, frozenset(parts))


REPORTS: Final[Mapping[str, Recipe]] = MappingProxyType(
    {
        "cuda_gpu_trace": Recipe(
            device_trace, frozenset({"kernels", "memory", "places", "details"}), single_capture=True
        ),
        "cuda_gpu_sum": _recipe(summaries.device_summary, "kernels", "memory"),
        "cuda_gpu_kern_sum": _recipe(summaries.kernel_summary, "kernels"),
        "cuda_gpu_mem_time_sum": _recipe(summaries.memory_time_summary, "memory"),
        "cuda_gpu_mem_size_sum": _recipe(summaries.memory_size_summary, "memory", "details"),
        "cuda_api_sum": _recipe(summaries.api_summary, "api"),
        "nvtx_sum": _recipe(summaries.range_summary, "ranges"),
        "nvtx_gpu_proj_sum": Recipe(
            projection_summary,
            frozenset({"kernels", "memory", "places", "api", "ranges"}),
            calls_are_launches=True,
        ),
        "osrt_sum": _recipe(summaries.os_summary, "os_calls"),
    }
)
"""The reports that can be computed, by their current names."""


def make_report(name: str, tables: ReportTables, chosen: Filter = EVERYTHING) -> Report:
    """Make one report of a capture.

    Raises:
        KeyError: The name is not in REPORTS.
    """
    columns = REPORTS[name].make(tables, chosen)
    return _report(name, columns, tables, is_filtered=chosen != EVERYTHING)


def make_pooled_report(name: str, captures: Sequence[Chosen]) -> Report:
    """Make one report of several captures together.

    Raises:
        KeyError: The name is not in REPORTS.
    """
    if REPORTS[name].single_capture:
        absent = "its times are those of one capture: --each prints one a capture."
        return Report(name, report_title(name), absent=absent)
    tables = pool(captures, calls_are_launches=REPORTS[name].calls_are_launches)
    is_filtered = any(capture.filter != EVERYTHING for capture in captures)
    return _report(name, REPORTS[name].make(tables, EVERYTHING), tables, is_filtered=is_filtered)


def _report(name: str, columns: Columns, tables: ReportTables, *, is_filtered: bool) -> Report:
    if isinstance(columns, str):
        absent = columns if not is_filtered else f"{columns[:-1]} in the chosen time."
        return Report(name, report_title(name), absent=absent, notes=tables.notes)
    return Report(name, report_title(name), columns, notes=tables.notes)
