# Included by _near_ends.pyx: the clock differences of two hosts with most evidence.

cdef int _by_votes(const void* one, const void* other) noexcept nogil:
    """Order two differences, that with more votes first, and of equal ones the larger one."""
    cdef const Vote* left = <const Vote*> one
    cdef const Vote* right = <const Vote*> other
    if left.votes != right.votes:
        return -1 if left.votes > right.votes else 1
    return (left.ahead < right.ahead) - (left.ahead > right.ahead)


cdef int64_t _middle(HostEnds host, HostEnds other, int64_t ahead) noexcept nogil:
    """The middle of the time that both hosts recorded, on the clock of the first."""
    cdef int64_t first = max(host.begin_ns, other.begin_ns + ahead)
    cdef int64_t until = min(host.until_ns, other.until_ns + ahead)
    return (first >> 1) + (until >> 1) + (first & until & 1)  # the sum may be beyond int64


cdef class _Options:
    """The search of the clock differences of one host ahead of another.

    ``sample`` holds calls of the first host: their queue, index, name, end and duration.
    """

    cdef HostEnds host, other
    cdef Limits limits
    cdef const uint8_t[:, ::1] compatible
    cdef Vote* vote
    cdef Py_ssize_t votes, candidates, calls
    cdef int64_t[:, ::1] sample

    def __cinit__(self, HostEnds host, HostEnds other, const uint8_t[:, ::1] compatible):
        self.host, self.other, self.compatible = host, other, compatible
        self.limits = host.limits
        self.vote = NULL
        self.votes = self.candidates = self.calls = 0
        most = max(self.limits.coarse, self.limits.fine)
        self.sample = np.empty((5, max(len(host.sampled) * most, 1)), np.int64)

    def __dealloc__(self):
        free(self.vote)

    cdef int find_candidates(self) except -1:
        """Keep the differences with most votes, of those near each other one."""
        cdef Py_ssize_t i, k
        cdef Vote* votes
        cdef bint known
        self.collect_votes()
        votes = self.vote
        qsort(votes, self.votes, sizeof(Vote), _by_votes)
        for i in range(self.votes):
            if self.candidates == self.limits.candidates:
                break
            known = False
            for k in range(self.candidates):
                known = known or fabs(votes[i].ahead - votes[k].ahead) <= self.limits.bin_ns
            if not known:
                votes[self.candidates] = votes[i]
                self.candidates += 1
        return 0

    cdef int collect_votes(self) except -1:
        """Let the queues of either host vote: some calls of the one, and those around of the other."""
        cdef HostEnds host = self.host, other = self.other
        cdef Limits limits = self.limits
        cdef Py_ssize_t i, k, one, two, count, counts, reach, voters, first, there, stop
        cdef _Pair pair = _Pair()
        cdef Py_ssize_t room = len(host.sampled) * len(other.sampled) * limits.most_of_two
        self.vote = <Vote*> malloc(max(room, 1) * sizeof(Vote))
        if self.vote == NULL:
            raise MemoryError
        for i in range(len(host.sampled)):
            one = host.sampled[i]
            count = host.first_call[one + 1] - host.first_call[one]
            for k in range(len(other.sampled)):
                two = other.sampled[k]
                counts = other.first_call[two + 1] - other.first_call[two]
                reach = abs(count - counts) + limits.slack
                voters = min(count, min(max(limits.cells // (2 * reach), 16), limits.voters))
                first = (count - voters) // 2
                there = max(first - reach, 0)
                stop = min(first + voters + reach, counts)
                if min(count, counts) < limits.usual * max(count, counts) or stop <= there:
                    continue
                pair.take(host, host.first_call[one] + first, voters)
                pair.take_other(other, other.first_call[two] + there, stop - there)
                self.votes += _shared(
                    pair, limits.bin_ns, limits.fine_ns, limits.min_weight, limits.fewest,
                    limits.most_of_two, self.vote + self.votes,
                )
        return 0

    cdef int draw(self, Py_ssize_t most, int64_t middle_ns, int64_t width_ns) except -1:
        """Sample at most so many calls of each sampled queue of the first host, in some time."""
        cdef HostEnds host = self.host
        cdef int64_t[:, ::1] to = self.sample
        cdef Py_ssize_t i
        self.calls = _sample(
            host.call_end, host.first_call, host.sampled, most, middle_ns, width_ns,
            &to[0, 0], &to[1, 0],
        ) if len(host.sampled) else 0
        for i in range(self.calls):
            to[2, i] = host.what[to[1, i]]
            to[3, i] = host.call_end[to[1, i]]
            to[4, i] = host.call_dur[to[1, i]]
        return 0

    cdef int meet(self, double offset_ns, double rate, int64_t at_ns) except -1:
        """Compare the sample with the other host."""
        cdef int64_t[:, ::1] to = self.sample
        return self.other.meet(
            &to[0, 0], &to[2, 0], &to[3, 0], &to[4, 0], self.calls, self.compatible,
            <int64_t> rint(offset_ns), rate, at_ns,
        )

    cdef tuple widened(self, double offset_ns, int64_t at_ns, fit):
        """Return a difference with its drift, fitted in a growing time around its middle."""
        cdef int64_t longest = self.host.until_ns - self.host.begin_ns, width = self.limits.window_ns
        cdef int64_t middle = at_ns
        cdef double rate = 0
        cdef Py_ssize_t kept
        while True:
            self.draw(self.limits.fine, middle, width)
            self.meet(offset_ns, rate, at_ns)
            rows = np.empty((3, self.other.found), np.int64)
            kept = self.other.best_ends(
                &self.sample[0, 0], &self.sample[3, 0], self.compatible.shape[0], None, None, rows
            )
            if kept >= 3 and longest <= self.limits.window_ns:
                return _middle_of(rows[0], rows[1], kept), 0.0, middle
            if kept >= 3:
                fitted = fit(rows[0, :kept], rows[1, :kept])
                if abs(fitted.rate) <= self.limits.max_drift:
                    offset_ns, rate, at_ns = fitted.offset_ns, fitted.rate, fitted.at_ns
            if width >= longest:
                return offset_ns, rate, at_ns
            width *= self.limits.wider


cdef double _middle_of(const int64_t[:] end, const int64_t[:] other, Py_ssize_t count) except *:
    """The median difference of ends."""
    cdef double* apart = <double*> malloc(count * sizeof(double))
    cdef Py_ssize_t i
    cdef double middle
    if apart == NULL:
        raise MemoryError
    for i in range(count):
        apart[i] = <double> (end[i] - other[i])
    middle = _median(apart, count)
    free(apart)
    return middle


def clock_options(HostEnds host, HostEnds other, const uint8_t[:, ::1] compatible, whole, fit):
    """Return the clock differences with most evidence of a host ahead of another.

    Args:
        host: the one.
        other: the other.
        compatible: by queue of either host, whether they may meet.
        whole: sample of all queues of the first host: queue, name, end and duration of each call.
        fit: returns a clock difference with its drift from ends on both clocks.

    Returns:
        Offset, rate and time of each difference, and for each the largest gain, and gain with
        closeness, of each queue of the first host and then of the other, float64 [n, q].
    """
    cdef const int64_t[::1] queue, what, end, dur
    queue, what, end, dur = whole
    cdef _Options work = _Options(host, other, compatible)
    cdef Limits limits = host.limits
    cdef Py_ssize_t i, k, others = compatible.shape[0], kept = 0
    cdef double offset
    work.find_candidates()
    offsets = np.array([work.vote[i].ahead for i in range(work.candidates)])
    at = [_middle(host, other, <int64_t> rint(work.vote[i].ahead)) for i in range(work.candidates)]
    scores = np.zeros((work.candidates, others + other.queues))
    cdef double[:, ::1] score = scores
    for i in range(work.candidates):
        work.draw(limits.coarse, at[i], limits.window_ns)
        work.meet(offsets[i], 0.0, at[i])
        other.largest(other.total, others, score[i])
    sums = scores[:, :others].sum(axis=1) + scores[:, others:].sum(axis=1)
    found = []
    gains = np.zeros((2, limits.max_options, others + other.queues))
    cdef double[:, :, ::1] gain = gains
    for i in np.argsort(-sums, kind="stable").tolist():
        offset = offsets[i]
        if len(found) == limits.max_options or sums[i] <= 0:
            break
        for k in range(kept):
            if fabs(<double> found[k][0] - offset) <= limits.one_clock_ns:
                break
        else:
            found.append(work.widened(offset, at[i], fit))
            other.meet(
                &queue[0], &what[0], &end[0], &dur[0], len(queue), compatible,
                <int64_t> rint(<double> found[kept][0]), found[kept][1], found[kept][2],
            )
            other.largest(other.gain, others, gain[0, kept])
            other.largest(other.total, others, gain[1, kept])
            kept += 1
    return found, gains[0, :kept], gains[1, :kept]


def clear_differences(
    const double[::1] shift, const double[::1] gain, const int64_t[::1] rows,
    const int64_t[::1] first, double near_ns, double margin, double clear,
):
    """Return margin and index of the clearest difference of each group that has a clear one.

    Args:
        shift: differences.
        gain: their gains.
        rows: indices of the differences of each group, in ascending order of these.
        first: index into ``rows`` of the first of each group, and the number of all.
        near_ns: differences this near each other are one.
        margin: least margin over any other difference.
        clear: least ratio to the gain of any other.
    """
    cdef Py_ssize_t group, i, low, high, at, best, strongest
    cdef double second, sum, apart
    cdef double[::1] total = np.empty(max(len(shift), 1))
    found = []
    for group in range(len(first) - 1):
        low = high = first[group]
        sum = second = 0
        best = strongest = -1
        for i in range(first[group], first[group + 1]):
            at = rows[i]
            while high < first[group + 1] and shift[rows[high]] - shift[at] <= near_ns:
                sum += gain[rows[high]]
                high += 1
            while shift[at] - shift[rows[low]] > near_ns:
                sum -= gain[rows[low]]
                low += 1
            total[at] = sum
            if _is_more(total, at, best):
                best = at
        for i in range(first[group], first[group + 1]):
            at = rows[i]
            apart = fabs(shift[at] - shift[best])
            if apart > 2 * near_ns:
                second = max(second, total[at])
            elif apart <= near_ns and _is_more(gain, at, strongest):
                strongest = at
        if total[best] - second >= margin and total[best] >= clear * second:
            found.append((total[best] - second, strongest))
    return found


cdef inline bint _is_more(const double[::1] values, Py_ssize_t one, Py_ssize_t other) noexcept:
    """Whether a value is larger than another one, or equal and before it; -1 for no other."""
    return other < 0 or values[one] > values[other] or (values[one] == values[other] and one < other)
