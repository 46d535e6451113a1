"""Half-open intervals [start, end) in int64 nanoseconds: unions, overlaps, coverage.

A set of intervals has one canonical form (sorted, disjoint, not touching, none empty), so that
equal sets have equal arrays. All lengths are exact integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ccltui.metrics.arrays import interval_arrays
from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.arrays.interval_arrays import Functions
from ccltui.parsers.array_types import I8, I64, Bool


class Intervals(Struct, frozen=True, eq=False):
    """A set of times, as sorted and disjoint half-open intervals.

    ``start_ns`` and ``end_ns`` are int64 of one length. Construct with `of` or `union`, which
    convert any input to canonical form. Sets share arrays: treat these as read-only.
    """

    start_ns: I64
    end_ns: I64

    @classmethod
    def of(cls, start_ns: npt.ArrayLike, end_ns: npt.ArrayLike) -> Intervals:
        """Return the union of intervals in any order; a pair of scalars is one interval."""
        return union(np.atleast_1d(np.asarray(start_ns)), np.atleast_1d(np.asarray(end_ns)))

    @classmethod
    def empty(cls) -> Intervals:
        """Return the empty set."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.start_ns)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Intervals):
            return NotImplemented
        return np.array_equal(self.start_ns, other.start_ns) and np.array_equal(
            self.end_ns, other.end_ns
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def total_ns(self) -> int:
        """Total length of the intervals."""
        return int((self.end_ns - self.start_ns).sum())

    def __and__(self, other: Intervals) -> Intervals:
        if not len(self) or not len(other):
            return Intervals.empty()
        if len(other) == 1:  # mostly the whole of a recording, and no copy is made
            return self.clip(int(other.start_ns[0]), int(other.end_ns[0]))
        return Intervals(*_functions().intersect(*self._arrays, *other._arrays))

    def __or__(self, other: Intervals) -> Intervals:
        if not len(self) or not len(other):
            return self if len(self) else other
        return Intervals(*_functions().merge(*self._arrays, *other._arrays))

    def __sub__(self, other: Intervals) -> Intervals:
        if not len(self) or not len(other):
            return self
        return Intervals(*_functions().subtract(*self._arrays, *other._arrays))

    @property
    def _arrays(self) -> tuple[I64, I64]:
        return np.ascontiguousarray(self.start_ns), np.ascontiguousarray(self.end_ns)

    def gaps(self, start_ns: int, end_ns: int) -> Intervals:
        """Return the part of [start_ns, end_ns) that the set does not cover."""
        inside = self.clip(start_ns, end_ns)
        starts = np.concatenate((np.array([start_ns], np.int64), inside.end_ns))
        ends = np.concatenate((inside.start_ns, np.array([end_ns], np.int64)))
        keep = ends > starts
        return Intervals(starts[keep], ends[keep])

    def clip(self, start_ns: int, end_ns: int) -> Intervals:
        """Return the part of the set inside [start_ns, end_ns)."""
        first = int(np.searchsorted(self.end_ns, start_ns, side="right"))
        stop = int(np.searchsorted(self.start_ns, end_ns, side="left"))
        if start_ns >= end_ns or first >= stop:
            return Intervals.empty()
        if start_ns <= self.start_ns[0] and self.end_ns[-1] <= end_ns:
            return self
        return Intervals(
            np.maximum(self.start_ns[first:stop], start_ns),
            np.minimum(self.end_ns[first:stop], end_ns),
        )

    def within(self, begin_ns: npt.ArrayLike, until_ns: npt.ArrayLike) -> I64:
        """Return the ns covered from each of ``begin_ns`` to ``until_ns``, int64 of their shape.

        The times are in any order. Those from a later to an earlier one are negative. Raises
        ValueError where the two have different shapes.
        """
        begin, until = np.asarray(begin_ns, np.int64), np.asarray(until_ns, np.int64)
        if not len(self):
            return np.zeros(begin.shape, np.int64)
        if begin.shape != until.shape:  # the compiled function looks at no length
            raise ValueError(f"times of shapes {begin.shape} and {until.shape}")
        # The compiled functions take contiguous arrays of one dimension.
        lines = (np.ascontiguousarray(times).reshape(-1) for times in (begin, until))
        return _functions().covered_within(*self._arrays, *lines).reshape(begin.shape)

    def take_from_waits(self, waits: tuple[I64, I64, I64, I64], exposed: I64, beyond: I64) -> None:
        """Write waits without the time that the set covers; see `interval_arrays.exposed_waits`."""
        begun, lasted, shortest, gap = map(np.ascontiguousarray, waits)
        lines = begun, lasted, shortest, gap
        _functions().exposed_waits(*self._arrays, lines, (exposed, beyond))

    def contains(self, times_ns: npt.ArrayLike) -> Bool:
        """Return whether each of ``times_ns`` is in the set; starts are, ends are not."""
        times = np.asarray(times_ns, np.int64)
        if not len(self):
            return np.zeros(times.shape, np.bool_)
        if len(self) == 1:  # two comparisons are quicker than a search
            return np.asarray((times >= self.start_ns[0]) & (times < self.end_ns[0]))
        begun = np.searchsorted(self.start_ns, times, side="right")
        inside: Bool = (begun > 0) & (times < self.end_ns.take(np.maximum(begun - 1, 0)))
        return inside


def union(start_ns: npt.ArrayLike, end_ns: npt.ArrayLike) -> Intervals:
    """Return the union of any intervals: unsorted, overlapping, nested, touching or empty.

    An interval whose end is not after its start is empty.
    """
    starts = np.ascontiguousarray(start_ns, np.int64)
    ends = np.ascontiguousarray(end_ns, np.int64)
    found = _functions().union(starts, ends)
    if found is None:
        order = np.argsort(starts, kind="stable")
        found = _functions().union(starts[order], ends[order])
    if found is None:
        raise AssertionError("sorted times that are not sorted")
    return Intervals(*found)


def union_of_class(start_ns: I64, dur_ns: I64, kind: I8, wanted: int) -> Intervals:
    """Return the union of the events of one class, as `union`; none is copied before."""
    found = _functions().union_of_class(start_ns, dur_ns, np.ascontiguousarray(kind), wanted)
    if found is None:
        rows = np.flatnonzero(kind == wanted)
        start = start_ns.take(rows)
        return union(start, start + dur_ns.take(rows))
    return Intervals(*found)


def long_gaps(times_ns: Sequence[I64], least_ns: int) -> Intervals:
    """Return the gaps of at least ``least_ns`` (above 0) that contain none of the times.

    Gaps lie between two times. ``times_ns`` are int64 arrays, each in any order.
    """
    parts = [np.ascontiguousarray(part) for part in times_ns]
    if not parts:
        return Intervals.empty()
    found = _functions().long_gaps(parts, least_ns)
    if found is None:
        found = interval_arrays.long_gaps(parts, least_ns)
    return union(*found)  # touching gaps become one


def _functions() -> Functions:
    """The compiled functions where they are available, else those in numpy."""
    return _compiled() if available() else interval_arrays


@cache
def _compiled() -> Functions:
    from ccltui.metrics.arrays import _intervals  # noqa: PLC0415

    compiled: Functions = _intervals
    return compiled
