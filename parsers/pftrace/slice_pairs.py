"""Join begins and ends of slices.

PyTorch writes groups of slices: the begins of a group, then their ends in the same order. The
k-th end of a file is that of its k-th begin, and slices of one track may overlap, which a stack
would pair wrongly. Programs that use Perfetto's own library write in order of time, and an end is
that of the last open begin of its track.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ccltui.parsers.kineto.event_list import NoteLog
from ccltui.parsers.pftrace.packet_scan import Table

_UNMATCHED_END = ("unmatched_end", "end events without their begin are dropped")
_UNMATCHED_BEGIN = ("unmatched_begin", "begin events without an end are dropped")
_NEGATIVE = ("negative_duration", "events that end before they begin are dropped")


class SlicePairs:
    """Begins and ends that are not paired yet.

    Which of the two ways a file has is decided by its first end: PyTorch's has no flags of its
    sequence, which every packet of Perfetto's library has. A file that goes back in time on a track
    is PyTorch's whatever its flags.
    """

    def __init__(self, note_log: NoteLog) -> None:
        self._note_log = note_log
        self._begins: deque[Table] = deque()
        self._ends: deque[Table] = deque()
        self._is_plain: bool | None = None

    def add(self, begins: Table, ends: Table) -> Iterator[Table]:
        """Add what was scanned next; yield slices, with their duration, that are complete."""
        if len(begins["start_ns"]):
            self._begins.append(begins)
        if len(ends["time_ns"]):
            self._ends.append(ends)
            if self._is_plain is None:
                self._is_plain = bool(ends["is_plain"][0])
        if self._is_plain:
            yield from self._in_order()

    def finish(self) -> Iterator[Table]:
        """Yield the slices that are complete at the end of the file; note what is left."""
        if self._is_plain is False and self._goes_back():
            self._is_plain = True
        if self._is_plain is False and self._begins:
            yield self._nested()
            return
        yield from self._in_order()
        self._note(_UNMATCHED_BEGIN, sum(len(one["start_ns"]) for one in self._begins))
        self._note(_UNMATCHED_END, sum(len(one["time_ns"]) for one in self._ends))

    def _note(self, note: tuple[str, str], count: int) -> None:
        if count:
            self._note_log.add(*note, None, count)

    def _in_order(self) -> Iterator[Table]:
        """Yield the slices of the begins and ends that are first in both queues."""
        while self._begins and self._ends:
            begins, ends = self._begins[0], self._ends[0]
            count = min(len(begins["start_ns"]), len(ends["time_ns"]))
            _drop(self._begins, count)
            _drop(self._ends, count)
            yield self._joined(_cut(begins, 0, count), _cut(ends, 0, count))

    def _joined(self, begins: Table, ends: Table) -> Table:
        """Return slices with their durations, without those that cannot be."""
        duration = ends["time_ns"] - begins["start_ns"]
        other_track = begins["track"] != ends["track"]
        self._note(_UNMATCHED_END, int(other_track.sum()))
        negative = ~other_track & (duration < 0)
        self._note(_NEGATIVE, int(negative.sum()))
        found = {**begins, "dur_ns": duration}
        dropped = other_track | negative
        return found if not dropped.any() else {n: c[~dropped] for n, c in found.items()}

    def _goes_back(self) -> bool:
        """Whether the times of a track ever decrease, in the order of each of the two lists."""
        for tables, name in ((self._begins, "start_ns"), (self._ends, "time_ns")):
            track, time = (_column(tables, one) for one in ("track", name))
            order = np.argsort(track, kind="stable")
            same = np.diff(track[order]) == 0
            if (same & (np.diff(time[order]) < 0)).any():
                return True
        return False

    def _nested(self) -> Table:
        """Return the slices, each end being that of the last open begin of its track."""
        begins = {name: _column(self._begins, name) for name in self._begins[0]}
        ends = {name: _column(self._ends, name) for name in ("time_ns", "track", "number")}
        track = np.concatenate((begins["track"], ends["track"]))
        number = np.concatenate((begins["number"], ends["number"]))
        is_begin = np.arange(len(track)) < len(begins["track"])
        order = np.lexsort((number, track))
        level = np.cumsum(np.where(is_begin[order], 1, -1))
        depth = np.where(is_begin[order], level, level + 1)
        by_depth = order[np.lexsort((np.arange(len(order)), depth, track[order]))]
        depth_of = np.empty(len(order), np.int64)
        depth_of[order] = depth
        first, second = by_depth[:-1], by_depth[1:]
        pairs = (
            (track[first] == track[second])
            & (depth_of[first] == depth_of[second])
            & is_begin[first]
            & ~is_begin[second]
        )
        own, closing = first[pairs], second[pairs] - len(begins["track"])
        self._note(_UNMATCHED_BEGIN, len(begins["track"]) - len(own))
        self._note(_UNMATCHED_END, len(ends["track"]) - len(own))
        place = np.argsort(own, kind="stable")
        own, closing = own[place], closing[place]
        found = {name: column[own] for name, column in begins.items()}
        return self._joined(found, {name: column[closing] for name, column in ends.items()})


def _column(tables: deque[Table], name: str) -> npt.NDArray[np.int64]:
    return np.concatenate([one[name] for one in tables])


def _cut(table: Table, begin: int, end: int | None) -> Table:
    return {name: column[begin:end] for name, column in table.items()}


def _drop(tables: deque[Table], count: int) -> None:
    """Drop the first rows of the first table."""
    first = tables.popleft()
    if count < len(next(iter(first.values()))):
        tables.appendleft(_cut(first, count, None))
