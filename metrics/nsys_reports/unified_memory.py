"""Reports on unified memory: page faults of CPU and GPU, and migrations of pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.nsys_reports.report import (
    Columns,
    Make,
    NumberArgument,
    Recipe,
    ReportColumn,
    absent,
    is_chosen,
    optional,
)
from ccltui.metrics.nsys_reports.row_filter import EVERYTHING, Filter
from ccltui.parsers.nsys.report_tables import RawColumns, ReportTables

CPU_FAULTS: Final = RawColumns("CUDA_UM_CPU_PAGE_FAULT_EVENTS", ("address",), ("CpuInstruction",))
GPU_FAULTS: Final = RawColumns(
    "CUDA_UM_GPU_PAGE_FAULT_EVENTS", ("start", "end", "address", "numberOfPageFaults")
)
MIGRATIONS: Final = RawColumns(
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    ("start", "end", "virtualAddress", "bytes", "copyKind"),
    only="copyKind IN (11, 12)",
)
_HOST_TO_DEVICE: Final = 11  # unified Host-to-Device; 12 is Device-to-Host
_DEFAULT_ROWS: Final = 10

_NO_CPU_FAULTS: Final = absent("CUDA Unified Memory CPU page faults data")
_NEEDED: Final = (
    (MIGRATIONS, absent("CUDA memory transfers data")),
    (CPU_FAULTS, _NO_CPU_FAULTS),
    (GPU_FAULTS, absent("CUDA Unified Memory GPU page faults data")),
)


class _Page(Struct):
    """What happened to the page at an address; None without any."""

    to_device: int | None = None
    to_host: int | None = None
    cpu_faults: int | None = None
    gpu_faults: int | None = None
    moving_ns: int = 0

    @property
    def throughput(self) -> float | None:
        """Return bytes/s, with the whole number of such migrations in a second, as nsys does."""
        if (self.to_device is None and self.to_host is None) or self.moving_ns <= 0:
            return None
        return ((self.to_device or 0) + (self.to_host or 0)) * (1_000_000_000 // self.moving_ns)


def instruction_summary(tables: ReportTables, _chosen: Filter) -> Columns:
    """Make ``um_cpu_page_faults_sum``: page faults of the CPU by instruction.

    Faults of the CPU have no duration, so that a filter by time does not apply to them.
    """
    table = tables.raw.get(CPU_FAULTS)
    if table is None or not len(table):
        return _NO_CPU_FAULTS
    counts = Counter(text or "" for text in table.columns["CpuInstruction"]).most_common()
    return (
        ReportColumn("CPU Page Faults", "count", np.array([n for _, n in counts], np.int64)),
        ReportColumn("CPU Instruction Address", "text", [text for text, _ in counts]),
    )


def page_summary(limit: int) -> Make:
    """Return the function that makes ``um_sum``: the ``limit`` pages that moved fastest."""

    def make(tables: ReportTables, chosen: Filter) -> Columns:
        missing = _missing(tables)
        if missing is not None:
            return missing
        pages = _pages(tables, chosen)
        shown = sorted(pages, key=lambda one: (-(pages[one].throughput or 0), one))[:limit]
        rows = [pages[address] for address in shown]
        return (
            ReportColumn("Virtual Address", "text", [_address(one) for one in shown]),
            optional("HtoD Migration size", "size", [row.to_device for row in rows]),
            optional("DtoH Migration size", "size", [row.to_host for row in rows]),
            optional("CPU Page Faults", "count", [row.cpu_faults for row in rows]),
            optional(" GPU Page Faults", "count", [row.gpu_faults for row in rows]),
            optional("Migration Throughput", "rate", [row.throughput for row in rows]),
        )

    return make


def total_summary(tables: ReportTables, chosen: Filter) -> Columns:
    """Make ``um_total_sum``: migrations and page faults of all pages.

    As in nsys, the range of addresses is blank unless there are faults of both kinds and
    migrations in both directions.
    """
    missing = _missing(tables)
    if missing is not None:
        return missing
    pages = _pages(tables, chosen)
    fields = ("to_device", "to_host", "cpu_faults", "gpu_faults")
    totals: list[int | None] = []
    for name in fields:
        known = [value for page in pages.values() if (value := getattr(page, name)) is not None]
        totals.append(sum(known) if known else None)
    whole = None not in totals
    return (
        optional("Total HtoD Migration Size", "size", totals[:1]),
        optional("Total DtoH Migration Size", "size", totals[1:2]),
        optional("Total CPU Page Faults", "count", totals[2:3]),
        optional("Total GPU PageFaults", "count", totals[3:]),
        ReportColumn("Minimum Virtual Address", "text", [_address(min(pages)) if whole else ""]),
        ReportColumn("Maximum Virtual Address", "text", [_address(max(pages)) if whole else ""]),
    )


def _missing(tables: ReportTables) -> str | None:
    return next((reason for need, reason in _NEEDED if need not in tables.raw), None)


def _pages(tables: ReportTables, chosen: Filter) -> dict[int, _Page]:
    pages: dict[int, _Page] = {}
    for (address,) in _rows(tables, CPU_FAULTS, ("address",), EVERYTHING):
        page = pages.setdefault(address, _Page())
        page.cpu_faults = (page.cpu_faults or 0) + 1
    for address, count in _rows(tables, GPU_FAULTS, ("address", "numberOfPageFaults"), chosen):
        page = pages.setdefault(address, _Page())
        page.gpu_faults = (page.gpu_faults or 0) + (count or 0)
    wanted = ("virtualAddress", "bytes", "copyKind", "start", "end")
    for address, size, kind, start, end in _rows(tables, MIGRATIONS, wanted, chosen):
        page = pages.setdefault(address, _Page())
        page.moving_ns += end - start
        if kind == _HOST_TO_DEVICE:
            page.to_device = (page.to_device or 0) + (size or 0)
        else:
            page.to_host = (page.to_host or 0) + (size or 0)
    return pages


def _rows(
    tables: ReportTables, source: RawColumns, wanted: tuple[str, ...], chosen: Filter
) -> Iterator[tuple[Any, ...]]:
    """Yield the wanted columns of the chosen rows that have an address."""
    table = tables.raw[source]
    timed = "start" in source.values
    times = [table.columns[name] if timed else (0,) * len(table) for name in ("start", "end")]
    columns = (table.columns[name] for name in wanted)
    for start, end, *cells in zip(*times, *columns, strict=True):
        if isinstance(cells[0], int) and (not timed or is_chosen(chosen, start, end)):
            yield tuple(cells)


def _address(address: int) -> str:
    return f"0x{address & (1 << 64) - 1:X}"


RECIPES: Final[Mapping[str, Recipe]] = MappingProxyType(
    {
        "um_cpu_page_faults_sum": Recipe(instruction_summary, raw=(CPU_FAULTS,)),
        "um_sum": Recipe(
            page_summary(_DEFAULT_ROWS),
            raw=(MIGRATIONS, CPU_FAULTS, GPU_FAULTS),
            number=NumberArgument("rows", _DEFAULT_ROWS, page_summary),
        ),
        "um_total_sum": Recipe(total_summary, raw=(MIGRATIONS, CPU_FAULTS, GPU_FAULTS)),
    }
)
