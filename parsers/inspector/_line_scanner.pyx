# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Scan lines of NCCL Inspector into columns, without Python objects.

Hand-written because a JSON library builds objects for records that become rows of arrays: the
general decoder, which is msgspec with typed structs, takes five to eight times the CPU
time (docs/bench.md).

All lines of one series are equal but for four whole numbers and two bandwidths. A template is the
text between these; the general decoder has read a line of it before, and again with other numbers
in their places. A line that fits no template exactly is left to the general decoder, which is the
reference.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcmp

VERSION = 1  # as in read_records.py; raised with whatever the two sides exchange

cdef enum:
    PIECES = 7
    HOLES = 4
    MOST_DIGITS = 18            # less than 1 << 60, the most that the general decoder takes
    MOST_TEMPLATES = 256        # further ones are left to the general decoder

ctypedef const unsigned char *Bytes


cdef struct Template:
    Bytes text[PIECES]
    Py_ssize_t size[PIECES]
    int32_t series


cdef inline Bytes whole(Bytes p, Bytes end, int64_t *value) noexcept nogil:
    """Read a whole number as JSON writes it; NULL where it is none, or too long."""
    cdef Bytes first = p
    cdef int64_t found = 0
    while p < end and 48 <= p[0] <= 57:
        if p - first == MOST_DIGITS:
            return NULL
        found = found * 10 + (p[0] - 48)
        p += 1
    if p == first or (first[0] == 48 and p - first > 1):
        return NULL
    value[0] = found
    return p


cdef inline Bytes decimal(Bytes p, Bytes end) noexcept nogil:
    """Move past a number with a point, as JSON writes it; NULL where it is none."""
    cdef Bytes first
    if p < end and p[0] == 45:
        p += 1
    first = p
    while p < end and 48 <= p[0] <= 57:
        p += 1
    if p == first or (first[0] == 48 and p - first > 1) or p == end or p[0] != 46:
        return NULL
    p += 1
    first = p
    while p < end and 48 <= p[0] <= 57:
        p += 1
    return NULL if p == first else p


cdef inline Bytes past(const Template *one, int piece, Bytes p, Bytes end) noexcept nogil:
    """Move past a piece of a template; NULL where the text is another."""
    cdef Py_ssize_t size = one.size[piece]
    if end - p < size or memcmp(p, one.text[piece], size) != 0:
        return NULL
    return p + size


cdef inline Bytes fitted(const Template *one, Bytes p, Bytes end, int64_t *values) noexcept nogil:
    """Read a line by a template; NULL where it does not fit. Returns where the next one begins."""
    cdef int piece
    for piece in range(HOLES):
        p = past(one, piece, p, end)
        if p == NULL:
            return NULL
        p = whole(p, end, &values[piece])
        if p == NULL:
            return NULL
    for piece in range(HOLES, PIECES - 1):
        p = past(one, piece, p, end)
        if p == NULL:
            return NULL
        p = decimal(p, end)
        if p == NULL:
            return NULL
    return past(one, PIECES - 1, p, end)


cdef class LineScanner:
    """Scanner of the lines of one file."""

    cdef Template templates[MOST_TEMPLATES]
    cdef int order[MOST_TEMPLATES]   # the template used last comes first
    cdef int count
    cdef list kept                   # of the texts that templates point into

    def __cinit__(self):
        self.kept = []
        self.count = 0

    def learn(self, pieces, int series):
        """Add the template of a series: the texts before, between and behind its six numbers.

        The last ends with the line. Return False where there is no room for more.
        """
        cdef int piece
        cdef bytes text
        if self.count == MOST_TEMPLATES or len(pieces) != PIECES:
            return False
        for piece in range(PIECES):
            text = pieces[piece]
            self.kept.append(text)
            self.templates[self.count].text[piece] = <Bytes><const char *>text
            self.templates[self.count].size[piece] = len(text)
        self.templates[self.count].series = series
        self.order[self.count] = self.count
        self.count += 1
        return True

    def scan(self, bytes text, Py_ssize_t start, Py_ssize_t row, rows):
        """Scan lines from index ``start``, and write their records from row ``row`` on.

        ``rows`` are the columns series, number, size, execution and writing time. Stops where they
        are full, and before a line that fits no template. Returns where it stopped, and the row
        after the last.
        """
        cdef int32_t[::1] series = rows[0]
        cdef int64_t[::1] number = rows[1]
        cdef int64_t[::1] size = rows[2]
        cdef int32_t[::1] exec_us = rows[3]
        cdef int64_t[::1] written_us = rows[4]
        cdef Bytes base = <Bytes><const char *>text
        cdef Bytes end = base + len(text)
        cdef Bytes p = base + start
        cdef Bytes after
        cdef int64_t values[HOLES]
        cdef Py_ssize_t room = series.shape[0]
        cdef int place, chosen, known
        if not (0 <= start <= len(text) and 0 <= row):
            raise ValueError("start is outside the text")
        if not (number.shape[0] == size.shape[0] == exec_us.shape[0] == written_us.shape[0] == room):
            raise ValueError("columns have several lengths")
        with nogil:
            known = self.count
            while p < end and row < room:
                after = NULL
                chosen = 0
                for place in range(known):
                    chosen = self.order[place]
                    after = fitted(&self.templates[chosen], p, end, values)
                    if after != NULL:
                        break
                if after == NULL or values[3] > 0x7FFFFFFF:
                    break
                while place > 0:
                    self.order[place] = self.order[place - 1]
                    place -= 1
                self.order[0] = chosen
                series[row] = self.templates[chosen].series
                written_us[row] = values[0]
                number[row] = values[1]
                size[row] = values[2]
                exec_us[row] = <int32_t>values[3]
                row += 1
                p = after
        return p - base, row
