# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Compiled search for calls of other streams that end near some calls.

``implied_groups.py`` and ``stream_evidence.py`` implement the same in Python, with full
documentation. Each pair of streams is too small for an array: for 128 ranks without groups numpy
takes 3.9 to 4.7 CPU-s, this module 0.4. Indices in arguments are not checked against array
bounds.
"""

from libc.math cimport INFINITY, fabs, log, log1p, rint
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy

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


cdef class HostEnds:
    """The calls of a host, which those of other hosts are compared with.

    Args:
        names: what calls of the host may be, ascending.
        end: ends of the calls by queue, name and end.
        dur: their durations.
        first: index of the first of each queue and name, and the number of all.
        first_ns: first end of each queue.
        last_ns: last end of each queue.
        near_ns: largest distance of the ends of two calls that are compared.
        fine_ns: as in `stream_evidence`, like the rest.
        close_ns: likewise.
        fewest: likewise.
        usual: likewise.
    """

    cdef const int64_t[::1] names, end, dur, first, first_ns, last_ns
    cdef int64_t near_ns, begin_ns, until_ns
    cdef double fine_ns, close_ns, usual
    cdef Py_ssize_t fewest, queues, codes
    # what the last comparison found
    cdef Near* near
    cdef Py_ssize_t found, room
    cdef double[:, ::1] gain, total
    cdef int64_t[:, ::1] inside, met

    def __cinit__(
        self, const int64_t[::1] names, const int64_t[::1] end, const int64_t[::1] dur,
        const int64_t[::1] first, const int64_t[::1] first_ns, const int64_t[::1] last_ns,
        int64_t near_ns, double fine_ns, double close_ns, Py_ssize_t fewest, double usual,
    ):
        cdef Py_ssize_t i
        self.names, self.end, self.dur, self.first = names, end, dur, first
        self.first_ns, self.last_ns = first_ns, last_ns
        self.near_ns, self.fine_ns, self.close_ns = near_ns, fine_ns, close_ns
        self.fewest, self.usual = fewest, usual
        self.queues, self.codes = len(first_ns), len(names)
        self.begin_ns, self.until_ns = first_ns[0], last_ns[0]
        for i in range(1, self.queues):
            self.begin_ns = min(self.begin_ns, first_ns[i])
            self.until_ns = max(self.until_ns, last_ns[i])
        self.near = NULL
        self.found = self.room = 0

    def __dealloc__(self):
        free(self.near)

    cdef int meet(
        self, const int64_t[::1] queue, const int64_t[::1] what, const int64_t[::1] end,
        const int64_t[::1] dur, const uint8_t[:, ::1] compatible,
        int64_t offset_ns, double rate, int64_t at_ns,
    ) except -1:
        """Find the like calls that end near each of some calls, and add up what they tell."""
        cdef Py_ssize_t count = len(end), queues = self.queues, n, o, place, code, mine
        cdef int64_t time, apart, longer
        cdef double gain, close
        cdef bint inside
        cdef Near* larger
        cdef double[:, ::1] gains, totals
        cdef int64_t[:, ::1] insides, mets
        shape = compatible.shape[0], queues
        self.gain, self.total = np.zeros(shape), np.zeros(shape)
        self.inside, self.met = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        gains, totals, insides, mets = self.gain, self.total, self.inside, self.met
        self.found = 0
        for n in range(count):
            if self.found + queues > self.room:
                self.room = 2 * (self.room + queues)
                larger = <Near*> realloc(self.near, self.room * sizeof(Near))
                if larger == NULL:
                    raise MemoryError
                self.near = larger
            time = end[n] - offset_ns - <int64_t> rint(<double> (end[n] - at_ns) * rate)
            mine = queue[n]
            code = _first_from(&self.names[0], 0, self.codes, what[n])
            if code < self.codes and self.names[code] != what[n]:
                code = self.codes
            for o in range(queues):
                if not compatible[mine, o]:
                    continue
                inside = self.first_ns[o] - self.near_ns <= time <= self.last_ns[o] + self.near_ns
                insides[mine, o] += inside
                if code == self.codes:
                    continue
                place = self.nearest(o * self.codes + code, time)
                if place < 0:
                    continue
                mets[mine, o] += inside
                self.near[self.found].call = n
                self.near[self.found].queue = o
                self.near[self.found].place = place
                self.found += 1
                apart, longer = self.end[place] - time, dur[n] - self.dur[place]
                apart = apart if apart >= 0 else -apart
                longer = longer if longer >= 0 else -longer
                gains[mine, o] += log((longer + self.fine_ns) / (apart + self.fine_ns))
                totals[mine, o] += self.close_ns / (apart + self.close_ns)
        for n in range(compatible.shape[0]):
            for o in range(queues):
                gain, close = 0, 0
                if mets[n, o] >= self.fewest and mets[n, o] >= self.usual * insides[n, o]:
                    gain, close = max(gains[n, o], 0.0), totals[n, o]
                gains[n, o], totals[n, o] = gain, gain + close
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

    cdef tuple largest(self, const double[:, ::1] table):
        """Return the largest value of each row of a table of values of at least 0, and column."""
        cdef Py_ssize_t i, j
        rows, columns = np.zeros(table.shape[0]), np.zeros(table.shape[1])
        cdef double[::1] row = rows, column = columns
        for i in range(table.shape[0]):
            for j in range(table.shape[1]):
                row[i] = max(row[i], table[i, j])
                column[j] = max(column[j], table[i, j])
        return rows, columns

    def total_of(
        self, const int64_t[::1] queue, const int64_t[::1] what, const int64_t[::1] end,
        const int64_t[::1] dur, const uint8_t[:, ::1] compatible,
        int64_t offset_ns, double rate, int64_t at_ns,
    ):
        """Return the evidence of each queue, and of this host's, with its best partner."""
        self.meet(queue, what, end, dur, compatible, offset_ns, rate, at_ns)
        return self.largest(self.total)

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
        cdef Py_ssize_t i, j, kept = 0, mine, queues = self.queues, others = compatible.shape[0]
        cdef Near* one
        self.meet(queue, what, end, dur, compatible, offset_ns, rate, at_ns)
        cdef double[:, ::1] total = self.total
        cdef int64_t[::1] best = np.zeros(others, np.int64), back = np.zeros(queues, np.int64)
        for i in range(others):
            for j in range(queues):
                if total[i, j] > total[i, best[i]]:
                    best[i] = j
                if total[i, j] > total[back[j], j]:
                    back[j] = i
        for i in range(others):
            j = best[i]
            if (
                total[i, j] <= 0 or back[j] != i
                or total[i, j] < least[i] or total[i, j] < other_least[j]
            ):
                best[i] = -1
        rows = np.empty((3, self.found), np.int64)
        cdef int64_t[:, ::1] row = rows
        for i in range(self.found):
            one = &self.near[i]
            mine = queue[one.call]
            if best[mine] == one.queue:
                row[0, kept], row[1, kept], row[2, kept] = end[one.call], self.end[one.place], mine
                kept += 1
        return (
            self.largest(self.gain), self.largest(total),
            rows[0, :kept].copy(), rows[1, :kept].copy(), rows[2, :kept].copy(),
        )


def sampled(
    const int64_t[::1] end, const int64_t[::1] first, const int64_t[::1] queues, int64_t most,
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
    cdef Py_ssize_t number, low, high, count, i, filled = 0, queue
    cdef double step
    chosen = np.empty((2, len(queues) * most), np.int64)
    cdef int64_t[:, ::1] to = chosen
    for number in range(len(queues)):
        queue = queues[number]
        low = first[queue]
        high = first[queue + 1]
        if width_ns:
            high = _first_from(&end[0], low, high, middle_ns + width_ns + 1)
            low = _first_from(&end[0], low, high, middle_ns - width_ns)
        count = high - low
        step = <double>(count - 1) / <double>(most - 1) if most > 1 else 0
        for i in range(min(count, most)):
            to[0, filled] = queue
            to[1, filled] = low + i
            if count > most:
                # numpy.linspace ends at the last one exactly
                to[1, filled] = high - 1 if i and i == most - 1 else low + <int64_t>(i * step)
            filled += 1
    return chosen[0, :filled], chosen[1, :filled]


cdef struct Cell:
    int64_t apart
    int64_t longer


cdef int _sort_cells(Cell* cells, Py_ssize_t count) except -1 nogil:
    """Sort stably by ``apart``."""
    cdef Cell* spare = <Cell*> malloc(count * sizeof(Cell))
    cdef Cell* source = cells
    cdef Cell* target = spare
    cdef Cell* kept
    cdef Py_ssize_t width = 1, low, middle, high, i, j, k
    if spare == NULL:
        with gil:
            raise MemoryError
    while width < count:
        low = 0
        while low < count:
            middle = min(low + width, count)
            high = min(low + 2 * width, count)
            i, j = low, middle
            for k in range(low, high):
                if i < middle and (j >= high or source[i].apart <= source[j].apart):
                    target[k] = source[i]
                    i += 1
                else:
                    target[k] = source[j]
                    j += 1
            low += 2 * width
        kept = source
        source = target
        target = kept
        width *= 2
    if source != cells:
        for k in range(count):
            cells[k] = source[k]
    free(spare)
    return 0


cdef inline double _above_log(double value) noexcept nogil:
    """The logarithm of a number of 1 or more, at most 0.06 too large: from its bits."""
    cdef uint64_t bits
    memcpy(&bits, &value, sizeof(double))
    return (<double> bits / 4503599627370496.0 - 1023.0 + 0.0861) * 0.6931471805599454


cdef class _Pair:
    """Calls of two queues, ascending in time, of which like ones are compared."""

    cdef const int64_t* what
    cdef const int64_t* end
    cdef const int64_t* dur
    cdef Py_ssize_t count
    cdef const int64_t* other_what
    cdef const int64_t* other_end
    cdef const int64_t* other_dur
    cdef Py_ssize_t others

    cdef inline int64_t longer(self, Py_ssize_t i, Py_ssize_t j) noexcept nogil:
        cdef int64_t longer = self.dur[i] - self.other_dur[j]
        return longer if longer >= 0 else -longer


cdef enum:
    MOST_BINS = 1 << 15
    IN_BLOCK = 128  # bins of which the largest bound is kept, so that few are looked at
    MOST_FOUND = 16


cdef struct Best:
    double votes
    double median
    int64_t apart


cdef class _Bins:
    """Differences of ends of like calls by bin, and an upper bound of the votes of each bin.

    ``bound`` is that of windows that begin in a bin: the votes of the bin and the next, until the
    bin is looked at. Then it is the most votes of a window, which ``best`` describes.
    """

    cdef int64_t low, bin_ns
    cdef int shift
    cdef Py_ssize_t bins, cells
    cdef double fine_ns, least
    cdef Py_ssize_t fewest
    cdef double* bound
    cdef double* most_of_block
    cdef Py_ssize_t* first
    cdef uint8_t* known
    cdef Best* best
    cdef Cell* cell
    cdef int64_t[MOST_FOUND] taken
    cdef Py_ssize_t num_taken

    def __cinit__(self):
        self.bound = self.most_of_block = NULL
        self.first = NULL
        self.known = NULL
        self.best = NULL
        self.cell = NULL
        self.num_taken = 0

    def __dealloc__(self):
        free(self.bound)
        free(self.most_of_block)
        free(self.first)
        free(self.known)
        free(self.best)
        free(self.cell)

    cdef inline uint64_t bin_of(self, int64_t end, int64_t other_end) noexcept nogil:
        """The bin of a difference; wraps where int64 cannot hold it, and may be no bin at all."""
        cdef uint64_t apart = <uint64_t> end - <uint64_t> other_end
        return (apart - <uint64_t> self.low) >> self.shift

    cdef int fill(self, _Pair pair) except -1:
        """Put all like pairs of calls into bins."""
        cdef Py_ssize_t i, j, count = pair.count, others = pair.others
        cdef uint64_t place
        cdef uint64_t mine = <uint64_t> pair.end[count - 1] - <uint64_t> pair.end[0]
        cdef uint64_t span = mine + (
            <uint64_t> pair.other_end[others - 1] - <uint64_t> pair.other_end[0]
        )
        if span < mine:  # no two clocks count over more than all of int64
            return 0
        self.low = <int64_t> (<uint64_t> pair.end[0] - <uint64_t> pair.other_end[others - 1])
        self.shift = 0
        while (<int64_t> 1 << self.shift) < self.bin_ns or (span >> self.shift) >= MOST_BINS:
            self.shift += 1
        self.bins = <Py_ssize_t> (span >> self.shift) + 1
        self.bound = <double*> calloc(self.bins + 2, sizeof(double))
        self.first = <Py_ssize_t*> calloc(self.bins + 3, sizeof(Py_ssize_t))
        self.known = <uint8_t*> calloc(self.bins + 1, 1)
        self.best = <Best*> malloc((self.bins + 1) * sizeof(Best))
        self.most_of_block = <double*> calloc(self.bins // IN_BLOCK + 1, sizeof(double))
        if (
            self.bound == NULL or self.first == NULL or self.known == NULL or self.best == NULL
            or self.most_of_block == NULL
        ):
            raise MemoryError
        with nogil:
            for i in range(count):
                for j in range(others):
                    place = self.bin_of(pair.end[i], pair.other_end[j])
                    if pair.what[i] == pair.other_what[j] and place < <uint64_t> self.bins:
                        self.bound[place] += (
                            _above_log(1.0 + pair.longer(i, j) / self.fine_ns) + self.least
                        )
                        self.first[place + 2] += 1
            for i in range(2, self.bins + 3):
                self.first[i] += self.first[i - 1]
            self.cells = self.first[self.bins + 2]
        if self.cells < self.fewest:
            return 0
        self.cell = <Cell*> malloc(self.cells * sizeof(Cell))
        if self.cell == NULL:
            raise MemoryError
        with nogil:
            for i in range(count):
                for j in range(others):
                    place = self.bin_of(pair.end[i], pair.other_end[j])
                    if pair.what[i] == pair.other_what[j] and place < <uint64_t> self.bins:
                        self.cell[self.first[place + 1]].apart = pair.end[i] - pair.other_end[j]
                        self.cell[self.first[place + 1]].longer = pair.longer(i, j)
                        self.first[place + 1] += 1
            for i in range(self.bins):
                self.bound[i] += self.bound[i + 1]
                if self.first[i + 2 if i + 2 <= self.bins else self.bins] - self.first[i] < self.fewest:
                    self.bound[i] = 0
            for i in range(self.bins // IN_BLOCK + 1):
                self.renew(i)
        return 0

    cdef void renew(self, Py_ssize_t block) noexcept nogil:
        """Find the largest bound of a block of bins."""
        cdef Py_ssize_t i
        self.most_of_block[block] = 0
        for i in range(block * IN_BLOCK, min((block + 1) * IN_BLOCK, self.bins)):
            if self.bound[i] > self.most_of_block[block]:
                self.most_of_block[block] = self.bound[i]

    cdef Py_ssize_t largest(self) noexcept nogil:
        """Return the first bin of the largest bound, -1 where all are 0."""
        cdef Py_ssize_t i, block = -1
        cdef double most = 0
        for i in range(self.bins // IN_BLOCK + 1):
            if self.most_of_block[i] > most:
                most = self.most_of_block[i]
                block = i
        if block < 0:
            return -1
        i = block * IN_BLOCK
        while self.bound[i] < most:
            i += 1
        return i

    cdef bint is_taken(self, int64_t apart) noexcept nogil:
        """Whether a difference is near one that was found before."""
        cdef Py_ssize_t i
        for i in range(self.num_taken):
            if -2 * self.bin_ns <= apart - self.taken[i] < 3 * self.bin_ns:
                return True
        return False

    cdef int look_at(self, Py_ssize_t place) except -1:
        """Find the window with the most votes among those that begin in a bin."""
        cdef Py_ssize_t i, start = self.first[place], begin, stop = 0, middle
        cdef Py_ssize_t next_bins = place + 2 if place + 2 <= self.bins else self.bins
        cdef Py_ssize_t held = self.first[next_bins] - start, own = self.first[place + 1] - start
        cdef Cell* cell = &self.cell[start]
        cdef double* prefix = <double*> malloc((held + 1) * sizeof(double))
        cdef double votes
        cdef Best* best = &self.best[place]
        if prefix == NULL:
            raise MemoryError
        # bins are sorted one by one: of two neighbours either may be looked at first
        if not self.known[place] & 2:
            _sort_cells(cell, own)
            self.known[place] |= 2
        if own < held and not self.known[place + 1] & 2:
            _sort_cells(cell + own, held - own)
            self.known[place + 1] |= 2
        with nogil:
            prefix[0] = 0.0
            for i in range(held):
                prefix[i + 1] = prefix[i] + (log1p(cell[i].longer / self.fine_ns) + self.least)
            best.votes, best.median, best.apart = 0.0, 0.0, 0
            for begin in range(own):
                while stop < held and cell[stop].apart <= cell[begin].apart + self.bin_ns:
                    stop += 1
                votes = prefix[stop] - prefix[begin]
                if stop - begin < self.fewest or votes <= best.votes:
                    continue
                if self.is_taken(cell[begin].apart):
                    continue
                best.votes, best.apart = votes, cell[begin].apart
                middle = begin + (stop - begin) // 2
                best.median = <double> cell[middle].apart
                if (stop - begin) % 2 == 0:
                    best.median = (<double> cell[middle - 1].apart + best.median) / 2
            self.known[place] |= 1
            self.bound[place] = best.votes
            self.renew(place // IN_BLOCK)
        free(prefix)
        return 0

    cdef int take(self, int64_t apart) except -1:
        """Leave out differences near one that is found."""
        cdef int64_t place
        self.taken[self.num_taken] = apart
        self.num_taken += 1
        place = max((apart - 2 * self.bin_ns - self.low) >> self.shift, 0)
        while place < self.bins and place <= (apart + 3 * self.bin_ns - self.low) >> self.shift:
            if self.known[place] & 1:
                self.look_at(place)
            place += 1
        return 0


def shared_differences(
    const int64_t[::1] what, const int64_t[::1] end, const int64_t[::1] dur,
    const int64_t[::1] other_what, const int64_t[::1] other_end, const int64_t[::1] other_dur,
    const int64_t[:, ::1] parts,
    int64_t bin_ns, double fine_ns, double least, Py_ssize_t fewest, Py_ssize_t most,
):
    """Return (votes, difference) of differences of ends that many pairs of like calls share.

    Args:
        what: of each call of the queues of a host, ascending in time in each queue.
        end: likewise.
        dur: likewise.
        other_what: of each call of the queues of another host.
        other_end: likewise.
        other_dur: likewise.
        parts: pairs of parts of two queues, [n, 4]: first call and number of calls of the one,
            and of the other.
        bin_ns: width of a window.
        fine_ns: unit of the difference of durations.
        least: votes of a pair without such a difference.
        fewest: fewest pairs of a window that counts.
        most: largest number of differences of two queues, up to 16.
    """
    cdef _Pair pair = _Pair()
    cdef Py_ssize_t row
    found = []
    for row in range(len(parts)):
        pair.what, pair.end, pair.dur = &what[parts[row, 0]], &end[parts[row, 0]], &dur[parts[row, 0]]
        pair.count, pair.others = parts[row, 1], parts[row, 3]
        pair.other_what = &other_what[parts[row, 2]]
        pair.other_end = &other_end[parts[row, 2]]
        pair.other_dur = &other_dur[parts[row, 2]]
        found += _shared(pair, bin_ns, fine_ns, least, fewest, most)
    return found


cdef list _shared(
    _Pair pair, int64_t bin_ns, double fine_ns, double least, Py_ssize_t fewest, Py_ssize_t most
):
    """As `shared_differences`, of two queues.

    A window of ``bin_ns`` has no more votes than the two bins that it lies in, so that only bins
    that may hold the most are looked at pair by pair.
    """
    cdef _Bins bins = _Bins()
    cdef Py_ssize_t place
    if not pair.count or not pair.others:
        return []
    bins.bin_ns, bins.fine_ns, bins.least, bins.fewest = bin_ns, fine_ns, least, fewest
    bins.fill(pair)
    if bins.cells < fewest:
        return []
    found = []
    while len(found) < min(most, MOST_FOUND):
        place = bins.largest()
        if place < 0:
            break
        if not bins.known[place] & 1:
            bins.look_at(place)
            continue
        found.append((bins.best[place].votes, bins.best[place].median))
        bins.take(bins.best[place].apart)
    return found


def distances(
    const int64_t[::1] time, const int64_t[::1] kind, const int64_t[::1] first,
    const int64_t[::1] base, const int64_t[::1] clock,
    const int64_t[::1] table_time, const int64_t[::1] table_stream,
    const int64_t[::1] table_first,
    const int64_t[::1] chosen, const int64_t[::1] chosen_first,
    int64_t near_ns, int64_t clocks_ns, double far, double least_ns, Py_ssize_t fewest,
    double usual,
):
    """Return the mean time between ends of like calls of two streams, float64 ns [q, q].

    Args:
        time: ends of the calls of all streams on the job's clock, ascending in each stream.
        kind: number of the type of each call, from 0 on.
        first: index of the first call of each stream, and the number of all.
        base: what the clock of each stream is relative to.
        clock: number of the clock of each stream.
        table_time: ends of the calls by type, ascending in each.
        table_stream: their streams.
        table_first: index of the first of each type, and the number of all.
        chosen: calls that are compared, as indices into ``time``.
        chosen_first: index of the first of them of each stream, and the number of all.
        near_ns: largest distance of the ends of one call.
        clocks_ns: largest error of the difference of two clocks.
        far: how many times the median distance a call is away whose like may be missing.
        least_ns: least such median.
        fewest: fewest calls in the time of both.
        usual: least share of them that have a near one.
    """
    cdef Py_ssize_t streams = len(first) - 1, one, other, number, at, held, slot, slots, here, i
    cdef Py_ssize_t calls, begin, stop, near, low, row, longest = 0
    cdef int64_t ended, limit, from_ns, to_ns
    cdef double apart, middle, total, far_ns
    found = np.full((streams, streams), np.inf)
    cdef double[:, ::1] found_of = found
    for one in range(streams):
        longest = max(longest, chosen_first[one + 1] - chosen_first[one])
    cdef int64_t[::1] slot_of = np.full(streams, -1, np.int64)
    cdef int64_t[::1] stream_of = np.empty(streams, np.int64)
    cdef double[::1] value = np.empty(max(longest, 1))
    cdef double[::1] spare = np.empty(max(longest, 1))
    nearest = np.empty((16, max(longest, 1)))
    cdef double[:, ::1] nearest_of = nearest
    for one in range(streams):
        slots = 0
        calls = chosen_first[one + 1] - chosen_first[one]
        for number in range(calls):
            row = chosen[chosen_first[one] + number]
            ended = time[row]
            limit = ended + near_ns
            at = _first_from(
                &table_time[0], table_first[kind[row]], table_first[kind[row] + 1], ended - near_ns
            )
            while at < table_first[kind[row] + 1] and table_time[at] <= limit:
                other = table_stream[at]
                slot = slot_of[other]
                if slot < 0:
                    if slots == nearest.shape[0]:
                        larger = np.empty((2 * slots, nearest.shape[1]))
                        larger[:slots] = nearest
                        nearest = larger
                        nearest_of = nearest
                    slot = slots
                    slots += 1
                    slot_of[other] = slot
                    stream_of[slot] = other
                    for i in range(calls):
                        nearest_of[slot, i] = INFINITY
                apart = <double> (table_time[at] - ended)
                if fabs(apart) <= fabs(nearest_of[slot, number]):
                    nearest_of[slot, number] = apart
                at += 1
        for slot in range(slots):
            other = stream_of[slot]
            slot_of[other] = -1
            if base[other] != base[one]:
                continue
            # the ends of one call differ a little, also those of the first and the last
            from_ns = time[first[other]] - near_ns
            to_ns = time[first[other + 1] - 1] + near_ns
            begin = 0
            while begin < calls and time[chosen[chosen_first[one] + begin]] < from_ns:
                begin += 1
            stop = begin
            while stop < calls and time[chosen[chosen_first[one] + stop]] <= to_ns:
                stop += 1
            held = 0
            for i in range(begin, stop):
                if nearest_of[slot, i] != INFINITY:
                    spare[held] = nearest_of[slot, i]
                    held += 1
            near, held = held, stop - begin
            if held < fewest or near < usual * held:
                continue
            middle = 0
            if clock[other] != clock[one]:
                middle = _median(&spare[0], near)
                if fabs(middle) > clocks_ns:
                    middle = 0
            for i in range(held):
                value[i] = fabs(nearest_of[slot, begin + i] - middle)
                spare[i] = value[i]
            far_ns = far * max(_median(&spare[0], held), least_ns)
            total, near = 0, 0
            for i in range(held):
                row = chosen[chosen_first[one] + begin + i]
                if value[i] > far_ns and _lacks(time, first, one, row, other, near_ns):
                    continue
                total += min(value[i], <double> near_ns)
                near += 1
            found_of[one, other] = total / near
    for one in range(streams):
        for other in range(one):
            apart = max(found_of[one, other], found_of[other, one])
            found_of[one, other] = apart
            found_of[other, one] = apart
    return found


cdef bint _lacks(
    const int64_t[::1] time, const int64_t[::1] first, Py_ssize_t one, Py_ssize_t row,
    Py_ssize_t other, int64_t near_ns,
) noexcept nogil:
    """Whether a stream has fewer calls than another around one of its calls, ``row``."""
    cdef int64_t from_ns = time[max(row - 1, first[one])] - near_ns
    cdef int64_t to_ns = time[min(row + 1, first[one + 1] - 1)] + near_ns
    cdef const int64_t* ends = &time[0]
    cdef Py_ssize_t own = (
        _first_from(ends, first[one], first[one + 1], to_ns + 1)
        - _first_from(ends, first[one], first[one + 1], from_ns)
    )
    return own > (
        _first_from(ends, first[other], first[other + 1], to_ns + 1)
        - _first_from(ends, first[other], first[other + 1], from_ns)
    )
