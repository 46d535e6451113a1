"""Set operations on intervals in numpy, for :mod:`ccltui.metrics.arrays.intervals`.

``_intervals.pyx`` has the same six, four times as fast, and they are taken where it is compiled.
A set is two int64 arrays, sorted, disjoint and not touching, and so are the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ccltui.parsers.array_types import I64

Set = tuple[I64, I64]


class Functions(Protocol):
    """The six of this module, or the compiled ones."""

    def union(self, start: I64, end: I64) -> Set | None:
        """See `union`."""

    def either(self, start: I64, end: I64, other_start: I64, other_end: I64) -> Set:
        """See `either`."""

    def both(self, start: I64, end: I64, other_start: I64, other_end: I64) -> Set:
        """See `both`."""

    def without(self, start: I64, end: I64, other_start: I64, other_end: I64) -> Set:
        """See `without`."""

    def covered_before(self, start: I64, end: I64, measure: I64, times: I64) -> I64:
        """See `covered_before`."""

    def standstills(self, parts: Sequence[I64], least: int) -> Set | None:
        """See `standstills`; None where it would take too much room."""


def union(start: I64, end: I64) -> Set | None:
    """Union of intervals by start; None where those that are not empty are not in that order."""
    keep = end > start
    if not keep.all():
        start, end = start[keep], end[keep]
    if np.any(start[1:] < start[:-1]):
        return None
    if not len(start):
        return start, end
    reach = np.maximum.accumulate(end)
    opens = np.flatnonzero(start[1:] > reach[:-1]) + 1
    first = np.concatenate((np.zeros(1, np.intp), opens))
    last = np.concatenate((opens - 1, np.array([len(start) - 1])))
    return start[first], reach[last]


def either(start: I64, end: I64, other_start: I64, other_end: I64) -> Set:
    """What is in one set or in both."""
    starts, ends = _merged(start, other_start), _merged(end, other_end)
    if not len(starts):
        return starts, ends
    opens = starts[1:] > ends[:-1]
    return (
        np.concatenate((starts[:1], starts[1:][opens])),
        np.concatenate((ends[:-1][opens], ends[-1:])),
    )


def both(start: I64, end: I64, other_start: I64, other_end: I64) -> Set:
    """What is in both sets.

    In sorted order the i-th start meets a second open interval exactly when the end before it is
    still to come, and that end is where the overlap ends: each set is disjoint, so never more
    than two intervals are open.
    """
    starts, ends = _merged(start, other_start)[1:], _merged(end, other_end)[:-1]
    overlap = ends > starts
    return starts[overlap], ends[overlap]


def without(start: I64, end: I64, other_start: I64, other_end: I64) -> Set:
    """What is in the first set only."""
    if not len(start):
        return start, end
    # What the other set leaves between the first start and the last end.
    lows = np.concatenate((start[:1], np.maximum(other_end, start[0])))
    highs = np.concatenate((np.minimum(other_start, end[-1]), end[-1:]))
    left = highs > lows
    return both(start, end, lows[left], highs[left])


def covered_before(start: I64, end: I64, measure: I64, times: I64) -> I64:
    """Time covered before each of ``times``, int64 of their length.

    ``measure`` is the time in the first 0, 1, … intervals; there is at least one.
    """
    begun = np.searchsorted(start, times, side="right")
    remaining = np.maximum(end[np.maximum(begun - 1, 0)] - times, 0)
    covered: I64 = np.where(begun > 0, measure[begun] - remaining, 0)
    return covered


def standstills(parts: Sequence[I64], least: int) -> Set:
    """Starts and ends of what lies between consecutive times at least so far apart.

    ``parts`` are arrays of times in any order; ``least`` is above 0.
    """
    times = np.concatenate(parts)
    times.sort(kind="stable")  # runs that are nearly in order
    long = np.flatnonzero(np.diff(times) >= least)
    return times[long], times[long + 1]


def _merged(one: I64, other: I64) -> I64:
    """Both sorted arrays as one; the stable sort only merges what is in order already."""
    merged = np.concatenate((one, other))
    merged.sort(kind="stable")
    return merged
