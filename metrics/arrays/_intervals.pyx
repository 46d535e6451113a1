# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Compiled set operations on intervals, for ``intervals.py``: one pass along each set.

``interval_arrays.py`` implements the same functions in numpy, with full documentation and equal
results; compiled they are four times as fast. A set is two int64 arrays, sorted and disjoint, and
so are the results. All loops release the GIL.
"""

from libc.stdint cimport INT64_MAX, INT64_MIN, int8_t, int64_t, uint64_t

import numpy as np

ctypedef const int64_t[::1] Times


def union(Times start, Times end):
    """Starts and ends of the union; None where the non-empty intervals are not sorted by start."""
    cdef Py_ssize_t place, count = -1
    cdef int64_t before = 0
    cdef bint is_sorted = True
    starts, ends = np.empty((2, len(start)), np.int64)
    cdef int64_t[::1] first = starts
    cdef int64_t[::1] last = ends
    with nogil:
        for place in range(start.shape[0]):
            if end[place] <= start[place]:
                continue
            if count < 0 or start[place] > last[count]:
                count += 1
                first[count], last[count] = start[place], end[place]
            elif start[place] < before:
                is_sorted = False
                break
            elif end[place] > last[count]:
                last[count] = end[place]
            before = start[place]
    return _cut(starts, ends, count + 1) if is_sorted else None


def merge(Times start, Times end, Times other_start, Times other_end):
    """Union of two sets."""
    cdef Py_ssize_t mine = 0, other = 0, count = -1
    cdef int64_t begin, until
    starts, ends = np.empty((2, len(start) + len(other_start)), np.int64)
    cdef int64_t[::1] first = starts
    cdef int64_t[::1] last = ends
    with nogil:
        while mine < start.shape[0] or other < other_start.shape[0]:
            if other == other_start.shape[0] or (
                mine < start.shape[0] and start[mine] <= other_start[other]
            ):
                begin, until = start[mine], end[mine]
                mine += 1
            else:
                begin, until = other_start[other], other_end[other]
                other += 1
            if count < 0 or begin > last[count]:
                count += 1
                first[count], last[count] = begin, until
            elif until > last[count]:
                last[count] = until
    return _cut(starts, ends, count + 1)


def intersect(Times start, Times end, Times other_start, Times other_end):
    """Intersection of two sets."""
    cdef Py_ssize_t mine = 0, other = 0, count = 0
    cdef int64_t begin, until
    starts, ends = np.empty((2, len(start) + len(other_start)), np.int64)
    cdef int64_t[::1] first = starts
    cdef int64_t[::1] last = ends
    with nogil:
        while mine < start.shape[0] and other < other_start.shape[0]:
            begin = max(start[mine], other_start[other])
            until = min(end[mine], other_end[other])
            if begin < until:
                first[count], last[count] = begin, until
                count += 1
            if end[mine] < other_end[other]:
                mine += 1
            else:
                other += 1
    return _cut(starts, ends, count)


def subtract(Times start, Times end, Times other_start, Times other_end):
    """The part of the first set that is not in the second."""
    cdef Py_ssize_t mine, other = 0, count = 0
    cdef int64_t begin
    starts, ends = np.empty((2, len(start) + len(other_start)), np.int64)
    cdef int64_t[::1] first = starts
    cdef int64_t[::1] last = ends
    with nogil:
        for mine in range(start.shape[0]):
            begin = start[mine]
            while other < other_start.shape[0] and other_end[other] <= begin:
                other += 1
            while other < other_start.shape[0] and other_start[other] < end[mine]:
                if other_start[other] > begin:
                    first[count], last[count] = begin, other_start[other]
                    count += 1
                begin = other_end[other]
                if begin >= end[mine]:
                    break  # it may overlap the next interval as well
                other += 1
            if begin < end[mine]:
                first[count], last[count] = begin, end[mine]
                count += 1
    return _cut(starts, ends, count)


def covered_within(Times start, Times end, Times begin, Times until):
    """Time covered from each of ``begin`` to ``until``, int64; quickest where these ascend.

    There is at least one interval. Only those between the earliest and the latest of these times
    are summed up.
    """
    cdef Py_ssize_t place, first, count, left = 0, right = 0
    cdef int64_t low = INT64_MAX, high = INT64_MIN
    found = np.empty(len(begin), np.int64)
    cdef int64_t[::1] covered = found
    with nogil:
        for place in range(begin.shape[0]):
            low = min(low, min(begin[place], until[place]))
            high = max(high, max(begin[place], until[place]))
        # the interval that holds the earliest time has begun before it
        first = max(_begun(&start[0], start.shape[0], 0, low) - 1, 0)
        count = _begun(&start[0], start.shape[0], first, high) - first
    cdef int64_t[::1] measure = np.empty(max(count, 0) + 1, np.int64)
    with nogil:
        measure[0] = 0
        for place in range(count):
            measure[place + 1] = measure[place] + end[first + place] - start[first + place]
        for place in range(begin.shape[0]):
            left = _begun(&start[first], count, left, begin[place])
            right = _begun(&start[first], count, right, until[place])
            covered[place] = measure[right] - measure[left]
            if left:
                covered[place] += max(end[first + left - 1] - begin[place], 0)
            if right:
                covered[place] -= max(end[first + right - 1] - until[place], 0)
    return found


cdef inline Py_ssize_t _begun(
    const int64_t* start, Py_ssize_t count, Py_ssize_t near, int64_t moment
) noexcept nogil:
    """Number of intervals that have begun; searched from a result nearby, in doubling steps."""
    cdef Py_ssize_t low = 0, high = count, middle, step = 1
    if near and start[near - 1] > moment:
        high = near - 1
    else:
        low = near
        while low + step <= high and start[low + step - 1] <= moment:
            low += step
            step *= 2
        high = min(low + step, high)
    while low < high:
        middle = (low + high) // 2
        if start[middle] <= moment:
            low = middle + 1
        else:
            high = middle
    return low


def long_gaps(parts, int64_t least):
    """Gaps of at least ``least`` (above 0) between consecutive times; ``parts`` are in any order.

    Times in one cell of length ``least`` are closer than ``least``, so only the first and the last
    time of each cell are needed. None where there would be many more cells than times.
    """
    cdef Times times
    cdef Py_ssize_t place, cell, count = 0, number = 0
    cdef int64_t low = INT64_MAX, high = INT64_MIN, moment, before, begin
    for part in parts:
        times = part
        number += times.shape[0]
        with nogil:
            for place in range(times.shape[0]):
                low = min(low, times[place])
                high = max(high, times[place])
    if not number:
        return _cut(*np.empty((2, 0), np.int64), 0)
    cdef uint64_t cells = (<uint64_t> high - <uint64_t> low) // <uint64_t> least + 1
    if cells > 4 * <uint64_t> number + 1024:
        return None
    cdef int64_t[::1] first = np.full(cells, INT64_MAX, np.int64)
    cdef int64_t[::1] last = np.full(cells, INT64_MIN, np.int64)
    for part in parts:
        times = part
        with nogil:
            cell, begin = 0, low
            for place in range(times.shape[0]):
                moment = times[place]
                if not 0 <= moment - begin < least:  # most are in the cell of the one before
                    cell = (moment - low) // least
                    begin = low + cell * least
                first[cell] = min(first[cell], moment)
                last[cell] = max(last[cell], moment)
    starts, ends = np.empty((2, cells), np.int64)
    cdef int64_t[::1] start = starts
    cdef int64_t[::1] end = ends
    with nogil:
        before = low
        for cell in range(first.shape[0]):
            if first[cell] == INT64_MAX:
                continue
            if first[cell] - before >= least:
                start[count], end[count] = before, first[cell]
                count += 1
            before = last[cell]
    return _cut(starts, ends, count)


def _cut(starts, ends, Py_ssize_t count):
    """The first ``count`` of both; copied where more than half of the memory is unused."""
    if 2 * count < len(starts):
        return starts[:count].copy(), ends[:count].copy()
    return starts[:count], ends[:count]


include "_time_of_class.pxi"
include "_parts_of_time.pxi"
