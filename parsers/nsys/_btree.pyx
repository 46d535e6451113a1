# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Rows of an SQLite table straight from the pages of its tree.

Only what exports of nsys hold: UTF-8 files, ordinary tables, integers and texts. Where a file
says anything else, or does not hold together, the scan stops after the last row that it gave,
and SQLite itself goes on from there: it is the reference, and words what is wrong.

Nothing here takes a lock, and scans of different tables may run in threads of one process.
Format: https://www.sqlite.org/fileformat2.html
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
    DEPTH = 24             # of a tree; real ones have four levels
    COLUMNS = 32           # of a row that are asked for
    CHUNK = 1 << 17        # bytes read at once
    SLACK = 8              # behind a buffer: numbers are read eight bytes at a time
    MAX_ROW = 1 << 26


cdef int[12] SIZES
SIZES[:] = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0, -1, -1]  # bytes by serial type


cdef struct Level:
    int start              # of the page's header
    int cell               # the next child
    int cells


cdef struct Slot:
    uint64_t hash
    int64_t offset         # of the text, in the arena
    int32_t length
    int32_t id             # -1: free
    bint was_cut


cdef inline int two(Bytes text) noexcept nogil:
    return text[0] << 8 | text[1]


cdef inline int64_t four(Bytes text) noexcept nogil:
    return <int64_t>text[0] << 24 | <int64_t>text[1] << 16 | text[2] << 8 | text[3]


cdef inline uint64_t mixed(uint64_t value) noexcept nogil:
    value ^= value >> 33
    value *= <uint64_t>0xff51afd7ed558ccdULL
    return value ^ value >> 29


cdef inline uint64_t hash_of(Bytes text, Py_ssize_t length) noexcept nogil:
    cdef uint64_t value = mixed(<uint64_t>length)
    cdef uint64_t word
    while length >= 8:
        memcpy(&word, text, 8)
        value = mixed(value ^ word)
        text += 8
        length -= 8
    if length > 0:
        word = 0
        memcpy(&word, text, length)
        value = mixed(value ^ word)
    return value


cdef inline int varint(Bytes text, Bytes end, int64_t *value) noexcept nogil:
    """Bytes of a variable-length number, 0 where it does not end."""
    cdef uint64_t found = 0
    cdef int place
    if text < end and text[0] < 0x80:  # nearly all of them
        value[0] = text[0]
        return 1
    for place in range(8):
        if text + place >= end:
            return 0
        found = found << 7 | (text[place] & 0x7F)
        if text[place] < 0x80:
            value[0] = <int64_t>found
            return place + 1
    if text + 8 >= end:
        return 0
    value[0] = <int64_t>(found << 8 | text[8])
    return 9


cdef inline int64_t size_of(int64_t serial) noexcept nogil:
    """Bytes of a value by its serial type; -1 where there is no such type."""
    if serial >= 12:
        return (serial - 12) >> 1
    return SIZES[serial] if serial >= 0 else -1


cdef inline int64_t integer(Bytes text, int64_t serial, int64_t length) noexcept nogil:
    """A signed big-endian number, or one that its type states. Reads up to 8 bytes."""
    cdef uint64_t value
    if serial >= 8:
        return serial - 8
    memcpy(&value, text, 8)
    return <int64_t>be64toh(value) >> (64 - 8 * length)


cdef inline int64_t end_before(Bytes text, int64_t length, Bytes mark, int64_t mark_length) noexcept nogil:
    """Length of a text up to a mark, the whole without one."""
    cdef Bytes at = text
    cdef Bytes end = text + length - mark_length + 1
    while mark_length and at < end:
        at = <Bytes>memchr(at, mark[0], end - at)
        if at == NULL:
            return length
        if memcmp(at, mark, mark_length) == 0:
            return at - text
        at += 1
    return length


cdef class Numbers:
    """Small numbers for int64 values, in order of appearance."""

    cdef int64_t *keys
    cdef int32_t *ids      # -1: free
    cdef Py_ssize_t room
    cdef Py_ssize_t used

    def __cinit__(self):
        if not self._make_room(256):
            raise MemoryError

    def __dealloc__(self):
        free(self.keys)
        free(self.ids)

    def __len__(self):
        return self.used

    def values(self):
        """The values by number, int64."""
        cdef int64_t[::1] found = np.empty(self.used, np.int64)
        cdef Py_ssize_t index
        for index in range(self.room):
            if self.ids[index] >= 0:
                found[self.ids[index]] = self.keys[index]
        return np.asarray(found)

    def of(self, const int64_t[::1] values):
        """Numbers of values, int32."""
        cdef int32_t[::1] found = np.empty(values.shape[0], np.int32)
        cdef bint done
        with nogil:
            done = self._number(values, found)
        if not done:
            raise MemoryError
        return np.asarray(found)

    cdef bint _number(self, const int64_t[::1] values, int32_t[::1] found) noexcept nogil:
        cdef Py_ssize_t index, place
        cdef int64_t last = 0
        cdef int32_t number = -1
        for index in range(values.shape[0]):
            if number < 0 or values[index] != last:
                last = values[index]
                place = self._place(last)
                if self.ids[place] < 0:
                    self.keys[place] = last
                    self.ids[place] = <int32_t>self.used
                    self.used += 1
                number = self.ids[place]
                if self.used * 2 > self.room and not self._make_room(self.room * 2):
                    return False
            found[index] = number
        return True

    cdef inline Py_ssize_t _place(self, int64_t key) noexcept nogil:
        cdef Py_ssize_t place = <Py_ssize_t>(mixed(<uint64_t>key) & <uint64_t>(self.room - 1))
        while self.ids[place] >= 0 and self.keys[place] != key:
            place = (place + 1) & (self.room - 1)
        return place

    cdef bint _make_room(self, Py_ssize_t room) noexcept nogil:
        cdef Py_ssize_t old = self.room, index, place
        cdef int64_t *keys = self.keys
        cdef int32_t *ids = self.ids
        cdef int64_t *new_keys = <int64_t *>malloc(room * sizeof(int64_t))
        cdef int32_t *new_ids = <int32_t *>malloc(room * sizeof(int32_t))
        if new_keys == NULL or new_ids == NULL:
            free(new_keys)
            free(new_ids)
            return False
        for index in range(room):
            new_ids[index] = -1
        self.keys, self.ids, self.room = new_keys, new_ids, room
        for index in range(old):
            if ids[index] >= 0:
                place = self._place(keys[index])
                new_keys[place], new_ids[place] = keys[index], ids[index]
        free(keys)
        free(ids)
        return True


cdef class Texts:
    """Small numbers for texts, in order of appearance; texts are copied.

    A text ends before the first of two marks that it holds; one that was cut so has a number of
    its own. ``blobs``: bytes that are no text are taken too.
    """

    cdef Slot *slots
    cdef uint8_t *arena
    cdef int64_t arena_room
    cdef int64_t arena_used
    cdef Py_ssize_t room
    cdef Py_ssize_t used
    cdef bytes marks           # keeps the two alive
    cdef Bytes first
    cdef Bytes second
    cdef int64_t first_length
    cdef int64_t second_length
    cdef bint blobs

    def __cinit__(self, bytes first=b"", bytes second=b"", bint blobs=False):
        self.marks, self.blobs = first + second, blobs
        self.first_length, self.second_length = len(first), len(second)
        self.first = <Bytes><const char *>self.marks
        self.second = self.first + self.first_length
        self.arena_room = 1 << 16
        self.arena = <uint8_t *>malloc(self.arena_room)
        if self.arena == NULL or not self._make_room(1024):
            raise MemoryError

    def __dealloc__(self):
        free(self.slots)
        free(self.arena)

    def __len__(self):
        return self.used

    def add(self, bytes text):
        """The number of one text."""
        cdef int32_t number = self.of(<Bytes><const char *>text, len(text))
        if number < 0:
            raise MemoryError
        return number

    def values(self):
        """The texts by number: (bytes, whether it was cut)."""
        cdef Py_ssize_t index
        cdef Slot *slot
        found = [None] * self.used
        for index in range(self.room):
            slot = &self.slots[index]
            if slot.id >= 0:
                text = (<const char *>self.arena + slot.offset)[:slot.length]
                found[slot.id] = (text, bool(slot.was_cut))
        return found

    cdef int32_t of(self, Bytes text, int64_t length) noexcept nogil:
        """The number of a text, -1 without memory."""
        cdef int64_t end = end_before(text, length, self.first, self.first_length)
        cdef bint was_cut
        cdef uint64_t hash
        cdef Py_ssize_t place
        cdef Slot *slot
        end = end_before(text, end, self.second, self.second_length)
        was_cut = end != length
        hash = hash_of(text, end) ^ was_cut
        place = <Py_ssize_t>(hash & <uint64_t>(self.room - 1))
        while self.slots[place].id >= 0:
            slot = &self.slots[place]
            if (
                slot.hash == hash and slot.length == end and slot.was_cut == was_cut
                and memcmp(self.arena + slot.offset, text, end) == 0
            ):
                return slot.id
            place = (place + 1) & (self.room - 1)
        if not self._lengthen(end):
            return -1
        memcpy(self.arena + self.arena_used, text, end)
        slot = &self.slots[place]
        slot.hash, slot.offset, slot.length = hash, self.arena_used, <int32_t>end
        slot.was_cut, slot.id = was_cut, <int32_t>self.used
        self.arena_used += end
        self.used += 1
        if self.used * 2 > self.room and not self._make_room(self.room * 2):
            return -1
        return <int32_t>(self.used - 1)

    cdef bint _lengthen(self, int64_t length) noexcept nogil:
        cdef int64_t room = self.arena_room
        cdef uint8_t *arena
        while room < self.arena_used + length:
            room *= 2
        if room != self.arena_room:
            arena = <uint8_t *>realloc(self.arena, room)
            if arena == NULL:
                return False
            self.arena, self.arena_room = arena, room
        return True

    cdef bint _make_room(self, Py_ssize_t room) noexcept nogil:
        cdef Slot *old = self.slots
        cdef Py_ssize_t old_room = self.room, index, place
        cdef Slot *slots = <Slot *>malloc(room * sizeof(Slot))
        if slots == NULL:
            return False
        for index in range(room):
            slots[index].id = -1
        self.slots, self.room = slots, room
        for index in range(old_room):
            if old[index].id >= 0:
                place = <Py_ssize_t>(old[index].hash & <uint64_t>(room - 1))
                while slots[place].id >= 0:
                    place = (place + 1) & (room - 1)
                slots[place] = old[index]
        free(old)
        return True


cdef inline int32_t text_number(void *texts, Bytes text, int64_t length, bint is_text) noexcept nogil:
    if not is_text and not (<Texts>texts).blobs:
        return -1
    return (<Texts>texts).of(text, length)


cdef class Scan:
    """The rows of one table in order, block by block."""

    cdef int fd
    cdef int64_t page_bytes
    cdef int64_t usable
    cdef int64_t pages
    cdef int64_t visited       # pages so far: a tree has each of its pages once
    cdef int64_t row
    cdef bint any_row
    cdef bint ended
    cdef bint stopped          # at what this scan does not read
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
    cdef object kept           # what those point to
    cdef int64_t *out[COLUMNS]

    def __cinit__(self, int fd, int64_t page_bytes, int64_t usable, int64_t pages, int64_t root,
                  list places, list texts):
        """``places`` of the wanted columns in a row, rising; ``texts``: None for integers."""
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
        """Number of the last row that was given, None before the first."""
        return self.row if self.any_row else None

    @property
    def complete(self):
        """Whether the table has ended; False before, and where this scan goes no further."""
        return self.ended and not self.stopped

    def take(self, Py_ssize_t room):
        """The next rows, at most ``room``: int64 columns, empty at the end. -1 for NULL."""
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
        """Go on in the lowest page of the tree that has another child."""
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
        """Begin with a page, a leaf or not."""
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
        """A page of the file, valid until the next one is asked for; NULL where there is none."""
        cdef int64_t ahead = 4
        cdef int64_t gap = number - (self.chunk_page + self.chunk_pages)
        if number < 1 or number > self.pages:
            return NULL
        if not self.chunk_page <= number < self.chunk_page + self.chunk_pages:
            if 0 <= gap < 8:  # pages of a table mostly follow each other
                ahead = min(2 * max(self.chunk_pages, 4), CHUNK // self.page_bytes)
            ahead = max(min(ahead, CHUNK // self.page_bytes, self.pages - number + 1), 1)
            self.chunk_page, self.chunk_pages = number, ahead
            if pread(self.fd, self.chunk, ahead * self.page_bytes,
                     (number - 1) * self.page_bytes) < ahead * self.page_bytes:
                self.chunk_pages = 0
                return NULL
        return self.chunk + (number - self.chunk_page) * self.page_bytes

    cdef bint _cell(self, Py_ssize_t count) noexcept nogil:
        """Read one row into the columns; False for anything out of the ordinary."""
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
        """The whole of a row that continues on pages of its own, NULL where it does not."""
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
        """The wanted values of one row."""
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
        while index < self.wanted:  # columns that were added after the row
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
