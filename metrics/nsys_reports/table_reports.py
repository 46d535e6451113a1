"""Reports on single tables: calls of CUDA and Vulkan, unified memory, network devices.

Of calls of CUDA also the work that they launch; of unified memory faults and migrations of pages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.nsys_reports.event_summaries import (
    NO_API,
    NO_KERNELS,
    NO_LAUNCHES,
    Groups,
    group,
    without_version,
)
from ccltui.metrics.nsys_reports.nvtx_ranges import Pairs, chosen_work, pair_launches
from ccltui.metrics.nsys_reports.report import (
    ANY_KERNEL_NAME,
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
from ccltui.metrics.nsys_reports.row_filter import EVERYTHING, Filter, process_ids, thread_ids
from ccltui.parsers.array_types import I64
from ccltui.parsers.nsys.report_tables import KERNEL, Calls, Part, RawColumns, ReportTables, Work

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
        *groups.time_columns("Instances"),
        ReportColumn("Category", "text", [_CATEGORIES[kind] for kind, _ in shown]),
        ReportColumn("Operation", "text", [name for _, name in shown]),
    )


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
        *groups.time_columns("Instances"),
        ReportColumn("GridXYZ", "text", _shapes(chosen_keys[:, :3])),
        ReportColumn("BlockXYZ", "text", _shapes(chosen_keys[:, 3:6])),
        ReportColumn("Name", "text", [tables.names[one] for one in chosen_keys[:, 6].tolist()]),
    )


class Phases(Struct, frozen=True):
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


def _launches(tables: ReportTables, chosen: Filter) -> tuple[Work, Calls, Phases] | str:
    """Return kernels and calls with the phases of all launches, or the reason for none."""
    work, api = tables.work, tables.api
    if work is None or not (work.kind == KERNEL).any():
        return NO_KERNELS
    if api is None:
        return NO_LAUNCHES
    phases = launch_phases(work, api, chosen)
    return (work, api, phases) if len(phases.pairs) else NO_KERNELS


def execution_trace(tables: ReportTables, chosen: Filter) -> Columns:
    """Make ``cuda_kern_exec_trace``: call, queue and kernel of every launch."""
    launches = _launches(tables, chosen)
    if isinstance(launches, str):
        return launches
    work, api, phases = launches
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
    launches = _launches(tables, chosen)
    if isinstance(launches, str):
        return launches
    work, api, phases = launches
    rows, calls = phases.pairs.work, phases.pairs.call
    ids: dict[tuple[int, int, str, str], int] = {}
    launch_keys = zip(
        api.thread[calls].tolist(),
        work.device[rows].tolist(),
        call_names(tables, calls),
        _names(tables, work, rows),
        strict=True,
    )
    keys = np.array([ids.setdefault(launch, len(ids)) for launch in launch_keys], np.int64)
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
        "cuda_api_trace": Recipe(
            call_trace, frozenset({"api", "results"}), raw=(THREADS,), single_capture=True
        ),
        "cuda_api_gpu_sum": Recipe(
            all_summary, frozenset({"api", "kernels", "memory"}), kernel_names=ANY_KERNEL_NAME
        ),
        "cuda_gpu_kern_gb_sum": Recipe(
            launch_summary, frozenset({"kernels", "details"}), kernel_names=ANY_KERNEL_NAME
        ),
        "cuda_kern_exec_trace": Recipe(
            execution_trace, _LAUNCHES, kernel_names=ANY_KERNEL_NAME, single_capture=True
        ),
        "cuda_kern_exec_sum": Recipe(
            execution_summary, _LAUNCHES, kernel_names=ANY_KERNEL_NAME, single_capture=True
        ),
        "vulkan_api_trace": Recipe(vulkan_trace, raw=(VULKAN_CALLS, THREADS), single_capture=True),
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
