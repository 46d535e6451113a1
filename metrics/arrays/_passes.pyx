# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Compiled loops over operations, pieces of work and values.

``step_replay.py``, ``line_operations.py``, ``call_table.py``, ``critical_path.py``,
``rank_steps.py``, ``idle_causes.py``, ``reductions.py`` and ``by_column.py`` implement the same in
Python, with full documentation and results that are equal to the bit. Indices in arguments are not checked against array bounds.
"""

from libc.math cimport INFINITY, NAN
from libc.stdint cimport INT64_MAX, INT64_MIN, int8_t, int32_t, int64_t, uint8_t, uint64_t

import numpy as np

include "_replay_passes.pxi"


ctypedef fused Number:
    int8_t
    int32_t
    int64_t


def values_in(const Number[::1] values, int64_t most):
    """Return the lowest value, and which of the values from it on occur.

    See ``reductions.distinct_values``. None where the range has more than ``most`` values. There is
    at least one value.
    """
    cdef Py_ssize_t place
    cdef int64_t low = values[0], high = values[0]
    with nogil:
        for place in range(values.shape[0]):
            low = min(low, values[place])
            high = max(high, values[place])
    if <uint64_t> high - <uint64_t> low >= <uint64_t> most:
        return None
    seen_array = np.zeros(high - low + 1, np.uint8)
    cdef uint8_t[::1] seen = seen_array
    with nogil:
        for place in range(values.shape[0]):
            seen[values[place] - low] = 1
    return low, seen_array.view(np.bool_)


def stable_order(const Number[::1] values, int64_t most):
    """Return the order that sorts values, equal ones as they come; see ``reductions.stable_order``.

    None where the range has more than ``most`` values. There is at least one value.
    """
    cdef Py_ssize_t place
    cdef int64_t low = values[0], high = values[0], at
    with nogil:
        for place in range(values.shape[0]):
            low = min(low, values[place])
            high = max(high, values[place])
    if <uint64_t> high - <uint64_t> low >= <uint64_t> most:
        return None
    order_array = np.empty(len(values), np.int64)
    cdef int64_t[::1] order = order_array
    cdef int64_t[::1] following = np.zeros(high - low + 2, np.int64)
    with nogil:
        for place in range(values.shape[0]):
            following[values[place] - low + 1] += 1
        for place in range(1, following.shape[0]):
            following[place] += following[place - 1]
        for place in range(values.shape[0]):
            at = values[place] - low
            order[following[at]] = place
            following[at] += 1
    return order_array


def steps_of_launches(const int64_t[::1] wanted, launches, steps, int64_t most):
    """Step of each piece of work by its launch.

    See ``rank_steps.steps_of_launches``. ``wanted`` are the correlations of the work, ``launches``
    correlation and start, ``steps`` start and end; there is a launch and a step. None where a piece
    has no launch, ids lie in a range of more than ``most``, or launches are so far out of order that
    a search is quicker than going from step to step.
    """
    cdef const int64_t[::1] correlation, launched, start, end
    correlation, launched = launches
    start, end = steps
    cdef Py_ssize_t place, step = -1, steps_count = start.shape[0]
    cdef int64_t low = INT64_MAX, high = -1, moment
    cdef int32_t row
    cdef Py_ssize_t turns = 64 * (wanted.shape[0] + steps_count)
    cdef bint known = True
    with nogil:
        for place in range(correlation.shape[0]):
            if correlation[place] >= 0:
                low = min(low, correlation[place])
                high = max(high, correlation[place])
    if high < low or <uint64_t> high - <uint64_t> low >= <uint64_t> most:
        return None
    index_array = np.empty(len(wanted), np.int32)
    cdef int32_t[::1] index = index_array
    cdef int32_t[::1] row_of = np.full(high - low + 1, -1, np.int32)
    with nogil:
        for place in range(correlation.shape[0] - 1, -1, -1):  # the first of several with one id
            if correlation[place] >= 0:
                row_of[correlation[place] - low] = <int32_t> place
        for place in range(wanted.shape[0]):
            row = row_of[wanted[place] - low] if low <= wanted[place] <= high else -1
            if row < 0 or turns < 0:
                known = False
                break
            moment = launched[row]
            while step + 1 < steps_count and start[step + 1] <= moment:
                step += 1
                turns -= 1
            while step >= 0 and start[step] > moment:
                step -= 1
                turns -= 1
            index[place] = <int32_t> step if step >= 0 and moment < end[step] else -1
    return index_array if known else None


def extents(const int32_t[::1] index, const int64_t[:] begun, const int64_t[:] lasted, count):
    """First start and last end of the work of each step; ``index`` is the step of each piece."""
    cdef Py_ssize_t place
    cdef int32_t step
    first_array, last_array = np.full(count, INT64_MAX, np.int64), np.full(count, INT64_MIN, np.int64)
    cdef int64_t[::1] first = first_array
    cdef int64_t[::1] last = last_array
    with nogil:
        for place in range(index.shape[0]):
            step = index[place]
            if step >= 0:
                first[step] = min(first[step], begun[place])
                last[step] = max(last[step], begun[place] + lasted[place])
    return first_array, last_array


def add_edges(
    const int64_t[:] start, const int64_t[:] lasted, const int64_t[:] apart, int64_t[:, ::1] edges
):
    """Add the calls of a member to the edges of collectives; see ``validity.add_edges``."""
    cdef Py_ssize_t place
    cdef int64_t begin, end, dur
    with nogil:
        for place in range(start.shape[0]):
            dur = lasted[place]
            begin = start[place] - apart[place]
            end = begin + dur
            edges[0, place] = max(edges[0, place], begin)
            edges[1, place] = min(edges[1, place], end)
            edges[2, place] = max(edges[2, place], end)
            edges[3, place] = max(edges[3, place], dur)
            edges[5, place] = min(edges[5, place], max(edges[4, place], dur))
            edges[4, place] = min(edges[4, place], dur)
    return None


def two_lowest(const int64_t[:, :] values):
    """Columns with the lowest and the next number of each row; see ``by_column.two_lowest``."""
    cdef Py_ssize_t row, column
    cdef int64_t mine
    first_array, second_array = np.zeros((2, len(values)), np.int64)
    cdef int64_t[::1] first = first_array, second = second_array
    cdef int64_t[::1] low = np.array(values[:, 0])
    cdef int64_t[::1] next_low = np.full(len(values), INT64_MAX, np.int64)
    with nogil:
        for column in range(1, values.shape[1]):
            for row in range(values.shape[0]):
                mine = values[row, column]
                if mine >= next_low[row]:
                    continue
                if mine < low[row]:
                    next_low[row], second[row] = low[row], first[row]
                    low[row], first[row] = mine, column
                else:
                    next_low[row], second[row] = mine, column
    return first_array, second_array


def totals_by_name(
    const int64_t[::1] row,
    const int64_t[::1] begin,
    const int64_t[::1] length,
    const Number[::1] name,
    const int64_t[::1] weight,
    double[:, ::1] found,
):
    """Add the weights of segments of pieces to ``found`` [row, name]; see ``kernel_counts.py``.

    Each piece counts 1 where ``weight`` is empty, one without a name (-1) not at all.
    """
    cdef Py_ssize_t place, piece
    with nogil:
        for place in range(row.shape[0]):
            for piece in range(begin[place], begin[place] + length[place]):
                if name[piece] >= 0:
                    found[row[place], name[piece]] += weight[piece] if weight.shape[0] else 1


def idle_gaps(work, idle, pieces, calls, int64_t never):
    """Return start, end, launch and return of the gap around each idle time; see ``idle_causes.py``.

    ``work`` and ``idle`` are starts and ends of disjoint times in order, ``pieces`` the starts of
    device events in order and the row of the call that launched each, ``calls`` starts and durations.
    """
    cdef const int64_t[::1] work_start, work_end, idle_start, idle_end, begun, call_start, call_ns
    cdef const int32_t[::1] launch
    (work_start, work_end), (idle_start, idle_end) = work, idle
    (begun, launch), (call_start, call_ns) = pieces, calls
    cdef Py_ssize_t gap, after = 0, piece = 0, same, looked_at = -1
    cdef int32_t row = -1
    found = np.empty((4, len(idle_start)), np.int64)
    cdef int64_t[:, ::1] columns = found
    with nogil:
        for gap in range(idle_start.shape[0]):
            while after < work_end.shape[0] and work_end[after] <= idle_start[gap]:
                after += 1
            columns[0, gap] = work_end[after - 1] if after else idle_start[gap]
            columns[1, gap] = idle_end[gap]
            if after < work_start.shape[0]:
                columns[1, gap] = work_start[after]
            if looked_at != after and after < work_start.shape[0]:
                looked_at, row = after, -1  # idle times before one work have one launch
                while piece < begun.shape[0] and begun[piece] < work_start[after]:
                    piece += 1
                same = piece
                while same < begun.shape[0] and begun[same] == work_start[after]:
                    row = max(row, launch[same])
                    same += 1
            columns[2, gap] = columns[3, gap] = never
            if row >= 0 and after < work_start.shape[0]:
                columns[2, gap] = call_start[row]
                columns[3, gap] = call_start[row] + call_ns[row]
    return found[0], found[1], found[2], found[3]


def before_and_last(const int64_t[::1] start, const int64_t[::1] end, const int64_t[::1] by_end):
    """See ``critical_path.before_and_last``; ``by_end`` are the pieces sorted by end."""
    cdef Py_ssize_t piece, place = 0
    cdef int32_t before = -1, last = 0
    before_array, last_array = np.empty((2, len(start)), np.int32)
    cdef int32_t[::1] befores = before_array
    cdef int32_t[::1] lasts = last_array
    with nogil:
        for piece in range(start.shape[0]):
            while place < by_end.shape[0] and end[by_end[place]] <= start[piece]:
                before = <int32_t> by_end[place]
                place += 1
            befores[piece] = before
            if end[piece] >= end[last]:
                last = <int32_t> piece
            lasts[piece] = last
    return before_array, last_array


def along(
    const int32_t[::1] before, const int32_t[::1] jump, int64_t piece, int64_t outside
):
    """Pieces of one lane back to the next that leads to another lane, and that piece or -1.

    See ``critical_path.Lane.along``.
    """
    found_array = np.empty(piece + 2, np.int64)  # predecessors have smaller indices
    cdef int64_t[::1] found = found_array
    cdef Py_ssize_t count = 1
    found[0] = piece
    with nogil:
        while piece >= outside:
            piece = before[piece]
            if piece < 0 or jump[piece] >= 0 or count == found.shape[0]:
                break
            found[count] = piece
            count += 1
        else:
            piece = -1
    return found_array[:count].copy(), piece


ctypedef fused Measured:
    int32_t
    int64_t
    double


def sums_by_line(const Measured[:] values, const int64_t[::1] first):
    """Sum of the values of each line, added one after another; see ``call_table.py``."""
    cdef Py_ssize_t line, place
    cdef double total
    found_array = np.empty(len(first) - 1)
    cdef double[::1] found = found_array
    with nogil:
        for line in range(found.shape[0]):
            total = 0
            for place in range(first[line], first[line + 1]):
                total += <double> values[place]
            found[line] = total
    return found_array


cdef enum:
    # Places that are looked at one after another before the rest is divided in halves.
    NEAR = 16


def places_among(const int64_t[::1] ordered, const int64_t[::1] values, bint right):
    """Where values belong among ascending ones; see ``reductions.places_among``."""
    cdef Py_ssize_t row, at = 0, low, high, middle, count = ordered.shape[0], left
    cdef int64_t value
    found_array = np.empty(len(values), np.int64)
    cdef int64_t[::1] found = found_array
    with nogil:
        for row in range(values.shape[0]):
            # those before the place are less than this
            value = values[row]
            if right and value == INT64_MAX:
                at = count
                found[row] = at
                continue
            value += right
            left = NEAR
            while left and at < count and ordered[at] < value:
                at += 1
                left -= 1
            while left and at > 0 and ordered[at - 1] >= value:
                at -= 1
                left -= 1
            if not left:
                low, high = 0, count
                while low < high:
                    middle = (low + high) >> 1
                    if ordered[middle] < value:
                        low = middle + 1
                    else:
                        high = middle
                at = low
            found[row] = at
    return found_array


def extremes_by(const Measured[:] values, const int32_t[::1] group, int64_t count):
    """Lowest and highest of the whole numbers of each group; see ``reductions.extremes_by``."""
    cdef Py_ssize_t place, at
    cdef int64_t value
    least_array = np.full(count + 1, INT64_MAX, np.int64)
    most_array = np.full(count + 1, INT64_MIN, np.int64)
    cdef int64_t[::1] least = least_array
    cdef int64_t[::1] most = most_array
    with nogil:
        for place in range(group.shape[0]):
            value = <int64_t> values[place]
            at = group[place] if group[place] >= 0 else count
            least[at] = min(least[at], value)
            most[at] = max(most[at], value)
    return least_array, most_array


cdef enum:
    # Rows that are read together: so many numbers of a column lie in one line of the cache.
    TOGETHER = 8


def marked_median(const Measured[:, :] values, const uint8_t[:, :] marks):
    """Median of the marked numbers of each row; see ``by_column.marked_median``."""
    cdef Py_ssize_t rows = values.shape[0], columns = values.shape[1]
    cdef Py_ssize_t first, row, column, count, stop
    cdef Py_ssize_t number[TOGETHER]
    found_array = np.empty(rows)
    cdef double[::1] found = found_array
    cdef double[:, ::1] kept = np.empty((TOGETHER, columns + 1))
    with nogil:
        first = 0
        while first < rows:
            stop = min(rows - first, TOGETHER)
            for row in range(stop):
                number[row] = 0
            for column in range(columns):
                for row in range(stop):
                    kept[row, number[row]] = <double> values[first + row, column]
                    number[row] += marks[first + row, column]
            for row in range(stop):
                found[first + row] = _median(&kept[row, 0], number[row])
            first += stop
    return found_array


cdef double _median(double* values, Py_ssize_t count) noexcept nogil:
    """Median of numbers, which are put into another order; NaN of none."""
    cdef Py_ssize_t place, middle = count // 2
    cdef double high, low
    if not count:
        return NAN
    high = _select(values, count, middle)
    if count % 2:
        return high
    low = values[0]
    for place in range(1, middle):
        low = max(low, values[place])
    return (low + high) / 2


cdef double _select(double* values, Py_ssize_t count, Py_ssize_t wanted) noexcept nogil:
    """Return the number at a place in ascending order; those before it are moved before it."""
    cdef Py_ssize_t low = 0, high = count - 1, left, right
    cdef double pivot
    while low < high:
        pivot = values[(low + high) // 2]
        left, right = low, high
        while left <= right:
            while values[left] < pivot:
                left += 1
            while values[right] > pivot:
                right -= 1
            if left <= right:
                values[left], values[right] = values[right], values[left]
                left += 1
                right -= 1
        if wanted <= right:
            high = right
        elif wanted >= left:
            low = left
        else:
            break
    return values[wanted]


include "_device_time.pxi"
