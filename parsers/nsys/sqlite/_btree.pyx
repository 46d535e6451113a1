# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Read rows of an SQLite table from the pages of its B-tree.

Hand-written because of speed: the sqlite3 module takes 7.9 times the CPU time in an export of
2.2 MB and 16 times in one of 55 MB, for the same columns.

Supports what exports of nsys contain: UTF-8 files, ordinary tables, integers and texts. At any
other content, or a damaged page, the scan stops after the last row that it returned, and SQLite
continues from there: SQLite is the reference, and its errors are reported.

No locks are taken, and scans of different tables may run in threads of one process.

Source: https://www.sqlite.org/fileformat2.html
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memchr, memcmp, memcpy

import numpy as np

cdef extern from "endian.h" nogil:
    uint64_t be64toh(uint64_t value)

cdef extern from "unistd.h" nogil:
    Py_ssize_t pread(int fd, void *buffer, size_t count, int64_t offset)

ctypedef const uint8_t *Bytes

cdef enum:
    DEPTH = 24             # most levels of a tree; trees of exports have four
    COLUMNS = 32           # most columns of a scan
    CHUNK = 1 << 17        # bytes read at once
    SLACK = 8              # bytes after a buffer: integers are read eight bytes at a time
    MAX_ROW = 1 << 26      # most bytes of a row

include "_bytes.pxi"
include "_numbers.pxi"
include "_texts.pxi"


cdef struct Level:
    int start              # of the page's header
    int cell               # the next child
    int cells


cdef class Scan:
    """Scan of the rows of one table in order, block by block."""

    cdef int fd
    cdef int64_t page_bytes
    cdef int64_t usable
    cdef int64_t pages
    cdef int64_t visited       # pages so far, against cycles: a tree has each page once
    cdef int64_t row
    cdef bint any_row
    cdef bint ended
    cdef bint stopped          # at content that this scan does not support
    cdef int depth
    cdef Level levels[DEPTH]
    cdef uint8_t *interior     # a page for each level
    cdef uint8_t *chunk
    cdef int64_t chunk_page
    cdef int64_t chunk_pages
    cdef Bytes leaf            # the page, in the chunk
    cdef int leaf_start
    cdef int leaf_cell
    cdef int leaf_cells
    cdef uint8_t *payload      # of a row that does not fit into its page
    cdef int64_t payload_room
    cdef int wanted
    cdef int places[COLUMNS]
    cdef void *texts[COLUMNS]  # the Texts of a column, NULL for integers
    cdef object kept           # references to the objects in ``texts``
    cdef int64_t *out[COLUMNS]

    def __cinit__(self, int fd, int64_t page_bytes, int64_t usable, int64_t pages, int64_t root,
                  list places, list texts):
        """``places``: columns of a row, ascending; ``texts``: a Texts each, None for integers."""
        cdef int index
        if len(places) > COLUMNS or page_bytes > CHUNK:
            raise ValueError("too much is wanted at once")
        self.fd, self.page_bytes, self.usable, self.pages = fd, page_bytes, usable, pages
        self.wanted, self.kept = len(places), texts
        for index in range(self.wanted):
            self.places[index] = places[index]
            self.texts[index] = NULL if texts[index] is None else <void *>texts[index]
        self.interior = <uint8_t *>malloc(DEPTH * page_bytes)
        self.chunk = <uint8_t *>malloc(CHUNK + SLACK)
        if self.interior == NULL or self.chunk == NULL:
            raise MemoryError
        self._enter(root)

    def __dealloc__(self):
        free(self.interior)
        free(self.chunk)
        free(self.payload)

    @property
    def last_row(self):
        """Row id of the last row that was returned, None before the first."""
        return self.row if self.any_row else None

    @property
    def complete(self):
        """Whether all rows were returned; False also where the scan stopped before the end."""
        return self.ended and not self.stopped

    def take(self, Py_ssize_t room):
        """Return at most ``room`` further rows: int64 columns, -1 for NULL, empty at the end."""
        cdef Py_ssize_t count
        cdef int64_t[::1] column
        cdef int index
        columns = [np.empty(room, np.int64) for _ in range(self.wanted)]
        for index in range(self.wanted):
            column = columns[index]
            self.out[index] = &column[0]
        with nogil:
            count = self._fill(room)
        return [whole[:count] for whole in columns]

    cdef Py_ssize_t _fill(self, Py_ssize_t room) noexcept nogil:
        cdef Py_ssize_t count = 0
        while count < room and not self.ended:
            if self.leaf_cell >= self.leaf_cells:
                self._next_leaf()
            elif self._cell(count):
                self.leaf_cell += 1
                count += 1
            else:
                self._stop()
        return count

    cdef void _stop(self) noexcept nogil:
        self.ended = self.stopped = True

    cdef void _next_leaf(self) noexcept nogil:
        """Enter the next child of the lowest interior page that has one."""
        cdef Level *level
        cdef uint8_t *page
        cdef int64_t child
        cdef int at
        self.leaf_cells = 0
        while self.depth:
            level = &self.levels[self.depth - 1]
            page = self.interior + (self.depth - 1) * self.page_bytes
            if level.cell > level.cells:
                self.depth -= 1
                continue
            if level.cell == level.cells:
                child = four(page + level.start + 8)
            else:
                at = two(page + level.start + 12 + 2 * level.cell)
                if at + 4 > self.usable:
                    self._stop()
                    return
                child = four(page + at)
            level.cell += 1
            self._enter(child)
            return
        self.ended = True

    cdef void _enter(self, int64_t number) noexcept nogil:
        """Start reading a page: a leaf or an interior page."""
        cdef Bytes page = self._page(number)
        cdef int start = 100 if number == 1 else 0
        cdef int kind, cells
        cdef Level *level
        self.visited += 1
        if page == NULL or self.visited > self.pages:
            self._stop()
            return
        kind, cells = page[start], two(page + start + 3)
        if kind == 0x0D and start + 8 + 2 * cells <= self.usable:
            self.leaf, self.leaf_start, self.leaf_cell, self.leaf_cells = page, start, 0, cells
        elif kind == 0x05 and start + 12 + 2 * cells <= self.usable and self.depth < DEPTH:
            memcpy(self.interior + self.depth * self.page_bytes, page, self.page_bytes)
            level = &self.levels[self.depth]
            level.start, level.cell, level.cells = start, 0, cells
            self.depth += 1
        else:
            self._stop()

    cdef Bytes _page(self, int64_t number) noexcept nogil:
        """Return a page of the file, valid until the next call; NULL if it cannot be read."""
        cdef int64_t ahead = 4
        cdef int64_t gap = number - (self.chunk_page + self.chunk_pages)
        if number < 1 or number > self.pages:
            return NULL
        if not self.chunk_page <= number < self.chunk_page + self.chunk_pages:
            if 0 <= gap < 8:  # read ahead: pages of a table mostly follow each other
                ahead = min(2 * max(self.chunk_pages, 4), CHUNK // self.page_bytes)
            ahead = max(min(ahead, CHUNK // self.page_bytes, self.pages - number + 1), 1)
            self.chunk_page, self.chunk_pages = number, ahead
            if pread(self.fd, self.chunk, ahead * self.page_bytes,
                     (number - 1) * self.page_bytes) < ahead * self.page_bytes:
                self.chunk_pages = 0
                return NULL
        return self.chunk + (number - self.chunk_page) * self.page_bytes

    cdef bint _cell(self, Py_ssize_t count) noexcept nogil:
        """Read one row into the columns; False for unsupported content."""
        cdef int at = two(self.leaf + self.leaf_start + 8 + 2 * self.leaf_cell)
        cdef Bytes text = self.leaf + at
        cdef Bytes end = self.leaf + self.usable
        cdef int64_t length, row
        cdef int size
        if at >= self.usable:
            return False
        size = varint(text, end, &length)
        text += size
        if not size or length < 0:
            return False
        size = varint(text, end, &row)
        text += size
        if not size or (self.any_row and row <= self.row):
            return False
        if length > self.usable - 35:
            text = self._overflowing(text, end, length)
            if text == NULL:
                return False
        elif length > end - text:
            return False
        if not self._record(text, text + length, count):
            return False
        self.row, self.any_row = row, True
        return True

    cdef Bytes _overflowing(self, Bytes text, Bytes end, int64_t length) noexcept nogil:
        """Return a row that continues on overflow pages, NULL if these cannot be read."""
        cdef int64_t least = (self.usable - 12) * 32 / 255 - 23
        cdef int64_t local = least + (length - least) % (self.usable - 4)
        cdef int64_t done, page, part
        cdef uint8_t following[4]
        cdef uint8_t *grown
        if local > self.usable - 35:
            local = least
        if length > MAX_ROW or local + 4 > end - text:
            return NULL
        if self.payload_room < length:
            grown = <uint8_t *>realloc(self.payload, length + SLACK)
            if grown == NULL:
                return NULL
            self.payload, self.payload_room = grown, length
        memcpy(self.payload, text, local)
        done, page = local, four(text + local)
        while done < length:
            if page < 1 or page > self.pages:
                return NULL
            part = min(self.usable - 4, length - done)
            if (
                pread(self.fd, following, 4, (page - 1) * self.page_bytes) < 4
                or pread(self.fd, self.payload + done, part, (page - 1) * self.page_bytes + 4)
                < part
            ):
                return NULL
            done, page = done + part, four(following)
        return self.payload

    cdef bint _record(self, Bytes text, Bytes end, Py_ssize_t count) noexcept nogil:
        """Read the wanted values of one row."""
        cdef int64_t header, serial = 0
        cdef int size = varint(text, end, &header)
        cdef Bytes head = text + size
        cdef Bytes body = text + header
        cdef int column = 0, index = 0
        cdef int64_t length
        if not size or header < size or header > end - text:
            return False
        while index < self.wanted and head < text + header:
            size = varint(head, text + header, &serial)
            length = size_of(serial)
            if not size or length < 0 or length > end - body:
                return False
            head += size
            if column == self.places[index]:
                if not self._value(index, body, serial, length, count):
                    return False
                index += 1
            body += length
            column += 1
        while index < self.wanted:  # columns added to the table after the row was written
            self.out[index][count] = -1
            index += 1
        return True

    cdef inline bint _value(self, int index, Bytes text, int64_t serial, int64_t length,
                            Py_ssize_t count) noexcept nogil:
        cdef int32_t number
        if serial == 0:
            self.out[index][count] = -1
        elif self.texts[index] != NULL:
            number = -1
            if serial >= 12:
                number = text_number(self.texts[index], text, length, serial & 1)
            if number < 0:
                return False
            self.out[index][count] = number
        elif serial <= 6 or serial == 8 or serial == 9:
            self.out[index][count] = integer(text, serial, length)
        else:
            return False
        return True
