"""Make reports by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from ccltui.metrics.nsys_reports.families import (
    cuda_calls,
    cuda_launches,
    event_summaries,
    mpi_events,
    network_devices,
    nvtx_kernels,
    nvtx_ranges,
    unified_memory,
    vulkan_calls,
)
from ccltui.metrics.nsys_reports.gpu_trace import device_trace
from ccltui.metrics.nsys_reports.pooled import Chosen, pool
from ccltui.metrics.nsys_reports.rows import summaries
from ccltui.metrics.nsys_reports.rows.projection import projection_summary
from ccltui.metrics.nsys_reports.rows.range_prefixes import prefixed_by_ranges
from ccltui.metrics.nsys_reports.rows.recipe import ANY_KERNEL_NAME, Columns, Make, Recipe
from ccltui.metrics.nsys_reports.rows.report import Report
from ccltui.metrics.nsys_reports.rows.row_filter import EVERYTHING, Filter
from ccltui.metrics.nsys_reports.thread_filter import of_thread, without_domains
from ccltui.parsers.nsys.report_tables import Part, ReportTables
from ccltui.parsers.nsys.text_reports.report_names import report_title


def _recipe(make: Make, *parts: Part, names_kernels: bool = False) -> Recipe:
    return Recipe(make, frozenset(parts), kernel_names=ANY_KERNEL_NAME if names_kernels else ())


_CUDA: Final = {
    "cuda_gpu_trace": Recipe(
        device_trace,
        frozenset({"kernels", "memory", "places", "details"}),
        kernel_names=ANY_KERNEL_NAME,
        single_capture=True,
    ),
    "cuda_gpu_sum": _recipe(summaries.device_summary, "kernels", "memory", names_kernels=True),
    "cuda_gpu_kern_sum": _recipe(summaries.kernel_summary, "kernels", names_kernels=True),
    "cuda_gpu_mem_time_sum": _recipe(summaries.memory_time_summary, "memory"),
    "cuda_gpu_mem_size_sum": _recipe(summaries.memory_size_summary, "memory", "details"),
    "cuda_api_sum": _recipe(summaries.api_summary, "api"),
    "nvtx_sum": _recipe(summaries.range_summary, "ranges"),
    "nvtx_gpu_proj_sum": _recipe(
        projection_summary, "kernels", "memory", "places", "api", "ranges"
    ),
    "osrt_sum": _recipe(summaries.os_summary, "os_calls"),
}

REPORTS: Final[Mapping[str, Recipe]] = MappingProxyType(
    _CUDA
    | dict(cuda_calls.RECIPES)
    | dict(cuda_launches.RECIPES)
    | dict(nvtx_ranges.RECIPES)
    | dict(nvtx_kernels.RECIPES)
    | dict(event_summaries.RECIPES)
    | dict(mpi_events.RECIPES)
    | dict(network_devices.RECIPES)
    | dict(unified_memory.RECIPES)
    | dict(vulkan_calls.RECIPES)
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
