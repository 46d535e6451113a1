"""Build the tables of nsys reports from the columns of ranks, for PyTorch traces."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from ccltui.metrics.nsys_reports.pooled import joined_calls, joined_ranges, joined_work
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
    ReportTables,
    Work,
)

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
