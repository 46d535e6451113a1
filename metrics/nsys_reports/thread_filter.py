"""Apply filters as nsys does beyond the times of rows: to threads, and to names of domains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np

from ccltui.metrics.nsys_reports.rows.row_filter import Filter
from ccltui.metrics.nsys_reports.rows.thread_columns import process_ids, thread_ids
from ccltui.parsers.array_types import Bool
from ccltui.parsers.columns import MISSING
from ccltui.parsers.nsys.report_tables import Calls, Ranges, RawTable, ReportTables, Work

Rows = TypeVar("Rows", Work, Calls, Ranges)


def of_thread(tables: ReportTables, thread: int) -> ReportTables:
    """Return the tables with the rows of a thread, which a range of this thread selects.

    The range of the main thread of a process (thread id equal to process id) selects all threads of
    the process. Device work is selected by its process; rows that name neither are all kept.
    """
    number = np.array([thread], np.int64)
    process, tid = int(process_ids(number)[0]), int(thread_ids(number)[0])
    whole = process == tid

    def of_threads(rows: Rows | None, threads: Any) -> Rows | None:
        if rows is None:
            return None
        same = process_ids(threads) == process if whole else threads == thread
        return _taken(rows, same)

    work, api, ranges = tables.work, tables.api, tables.ranges
    os_calls = tables.os_calls
    return replace(
        tables,
        work=None if work is None else _taken(work, work.process == process),
        api=None if api is None else of_threads(api, api.thread),
        os_calls=None if os_calls is None else of_threads(os_calls, os_calls.thread),
        ranges=None if ranges is None else of_threads(ranges, ranges.thread),
        raw={key: _raw(table, thread, process, whole=whole) for key, table in tables.raw.items()},
    )


def without_domains(tables: ReportTables, chosen: Filter) -> ReportTables:
    """Return the tables without the domains of ranges that were created outside the bounds.

    nsys filters the rows that name the domains by their time too, so that in its reports a range
    of a domain that was created earlier has its text alone.
    """
    ranges = tables.ranges
    if ranges is None or ranges.domain_ns is None:
        return tables
    named = (ranges.domain_ns >= chosen.start_ns) & (ranges.domain_ns < chosen.end_ns)
    domain = np.where(named, ranges.domain, MISSING).astype(np.int32)
    return replace(tables, ranges=replace(ranges, domain=domain))


def _taken(rows: Rows, mask: Bool) -> Rows:
    """Return the chosen rows of a table of columns."""
    changed: dict[str, Any] = {}
    for one in fields(rows):
        value = getattr(rows, one.name)
        if isinstance(value, np.ndarray):
            changed[one.name] = value[mask]
        elif value is not None:
            changed[one.name] = {name: column[mask] for name, column in value.items()}
    return replace(rows, **changed)


def _raw(table: RawTable, thread: int, process: int, *, whole: bool) -> RawTable:
    owner = next((name for name in ("globalTid", "globalPid") if name in table.columns), None)
    if owner is None:
        return table
    by_process = whole or owner == "globalPid"
    rows = [
        row
        for row, value in enumerate(table.columns[owner])
        if isinstance(value, int)
        and ((value >> 24 & 0xFFFFFF) == process if by_process else value == thread)
    ]
    columns: dict[str, Sequence[Any]] = {
        name: [cells[row] for row in rows] for name, cells in table.columns.items()
    }
    return RawTable(columns)
