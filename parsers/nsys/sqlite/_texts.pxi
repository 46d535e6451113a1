# Numbering of texts: a hash table with an arena.
#
# Included by _btree.pyx.

cdef struct Slot:
    uint64_t hash
    int64_t offset         # of the text, in the arena
    int32_t length
    int32_t id             # -1: free
    bint was_cut


cdef inline int64_t end_before(Bytes text, int64_t length, Bytes mark, int64_t mark_length) noexcept nogil:
    """Return the length of a text up to a mark, the whole length without the mark."""
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


cdef class Texts:
    """Numbering of texts, from 0 in order of appearance; texts are copied.

    A text is cut before the first of two marks that it contains, and its number differs from
    that of the same text without a mark. ``blobs``: accept values that are bytes, not text.
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
        """Return the number of a text."""
        cdef int32_t number = self.of(<Bytes><const char *>text, len(text))
        if number < 0:
            raise MemoryError
        return number

    def values(self):
        """Return the texts by number: (bytes, whether it was cut)."""
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
        """Return the number of a text, -1 if memory cannot be allocated."""
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
