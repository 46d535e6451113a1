"""Summary reports: total, count and spread by name, of device work and of events of interfaces.

A report is one `Events`: the tables, the column with the name, and the headers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.nsys_reports.report import (
    Columns,
    Kind,
    Recipe,
    ReportColumn,
    absent,
    events,
    is_chosen,
    numbers,
    optional,
)
from ccltui.metrics.nsys_reports.row_filter import Filter, process_ids, thread_ids
from ccltui.parsers.array_types import F64, I32, I64, Bool
from ccltui.parsers.nsys.report_tables import (
    KERNEL,
    STYLES,
    Calls,
    RawColumns,
    RawTable,
    ReportTables,
    Work,
)


class Groups(Struct, frozen=True):
    """One row per group, by falling total. ``std`` is that of a sample (n - 1), 0 for one value."""

    key: I64
    count: I64
    total: I64
    mean: F64
    median: F64
    smallest: I64
    largest: I64
    std: F64

    def __len__(self) -> int:
        return len(self.key)

    def take(self, places: I64) -> Groups:
        """Return the groups at these places."""
        return Groups(*(getattr(self, name)[places] for name in Groups.__struct_fields__))

    def tied_by(self, texts: Sequence[str]) -> Groups:
        """Return the groups with those of equal totals in order of these texts, one per group."""
        ranks = np.unique(np.array([*texts, ""], object)[:-1], return_inverse=True)
        return self.take(np.lexsort((ranks[1], -self.total)))

    def statistics(self, kind: Kind, mean_kind: Kind, prefix: str = "") -> list[ReportColumn]:
        """Return the columns Avg, Med, Min, Max and StdDev."""
        return [
            ReportColumn(f"{prefix}Avg", mean_kind, self.mean),
            ReportColumn(f"{prefix}Med", mean_kind, self.median),
            ReportColumn(f"{prefix}Min", kind, self.smallest),
            ReportColumn(f"{prefix}Max", kind, self.largest),
            ReportColumn(f"{prefix}StdDev", mean_kind, self.std),
        ]

    def time_columns(self, count: str) -> list[ReportColumn]:
        """Return share, total, number (under the header ``count``) and statistics of durations."""
        whole = int(self.total.sum())
        share = self.total * 100 / whole if whole else np.zeros(len(self))
        return [
            ReportColumn("Time", "percent", share),
            ReportColumn("Total Time", "time", self.total),
            ReportColumn(count, "count", self.count),
            *self.statistics("time", "mean_time"),
        ]


def group(keys: I64, values: I64) -> Groups:
    """Group values by equal keys; ties of the total are in order of first appearance."""
    if not len(keys):
        none, nothing = np.empty(0, np.int64), np.empty(0, np.float64)
        return Groups(none, none, none, nothing, nothing, none, none, nothing)
    order = np.lexsort((values, keys))
    keys, first_rows = keys[order], order
    values = values[order]
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    count = np.diff(np.concatenate([starts, [len(keys)]]))
    total = np.add.reduceat(values, starts)
    mean = total / count
    middle = (values[starts + (count - 1) // 2] + values[starts + count // 2]) / 2
    spread = values - np.repeat(mean, count)
    squares = np.add.reduceat(spread * spread, starts)
    std = np.sqrt(squares / np.maximum(count - 1, 1))
    rank = np.lexsort((np.minimum.reduceat(first_rows, starts), -total))
    return Groups(
        keys[starts][rank],
        count[rank],
        total[rank],
        mean[rank],
        middle[rank],
        values[starts][rank],
        values[starts + count - 1][rank],
        std[rank],
    )


NO_KERNELS = "the capture does not contain CUDA kernel data."
NO_MEMORY = "the capture does not contain GPU memory data."
NO_DEVICE_WORK = "the capture does not contain GPU kernel/memory operations data."
NO_TRACE = "the capture does not contain GPU trace data."
NO_API = "the capture does not contain CUDA trace data."
NO_LAUNCHES = "the capture does not contain CUDA API data."
NO_OS = "the capture does not contain OS Runtime trace data."
NO_RANGES = "the capture does not contain NV Tools Extension (NVTX) data."

_VERSION_SUFFIX = re.compile(r"_v\d{4}$")  # cudaLaunchKernel_v7000; five digits stay


def kernel_summary(tables: ReportTables, chosen: Filter) -> Columns:
    """Make ``cuda_gpu_kern_sum``: kernels by name."""
    work, rows = _work_rows(tables, chosen, lambda work: work.kind == KERNEL)
    if work is None or not len(rows):
        return NO_KERNELS
    groups = _by_name(tables, work.name[rows], _durations(work, rows))
    return (*groups.time_columns("Instances"), _texts(tables, groups, "Name"))


def device_summary(tables: ReportTables, chosen: Filter) -> Columns:
    """Make ``cuda_gpu_sum``: kernels, copies and fills by name, with their category."""
    work, rows = _work_rows(tables, chosen, lambda work: work.kind >= KERNEL)
    if work is None or not len(rows):
        return NO_DEVICE_WORK
    is_kernel = (work.kind[rows] == KERNEL).astype(np.int64)
    groups = group(work.name[rows].astype(np.int64) * 2 + is_kernel, _durations(work, rows))
    groups = groups.tied_by([tables.names[key // 2] for key in groups.key.tolist()])
    categories = np.where(groups.key % 2 == 1, "CUDA_KERNEL", "MEMORY_OPER").tolist()
    names = [tables.names[key] for key in (groups.key // 2).tolist()]
    return (
        *groups.time_columns("Instances"),
        ReportColumn("Category", "text", categories),
        ReportColumn("Operation", "text", names),
    )


def memory_time_summary(tables: ReportTables, chosen: Filter) -> Columns:
    """Make ``cuda_gpu_mem_time_sum``: durations of copies and fills by operation."""
    work, rows = _work_rows(tables, chosen, lambda work: work.kind != KERNEL)
    if work is None or not len(rows):
        return NO_MEMORY
    groups = _by_name(tables, work.name[rows], _durations(work, rows))
    return (*groups.time_columns("Count"), _texts(tables, groups, "Operation"))


def memory_size_summary(tables: ReportTables, chosen: Filter) -> Columns:
    """Make ``cuda_gpu_mem_size_sum``: bytes of copies and fills by operation."""
    work, rows = _work_rows(tables, chosen, lambda work: work.kind != KERNEL)
    if work is None or not len(rows):
        return NO_MEMORY
    sizes = work.detail("bytes")[rows]
    known = sizes >= 0
    if not known.any():
        return "the capture does not contain the sizes of memory operations."
    groups = _by_name(tables, work.name[rows[known]], sizes[known])
    return (
        ReportColumn("Total", "size", groups.total),
        ReportColumn("Count", "count", groups.count),
        *groups.statistics("size", "size"),
        _texts(tables, groups, "Operation"),
    )


def api_summary(tables: ReportTables, chosen: Filter) -> Columns:
    """Make ``cuda_api_sum``: calls of the CUDA runtime and driver by name."""
    return _calls_summary(tables, tables.api, chosen, NO_API, without_version)


def os_summary(tables: ReportTables, chosen: Filter) -> Columns:
    """Make ``osrt_sum``: calls into the operating system by name."""
    return _calls_summary(tables, tables.os_calls, chosen, NO_OS, str)


def range_summary(tables: ReportTables, chosen: Filter) -> Columns:
    """Make ``nvtx_sum``: ranges by style and name. Ranges nest, so shares must not be added."""
    ranges = tables.ranges
    if ranges is None:
        return NO_RANGES
    rows = np.flatnonzero(chosen.rows(ranges.start_ns, ranges.end_ns))
    if not len(rows):
        return NO_RANGES
    labels, texts = range_labels(tables)
    groups = group(labels[rows] * 2 + ranges.style[rows], (ranges.end_ns - ranges.start_ns)[rows])
    groups = groups.tied_by([texts[key // 2] for key in groups.key.tolist()])
    styles = [STYLES[key] for key in (groups.key % 2).tolist()]
    return (
        *groups.time_columns("Instances"),
        ReportColumn("Style", "text", styles),
        ReportColumn("Range", "text", [texts[key] for key in (groups.key // 2).tolist()]),
    )


def range_labels(tables: ReportTables) -> tuple[I64, list[str]]:
    """Return the label of each range, and the texts of labels: ``domain:text`` or ``text``.

    The default domain has no prefix.
    """
    ranges = tables.ranges
    if ranges is None:
        return np.empty(0, np.int64), []
    width = len(tables.names) + 1
    codes = ranges.text.astype(np.int64) * width + ranges.domain + 1
    found, inverse = np.unique(codes, return_inverse=True)
    texts = []
    for code in found.tolist():
        text, domain = divmod(code, width)
        prefix = f"{tables.names[domain - 1]}:" if domain else ""
        texts.append(prefix + tables.names[text])
    return _interned(inverse, texts)


def _interned(codes: I64, texts: Sequence[str]) -> tuple[I64, list[str]]:
    """Renumber codes so that they are equal exactly where their texts are."""
    ids: dict[str, int] = {}
    of_code = np.array([ids.setdefault(text, len(ids)) for text in texts], np.int64)
    return of_code[codes], list(ids)


def _calls_summary(
    tables: ReportTables,
    calls: Calls | None,
    chosen: Filter,
    absent: str,
    shown: Callable[[str], str],
) -> Columns:
    if calls is None:
        return absent
    rows = np.flatnonzero(chosen.rows(calls.start_ns, calls.end_ns))
    if not len(rows):
        return absent
    found, inverse = np.unique(calls.name[rows], return_inverse=True)
    keys, texts = _interned(
        inverse.astype(np.int64), [shown(tables.names[one]) for one in found.tolist()]
    )
    groups = group(keys, (calls.end_ns - calls.start_ns)[rows])
    names = [texts[key] for key in groups.key.tolist()]
    return (
        *groups.time_columns("Num Calls"),
        ReportColumn("Name", "text", names),
    )


def without_version(name: str) -> str:
    """Return the name of a function without the version of its signature."""
    return _VERSION_SUFFIX.sub("", name)


def _work_rows(
    tables: ReportTables, chosen: Filter, kinds: Callable[[Work], Bool]
) -> tuple[Work | None, I64]:
    work = tables.work
    if work is None:
        return None, np.empty(0, np.int64)
    rows = np.flatnonzero(chosen.rows(work.start_ns, work.end_ns) & kinds(work))
    return work, rows.astype(np.int64)


def _by_name(tables: ReportTables, names: I32, values: I64) -> Groups:
    """Group values by name; groups of equal totals are in order of their names."""
    groups = group(names.astype(np.int64), values)
    return groups.tied_by([tables.names[key] for key in groups.key.tolist()])


def _durations(work: Work, rows: I64) -> I64:
    return work.end_ns[rows] - work.start_ns[rows]


def _texts(tables: ReportTables, groups: Groups, name: str) -> ReportColumn:
    return ReportColumn(name, "text", [tables.names[key] for key in groups.key.tolist()])


_TIMES: Final = ("start", "end")


def _plain(name: str, *_further: object) -> str:
    return name


class Events(Struct, frozen=True):
    """A summary of events by name.

    Attributes:
        tables: Tables with the events; those that a capture has are taken together.
        what: What a capture without these tables lacks, in the words of nsys.
        count: Header of the number of events.
        label: Header of the name.
        name: Column with the string id of the name; ids without text are no name.
        only: SQL condition on the rows.
        further: Further columns that the name is composed of.
        further_texts: Those of them that are ids of strings.
        named: Composes the name from a row: the name, then the further columns.
        kinds: What the rows of each table are, as a further column; in the order of the tables.
        kind_label: Header of that column.
        unnamed: Name of rows without a name, from the further columns; None leaves them out.
    """

    tables: tuple[str, ...]
    what: str
    count: str = "Instances"
    label: str = "Range"
    name: str = "textId"
    only: str = ""
    further: tuple[str, ...] = ()
    further_texts: tuple[str, ...] = ()
    named: Callable[..., str] = _plain
    kinds: tuple[str, ...] = ()
    kind_label: str = "Event Type"
    unnamed: Callable[..., str] | None = None

    def raw(self) -> tuple[RawColumns, ...]:
        """Return the columns to read."""
        texts = (self.name, *self.further_texts)
        return tuple(
            RawColumns(table, (*_TIMES, *self.further), texts, self.only) for table in self.tables
        )

    def columns(self, tables: ReportTables, chosen: Filter) -> Columns:
        """Return the summary: share, total, count and spread by name."""
        ids: dict[tuple[str, str], int] = {}
        keys, values = [], []
        for place, source in enumerate(self.raw()):
            table = tables.raw.get(source)
            kind = self.kinds[place] if self.kinds else ""
            for text, duration in self._rows(table, chosen) if table else ():
                keys.append(ids.setdefault((kind, text), len(ids)))
                values.append(duration)
        if not keys:
            return absent(self.what)
        groups = group(np.array(keys, np.int64), np.array(values, np.int64))
        labels = list(ids)
        shown = [labels[key] for key in groups.key.tolist()]
        kinds = ReportColumn(self.kind_label, "text", [kind for kind, _ in shown])
        return (
            *groups.time_columns(self.count),
            *((kinds,) if self.kinds else ()),
            ReportColumn(self.label, "text", [text for _, text in shown]),
        )

    def _rows(self, table: RawTable, chosen: Filter) -> Sequence[tuple[str, int]]:
        further = [table.columns[name] for name in (*self.further_texts, *self.further)]
        columns = (*(table.columns[name] for name in (*_TIMES, self.name)), *further)
        return [
            (shown, end - start)
            for start, end, name, *rest in zip(*columns, strict=True)
            if is_chosen(chosen, start, end) and (shown := self._shown(name, rest)) is not None
        ]

    def _shown(self, name: str | None, further: Sequence[object]) -> str | None:
        if name is not None:
            return self.named(name, *further)
        return None if self.unnamed is None else self.unnamed(*further)


def _construct(name: str, source: str | None, line: int | None) -> str:
    """Name an OpenACC construct by its place in the source: ``acc_wait@solve.c:31``."""
    return f"{name}@{source}:{line}" if source is not None else name


_OPENMP: Final = (
    *("THREAD", "PARALLEL", "SYNC_REGION_WAIT", "SYNC_REGION", "TASK", "MASTER", "REDUCTION"),
    *("TASK_CREATE", "TASK_SCHEDULE", "CANCEL", "MUTEX_WAIT", "CRITICAL_SECTION"),
    *("MUTEX_RELEASED", "LOCK_INIT", "LOCK_DESTROY", "WORKSHARE", "DISPATCH", "FLUSH"),
)


def _calls(tables: tuple[str, ...], what: str, kinds: tuple[str, ...] = ()) -> Events:
    """Declare a summary of calls of an interface by function."""
    return Events(tables, what, count="Num Calls", label="Name", name="nameId", kinds=kinds)


EVENTS: Final[Mapping[str, Events]] = MappingProxyType(
    {
        "openmp_sum": Events(
            tuple(f"OPENMP_EVENT_KIND_{kind}" for kind in _OPENMP),
            "OpenMP event data",
            count="Count",
            label="Name",
            name="nameId",
            unnamed=lambda: "",
        ),
        "openacc_sum": Events(
            tuple(f"CUPTI_ACTIVITY_KIND_OPENACC_{kind}" for kind in ("DATA", "LAUNCH", "OTHER")),
            "OpenACC event data",
            count="Num Calls",
            label="Name",
            name="nameId",
            further=("lineNo",),
            further_texts=("srcFile",),
            named=_construct,
        ),
        "nvvideo_api_sum": _calls(
            ("NVVIDEO_ENCODER_API", "NVVIDEO_DECODER_API", "NVVIDEO_JPEG_API"),
            "NvVideo trace data",
            ("Encoder", "Decoder", "JPEG"),
        ),
        "vulkan_api_sum": _calls(("VULKAN_API",), "Vulkan API trace data"),
        "vulkan_marker_sum": Events(
            ("VULKAN_DEBUG_API",), "Vulkan Debug Extension (Vulkan Debug Util) data"
        ),
        "vulkan_gpu_marker_sum": Events(
            ("VULKAN_WORKLOAD",),
            "GPU Vulkan Debug Extension (GPU Vulkan Debug markers) data",
        ),
        "opengl_khr_range_sum": Events(
            ("KHR_DEBUG_EVENTS",),
            "KHR Extension (KHR_DEBUG) data",
            only="eventClass = 62",
            further=("id",),
            unnamed=str,
        ),
        "opengl_khr_gpu_range_sum": Events(
            ("KHR_DEBUG_EVENTS",),
            "GPU KHR Extension (KHR_DEBUG) data",
            only="eventClass = 63",
            further=("id",),
            unnamed=str,
        ),
        "dx11_pix_sum": Events(("D3D11_PIX_DEBUG_API",), "DX11 CPU debug markers"),
        "dx12_pix_sum": Events(("D3D12_PIX_DEBUG_API",), "DX12 CPU debug markers"),
        "dx12_gpu_marker_sum": Events(("DX12_WORKLOAD",), "DX12 GPU debug markers"),
        "syscall_sum": _calls(("SYSCALL",), "syscall data"),
    }
)
"""Reports of nsys by name. syscall_sum exists from 2024.7 on; its table is that of its exports."""

_WINDOWS_QUEUES: Final = RawColumns("TARGET_INFO_WDDM_CONTEXTS", ("context",))


def _windows_queues(tables: ReportTables, _chosen: Filter) -> Columns:
    """Refuse ``wddm_queue_sum``: queues of the display driver exist on Windows only."""
    if _WINDOWS_QUEUES in tables.raw:
        return "the capture is of Windows, whose WDDM queues are not summarised."
    return absent("WDDM context data")


_THREAD_TIMES: Final = ("start", "end", "globalTid")
POINT_TO_POINT: Final = RawColumns(
    "MPI_P2P_EVENTS", (*_THREAD_TIMES, "tag", "remoteRank", "size"), ("textId",)
)
COLLECTIVES: Final = RawColumns(
    "MPI_COLLECTIVES_EVENTS", (*_THREAD_TIMES, "rootRank", "size", "recvSize"), ("textId",)
)
WAITS: Final = RawColumns("MPI_START_WAIT_EVENTS", _THREAD_TIMES, ("textId",))
OTHERS: Final = RawColumns("MPI_OTHER_EVENTS", _THREAD_TIMES, ("textId",))
RANKS: Final = RawColumns("MPI_RANKS", ("globalTid", "rank"))
MPI: Final = (POINT_TO_POINT, COLLECTIVES, WAITS, OTHERS)

_NO_MPI: Final = absent("MPI event data")


def mpi_trace(tables: ReportTables, chosen: Filter) -> Columns:
    """Make ``mpi_event_trace``: every call of MPI, in order of start."""
    rows = [row for source in MPI for row in events(tables, source, chosen)]
    if not rows:
        return _NO_MPI
    rows.sort(key=lambda row: row["start"])
    ranks = _ranks(tables)
    threads = numbers(rows, "globalTid")
    start = numbers(rows, "start")
    end = numbers(rows, "end")
    return (
        ReportColumn("Start", "time", start),
        ReportColumn("End", "time", end),
        ReportColumn("Duration", "time", end - start),
        ReportColumn("Event", "text", [row["textId"] or "" for row in rows]),
        ReportColumn("Pid", "count", process_ids(threads)),
        ReportColumn("Tid", "count", thread_ids(threads)),
        optional("Tag", "count", [row.get("tag") for row in rows]),
        optional("Rank", "count", [ranks.get(row["globalTid"]) for row in rows]),
        optional("PeerRank", "count", [row.get("remoteRank") for row in rows]),
        optional("RootRank", "count", [row.get("rootRank") for row in rows]),
        optional("Size", "size", [_size(row, collective=False) for row in rows]),
        optional("CollSendSize", "size", [_size(row, collective=True) for row in rows]),
        optional("CollRecvSize", "size", [row.get("recvSize") for row in rows]),
    )


def _size(row: Mapping[str, Any], *, collective: bool) -> int | None:
    """Return the size of a row of one of the two kinds; only collectives have ``recvSize``."""
    size: int | None = row.get("size") if ("recvSize" in row) == collective else None
    return size


def _ranks(tables: ReportTables) -> dict[int, int]:
    table = tables.raw.get(RANKS)
    if table is None:
        return {}
    return dict(zip(table.columns["globalTid"], table.columns["rank"], strict=True))


def message_sizes(tables: ReportTables, chosen: Filter) -> Columns:
    """Make ``mpi_msg_size_sum``: bytes of messages by function, sent and received apart."""
    ids: dict[tuple[str, str], int] = {}
    keys, values = [], []
    for source, column, label in (
        (POINT_TO_POINT, "size", "p2p"),
        (COLLECTIVES, "size", "coll_send"),
        (COLLECTIVES, "recvSize", "coll_recv"),
    ):
        for row in events(tables, source, chosen):
            if row[column] is not None:
                keys.append(ids.setdefault((label, row["textId"] or ""), len(ids)))
                values.append(row[column])
    if not keys:
        return _NO_MPI
    groups = group(np.array(keys, np.int64), np.array(values, np.int64))
    labels = [list(ids)[key] for key in groups.key.tolist()]
    return (
        ReportColumn("Total Message Volume", "count", groups.total),
        ReportColumn("Instances", "count", groups.count),
        *groups.statistics("count", "mean"),
        ReportColumn("Source", "text", [label for label, _ in labels]),
        ReportColumn("Name", "text", [name for _, name in labels]),
    )


EVENT_SUMMARY: Final = Events(
    tuple(source.table for source in MPI),
    "MPI event data",
    label="Name",
    kinds=("p2p", "coll", "start_wait", "other"),
    kind_label="Source",
)


RECIPES: Final[Mapping[str, Recipe]] = MappingProxyType(
    {
        **{name: Recipe(events.columns, raw=events.raw()) for name, events in EVENTS.items()},
        "wddm_queue_sum": Recipe(_windows_queues, raw=(_WINDOWS_QUEUES,)),
        "mpi_event_trace": Recipe(mpi_trace, raw=(*MPI, RANKS), single_capture=True),
        "mpi_event_sum": Recipe(EVENT_SUMMARY.columns, raw=EVENT_SUMMARY.raw()),
        "mpi_msg_size_sum": Recipe(message_sizes, raw=(POINT_TO_POINT, COLLECTIVES)),
    }
)
"""mpi_event_sum and mpi_msg_size_sum exist from 2025 on; their columns are those of the guide."""
