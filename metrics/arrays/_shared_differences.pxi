# Included by _near_ends.pyx: differences of ends that many pairs of calls share.

cdef struct Vote:
    double votes
    double ahead


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


cdef enum:
    ROWS = 256


cdef inline Py_ssize_t _row_of(int64_t what) noexcept nogil:
    """The row of a table for what a call may be: its type below the number of its step."""
    return <Py_ssize_t> ((<uint64_t> what ^ (<uint64_t> what >> 6)) & (ROWS - 1))


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
    cdef int32_t[ROWS] first  # of the other calls whose ``what`` has the same last bits, -1: none
    cdef int32_t* then  # the next of these, in order

    def __cinit__(self):
        self.then = NULL

    def __dealloc__(self):
        free(self.then)

    cdef void take(self, HostEnds host, Py_ssize_t first, Py_ssize_t count) noexcept:
        """Take some calls of a host as those of the one queue."""
        self.what, self.end = &host.what[first], &host.call_end[first]
        self.dur, self.count = &host.call_dur[first], count

    cdef void take_other(self, HostEnds host, Py_ssize_t first, Py_ssize_t count) noexcept:
        """Take some calls of a host as those of the other queue."""
        self.other_what, self.other_end = &host.what[first], &host.call_end[first]
        self.other_dur, self.others = &host.call_dur[first], count

    cdef int index_others(self) except -1:
        """Chain the other calls by what they may be: only like ones are compared."""
        cdef Py_ssize_t j
        cdef int32_t* then = <int32_t*> realloc(self.then, self.others * sizeof(int32_t))
        if then == NULL:
            raise MemoryError
        self.then = then
        for j in range(ROWS):
            self.first[j] = -1
        for j in range(self.others - 1, -1, -1):
            then[j] = self.first[_row_of(self.other_what[j])]
            self.first[_row_of(self.other_what[j])] = <int32_t> j
        return 0

    cdef inline int64_t longer(self, Py_ssize_t i, Py_ssize_t j) noexcept nogil:
        cdef int64_t longer = self.dur[i] - self.other_dur[j]
        return longer if longer >= 0 else -longer


cdef enum:
    MOST_BINS = 1 << 15
    FEW_CELLS = 1 << 13  # up to which pairs are sorted: most bins would be empty
    PART_SHIFT = 3  # of the number of parts of a bin
    IN_BLOCK = 128  # bins of which the largest bound is kept, so that few are looked at
    MOST_FOUND = 16


cdef struct Best:
    double votes
    double median
    int64_t apart


cdef class _Bins:
    """Differences of ends of like calls by bin, and an upper bound of the votes of each bin.

    ``bound`` is that of windows that begin in a bin: the votes of all parts of bins that one may lie
    in, until the bin is looked at. Then it is the most votes of a window, which ``best`` describes.
    """

    cdef _Pair pair
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
    cdef Cell* cell  # those of all bins that are kept, or of those that are looked at
    cdef uint64_t* number  # of bins that are kept; NULL: all are
    cdef int64_t[MOST_FOUND] taken
    cdef Py_ssize_t num_taken

    def __cinit__(self):
        self.bound = self.most_of_block = NULL
        self.first = NULL
        self.known = NULL
        self.best = NULL
        self.cell = NULL
        self.number = NULL
        self.cells = self.num_taken = 0

    def __dealloc__(self):
        free(self.bound)
        free(self.most_of_block)
        free(self.first)
        free(self.known)
        free(self.best)
        free(self.cell)
        free(self.number)

    cdef inline uint64_t bin_of(self, int64_t end, int64_t other_end) noexcept nogil:
        """The bin of a difference; wraps where int64 cannot hold it, and may be no bin at all."""
        cdef uint64_t apart = <uint64_t> end - <uint64_t> other_end
        return (apart - <uint64_t> self.low) >> self.shift

    cdef int fill(self, _Pair pair) except -1:
        """Put all like pairs of calls into bins."""
        cdef Py_ssize_t i, count = pair.count, others = pair.others
        cdef uint64_t mine = <uint64_t> pair.end[count - 1] - <uint64_t> pair.end[0]
        cdef uint64_t span = mine + (
            <uint64_t> pair.other_end[others - 1] - <uint64_t> pair.other_end[0]
        )
        if span < mine:  # no two clocks count over more than all of int64
            return 0
        self.low = <int64_t> (<uint64_t> pair.end[0] - <uint64_t> pair.other_end[others - 1])
        self.pair, self.shift = pair, 0
        while (<int64_t> 1 << self.shift) < self.bin_ns or (span >> self.shift) >= MOST_BINS:
            self.shift += 1
        self.bins = <Py_ssize_t> (span >> self.shift) + 1
        if count * others <= FEW_CELLS:
            self.fill_few(pair)
        else:
            self.fill_many(pair)
        if self.cells < self.fewest:
            return 0
        with nogil:
            for i in range(self.bins):
                if self.first[min(i + 2, self.bins)] - self.first[i] < self.fewest:
                    self.bound[i] = 0
            for i in range(self.bins // IN_BLOCK + 1):
                self.renew(i)
        return 0

    cdef int allocate(self, Py_ssize_t bins) except -1:
        """Make room for what is known of bins."""
        self.bound = <double*> calloc(bins + 2, sizeof(double))
        self.first = <Py_ssize_t*> calloc(bins + 3, sizeof(Py_ssize_t))
        self.known = <uint8_t*> calloc(bins + 1, 1)
        self.best = <Best*> malloc((bins + 1) * sizeof(Best))
        self.most_of_block = <double*> calloc(bins // IN_BLOCK + 1, sizeof(double))
        if (
            self.bound == NULL or self.first == NULL or self.known == NULL or self.best == NULL
            or self.most_of_block == NULL
        ):
            raise MemoryError
        return 0

    cdef int fill_few(self, _Pair pair) except -1:
        """Keep only bins that hold a pair, and an empty one between two that are no neighbours."""
        cdef Py_ssize_t i, j, at = -1
        cdef uint64_t place, bins = <uint64_t> self.bins
        self.cell = <Cell*> malloc(pair.count * pair.others * sizeof(Cell))
        if self.cell == NULL:
            raise MemoryError
        for i in range(pair.count):
            for j in range(pair.others):
                if pair.what[i] == pair.other_what[j] and (
                    self.bin_of(pair.end[i], pair.other_end[j]) < bins
                ):
                    self.cell[self.cells].apart = pair.end[i] - pair.other_end[j]
                    self.cell[self.cells].longer = pair.longer(i, j)
                    self.cells += 1
        if self.cells < self.fewest:
            return 0
        _sort_cells(self.cell, self.cells)
        self.allocate(2 * self.cells)
        self.number = <uint64_t*> malloc(2 * self.cells * sizeof(uint64_t))
        if self.number == NULL:
            raise MemoryError
        for i in range(self.cells):
            place = self.bin_of(self.cell[i].apart, 0)
            if at < 0 or place != self.number[at]:
                if at >= 0 and place > self.number[at] + 1:
                    at += 1
                    self.number[at], self.first[at] = self.number[at - 1] + 1, i
                at += 1
                self.number[at], self.first[at] = place, i
            self.bound[at] += _above_log(1.0 + self.cell[i].longer / self.fine_ns) + self.least
        self.bins = at + 1
        self.first[self.bins] = self.cells
        for i in range(self.bins):
            self.bound[i] += self.bound[i + 1]
        return 0

    cdef int fill_many(self, _Pair pair) except -1:
        """Count the pairs of each bin, of which few are looked at: parts of bins bound its votes."""
        cdef Py_ssize_t i, j, parts = self.bins << PART_SHIFT
        cdef int shift = max(self.shift - PART_SHIFT, 0)
        cdef Py_ssize_t touched = (self.bin_ns >> shift) + 2  # parts that a window lies in, at most
        cdef uint64_t apart, bins = <uint64_t> self.bins
        cdef double by_fine = 1 / self.fine_ns, votes = 0
        self.allocate(self.bins)
        cdef float* part = <float*> calloc(parts + touched, sizeof(float))
        if part == NULL:
            raise MemoryError
        pair.index_others()
        with nogil:
            for i in range(pair.count):
                j = pair.first[_row_of(pair.what[i])]
                while j >= 0:
                    apart = <uint64_t> pair.end[i] - <uint64_t> pair.other_end[j] - <uint64_t> self.low
                    if pair.what[i] == pair.other_what[j] and (apart >> self.shift) < bins:
                        part[apart >> shift] += <float> (
                            _above_log(1.0 + pair.longer(i, j) * by_fine) + self.least
                        )
                        self.first[(apart >> self.shift) + 1] += 1
                    j = pair.then[j]
            for i in range(self.bins):
                self.first[i + 1] += self.first[i]
            for i in range(touched - 1):
                votes += part[i]
            for i in range(parts):
                votes += part[i + touched - 1]
                if votes > self.bound[i >> PART_SHIFT]:
                    self.bound[i >> PART_SHIFT] = votes
                votes -= part[i]
            for i in range(self.bins):
                self.bound[i] *= 1.05  # a sum of 700,000 floats may be too small by 4 %
        free(part)
        self.cells = self.first[self.bins]
        return 0

    cdef int gather(self, Py_ssize_t place, Py_ssize_t held) except -1:
        """Collect the pairs of a bin and the next one, both of which are of ascending times."""
        cdef _Pair pair = self.pair
        cdef Py_ssize_t i, j, begin = 0, found = 0, last = pair.others - 1
        cdef uint64_t low = <uint64_t> place << self.shift, high = (<uint64_t> place + 2) << self.shift
        cdef uint64_t since, apart  # from the lowest difference on: no number is below 0
        cdef Cell* cell = <Cell*> realloc(self.cell, max(held, 1) * sizeof(Cell))
        if cell == NULL:
            raise MemoryError
        self.cell = cell
        with nogil:
            for i in range(pair.count):
                since = <uint64_t> pair.end[i] - <uint64_t> self.low
                while begin <= last and since - <uint64_t> pair.other_end[begin] >= high:
                    begin += 1
                j = begin
                while j <= last:
                    apart = since - <uint64_t> pair.other_end[j]
                    if apart < low:
                        break
                    if pair.what[i] == pair.other_what[j]:
                        cell[found].apart = pair.end[i] - pair.other_end[j]
                        cell[found].longer = pair.longer(i, j)
                        found += 1
                    j += 1
        _sort_cells(cell, found)
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
        cdef Cell* cell
        cdef double* prefix = <double*> malloc((held + 1) * sizeof(double))
        cdef double votes
        cdef Best* best = &self.best[place]
        if prefix == NULL:
            raise MemoryError
        if self.number == NULL:
            self.gather(place, held)
        cell = self.cell if self.number == NULL else &self.cell[start]
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
            self.known[place] = True
            self.bound[place] = best.votes
            self.renew(place // IN_BLOCK)
        free(prefix)
        return 0

    cdef int take(self, int64_t apart) except -1:
        """Leave out differences near one that is found."""
        cdef int64_t low = max((apart - 2 * self.bin_ns - self.low) >> self.shift, 0), place
        cdef Py_ssize_t i = 0 if self.number != NULL else low
        self.taken[self.num_taken] = apart
        self.num_taken += 1
        while i < self.bins:
            place = self.number[i] if self.number != NULL else i
            if place > (apart + 3 * self.bin_ns - self.low) >> self.shift:
                break
            if place >= low and self.known[i]:
                self.look_at(i)
            i += 1
        return 0


cdef Py_ssize_t _shared(
    _Pair pair, int64_t bin_ns, double fine_ns, double least, Py_ssize_t fewest, Py_ssize_t most,
    Vote* found,
) except -1:
    """Write differences of ends that many pairs of like calls of two queues share; count them.

    A window of ``bin_ns`` has no more votes than the parts of bins that it lies in, so that only
    bins that may hold the most are looked at pair by pair.
    """
    cdef _Bins bins = _Bins()
    cdef Py_ssize_t place, count = 0
    if not pair.count or not pair.others:
        return 0
    bins.bin_ns, bins.fine_ns, bins.least, bins.fewest = bin_ns, fine_ns, least, fewest
    bins.fill(pair)
    if bins.cells < fewest:
        return 0
    while count < min(most, MOST_FOUND):
        place = bins.largest()
        if place < 0:
            break
        if not bins.known[place]:
            bins.look_at(place)
            continue
        found[count].votes, found[count].ahead = bins.best[place].votes, bins.best[place].median
        count += 1
        bins.take(bins.best[place].apart)
    return count
