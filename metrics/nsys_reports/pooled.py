"""Pool several captures into one, and build the tables of reports from the columns of ranks.

Pooled as the recipes of nsys pool the files of a job: a median is that of all rows together, not
of the medians of the files. Times remain those of each capture, so that a filter selects before
pooling, and reports of single times (`cuda_gpu_trace`) are not defined for pools.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.nsys_reports.report import is_chosen
from ccltui.metrics.nsys_reports.row_filter import EVERYTHING, Filter, of_thread
from ccltui.parsers.array_types import I8, I32, I64
from ccltui.parsers.columns import MISSING, Events, RankTrace
from ccltui.parsers.nsys.report_tables import (
    COPY,
    FILL,
    KERNEL,
    MEMORY_KINDS,
    PUSH_POP,
    Calls,
    Names,
    Ranges,
    RawColumns,
    RawTable,
    ReportTables,
    Work,
)

_CAPTURE_SHIFT = 32  # above the 24 bits of process numbers


class Chosen(Struct, frozen=True):
    """A capture and the filter of its rows."""

    tables: ReportTables
    filter: Filter = EVERYTHING


def pool(captures: Sequence[Chosen]) -> ReportTables:
    """Return the selected rows of all captures, with process and thread numbers made distinct."""
    captures = [
        one if one.filter.thread is None else replace(one, tables=of_thread(one.tables, thread))
        for one in captures
        for thread in [one.filter.thread or 0]
    ]
    names = Names()
    parts = [_CaptureRows(index, capture, names) for index, capture in enumerate(captures)]
    notes = dict.fromkeys(note for capture in captures for note in capture.tables.notes)
    return ReportTables(
        names.texts(),
        joined_work([work for part in parts if (work := part.work()) is not None]),
        joined_calls([calls for part in parts if (calls := part.api()) is not None]),
        joined_calls([calls for part in parts if (calls := part.os_calls()) is not None]),
        joined_ranges([some for part in parts if (some := part.ranges()) is not None]),
        raw=_joined_raw(captures),
        notes=tuple(notes),
    )


class _CaptureRows:
    """Rows of one capture; its index makes its processes and threads distinct."""

    def __init__(self, index: int, capture: Chosen, names: Names) -> None:
        self._index = index
        self._filter = capture.filter
        self._tables = tables = capture.tables
        self._names = np.array([names.of(text) for text in tables.names] or [0], np.int32)
        known = (tables.api, tables.os_calls, tables.ranges)
        every = [np.empty(0, np.int64), *(one.thread for one in known if one is not None)]
        self._threads = distinct_values(np.concatenate(every))

    def work(self) -> Work | None:
        work = self._tables.work
        if work is None:
            return None
        rows = self._filter.rows(work.start_ns, work.end_ns)
        return Work(
            work.start_ns[rows],
            work.end_ns[rows],
            work.kind[rows],
            self._names[work.name[rows]],
            self._processes(work.process[rows]),
            work.correlation[rows],
            work.device[rows],
            {name: column[rows] for name, column in work.details.items()},
        )

    def api(self) -> Calls | None:
        return self._calls(self._tables.api)

    def os_calls(self) -> Calls | None:
        return self._calls(self._tables.os_calls)

    def _calls(self, calls: Calls | None) -> Calls | None:
        if calls is None:
            return None
        rows = self._filter.rows(calls.start_ns, calls.end_ns)
        return Calls(
            calls.start_ns[rows],
            calls.end_ns[rows],
            self._names[calls.name[rows]],
            self._thread_numbers(calls.thread[rows]),
            self._processes(calls.process[rows]),
            calls.correlation[rows],
        )

    def ranges(self) -> Ranges | None:
        ranges = self._tables.ranges
        if ranges is None:
            return None
        rows = self._filter.rows(ranges.start_ns, ranges.end_ns)
        domain = ranges.domain[rows]
        return Ranges(
            ranges.start_ns[rows],
            ranges.end_ns[rows],
            ranges.style[rows],
            self._names[ranges.text[rows]],
            np.where(domain < 0, domain, self._names[domain]),
            self._thread_numbers(ranges.thread[rows]),
            None,
            None if ranges.end_thread is None else ranges.end_thread[rows],
        )

    def _processes(self, process: I64) -> I64:
        return process + (self._index << _CAPTURE_SHIFT)

    def _thread_numbers(self, thread: I64) -> I64:
        found: I64 = np.searchsorted(self._threads, thread) + (self._index << _CAPTURE_SHIFT)
        return found


def joined_work(parts: Sequence[Work]) -> Work | None:
    """Join work of all parts by start; None without any."""
    if not any(map(len, parts)):
        return None
    start = np.concatenate([part.start_ns for part in parts])
    order = np.argsort(start, kind="stable")
    known = dict.fromkeys(name for part in parts for name in part.details)
    details: Mapping[str, I64] = {
        name: np.concatenate([part.detail(name) for part in parts])[order] for name in known
    }
    return Work(
        start[order],
        np.concatenate([part.end_ns for part in parts])[order],
        np.concatenate([part.kind for part in parts])[order],
        np.concatenate([part.name for part in parts])[order],
        np.concatenate([part.process for part in parts])[order],
        np.concatenate([part.correlation for part in parts])[order],
        np.concatenate([part.device for part in parts])[order],
        details,
    )


def joined_calls(parts: Sequence[Calls]) -> Calls | None:
    """Join calls of all parts; None without any."""
    if not any(map(len, parts)):
        return None
    return Calls(
        np.concatenate([part.start_ns for part in parts]),
        np.concatenate([part.end_ns for part in parts]),
        np.concatenate([part.name for part in parts]),
        np.concatenate([part.thread for part in parts]),
        np.concatenate([part.process for part in parts]),
        np.concatenate([part.correlation for part in parts]),
    )


def joined_ranges(parts: Sequence[Ranges]) -> Ranges | None:
    """Join ranges of all parts; None without any."""
    if not any(map(len, parts)):
        return None
    return Ranges(
        np.concatenate([part.start_ns for part in parts]),
        np.concatenate([part.end_ns for part in parts]),
        np.concatenate([part.style for part in parts]),
        np.concatenate([part.text for part in parts]),
        np.concatenate([part.domain for part in parts]),
        np.concatenate([part.thread for part in parts]),
        None,
        np.concatenate(
            [
                np.full(len(part), MISSING, np.int64)
                if part.end_thread is None
                else part.end_thread
                for part in parts
            ]
        ),
    )


def _joined_raw(captures: Sequence[Chosen]) -> Mapping[RawColumns, RawTable]:
    """Join the chosen rows of tables that are read as they are written."""
    joined: dict[RawColumns, RawTable] = {}
    for wanted in dict.fromkeys(key for capture in captures for key in capture.tables.raw):
        columns: dict[str, list[Any]] = {name: [] for name in (*wanted.values, *wanted.texts)}
        for capture in captures:
            table = capture.tables.raw.get(wanted)
            for name, cells in () if table is None else _chosen_rows(table, capture.filter):
                if name in columns:
                    columns[name].extend(cells)
        joined[wanted] = RawTable(columns)
    return joined


def _chosen_rows(table: RawTable, chosen: Filter) -> Iterable[tuple[str, Sequence[Any]]]:
    """Return the columns of the chosen rows: all of a table without times."""
    if not {"start", "end"} <= table.columns.keys() or chosen == EVERYTHING:
        return table.columns.items()
    times = zip(table.columns["start"], table.columns["end"], strict=True)
    rows = [row for row, (start, end) in enumerate(times) if is_chosen(chosen, start, end)]
    return [(name, [cells[row] for row in rows]) for name, cells in table.columns.items()]


_COPY = re.compile(
    r"^(?:CUDA )?Memcpy (?P<way>\w+)(?: \((?P<source>\w+) -> (?P<target>\w+)\))?", re.I
)
_FILL = re.compile(r"^(?:CUDA )?Memset(?: \((?P<target>\w+)\))?", re.I)
_CATEGORIES: Final[Mapping[str, int]] = {
    "gpu_memcpy": COPY,
    "memcpy": COPY,
    "gpu_memset": FILL,
    "memset": FILL,
}
_PLACES: Final[Mapping[str, str]] = {
    "h": "Host",
    "d": "Device",
    "a": "Array",
    "p": "Peer",
}
_MAX_THREADS: Final = 1 << 20


def tables_of_traces(traces: Sequence[RankTrace], origin_ns: int) -> ReportTables:
    """Return the tables of all ranks together, as nsys pools the processes of a node.

    Times count from ``origin_ns``. User annotations replace NVTX ranges. Data that a PyTorch trace
    does not record (grid, registers, calls into the operating system) is missing.
    """
    names = Names()
    ranks = [_RankTables(index, trace, origin_ns, names) for index, trace in enumerate(traces)]
    work = joined_work([rank.work() for rank in ranks])
    api = joined_calls([rank.calls() for rank in ranks])
    ranges = joined_ranges([rank.ranges() for rank in ranks])
    devices = {device.index: device.name for trace in traces for device in trace.devices}
    return ReportTables(names.texts(), work, api, None, ranges, devices)


class _RankTables:
    """Tables of one rank; its index replaces the process id."""

    def __init__(self, index: int, trace: RankTrace, origin_ns: int, names: Names) -> None:
        self._index = index
        self._trace = trace
        self._origin_ns = origin_ns
        self._names = names

    def work(self) -> Work:
        """Return the device work of the rank."""
        events = self._trace.group("gpu")
        kinds, ids, source, target = self._named_work(events)
        tracks = self._trace.tracks
        device = np.array([track.device for track in tracks] or [MISSING], np.int64)
        stream = np.array([track.stream for track in tracks] or [MISSING], np.int64)
        return Work(
            events.start_ns - self._origin_ns,
            events.end_ns - self._origin_ns,
            kinds,
            ids,
            self._process(events),
            events.correlation,
            device[events.track].astype(np.int32),
            {
                "bytes": events.bytes,
                "stream": stream[events.track],
                "source_kind": source,
                "target_kind": target,
            },
        )

    def calls(self) -> Calls:
        """Return the calls of the CUDA runtime and driver."""
        events = self._trace.group("runtime")
        return Calls(
            events.start_ns - self._origin_ns,
            events.end_ns - self._origin_ns,
            self._plain_names(events),
            self._threads(events),
            self._process(events),
            events.correlation,
        )

    def ranges(self) -> Ranges:
        """Return the user annotations of the threads of the rank."""
        events = self._trace.group("annotations")
        count = len(events)
        return Ranges(
            events.start_ns - self._origin_ns,
            events.end_ns - self._origin_ns,
            np.full(count, PUSH_POP, np.int8),
            self._plain_names(events),
            np.full(count, MISSING, np.int32),
            self._threads(events),
        )

    def _process(self, events: Events) -> I64:
        return np.full(len(events), self._index, np.int64)

    def _threads(self, events: Events) -> I64:
        return events.track.astype(np.int64) + self._index * _MAX_THREADS

    def _plain_names(self, events: Events) -> I32:
        found, inverse = np.unique(events.name, return_inverse=True)
        ids = [self._names.of(self._trace.text(one)) for one in found.tolist()]
        return np.array(ids, np.int32)[inverse]

    def _named_work(self, events: Events) -> tuple[I8, I32, I64, I64]:
        """Return kind, name as in nsys, and source and target memory kind of each piece of work."""
        pairs = np.stack([events.category, events.name], 1)
        found, inverse = np.unique(pairs, axis=0, return_inverse=True)
        rows = [self._describe(*pair) for pair in found.tolist()] or [(KERNEL, 0, -1, -1)]
        table = np.array(rows, np.int64)[inverse.ravel()]
        return table[:, 0].astype(np.int8), table[:, 1].astype(np.int32), table[:, 2], table[:, 3]

    def _describe(self, category: int, name: int) -> tuple[int, int, int, int]:
        text = self._trace.text(name)
        kind = _CATEGORIES.get(self._trace.text(category).lower(), KERNEL)
        copy, fill = _COPY.match(text), _FILL.match(text)
        if kind == COPY:
            source, target = (copy["source"], copy["target"]) if copy else (None, None)
            label = f"[CUDA memcpy {_direction(copy['way']) if copy else 'Unknown'}]"
            return COPY, self._names.of(label), _memory_kind(source), _memory_kind(target)
        if kind == FILL:
            target = fill["target"] if fill else None
            return FILL, self._names.of("[CUDA memset]"), _memory_kind(target), MISSING
        return KERNEL, self._names.of(text), MISSING, MISSING


def _direction(short: str) -> str:
    """Convert ``HtoD`` to the form of nsys: Host-to-Device."""
    source, _, target = short.lower().partition("to")
    if source in _PLACES and target in _PLACES:
        return f"{_PLACES[source]}-to-{_PLACES[target]}"
    return "Unknown"


def _memory_kind(text: str | None) -> int:
    return MEMORY_KINDS.index(text) if text in MEMORY_KINDS else MISSING
