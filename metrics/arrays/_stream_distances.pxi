# Included by _near_ends.pyx: how far from each other the calls of streams end.

cdef enum:
    _NONE = 0x7FFFFFFF  # no call ends near
    _LACKING = 0x7FFFFFFE  # and the file seems to lack it
    SEARCH_COST = 30  # of a search for the calls in a time, in calls that are counted


cdef int32_t _selected_int(
    int32_t* values, int32_t* less, int32_t* more, Py_ssize_t count, Py_ssize_t place
) noexcept nogil:
    """The value at a place of the sorted order, with two other buffers of the same size.

    Values are parted without a branch for each, which no processor can predict.
    """
    cdef Py_ssize_t i, below, above
    cdef int32_t low, pivot, high, value
    while True:
        low, pivot, high = values[0], values[count // 2], values[count - 1]
        pivot = max(min(low, pivot), min(max(low, pivot), high))
        below = above = 0
        for i in range(count):
            value = values[i]
            less[below] = value
            below += value < pivot
            more[above] = value
            above += value > pivot
        if place < below:
            values, count = less, below
        elif place < count - above:
            return pivot
        else:
            place -= count - above
            values, count = more, above


cdef class _Distances:
    """What is found of one stream after another: which streams end near it, and how near.

    Streams that end near too few of its calls are told from the others by counts alone.
    """

    cdef const int64_t[::1] time, kind, first, base, clock, chosen, chosen_first
    cdef const int64_t[::1] table_time, table_stream, table_first
    cdef int64_t near_ns, clocks_ns
    cdef double far, least_ns, usual
    cdef Py_ssize_t fewest, streams, longest
    cdef int64_t[::1] count, seen, slot, touched, begin, stop, from_at
    cdef Py_ssize_t num_touched, num_kept, num_found
    cdef int64_t[::1] found_stream
    cdef double[::1] found_ns
    cdef int32_t[:, ::1] nearest
    cdef Py_ssize_t kinds
    cdef int64_t[::1] low, high
    cdef int32_t[::1] apart, less, more
    cdef double[::1] value, spare

    cdef int allocate(self, Py_ssize_t streams) except -1:
        cdef Py_ssize_t one
        self.streams, self.longest, self.num_found = streams, 1, 0
        self.found_stream, self.found_ns = np.empty(streams, np.int64), np.empty(streams)
        for one in range(streams):
            self.longest = max(self.longest, self.chosen_first[one + 1] - self.chosen_first[one])
        self.count = np.zeros(streams, np.int64)
        self.seen, self.slot = np.full(streams, -1, np.int64), np.full(streams, -1, np.int64)
        self.touched = np.empty(streams, np.int64)
        self.begin, self.stop = np.empty(streams, np.int64), np.empty(streams, np.int64)
        self.from_at = np.empty(self.longest, np.int64)
        self.nearest = np.empty((0, self.longest), np.int32)
        self.apart = np.empty(self.longest, np.int32)
        self.less, self.more = np.empty(self.longest, np.int32), np.empty(self.longest, np.int32)
        self.value, self.spare = np.empty(self.longest), np.empty(self.longest)
        self.kinds = len(self.table_first) - 1
        self.low, self.high = np.empty(self.kinds, np.int64), np.empty(self.kinds, np.int64)
        return 0

    cdef int count_near(self, Py_ssize_t one) except -1:
        """Count for each other stream the chosen calls with a like one that ends near."""
        cdef Py_ssize_t number, row, at, high, other
        cdef int64_t limit
        self.num_touched = 0
        for number in range(self.chosen_first[one], self.chosen_first[one + 1]):
            row = self.chosen[number]
            limit = self.time[row] + self.near_ns
            high = self.table_first[self.kind[row] + 1]
            at = _first_from(
                &self.table_time[0], self.table_first[self.kind[row]], high, self.time[row] - self.near_ns
            )
            self.from_at[number - self.chosen_first[one]] = at
            while at < high and self.table_time[at] <= limit:
                other = self.table_stream[at]
                if self.seen[other] != number:
                    self.seen[other] = number
                    if not self.count[other]:
                        self.touched[self.num_touched] = other
                        self.num_touched += 1
                    self.count[other] += 1
                at += 1
        return 0

    cdef int choose(self, Py_ssize_t one) except -1:
        """Give a slot to each stream that ends near enough of the calls inside its time."""
        cdef Py_ssize_t i, other, held, near
        self.num_kept = 0
        for i in range(self.num_touched):
            other = self.touched[i]
            near = self.count[other]
            self.count[other] = 0
            if self.base[other] != self.base[one]:
                continue
            # the ends of one call differ a little, also those of the first and the last
            self.begin[other] = self.chosen_from(one, self.time[self.first[other]] - self.near_ns)
            self.stop[other] = self.chosen_from(
                one, self.time[self.first[other + 1] - 1] + self.near_ns + 1
            )
            held = self.stop[other] - self.begin[other]
            # a call with a near one is inside
            if held < self.fewest or near < self.usual * held:
                continue
            self.slot[other] = self.num_kept
            self.touched[self.num_kept] = other
            self.num_kept += 1
        if self.num_kept > self.nearest.shape[0]:
            self.nearest = np.empty((2 * self.num_kept, self.longest), np.int32)
        return 0

    cdef Py_ssize_t chosen_from(self, Py_ssize_t one, int64_t least) noexcept nogil:
        """The number of the first chosen call of a stream that ends at a time or later."""
        cdef Py_ssize_t begin = self.chosen_first[one], low = begin, middle
        cdef Py_ssize_t high = self.chosen_first[one + 1]
        while low < high:
            middle = (low + high) >> 1
            if self.time[self.chosen[middle]] < least:
                low = middle + 1
            else:
                high = middle
        return low - begin

    cdef int find_nearest(self, Py_ssize_t one) except -1:
        """Find how far from each chosen call the nearest like one of each kept stream ends."""
        cdef Py_ssize_t number, row, at, high, slot, i, calls
        cdef int64_t ended
        cdef int32_t apart, known
        calls = self.chosen_first[one + 1] - self.chosen_first[one]
        for slot in range(self.num_kept):
            for i in range(calls):
                self.nearest[slot, i] = _NONE
        for number in range(calls if self.num_kept else 0):
            row = self.chosen[self.chosen_first[one] + number]
            ended = self.time[row]
            high = self.table_first[self.kind[row] + 1]
            at = self.from_at[number]
            while at < high and self.table_time[at] <= ended + self.near_ns:
                slot = self.slot[self.table_stream[at]]
                if slot >= 0:
                    apart = <int32_t> (self.table_time[at] - ended)
                    known = self.nearest[slot, number]
                    if (apart if apart >= 0 else -apart) <= (known if known >= 0 else -known):
                        self.nearest[slot, number] = apart
                at += 1
        return 0

    cdef int measure(self, Py_ssize_t one) except -1:
        """Add the mean distance to each kept stream, which loses its slot."""
        cdef Py_ssize_t slot, other
        if self.num_found + self.num_kept > len(self.found_ns):
            more = self.num_found + self.num_kept  # twice the room
            self.found_stream = np.append(self.found_stream, np.empty(more, np.int64))
            self.found_ns = np.append(self.found_ns, np.empty(more))
        for slot in range(self.num_kept):
            other = self.touched[slot]
            self.slot[other] = -1
            self.found_stream[self.num_found] = other
            self.found_ns[self.num_found] = self.mean(
                one, other, &self.nearest[slot, self.begin[other]]
            )
            self.num_found += 1
        return 0

    cdef double mean(self, Py_ssize_t one, Py_ssize_t other, const int32_t* nearest) noexcept nogil:
        """The mean distance to a stream: of each call that the other does not lack."""
        cdef Py_ssize_t held = self.stop[other] - self.begin[other], near = 0, small = 0, i
        cdef Py_ssize_t lacking = 0, first = self.chosen_first[one] + self.begin[other]
        cdef int32_t twice = 0, value, most = 0
        cdef int64_t sum = 0
        cdef double far_ns, total = 0
        for i in range(held):
            self.apart[near] = nearest[i]
            near += nearest[i] < _LACKING
            lacking += nearest[i] == _LACKING
        if self.clock[other] != self.clock[one]:
            twice = self.twice_the_middle(near)
            if fabs(<double> twice) > 2 * self.clocks_ns:
                twice = 0
        # of values in ns * 2, which are whole numbers: their sum is exact in any order
        for i in range(near):
            value = 2 * self.apart[i] - twice
            value = value if value >= 0 else -value
            most = max(most, value)
            sum += min(value, 2 * self.near_ns)
        if most > 2 * self.far * self.least_ns:
            for i in range(near):
                value = 2 * self.apart[i] - twice
                small += self.far * (value if value >= 0 else -value) < most
        # where at most half of all calls are that near, no call with a near one is ``far`` times the
        # median away
        if small <= (held - 1) // 2:
            sum += (held - near - lacking) * 2 * self.near_ns
            return (<double> sum / 2) / (held - lacking)
        for i in range(held):
            self.value[i] = INFINITY
            if nearest[i] < _LACKING:
                self.value[i] = fabs(nearest[i] - <double> twice / 2)
            self.spare[i] = self.value[i]
        far_ns = self.far * max(_median(&self.spare[0], held), self.least_ns)
        near = 0
        for i in range(held):
            if nearest[i] == _LACKING or (
                self.value[i] != INFINITY and self.value[i] > far_ns
                and self.lacks(one, first + i, other)
            ):
                continue
            total += min(self.value[i], <double> self.near_ns)
            near += 1
        return total / near

    cdef int32_t twice_the_middle(self, Py_ssize_t count) noexcept nogil:
        """Twice the median of ``apart``."""
        cdef Py_ssize_t i, place = count // 2, below = 0
        cdef int32_t high, low = -_NONE, value
        memcpy(&self.less[0], &self.apart[0], count * sizeof(int32_t))
        high = _selected_int(&self.less[0], &self.less[0], &self.more[0], count, place)
        if count % 2:
            return 2 * high
        for i in range(count):
            value = self.apart[i]
            below += value < high
            low = max(low, value if value < high else -_NONE)
        return high + (low if below == place else high)

    cdef int mark_lacking(self, Py_ssize_t one) except -1:
        """Mark the chosen calls without a near one of which the other stream lacks the record.

        All streams that end around such a call are counted at once, unless these are many: the
        ends of all streams are megabytes, and each search in them misses the caches.
        """
        cdef Py_ssize_t number, slot, other, missing, around, kind, low, high, own, i
        cdef Py_ssize_t calls = self.chosen_first[one + 1] - self.chosen_first[one]
        cdef int64_t from_ns, to_ns
        for number in range(calls if self.num_kept else 0):
            missing = around = 0
            for slot in range(self.num_kept):
                missing += self.is_missing(slot, number)
            if not missing:
                continue
            self.around(one, self.chosen_first[one] + number, &from_ns, &to_ns)
            for kind in range(self.kinds):
                low, high = self.table_first[kind], self.table_first[kind + 1]
                self.low[kind] = _first_from(&self.table_time[0], low, high, from_ns)
                self.high[kind] = _first_from(&self.table_time[0], self.low[kind], high, to_ns + 1)
                around += self.high[kind] - self.low[kind]
            own = self.between(one, from_ns, to_ns)
            if around > SEARCH_COST * missing:
                for slot in range(self.num_kept):
                    if (
                        self.is_missing(slot, number)
                        and own > self.between(self.touched[slot], from_ns, to_ns)
                    ):
                        self.nearest[slot, number] = _LACKING
                continue
            for kind in range(self.kinds):
                for i in range(self.low[kind], self.high[kind]):
                    self.count[self.table_stream[i]] += 1
            for slot in range(self.num_kept):
                if self.is_missing(slot, number) and own > self.count[self.touched[slot]]:
                    self.nearest[slot, number] = _LACKING
            for kind in range(self.kinds):
                for i in range(self.low[kind], self.high[kind]):
                    self.count[self.table_stream[i]] = 0
        return 0

    cdef inline bint is_missing(self, Py_ssize_t slot, Py_ssize_t number) noexcept nogil:
        cdef Py_ssize_t other = self.touched[slot]
        return (
            self.nearest[slot, number] == _NONE
            and self.begin[other] <= number < self.stop[other]
        )

    cdef inline void around(
        self, Py_ssize_t one, Py_ssize_t number, int64_t* from_ns, int64_t* to_ns
    ) noexcept nogil:
        """The time from the call before one of the chosen calls to the call after it."""
        cdef Py_ssize_t row = self.chosen[number]
        from_ns[0] = self.time[max(row - 1, self.first[one])] - self.near_ns
        to_ns[0] = self.time[min(row + 1, self.first[one + 1] - 1)] + self.near_ns

    cdef bint lacks(self, Py_ssize_t one, Py_ssize_t number, Py_ssize_t other) noexcept nogil:
        """Whether a stream has fewer calls than another around one of the chosen calls."""
        cdef int64_t from_ns, to_ns
        self.around(one, number, &from_ns, &to_ns)
        return self.between(one, from_ns, to_ns) > self.between(other, from_ns, to_ns)

    cdef Py_ssize_t between(self, Py_ssize_t one, int64_t from_ns, int64_t to_ns) noexcept nogil:
        """Number of calls of a stream that end in a time."""
        cdef Py_ssize_t low = self.first[one], high = self.first[one + 1]
        low = _first_from(&self.time[0], low, high, from_ns)
        return _first_from(&self.time[0], low, high, to_ns + 1) - low


def distances(
    const int64_t[::1] time, const int64_t[::1] kind, const int64_t[::1] first,
    const int64_t[::1] base, const int64_t[::1] clock,
    const int64_t[::1] table_time, const int64_t[::1] table_stream,
    const int64_t[::1] table_first,
    const int64_t[::1] chosen, const int64_t[::1] chosen_first,
    int64_t near_ns, int64_t clocks_ns, double far, double least_ns, Py_ssize_t fewest,
    double usual,
):
    """Return two streams and the mean time from ends of the one to like ones of the other.

    Only of streams that end near each other often enough, for each from both sides: int64 [n],
    int64 [n], float64 ns [n], the first ascending.

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
        near_ns: largest distance of the ends of one call, below 2^28.
        clocks_ns: largest error of the difference of two clocks.
        far: how many times the median distance a call is away whose like may be missing.
        least_ns: least such median.
        fewest: fewest calls in the time of both.
        usual: least share of them that have a near one.
    """
    cdef Py_ssize_t streams = len(first) - 1, one
    cdef _Distances work = _Distances()
    work.time, work.kind, work.first, work.base, work.clock = time, kind, first, base, clock
    work.table_time, work.table_stream, work.table_first = table_time, table_stream, table_first
    work.chosen, work.chosen_first = chosen, chosen_first
    work.near_ns, work.clocks_ns = near_ns, clocks_ns
    work.far, work.least_ns, work.usual, work.fewest = far, least_ns, usual, fewest
    sizes = np.zeros(streams, np.int64)
    work.allocate(streams)
    for one in range(streams):
        work.count_near(one)
        work.choose(one)
        work.find_nearest(one)
        work.mark_lacking(one)
        work.measure(one)
        sizes[one] = work.num_kept
    found = np.asarray(work.found_stream), np.asarray(work.found_ns)
    return np.repeat(np.arange(streams), sizes), *(column[: work.num_found] for column in found)
