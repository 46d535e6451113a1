# Hash tables from texts, and from pairs of numbers, to ids.
#
# Included by _scanner.pyx.

cdef struct Slot:
    uint64_t hash
    Bytes text
    Py_ssize_t length
    int32_t id
    int8_t kind       # of a track: stream or thread; of strings: 0
    int8_t pid_kind
    int8_t tid_kind
    int8_t process_kind
    int64_t pid
    int64_t tid
    int64_t process


cdef extern from *:
    ctypedef unsigned long long uint128_t "unsigned __int128"

# Random in each process: texts chosen to collide would make every look-up visit all of them.
cdef uint64_t[3] _key_words
cdef bytes _random = os.urandom(24)
memcpy(_key_words, <const char *>_random, 24)


cdef inline uint64_t folded(uint64_t one, uint64_t other) noexcept nogil:
    """Return the upper half of a product of 128 bits, exclusive-or its lower half."""
    cdef uint128_t product = <uint128_t>one * other
    return <uint64_t>(product >> 64) ^ <uint64_t>product


cdef inline uint64_t hash_of(Bytes text, Py_ssize_t length) noexcept nogil:
    """Hash a text with the key; multipliers are part of it, so no difference cancels for all keys."""
    cdef uint64_t value = _key_words[0]
    cdef uint64_t word
    cdef uint64_t mark = <uint64_t>length << 56  # the last word has at most seven bytes of text
    while length >= 8:
        memcpy(&word, text, 8)
        value = folded(value ^ word, _key_words[1] | 1)
        text += 8
        length -= 8
    word = 0
    if length > 0:
        memcpy(&word, text, length)
    return folded(value ^ word ^ mark, _key_words[2] | 1)


cdef inline Code hashed_end(Bytes *at, Bytes end, bint *escaped, uint64_t *hash) noexcept nogil:
    """Move from after the opening quote to the closing one, and hash what lies between.

    The same as ``string_end`` and ``hash_of``, in one pass over most texts.
    """
    cdef Bytes p = at[0]
    cdef Bytes start = p
    cdef uint64_t value = _key_words[0]
    cdef uint64_t word, found
    cdef int rest
    cdef Code code
    while IS_LITTLE and end - p >= 8:
        memcpy(&word, p, 8)
        found = marks_end(word)
        if found == 0:
            value = folded(value ^ word, _key_words[1] | 1)
            p += 8
            continue
        rest = __builtin_ctzll(found) & 56  # bits of text before the end
        if p[rest >> 3] != 34:
            break
        p += rest >> 3
        word &= (<uint64_t>1 << rest) - 1
        hash[0] = folded(value ^ word ^ (<uint64_t>(p - start) << 56), _key_words[2] | 1)
        escaped[0] = False
        at[0] = p
        return OK
    code = string_end(at, end, escaped)
    if code == OK:
        hash[0] = hash_of(start, at[0] - start)
    return code


cdef class _Table:
    """Open-addressing table from texts, or tuples of numbers, to ids; texts are copied."""

    cdef Slot *slots
    cdef Py_ssize_t room
    cdef Py_ssize_t used

    def __cinit__(self):
        self.room = TABLE_START
        self.slots = <Slot *>calloc(self.room, sizeof(Slot))
        if self.slots == NULL:
            raise MemoryError

    def __dealloc__(self):
        cdef Py_ssize_t index
        if self.slots != NULL:
            for index in range(self.room):
                free(<void *>self.slots[index].text)
            free(self.slots)

    cdef inline Slot *find_text(self, uint64_t hash, Bytes text, Py_ssize_t length) noexcept nogil:
        """Return the slot of the text, or the empty slot for it (id 0 means empty)."""
        cdef uint64_t place = hash & <uint64_t>(self.room - 1)
        cdef Slot *slot
        while True:
            slot = &self.slots[place]
            if slot.id == 0:
                return slot
            if (slot.hash == hash and slot.length == length
                    and memcmp(slot.text, text, length) == 0):
                return slot
            place = (place + 1) & <uint64_t>(self.room - 1)

    cdef inline Slot *find_track(
        self, uint64_t hash, int8_t kind, Field pid, Field tid, Field process
    ) noexcept nogil:
        cdef uint64_t place = hash & <uint64_t>(self.room - 1)
        cdef Slot *slot
        while True:
            slot = &self.slots[place]
            if slot.id == 0:
                return slot
            if (slot.hash == hash and slot.kind == kind and slot.pid_kind == pid.kind
                    and slot.tid_kind == tid.kind and slot.pid == pid.value
                    and slot.tid == tid.value and slot.process_kind == process.kind
                    and slot.process == process.value):
                return slot
            place = (place + 1) & <uint64_t>(self.room - 1)

    cdef int grow(self) except -1:
        """Double the table when two thirds are used; slots move, so call it before a find."""
        cdef Slot *old = self.slots
        cdef Py_ssize_t old_room = self.room
        cdef Py_ssize_t index
        cdef uint64_t place
        cdef Slot *fresh
        if self.used * 3 < self.room * 2:
            return 0
        fresh = <Slot *>calloc(self.room * 2, sizeof(Slot))
        if fresh == NULL:
            raise MemoryError
        self.room *= 2
        self.slots = fresh
        for index in range(old_room):
            if old[index].id != 0:
                place = old[index].hash & <uint64_t>(self.room - 1)
                while fresh[place].id != 0:
                    place = (place + 1) & <uint64_t>(self.room - 1)
                fresh[place] = old[index]
        free(old)
        return 0

    cdef int32_t add(
        self, uint64_t hash, Bytes text, Py_ssize_t length, int32_t id
    ) except -2:
        """Add a copy of a new text with its id."""
        cdef Slot *slot
        cdef unsigned char *copy = <unsigned char *>malloc(length if length else 1)
        if copy == NULL:
            raise MemoryError
        memcpy(copy, text, length)
        try:
            self.grow()
        except MemoryError:
            free(copy)
            raise
        slot = self.find_text(hash, text, length)
        slot.hash, slot.text, slot.length, slot.id = hash, copy, length, id + 1
        self.used += 1
        return id
