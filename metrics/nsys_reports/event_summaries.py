"""Summaries of events by name from the tables of one interface: OpenMP, MPI, graphics and more.

A report is one `Events`: the tables, the column with the name, and the headers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.nsys_reports.report import (
    Columns,
    Recipe,
    ReportColumn,
    absent,
    events,
    is_chosen,
    numbers,
    optional,
)
from ccltui.metrics.nsys_reports.row_filter import Filter, process_ids, thread_ids
from ccltui.metrics.nsys_reports.summaries import group
from ccltui.parsers.nsys.report_tables import RawColumns, RawTable, ReportTables

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
