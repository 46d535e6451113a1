"""Reports on unified memory (faults and migrations of pages), and on congested network devices."""

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
    events,
    is_chosen,
    numbers,
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


_METRIC_KEY: Final = ("metricsListId", "metricsIdx")
_NETWORK: Final = ("start", "end", "globalId", *_METRIC_KEY, "value")
CARDS: Final = RawColumns("NET_NIC_METRIC", _NETWORK)
SWITCHES: Final = RawColumns("NET_IB_SWITCH_METRIC", _NETWORK)
METRIC_NAMES: Final = RawColumns("TARGET_INFO_NETWORK_METRICS", (*_METRIC_KEY, "name"))
CARD_INFO: Final = RawColumns("TARGET_INFO_NIC_INFO", ("nicId", "deviceId", "GUID"))
CARD_IDS: Final = RawColumns("NIC_ID_MAP", ("nicId", "globalId"))
DEVICE_NAMES: Final = RawColumns("ENUM_NET_DEVICE_ID", ("id", "label"))
_SEND_WAITS: Final = "IB: Send waits"
_DEFAULT_TICKS_PER_MS: Final = 10_000
_NS_PER_MS: Final = 1_000_000
_NO_NETWORK: Final = absent("NIC or IB switch metrics")


def congestion(ticks_per_ms: int) -> Make:
    """Return the function that makes ``network_congestion``: waits to send above a rate."""

    def make(tables: ReportTables, chosen: Filter) -> Columns:
        if CARDS not in tables.raw and SWITCHES not in tables.raw:
            return _NO_NETWORK
        rows = [
            (row, rate, guid, device)
            for source in (CARDS, SWITCHES)
            for row, rate in _waits(tables, source, chosen)
            if rate > ticks_per_ms
            for guid, device in [_device(tables, source, row["globalId"])]
        ]
        if not rows:
            return absent(f"congestion above {ticks_per_ms} ticks/ms")
        rows.sort(key=lambda one: one[0]["start"])
        start = numbers([row for row, *_ in rows], "start")
        end = numbers([row for row, *_ in rows], "end")
        rates = np.array([round(rate) for _, rate, *_ in rows], np.int64)
        return (
            ReportColumn("Start", "time", start),
            ReportColumn("End", "time", end),
            ReportColumn("Duration", "time", end - start),
            ReportColumn("Send wait rate (ticks/ms)", "count", rates),
            ReportColumn("GUID", "text", [guid for *_, guid, _ in rows]),
            ReportColumn("Device name", "text", [device for *_, device in rows]),
        )

    return make


def _waits(
    tables: ReportTables, source: RawColumns, chosen: Filter
) -> Iterator[tuple[Mapping[str, Any], float]]:
    """Yield the samples of the waits to send of a table, with their rates in ticks/ms."""
    named = tables.raw.get(METRIC_NAMES)
    if named is None:
        return
    columns = (named.columns[name] for name in (*_METRIC_KEY, "name"))
    wanted = {(one, two) for one, two, name in zip(*columns, strict=True) if name == _SEND_WAITS}
    for row in events(tables, source, chosen):
        duration = row["end"] - row["start"]
        if (row["metricsListId"], row["metricsIdx"]) in wanted and duration > 0:
            yield row, (row["value"] or 0) * _NS_PER_MS / duration


def _device(tables: ReportTables, source: RawColumns, global_id: int) -> tuple[str, str]:
    """Return GUID and name of a device; a switch is known by its own id only."""
    if source is SWITCHES:
        return f"{global_id & (1 << 64) - 1:x}", ""
    number = _lookup(tables, CARD_IDS, "globalId", global_id, "nicId")
    guid = _lookup(tables, CARD_INFO, "nicId", number, "GUID")
    device = _lookup(tables, CARD_INFO, "nicId", number, "deviceId")
    name = _lookup(tables, DEVICE_NAMES, "id", device, "label")
    return f"{guid & (1 << 64) - 1:x}" if isinstance(guid, int) else "", str(name or "")


def _lookup(tables: ReportTables, source: RawColumns, key: str, value: Any, wanted: str) -> Any:
    table = tables.raw.get(source)
    if table is None or value is None:
        return None
    pairs = zip(table.columns[key], table.columns[wanted], strict=True)
    return next((found for one, found in pairs if one == value), None)


RECIPES: Final[Mapping[str, Recipe]] = MappingProxyType(
    {
        "network_congestion": Recipe(
            congestion(_DEFAULT_TICKS_PER_MS),
            raw=(CARDS, SWITCHES, METRIC_NAMES, CARD_INFO, CARD_IDS, DEVICE_NAMES),
            number=NumberArgument("ticks_threshold", _DEFAULT_TICKS_PER_MS, congestion),
            single_capture=True,
        ),
        "um_cpu_page_faults_sum": Recipe(instruction_summary, raw=(CPU_FAULTS,)),
        "um_sum": Recipe(
            page_summary(_DEFAULT_ROWS),
            raw=(MIGRATIONS, CPU_FAULTS, GPU_FAULTS),
            number=NumberArgument("rows", _DEFAULT_ROWS, page_summary),
        ),
        "um_total_sum": Recipe(total_summary, raw=(MIGRATIONS, CPU_FAULTS, GPU_FAULTS)),
    }
)
