"""Reports on calls of MPI: one by one, by name, and the sizes of their messages."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from ccltui.metrics.nsys_reports.families.event_summaries import Events
from ccltui.metrics.nsys_reports.rows.group_statistics import group
from ccltui.metrics.nsys_reports.rows.raw_rows import events, numbers, optional
from ccltui.metrics.nsys_reports.rows.recipe import Columns, Recipe, absent
from ccltui.metrics.nsys_reports.rows.report import ReportColumn
from ccltui.metrics.nsys_reports.rows.row_filter import Filter
from ccltui.metrics.nsys_reports.rows.thread_columns import process_ids, thread_ids
from ccltui.parsers.nsys.report_tables import RawColumns, ReportTables

_TIMES: Final = ("start", "end", "globalTid")
POINT_TO_POINT: Final = RawColumns(
    "MPI_P2P_EVENTS", (*_TIMES, "tag", "remoteRank", "size"), ("textId",)
)
COLLECTIVES: Final = RawColumns(
    "MPI_COLLECTIVES_EVENTS", (*_TIMES, "rootRank", "size", "recvSize"), ("textId",)
)
WAITS: Final = RawColumns("MPI_START_WAIT_EVENTS", _TIMES, ("textId",))
OTHERS: Final = RawColumns("MPI_OTHER_EVENTS", _TIMES, ("textId",))
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
        "mpi_event_trace": Recipe(mpi_trace, raw=(*MPI, RANKS), single_capture=True),
        "mpi_event_sum": Recipe(EVENT_SUMMARY.columns, raw=EVENT_SUMMARY.raw()),
        "mpi_msg_size_sum": Recipe(message_sizes, raw=(POINT_TO_POINT, COLLECTIVES)),
    }
)
"""mpi_event_sum and mpi_msg_size_sum exist from 2025 on; their columns are those of the guide."""
