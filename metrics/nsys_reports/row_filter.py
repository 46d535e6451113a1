"""Select the rows of a report: by time, by range, and by the thread of the range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ccltui.parsers.array_types import I64, Bool
from ccltui.parsers.columns import MISSING
from ccltui.parsers.nsys.report_tables import Calls, Ranges, RawTable, ReportTables, Work
from ccltui.parsers.window import INT64_MAX, INT64_MIN, Window


class RangeFilter(Struct, frozen=True):
    """An NVTX range by exact name, domain ("" is the default one) and index in order of start."""

    name: str
    domain: str = ""
    index: int = 0


class Filter(Struct, frozen=True):
    """Bounds in ns, as in the predicate of nsys: end >= ``start_ns`` and start < ``end_ns``.

    ``thread`` restricts rows to those of a thread, see `of_thread`; None takes those of all.
    """

    start_ns: int = INT64_MIN
    end_ns: int = INT64_MAX
    thread: int | None = None

    @classmethod
    def of(cls, window: Window | None) -> Filter:
        """Return the bounds of a window; None and open sides select everything."""
        if window is None:
            return EVERYTHING
        start = INT64_MIN if window.start_ns is None else window.start_ns
        end = INT64_MAX if window.end_ns is None else window.end_ns
        return cls(start, end)

    def rows(self, start_ns: I64, end_ns: I64) -> Bool:
        """Return the mask of the rows that overlap the bounds; selected rows are not clipped."""
        return (end_ns >= self.start_ns) & (start_ns < self.end_ns)


EVERYTHING: Final = Filter()


def parse_range_filter(text: str) -> RangeFilter:
    """Parse ``name[@domain][/index]``; text after the last slash is an index if it is a number."""
    head, slash, tail = text.rpartition("/")
    if slash and tail.isascii() and tail.isdigit() and len(tail) < 10:
        text, index = head, int(tail)
    else:
        index = 0
    name, mark, domain = text.rpartition("@")
    return RangeFilter(name, domain, index) if mark else RangeFilter(text, "", index)


def filter_of_range(tables: ReportTables, wanted: RangeFilter) -> Filter | str:
    """Return the bounds of one range, or a message that there is no such range."""
    ranges = tables.ranges
    rows = np.empty(0, np.int64) if ranges is None else _matching(tables, ranges, wanted)
    if ranges is None or wanted.index >= len(rows):
        domain = f"@{wanted.domain}" if wanted.domain else ""
        shown = f"{wanted.name}{domain}" + (f"/{wanted.index}" if wanted.index else "")
        return f"NVTX range '{shown}' could not be found."
    row = rows[np.argsort(ranges.start_ns[rows], kind="stable")[wanted.index]]
    # Only exports say which thread ended a range, and number threads by their process.
    thread = None if ranges.end_thread is None else int(ranges.thread[row])
    return Filter(int(ranges.start_ns[row]), int(ranges.end_ns[row]), thread)


def _matching(tables: ReportTables, ranges: Ranges, wanted: RangeFilter) -> I64:
    ids = {name: index for index, name in enumerate(tables.names)}
    domain = ids.get(wanted.domain, -2) if wanted.domain else -1
    chosen = (ranges.text == ids.get(wanted.name, -2)) & (ranges.domain == domain)
    return np.flatnonzero(chosen).astype(np.int64)


_PID_BIT: Final = 24
_NUMBER: Final = (1 << _PID_BIT) - 1  # both numbers have 24 bits; the bits above are the machine


def process_ids(threads: I64) -> I64:
    """Return the process of each thread."""
    return (threads >> _PID_BIT) & _NUMBER


def thread_ids(threads: I64) -> I64:
    """Return the number that the operating system gives each thread."""
    return threads & _NUMBER


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
    for name in rows.__struct_fields__:
        value = getattr(rows, name)
        if isinstance(value, np.ndarray):
            changed[name] = value[mask]
        elif value is not None:
            changed[name] = {key: column[mask] for key, column in value.items()}
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
