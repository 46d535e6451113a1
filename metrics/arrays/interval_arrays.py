"""IntervalSet operations on intervals in numpy, for :mod:`ccltui.metrics.arrays.intervals`.

``_intervals.pyx`` implements the same functions four times as fast; they replace these where
they were compiled. A set is two int64 arrays, starts and ends, of intervals that are sorted,
disjoint and not touching. Arguments and results have this form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ccltui.parsers.array_types import I8, I64

IntervalSet = tuple[I64, I64]


class Functions(Protocol):
    """The functions of this module, or the compiled ones."""

    def union(self, start: I64, end: I64) -> IntervalSet | None:
        """See `union`."""

    def merge(self, start: I64, end: I64, other_start: I64, other_end: I64) -> IntervalSet:
        """See `merge`."""

    def intersect(self, start: I64, end: I64, other_start: I64, other_end: I64) -> IntervalSet:
        """See `intersect`."""

    def subtract(self, start: I64, end: I64, other_start: I64, other_end: I64) -> IntervalSet:
        """See `subtract`."""

    def covered_within(self, start: I64, end: I64, begin: I64, until: I64) -> I64:
        """See `covered_within`."""

    def long_gaps(self, parts: Sequence[I64], least: int) -> IntervalSet | None:
        """See `long_gaps`; None where it would take too much memory."""

    def union_of_class(self, start: I64, dur: I64, kind: I8, wanted: int) -> IntervalSet | None:
        """See `union_of_class`."""

    def exposed_waits(
        self, start: I64, end: I64, waits: tuple[I64, I64, I64, I64], found: tuple[I64, I64]
    ) -> None:
        """See `exposed_waits`."""


def union(start: I64, end: I64) -> IntervalSet | None:
    """Return the union of intervals sorted by start; None if the non-empty ones are not sorted."""
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


def merge(start: I64, end: I64, other_start: I64, other_end: I64) -> IntervalSet:
    """Return the union of two sets."""
    starts, ends = _merged(start, other_start), _merged(end, other_end)
    if not len(starts):
        return starts, ends
    opens = starts[1:] > ends[:-1]
    return (
        np.concatenate((starts[:1], starts[1:][opens])),
        np.concatenate((ends[:-1][opens], ends[-1:])),
    )


def intersect(start: I64, end: I64, other_start: I64, other_end: I64) -> IntervalSet:
    """Return the intersection of two sets.

    Sort all starts and all ends. Each set is disjoint, so at most two intervals are open at a
    time: the start i opens a second one exactly when it precedes the end i - 1, and the overlap
    lasts from the one to the other.
    """
    starts, ends = _merged(start, other_start)[1:], _merged(end, other_end)[:-1]
    overlap = ends > starts
    return starts[overlap], ends[overlap]


def subtract(start: I64, end: I64, other_start: I64, other_end: I64) -> IntervalSet:
    """Return the part of the first set that is not in the second."""
    if not len(start):
        return start, end
    # Complement of the other set between the first start and the last end.
    lows = np.concatenate((start[:1], np.maximum(other_end, start[0])))
    highs = np.concatenate((np.minimum(other_start, end[-1]), end[-1:]))
    left = highs > lows
    return intersect(start, end, lows[left], highs[left])


def covered_within(start: I64, end: I64, begin: I64, until: I64) -> I64:
    """Return the time that a set covers from each of ``begin`` to ``until``, int64 ns.

    Args:
        start: starts of the set, which has at least one interval.
        end: ends of the set.
        begin: one dimension, in any order.
        until: likewise; the time is negative where it is before ``begin``.
    """
    measure = np.concatenate((np.zeros(1, np.int64), np.cumsum(end - start)))

    def before(times: I64) -> I64:
        begun = np.searchsorted(start, times, side="right")
        remaining = np.maximum(end[np.maximum(begun - 1, 0)] - times, 0)
        return np.where(begun > 0, measure[begun] - remaining, 0)

    return before(until) - before(begin)


def long_gaps(parts: Sequence[I64], least: int) -> IntervalSet:
    """Return the gaps of at least ``least`` between consecutive times.

    Args:
        parts: arrays of times in any order.
        least: shortest gap, above 0.
    """
    times = np.concatenate(parts)
    times.sort(kind="stable")  # quick on ascending runs
    long = np.flatnonzero(np.diff(times) >= least)
    return times[long], times[long + 1]


def union_of_class(start: I64, dur: I64, kind: I8, wanted: int) -> IntervalSet | None:
    """Return the union of the events of a class; None if the non-empty ones are not sorted.

    Args:
        start: start of each event.
        dur: duration of each.
        kind: class of each.
        wanted: the class.
    """
    rows = np.flatnonzero(kind == wanted)
    begun = start.take(rows)
    return union(begun, begun + dur.take(rows))


def exposed_waits(
    start: I64, end: I64, waits: tuple[I64, I64, I64, I64], found: tuple[I64, I64]
) -> None:
    """Write how long a rank waited while a set, its computation, did not cover the time.

    Args:
        start: starts of the set.
        end: ends of the set.
        waits: of each collective the start of the rank's call and its duration, the shortest
            duration of a rank, and by how much the next shortest is longer.
        found: takes the exposed waits; to the second is added the part of them after the arrival
            of the last but one rank.
    """
    (begun, lasted, shortest, gap), (exposed, beyond) = waits, found
    wait = lasted - shortest
    until, alone = begun + wait, np.minimum(gap, wait)
    exposed[:] = wait
    beyond += alone
    if len(start):
        exposed -= covered_within(start, end, begun, until)
        beyond -= covered_within(start, end, until - alone, until)


def _merged(one: I64, other: I64) -> I64:
    """Merge two sorted arrays: a stable sort merges ascending runs in one pass."""
    merged = np.concatenate((one, other))
    merged.sort(kind="stable")
    return merged
