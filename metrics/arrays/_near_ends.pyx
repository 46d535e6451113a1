# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Compiled search for calls of other streams that end near some calls.

``implied_groups.py`` and ``stream_evidence.py`` implement the same in Python, with full
documentation. Each pair of streams is too small for an array: for 128 ranks without groups numpy
takes 3.9 to 4.7 CPU-s, this module 0.4. Indices in arguments are not checked against array
bounds.
"""

from libc.math cimport INFINITY, fabs, log, log1p, rint
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort, realloc
from libc.string cimport memcpy, memset

import numpy as np


cdef inline Py_ssize_t _first_from(
    const int64_t* values, Py_ssize_t low, Py_ssize_t high, int64_t least
) noexcept nogil:
    """First index in [low, high) of ascending values that is ``least`` or more."""
    cdef Py_ssize_t middle
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < least:
            low = middle + 1
        else:
            high = middle
    return low


cdef double _selected(double* values, Py_ssize_t count, Py_ssize_t place) noexcept nogil:
    """The value at a place of the sorted order; partitions the values around it."""
    cdef Py_ssize_t low = 0, high = count - 1, i, j
    cdef double pivot, kept
    while low < high:
        pivot = values[(low + high) >> 1]
        i = low
        j = high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while pivot < values[j]:
                j -= 1
            if i <= j:
                kept = values[i]
                values[i] = values[j]
                values[j] = kept
                i += 1
                j -= 1
        if place <= j:
            high = j
        elif place >= i:
            low = i
        else:
            break
    return values[place]


cdef double _median(double* values, Py_ssize_t count) noexcept nogil:
    """Median of one value or more, as the mean of the two in the middle; reorders them."""
    cdef Py_ssize_t i, middle = count // 2
    cdef double high = _selected(values, count, middle), low
    if count % 2:
        return high
    low = values[0]
    for i in range(1, middle):
        if values[i] > low:
            low = values[i]
    return (low + high) / 2


cdef struct Near:
    Py_ssize_t call
    Py_ssize_t queue
    Py_ssize_t place


cdef class Limits:
    """The constants of `stream_evidence` by their names there, in lower case."""

    cdef int64_t one_clock_ns, bin_ns, window_ns
    cdef double fine_ns, close_ns, usual, min_weight, max_drift
    cdef Py_ssize_t fewest, voters, cells, slack, most_of_two, candidates, max_options, coarse, fine
    cdef Py_ssize_t wider

    def __cinit__(
        self, *, int64_t one_clock_ns, double fine_ns, double close_ns, Py_ssize_t fewest,
        double usual, int64_t bin_ns, Py_ssize_t voters, Py_ssize_t cells, Py_ssize_t slack,
        Py_ssize_t most_of_two, double min_weight, Py_ssize_t candidates, Py_ssize_t max_options,
        Py_ssize_t coarse, Py_ssize_t fine, int64_t window_ns, Py_ssize_t wider, double max_drift,
    ):
        self.one_clock_ns, self.fine_ns, self.close_ns = one_clock_ns, fine_ns, close_ns
        self.fewest, self.usual, self.bin_ns, self.voters = fewest, usual, bin_ns, voters
        self.cells, self.slack, self.most_of_two = cells, slack, most_of_two
        self.min_weight, self.candidates, self.max_options = min_weight, candidates, max_options
        self.coarse, self.fine, self.window_ns = coarse, fine, window_ns
        self.wider, self.max_drift = wider, max_drift


cdef class HostEnds:
    """The calls of a host, which those of other hosts are compared with.

    Args:
        what: of each call, one queue after another.
        end: likewise, ascending in each queue.
        dur: likewise.
        first: index of the first call of each queue, and their number.
        sampled: numbers of the queues of which some calls find clock differences.
        names: what calls of the host may be, ascending.
        ordered: ends and durations of the calls by queue, name and end.
        first_of_names: index of the first of these of each queue and name, and the number of all.
        limits: constants.
    """

    cdef const int64_t[::1] what, call_end, call_dur, first_call, sampled
    cdef const int64_t[::1] names, end, dur, first
    cdef const int64_t[::1] first_ns, last_ns
    cdef Limits limits
    cdef int64_t near_ns, begin_ns, until_ns
    cdef double fine_ns, close_ns, usual
    cdef Py_ssize_t fewest, queues, codes
    # what the last comparison found: pairs of calls, and sums by queue of the other host and this
    cdef Near* near
    cdef Py_ssize_t found, room, space
    cdef double* gain
    cdef double* total
    cdef double* inside
    cdef double* met

    def __cinit__(
        self, const int64_t[::1] what, const int64_t[::1] end, const int64_t[::1] dur,
        const int64_t[::1] first, const int64_t[::1] sampled, const int64_t[::1] names,
        ordered, const int64_t[::1] first_of_names, Limits limits,
    ):
        cdef Py_ssize_t i
        self.what, self.call_end, self.call_dur, self.first_call = what, end, dur, first
        self.sampled, self.names, self.first, self.limits = sampled, names, first_of_names, limits
        self.end, self.dur = ordered
        self.near_ns, self.fine_ns = limits.one_clock_ns, limits.fine_ns
        self.close_ns, self.fewest, self.usual = limits.close_ns, limits.fewest, limits.usual
        self.queues, self.codes = len(first) - 1, len(names)
        edges = np.asarray(first)
        self.first_ns, self.last_ns = np.asarray(end)[edges[: self.queues]], np.asarray(end)[edges[1:] - 1]
        self.begin_ns, self.until_ns = self.first_ns[0], self.last_ns[0]
        for i in range(1, self.queues):
            self.begin_ns = min(self.begin_ns, self.first_ns[i])
            self.until_ns = max(self.until_ns, self.last_ns[i])
        self.near = NULL
        self.gain = NULL
        self.found = self.room = self.space = 0

    def __dealloc__(self):
        free(self.near)
        free(self.gain)

    cdef int clear(self, Py_ssize_t others) except -1:
        """Set the sums to 0."""
        cdef Py_ssize_t cells = others * self.queues
        if cells > self.space:
            free(self.gain)
            self.space = 0
            self.gain = <double*> malloc(4 * cells * sizeof(double))
            if self.gain == NULL:
                raise MemoryError
            self.space = cells
        memset(self.gain, 0, 4 * cells * sizeof(double))
        self.total, self.inside = self.gain + cells, self.gain + 2 * cells
        self.met = self.gain + 3 * cells
        return 0

    cdef int meet(
        self, const int64_t* queue, const int64_t* what, const int64_t* end, const int64_t* dur,
        Py_ssize_t count, const uint8_t[:, ::1] compatible,
        int64_t offset_ns, double rate, int64_t at_ns,
    ) except -1:
        """Find the like calls that end near each of some calls, and add up what they tell."""
        cdef Py_ssize_t queues = self.queues, n, o, place, code, mine, room
        cdef int64_t time, apart, longer
        cdef double gain, close
        cdef bint inside
        cdef Near* larger
        self.clear(compatible.shape[0])
        self.found = 0
        for n in range(count):
            if self.found + queues > self.room:
                room = 2 * (self.room + queues)
                larger = <Near*> realloc(self.near, room * sizeof(Near))
                if larger == NULL:
                    raise MemoryError
                self.near, self.room = larger, room
            time = end[n] - offset_ns - <int64_t> rint(<double> (end[n] - at_ns) * rate)
            mine = queue[n]
            code = _first_from(&self.names[0], 0, self.codes, what[n])
            if code < self.codes and self.names[code] != what[n]:
                code = self.codes
            for o in range(queues):
                if not compatible[mine, o]:
                    continue
                inside = self.first_ns[o] - self.near_ns <= time <= self.last_ns[o] + self.near_ns
                self.inside[mine * queues + o] += inside
                if code == self.codes:
                    continue
                place = self.nearest(o * self.codes + code, time)
                if place < 0:
                    continue
                self.met[mine * queues + o] += inside
                self.near[self.found].call = n
                self.near[self.found].queue = o
                self.near[self.found].place = place
                self.found += 1
                apart, longer = self.end[place] - time, dur[n] - self.dur[place]
                apart = apart if apart >= 0 else -apart
                longer = longer if longer >= 0 else -longer
                self.gain[mine * queues + o] += log(
                    (longer + self.fine_ns) / (apart + self.fine_ns)
                )
                self.total[mine * queues + o] += self.close_ns / (apart + self.close_ns)
        for n in range(compatible.shape[0] * queues):
            gain, close = 0, 0
            if self.met[n] >= self.fewest and self.met[n] >= self.usual * self.inside[n]:
                gain, close = max(self.gain[n], 0.0), self.total[n]
            self.gain[n], self.total[n] = gain, gain + close
        return 0

    cdef Py_ssize_t nearest(self, Py_ssize_t cell, int64_t time) noexcept nogil:
        """Return the index of the call of a queue and name that ends nearest, -1 for a far one."""
        cdef Py_ssize_t low = self.first[cell], high = self.first[cell + 1], right, place
        cdef int64_t apart = self.near_ns + 1, before
        if low == high:
            return -1
        # a time outside of those of the host is compared like its first or last one
        right = _first_from(
            &self.end[0], low, high, min(max(time, self.begin_ns), self.until_ns)
        )
        place = right
        if right < high:
            apart = self.end[right] - time
            apart = apart if apart >= 0 else -apart
        if right > low:
            before = time - self.end[right - 1]
            before = before if before >= 0 else -before
            if before < apart:
                apart = before
                place = right - 1
        return place if apart <= self.near_ns else -1

    cdef void largest(self, const double* table, Py_ssize_t others, double[::1] found) noexcept:
        """Find the largest value of each row of a table of values of at least 0, and column."""
        cdef Py_ssize_t i, j
        cdef double value
        for i in range(others):
            for j in range(self.queues):
                value = table[i * self.queues + j]
                found[i] = max(found[i], value)
                found[others + j] = max(found[others + j], value)

    cdef Py_ssize_t best_ends(
        self, const int64_t* queue, const int64_t* end, Py_ssize_t others,
        const double[::1] least, const double[::1] other_least, int64_t[:, ::1] row,
    ) except -1:
        """Write the ends of the other host and here, and the queue, of calls of the best pairs.

        ``row`` has room for all that the last comparison found. Returns how many there are.
        """
        cdef Py_ssize_t i, j, kept = 0, queues = self.queues
        cdef double* total = self.total
        cdef double most
        cdef Near* one
        cdef int64_t* best = <int64_t*> calloc(others + queues, sizeof(int64_t))
        cdef int64_t* back = best + others
        if best == NULL:
            raise MemoryError
        for i in range(others):
            for j in range(queues):
                if total[i * queues + j] > total[i * queues + best[i]]:
                    best[i] = j
                if total[i * queues + j] > total[back[j] * queues + j]:
                    back[j] = i
        for i in range(others):
            j = best[i]
            most = total[i * queues + j]
            if most <= 0 or back[j] != i or (
                least is not None and (most < least[i] or most < other_least[j])
            ):
                best[i] = -1
        for i in range(self.found):
            one = &self.near[i]
            j = queue[one.call]
            if best[j] == one.queue:
                row[0, kept], row[1, kept], row[2, kept] = end[one.call], self.end[one.place], j
                kept += 1
        free(best)
        return kept

    def evidence(
        self, const int64_t[::1] queue, const int64_t[::1] what, const int64_t[::1] end,
        const int64_t[::1] dur, const uint8_t[:, ::1] compatible,
        int64_t offset_ns, double rate, int64_t at_ns,
        const double[::1] least, const double[::1] other_least,
    ):
        """Return what calls of another host tell for a clock difference.

        Args:
            queue: of each of some calls of the other host.
            what: likewise.
            end: likewise.
            dur: likewise.
            compatible: by queue of the other host and of this one, whether they may meet.
            offset_ns: how far the clock of the other host is ahead at ``at_ns``.
            rate: how much more it is ahead later, ns per ns.
            at_ns: a time of that clock.
            least: least evidence of each queue of the other host whose ends are returned.
            other_least: likewise of this host.

        Returns:
            For gains, then for gains with closeness, the largest value of each queue of the other
            host and of this one; then ends, ends here and queues of calls of the best pairs.
        """
        cdef Py_ssize_t kept, others = compatible.shape[0]
        self.meet(
            &queue[0], &what[0], &end[0], &dur[0], len(queue), compatible, offset_ns, rate, at_ns
        )
        rows = np.empty((3, self.found), np.int64)
        kept = self.best_ends(&queue[0], &end[0], others, least, other_least, rows)
        gains, totals = np.zeros(others + self.queues), np.zeros(others + self.queues)
        self.largest(self.gain, others, gains)
        self.largest(self.total, others, totals)
        return (
            (gains[:others], gains[others:]), (totals[:others], totals[others:]),
            *rows[:, :kept].copy(),
        )


cdef Py_ssize_t _sample(
    const int64_t[::1] end, const int64_t[::1] first, const int64_t[::1] queues, Py_ssize_t most,
    int64_t middle_ns, int64_t width_ns, int64_t* queue_of, int64_t* row_of,
) noexcept nogil:
    """Write what `sampled` returns; return the number of calls."""
    cdef Py_ssize_t number, low, high, count, i, filled = 0, queue
    cdef double step
    for number in range(queues.shape[0]):
        queue = queues[number]
        low = first[queue]
        high = first[queue + 1]
        if width_ns:
            high = _first_from(&end[0], low, high, middle_ns + width_ns + 1)
            low = _first_from(&end[0], low, high, middle_ns - width_ns)
        count = high - low
        step = <double>(count - 1) / <double>(most - 1) if most > 1 else 0
        for i in range(min(count, most)):
            queue_of[filled] = queue
            row_of[filled] = low + i
            if count > most:
                # numpy.linspace ends at the last one exactly
                row_of[filled] = high - 1 if i and i == most - 1 else low + <int64_t>(i * step)
            filled += 1
    return filled


def sampled(
    const int64_t[::1] end, const int64_t[::1] first, const int64_t[::1] queues, Py_ssize_t most,
    int64_t middle_ns, int64_t width_ns,
):
    """Return at most ``most`` calls of each of some queues, evenly spread.

    Args:
        end: ends of the calls of a host, by queue, ascending in each.
        first: index into ``end`` of the first of each queue, and their number.
        queues: numbers of queues.
        most: largest number of calls of each.
        middle_ns: middle of the time that they end in.
        width_ns: half that time, 0 for any time.

    Returns:
        Queue and index into ``end`` of each, int64.
    """
    chosen = np.empty((2, len(queues) * most), np.int64)
    cdef int64_t[:, ::1] to = chosen
    cdef Py_ssize_t filled = 0
    if len(queues):
        filled = _sample(end, first, queues, most, middle_ns, width_ns, &to[0, 0], &to[1, 0])
    return chosen[0, :filled], chosen[1, :filled]


include "_shared_differences.pxi"
include "_clock_options.pxi"
include "_stream_distances.pxi"
