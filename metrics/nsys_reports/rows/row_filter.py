"""Select the rows of a report: the predicates of ``--filter-time`` and ``--filter-nvtx``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ccltui.parsers.array_types import I64, Bool
from ccltui.parsers.nsys.report_tables import Ranges, ReportTables
from ccltui.parsers.units import INT64_MAX, INT64_MIN
from ccltui.parsers.window import Window


@dataclass(frozen=True, slots=True)
class RangeFilter:
    """An NVTX range by exact name, domain ("" is the default one) and index in order of start."""

    name: str
    domain: str = ""
    index: int = 0


@dataclass(frozen=True, slots=True)
class Filter:
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
