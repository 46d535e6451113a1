"""Find the range that began last of those that run at a time, and the range around each range.

Ranges of one thread are nested as calls are. The depth of a range is then the number of ranges
that began and have not ended before it, and the innermost range at a time is the last that began
with the depth of that time: sorting answers for all times at once. Ranges that overlap without
one in the other are swept one by one.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from ccltui.parsers.array_types import I64

NONE = -1


def depths(start_ns: I64, end_ns: I64) -> I64:
    """Return how many earlier ranges of one thread run when each begins; -1 if it has no length.

    Args:
        start_ns: int64 [n], ascending; of equal ones the longer range is first.
        end_ns: int64 [n].
    """
    found = np.full(len(start_ns), NONE)
    rows = np.flatnonzero(end_ns > start_ns)
    found[rows] = _running_with(start_ns[rows], np.sort(end_ns[rows])) - 1
    return found


def _running_with(start: I64, ended: I64) -> I64:
    """Number of ranges that run when each begins, itself included; ``ended`` are sorted ends."""
    return np.arange(1, len(start) + 1) - np.searchsorted(ended, start, side="right")


class Nesting:
    """Ranges of one thread, half-open, in order of start, the longer first."""

    def __init__(self, start_ns: I64, end_ns: I64) -> None:
        """Take the ranges; of ranges without length none is ever running.

        Args:
            start_ns: int64 [n], ascending.
            end_ns: int64 [n].
        """
        self._rows = np.flatnonzero(end_ns > start_ns)
        self._num = len(start_ns)
        self._start, self._end = start_ns[self._rows], end_ns[self._rows]
        self._ended = np.sort(self._end)
        begun = np.arange(1, len(self._rows) + 1)
        self._depth = _running_with(self._start, self._ended)
        self._keys = np.sort(self._depth * (len(self._rows) + 1) + begun - 1)
        outer = self._last(self._depth - 1, begun - 1)
        if ((outer >= 0) & (self._end > self._end[outer])).any():
            self._edges, self._running, outer = _sweep(self._start, self._end)
            self._is_nested = False
        else:
            self._is_nested = True
        self._outer = outer

    @property
    def outer(self) -> I64:
        """Row of the innermost range around each range, int64 [n], -1 for none."""
        found = np.full(self._num, NONE)
        found[self._rows] = self._in_rows(self._outer)
        return found

    def innermost(self, times_ns: I64) -> I64:
        """Return the row of the range that began last of those running at each time, -1: none."""
        if not len(self._rows):
            return np.full(len(times_ns), NONE)
        if not self._is_nested:
            place = np.searchsorted(self._edges, times_ns, side="right") - 1
            return self._in_rows(np.where(place >= 0, self._running[place], NONE))
        begun = np.searchsorted(self._start, times_ns, side="right")
        depth = begun - np.searchsorted(self._ended, times_ns, side="right")
        return self._in_rows(self._last(depth, begun))

    def _last(self, depth: I64, begun: I64) -> I64:
        """Return the last of the first ``begun`` ranges that has a depth; -1 for the depth 0."""
        size = len(self._rows) + 1
        place = np.searchsorted(self._keys, depth * size + begun) - 1
        return np.where(depth > 0, self._keys[place] % size if len(self._keys) else NONE, NONE)

    def _in_rows(self, places: I64) -> I64:
        return np.where(places >= 0, self._rows[places], NONE)


def _sweep(start: I64, end: I64) -> tuple[I64, I64, I64]:
    """Return the times at which ranges begin and end, the last begun after each, and the outer."""
    outer, times, last = [], [], []
    running: list[tuple[int, int]] = []  # minus the place, so that the last begun is first; end
    starts, ends = start.tolist(), end.tolist()
    for place, begin in enumerate([*starts, None]):
        while running and (begin is None or running[0][1] <= begin):
            now = heappop(running)[1]
            while running and running[0][1] <= now:
                heappop(running)
            times.append(now)
            last.append(-running[0][0] if running else NONE)
        if begin is not None:
            outer.append(-running[0][0] if running else NONE)
            heappush(running, (-place, ends[place]))
            times.append(begin)
            last.append(place)
    return np.array(times, np.int64), np.array(last, np.int64), np.array(outer, np.int64)
